//! How a body that is written piece by piece ends: with trailers that are known only then, or with a shutdown (RFC 9112
//! §7.1.2).

use std::future::pending;
use std::time::Duration;

use corehttp::client::{Call, CallReader, CallWriter, ClientCause, ClientPhase};
use corehttp::error::ExchangeError;
use corehttp::{Client, ClientError, Headers, Request, Response};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep, timeout};

use crate::support::{OK, Scripted, Stage, settle};

/// The event that ends the body.
#[derive(Clone, Copy, Debug)]
enum End {
    Finish,
    With(&'static str),
    Shutdown,
    /// The trailers come too late then.
    ShutdownThenWith(&'static str),
}

const ENDS: [End; 4] = [End::Finish, End::With("5"), End::Shutdown, End::ShutdownThenWith("5")];

fn trailers(sum: &str) -> Headers {
    let mut trailers = Headers::new();
    if !sum.is_empty() {
        trailers.set("x-sum", sum).unwrap();
    }
    trailers
}

/// A request for a body of `length`, or in chunks, whose trailer, if it is not empty, is known from the beginning.
fn request(url: &str, length: Option<u64>, sum: &str) -> Request {
    let mut request = Request::post(url).unwrap();
    if let Some(length) = length {
        request.headers.set("content-length", length).unwrap();
    }
    request.trailers = trailers(sum);
    request
}

/// Asks over TCP, where a server that waits for the end of a request would wait for long.
fn client() -> Client {
    Client::builder().timeout(Duration::from_secs(10)).build()
}

/// Answers each request with its body, byte for byte as it came.
async fn mirror() -> Scripted {
    Scripted::new(|mut peer, _| async move {
        while let Some(request) = peer.request().await? {
            let body = request.split_once("\r\n\r\n").unwrap().1;
            peer.send(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())).await?;
        }
        Ok(())
    })
    .await
}

async fn end_call(
    mut call: Call,
    body: &[u8],
    end: End,
    response: &mut Response,
) -> Result<String, ClientError> {
    call.write_all(body).await?;
    let mut reader = match end {
        End::Finish => call.finish(response).await?,
        End::With(sum) => call.finish_with_trailers(&trailers(sum), response).await?,
        End::Shutdown => {
            call.shutdown().await.map_err(client_error)?;
            call.finish(response).await?
        }
        End::ShutdownThenWith(sum) => {
            call.shutdown().await.map_err(client_error)?;
            call.finish_with_trailers(&trailers(sum), response).await?
        }
    };
    Ok(text(reader.chunk().await?))
}

async fn end_halves(
    (mut writer, mut reader): (CallWriter, CallReader),
    end: End,
    response: &mut Response,
) -> Result<String, ClientError> {
    writer.write_all(b"hello").await?;
    match end {
        End::Finish => writer.finish().await?,
        End::With(sum) => writer.finish_with_trailers(&trailers(sum)).await?,
        End::Shutdown => writer.shutdown().await.map_err(client_error)?,
        End::ShutdownThenWith(sum) => {
            writer.shutdown().await.map_err(client_error)?;
            writer.finish_with_trailers(&trailers(sum)).await?;
        }
    }
    reader.head(response).await?;
    Ok(text(reader.chunk().await?))
}

fn text(chunk: Option<&[u8]>) -> String {
    String::from_utf8(chunk.unwrap_or_default().to_vec()).unwrap()
}

fn client_error(error: std::io::Error) -> ClientError {
    *error.into_inner().unwrap().downcast().unwrap()
}

/// The server receives `expected` behind the head, whether the call is whole or split.
async fn check(request: &Request, end: End, expected: &str) {
    let (client, mut response) = (client(), Response::new());
    for is_split in [false, true] {
        let call = client.open_call(request).await.unwrap();
        let received = match is_split {
            false => end_call(call, b"hello", end, &mut response).await,
            true => end_halves(call.split(), end, &mut response).await,
        };
        assert_eq!(received.unwrap(), expected, "{end:?}, split: {is_split}");
    }
}

#[tokio::test]
async fn trailers_may_be_decided_when_the_body_is_written_rfc9110_6_5() {
    let server = mirror().await;
    let with = |sum: &str| format!("5\r\nhello\r\n0\r\nx-sum: {sum}\r\n\r\n");
    let none = "5\r\nhello\r\n0\r\n\r\n".to_owned();
    // Trailers that are announced come in chunks, whatever else is said of the length.
    for (length, announced, expected) in [
        (None, "", [&none, &with("5"), &none, &none]),
        (None, "1", [&with("1"), &with("5"), &with("1"), &with("1")]),
        (Some(5), "1", [&with("1"), &with("5"), &with("1"), &with("1")]),
    ] {
        for (end, expected) in ENDS.into_iter().zip(expected) {
            check(&request(&server.url, length, announced), end, expected).await;
        }
        check(&request(&server.url, length, announced), End::With(""), &none).await;
    }
    for end in ENDS {
        check(&request(&server.url, Some(5), ""), end, "hello").await;
    }
}

#[tokio::test]
async fn a_body_that_is_too_short_is_an_error_however_it_ends() {
    let server = mirror().await;
    let (client, mut response) = (client(), Response::new());
    for end in ENDS {
        for length in [6, 1 << 20] {
            let short = request(&server.url, Some(length), "");
            let one = end_call(client.open_call(&short).await.unwrap(), b"hello", end, &mut response)
                .await
                .unwrap_err();
            let halves = client.open_call(&short).await.unwrap().split();
            let other = end_halves(halves, end, &mut response).await.unwrap_err();
            for error in [one, other] {
                assert!(
                    matches!(error.cause(), ClientCause::Exchange(ExchangeError::Length)),
                    "{end:?}: {error:?}"
                );
                assert_eq!(
                    (error.phase(), client.idle_connections(), client.busy_connections()),
                    (ClientPhase::Send, 0, 0)
                );
            }
        }
    }
}

#[tokio::test]
async fn writes_behind_the_end_are_errors() {
    let server = mirror().await;
    let (client, mut response) = (client(), Response::new());
    for length in [None, Some(5)] {
        let mut call = client.open_call(&request(&server.url, length, "")).await.unwrap();
        call.write_all(b"hello").await.unwrap();
        call.shutdown().await.unwrap();
        call.shutdown().await.unwrap();
        call.write_all(b"!").await.unwrap_err();
        call.flush().await.unwrap();
        let received = call.finish(&mut response).await.unwrap();
        assert_eq!(response.status.as_u16(), 200, "{received:?}");

        let mut call = client.open_call(&request(&server.url, length, "")).await.unwrap();
        call.write_all(b"hello").await.unwrap();
        call.shutdown().await.unwrap();
        let (mut writer, mut reader) = call.split();
        writer.write_all(b"!").await.unwrap_err();
        writer.finish().await.unwrap();
        reader.head(&mut response).await.unwrap();
        assert_eq!(response.status.as_u16(), 200);
    }
}

/// As a program does that pipes a source into the request.
#[tokio::test]
async fn a_body_that_is_copied_and_shut_down_arrives_whole() {
    let server = mirror().await;
    let (client, mut response) = (client(), Response::new());
    let body = "x".repeat(100_000);
    let mut call = client.open_call(&request(&server.url, Some(100_000), "")).await.unwrap();
    tokio::io::copy(&mut body.as_bytes(), &mut call).await.unwrap();
    call.shutdown().await.unwrap();
    let mut reader = call.finish(&mut response).await.unwrap();
    let mut received = String::new();
    reader.read_to_string(&mut received).await.unwrap();
    assert!(received == body);
    assert_eq!((client.idle_connections(), client.busy_connections(), server.connections()), (1, 0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_heard_though_the_body_cannot_be_ended() {
    let stage = Stage::new(|mut peer, _| async move {
        peer.head().await?;
        peer.send("HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno").await?;
        pending().await
    });
    let (client, mut response) = (stage.client(), Response::new());
    // More than fits the way there, and less than was announced.
    let (request, body) = (request("http://a/", Some(1 << 21), ""), vec![b'x'; 1 << 20]);
    for end in ENDS {
        let call = client.open_call(&request).await.unwrap();
        assert_eq!(end_call(call, &body, end, &mut response).await.unwrap(), "no", "{end:?}");
        assert_eq!(
            (response.status.as_u16(), client.idle_connections(), client.busy_connections()),
            (413, 0, 0)
        );
    }
}

/// A server that refuses and closes while the body is on its way resets the connection. The refusal is here by then,
/// and a write that fails must not hide it.
#[tokio::test]
async fn a_refusal_is_heard_though_the_connection_is_reset_rfc9112_9_6() {
    let server = Scripted::new(|mut peer, _| async move {
        peer.head().await?;
        peer.send("HTTP/1.1 413 Too Large\r\nconnection: close\r\ncontent-length: 2\r\n\r\nno").await?;
        // A reset would overtake what was just said.
        tokio::time::sleep(Duration::from_millis(20)).await;
        peer.reset();
        Ok(())
    })
    .await;
    let body = vec![b'x'; 32 << 20];
    for is_stream in [false, true] {
        let mut whole = Request::post(&server.url).unwrap();
        match is_stream {
            true => whole.body.set_stream(tokio::io::repeat(b'x'), None),
            false => whole.body.set_bytes(&body),
        }
        let mut response = Response::new();
        Client::new().send(&whole, &mut response).await.unwrap();
        assert_eq!((response.status.as_u16(), response.body.text()), (413, Ok("no")));
    }
    for end in ENDS {
        let (client, mut response) = (Client::new(), Response::new());
        let call = client.open_call(&request(&server.url, None, "")).await.unwrap();
        assert_eq!(end_call(call, &body, end, &mut response).await.unwrap(), "no", "{end:?}");
        assert_eq!(
            (response.status.as_u16(), client.idle_connections(), client.busy_connections()),
            (413, 0, 0)
        );
    }
}

/// There is no body to wait with.
#[tokio::test(start_paused = true)]
async fn an_empty_body_does_not_wait_for_100_rfc9110_10_1_1() {
    let stage = Stage::always(OK);
    let (client, mut response, start) = (stage.client(), Response::new(), Instant::now());
    let mut expecting = request("http://a/", None, "");
    expecting.headers.set("expect", "100-continue").unwrap();
    for (end, sum) in ENDS.into_iter().zip(["", "x-sum: 5\r\n", "", ""]) {
        let call = client.open_call(&expecting).await.unwrap();
        assert_eq!(end_call(call, b"", end, &mut response).await.unwrap(), "ok");
        let received = stage.received().concat();
        assert!(received.ends_with(&format!("\r\n\r\n0\r\n{sum}\r\n")), "{end:?}: {received}");
        assert_eq!(
            (client.idle_connections(), stage.dialed().len()),
            (1, 1),
            "{end:?}: its connection is kept"
        );
    }
    assert_eq!(start.elapsed().as_secs(), 0);
}

/// A chunk must not be left begun, for the caller to end: whoever gave up a write could not end the body.
#[tokio::test(start_paused = true)]
async fn a_body_may_end_wherever_a_write_was_given_up() {
    const LENGTH: usize = 512 << 10;
    let second = Duration::from_secs(1);
    // Reads nothing until the writer has given up, and then tells how much came.
    let stage = Stage::new(move |mut peer, _| async move {
        peer.head().await?;
        tokio::time::sleep(second).await;
        let mut received = Vec::new();
        while !received.ends_with(b"\r\n\r\n") {
            peer.stream.read_buf(&mut received).await?;
        }
        let count = received.iter().filter(|byte| **byte == b'~').count().to_string();
        peer.send(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{count}", count.len())).await
    });
    for (length, sum, goes_on) in
        [(None, "", false), (None, "1", false), (None, "", true), (Some(LENGTH as u64), "1", true)]
    {
        for piece in [1000, 16 << 10, (16 << 10) + 1, 64 << 10, 256 << 10] {
            let (client, mut response, piece) = (stage.client(), Response::new(), vec![b'~'; piece]);
            let call = client.open_call(&request("http://a/", length, sum)).await.unwrap();
            let (mut writer, mut reader) = call.split();
            let mut written = 0;
            while let Ok(count) = timeout(second / 2, writer.write(&piece)).await {
                written += count.unwrap();
            }
            if goes_on {
                writer.write_all(&vec![b'~'; LENGTH - written]).await.unwrap();
                written = LENGTH;
            }
            writer.finish().await.unwrap();
            reader.head(&mut response).await.unwrap();
            let received = text(reader.chunk().await.unwrap());
            assert_eq!(received, written.to_string(), "{length:?} {sum:?} {goes_on} {}", piece.len());
        }
    }
}

/// A caller that overlooks the error cannot end the body as if nothing were missing.
#[tokio::test(start_paused = true)]
async fn a_body_is_never_whole_once_a_write_has_failed() {
    let minute = Duration::from_secs(60);
    for (length, said, limit) in [
        (None, "", 60 * minute),
        (None, "", minute / 3),
        (None, "nonsense\r\n\r\n", 60 * minute),
        (Some(1 << 20), "", 60 * minute),
        (Some(20_000), "", 60 * minute),
    ] {
        let stage = Stage::new(move |mut peer, _| async move {
            peer.head().await?;
            peer.send(said).await?;
            sleep(minute).await;
            peer.receive_all().await
        });
        let (client, mut response) = (stage.builder().timeout(limit).build(), Response::new());
        let (request, piece) = (request("http://a/", length, ""), [b'~'; 20_000]);
        let mut call = client.open_call(&request).await.unwrap();
        while call.write_all(&piece).await.is_ok() {}
        sleep(2 * minute).await;
        for _ in 0..4 {
            let _ = call.flush().await;
            settle().await;
        }
        call.write_all(b"~").await.unwrap_err();
        call.shutdown().await.unwrap_err();
        call.finish(&mut response).await.unwrap_err();

        let (mut writer, reader) = client.open_call(&request).await.unwrap().split();
        let error = loop {
            if let Err(error) = writer.write_all(&piece).await {
                break error;
            }
        };
        sleep(2 * minute).await;
        for _ in 0..4 {
            let _ = writer.flush().await;
            settle().await;
        }
        let again = [writer.write_all(b"~").await.unwrap_err(), writer.finish().await.unwrap_err()];
        assert!(
            again.iter().all(|again| again.is_timeout() == error.is_timeout()),
            "{again:?} for {error:?}"
        );
        drop((writer, reader));
        settle().await;
        let received = stage.received();
        assert_eq!((received.len(), client.idle_connections(), client.busy_connections()), (2, 0, 0));
        assert!(received.iter().all(|received| received.contains("~~~") && !received.contains("\r\n0\r\n")));
    }
}

//! Which [`ErrorKind`] the error of a body has that ends too early, whichever way it is read.

use std::future::pending;
use std::io::{self, ErrorKind};
use std::time::Duration;

use corehttp::client::{ClientTimeouts, Proxies, Proxy};
use corehttp::sse::EventReader;
use corehttp::{Client, Request, Response};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::sleep;

use crate::support::Scripted;

/// How a server ends its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Closed,
    Reset,
    Silent,
}

/// A server that says `response` to each request, and nothing more.
async fn server_with(response: &[u8], end: End) -> Scripted {
    let response = response.to_vec();
    Scripted::new(move |mut peer, _| {
        let response = response.clone();
        async move {
            peer.head().await?;
            peer.send(response).await?;
            // The response arrives before the end.
            sleep(Duration::from_millis(20)).await;
            match end {
                End::Closed => {}
                End::Reset => peer.reset(),
                End::Silent => pending().await,
            }
            Ok(())
        }
    })
    .await
}

fn client() -> Client {
    let soon = Duration::from_millis(100);
    let timeouts = ClientTimeouts { wait: soon, receive: soon, send: soon, ..ClientTimeouts::default() };
    Client::builder().timeouts(timeouts).decode_up_to(1 << 20).build()
}

/// The error of a response that ends like that, through each way to read it.
async fn check(reply: &[u8], end: End, expected: ErrorKind) {
    let (server, client) = (server_with(reply, end).await, client());
    let (request, mut response) = (Request::get(&server.url).unwrap(), Response::new());
    let row = (reply.escape_ascii().to_string(), end);
    let sent = client.send(&request, &mut response).await.map_err(io::Error::from);
    assert_eq!(sent.unwrap_err().kind(), expected, "send: {row:?}");
    let mut read = client.open_response(&request, &mut response).await.unwrap();
    for again in 0..2 {
        let failed = read.read_to_end(&mut Vec::new()).await.unwrap_err();
        assert_eq!(failed.kind(), expected, "AsyncRead, {again}: {row:?}");
    }
    let mut read = client.open_response(&request, &mut response).await.unwrap();
    let failed = loop {
        if let Err(error) = read.chunk().await {
            break error;
        }
    };
    assert_eq!(io::Error::from(failed).kind(), expected, "chunk: {row:?}");
    let (_writer, mut half) = client.open_call(&request).await.unwrap().split();
    half.head(&mut response).await.unwrap();
    let failed = half.read_to_end(&mut Vec::new()).await.unwrap_err();
    assert_eq!(failed.kind(), expected, "half: {row:?}");
    let mut events = EventReader::new(client.open_response(&request, &mut response).await.unwrap());
    let failed = loop {
        if let Err(error) = events.event().await {
            break error;
        }
    };
    assert_eq!(failed.kind(), expected, "events: {row:?}");
}

const SIZED: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhello";
const CHUNKED: &[u8] = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n";

/// A caller that tells errors apart by kind must not find `Other` for all of them.
#[tokio::test]
async fn the_kind_of_an_error_is_kept_while_a_body_is_read() {
    for response in [SIZED, CHUNKED] {
        check(response, End::Reset, ErrorKind::ConnectionReset).await;
        check(response, End::Closed, ErrorKind::UnexpectedEof).await;
        check(response, End::Silent, ErrorKind::TimedOut).await;
    }
    check(b"HTTP/1.1 200 OK\r\n\r\nhello", End::Reset, ErrorKind::ConnectionReset).await;
    check(&[CHUNKED, b"x\r\n"].concat(), End::Silent, ErrorKind::InvalidData).await;
}

#[cfg(feature = "compress")]
#[tokio::test]
async fn the_kind_of_an_error_is_kept_while_a_body_is_decoded() {
    use std::io::Write;

    let mut coder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    coder.write_all(b"hello, hello, hello").unwrap();
    let coded = coder.finish().unwrap();
    let respond = |coded: &[u8]| {
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n", coded.len());
        [head.as_bytes(), coded].concat()
    };
    for cut in [5, 12, coded.len() - 9, coded.len() - 1] {
        check(&respond(&coded[..cut]), End::Silent, ErrorKind::UnexpectedEof).await;
    }
    let mut corrupt = coded.clone();
    corrupt[coded.len() - 6] ^= 1;
    check(&respond(&corrupt), End::Silent, ErrorKind::InvalidData).await;
    check(&respond(b"not a gzip stream at all"), End::Silent, ErrorKind::InvalidData).await;
}

#[tokio::test]
async fn the_kind_of_an_error_is_kept_before_a_body() {
    let rows: [(&[u8], End, ErrorKind); 5] = [
        (b"", End::Closed, ErrorKind::UnexpectedEof),
        (b"HTTP/1.1 200", End::Closed, ErrorKind::UnexpectedEof),
        (b"", End::Reset, ErrorKind::ConnectionReset),
        (b"", End::Silent, ErrorKind::TimedOut),
        (b"bad\r\n", End::Silent, ErrorKind::InvalidData),
    ];
    for (response, end, expected) in rows {
        let (server, client) = (server_with(response, end).await, client());
        let failed = client.get(&server.url).await.map(drop).map_err(io::Error::from).unwrap_err();
        assert_eq!(failed.kind(), expected, "{} {end:?}", response.escape_ascii());
        let pipeline = client.pipeline(&server.url).unwrap().build();
        let piped = pipeline.send(&Request::get("/").unwrap(), &mut Response::new()).await;
        assert_eq!(io::Error::from(piped.unwrap_err()).kind(), expected, "pipeline: {end:?}");
    }
    for (url, expected) in
        [("http://127.0.0.1:1/", ErrorKind::ConnectionRefused), ("ftp://a/", ErrorKind::InvalidInput)]
    {
        assert_eq!(io::Error::from(client().get(url).await.unwrap_err()).kind(), expected, "{url}");
    }
}

#[tokio::test]
async fn the_kind_of_an_error_is_kept_while_a_body_is_written() {
    let server = server_with(b"", End::Reset).await;
    let mut call = client().open_call(&Request::post(&server.url).unwrap()).await.unwrap();
    for _ in 0..2 {
        let failed = loop {
            if let Err(error) = AsyncWriteExt::write_all(&mut call, &[0; 10_000]).await {
                break error;
            }
        };
        assert!(matches!(failed.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{failed:?}");
    }
    let silent = server_with(b"", End::Silent).await;
    let mut call = client().open_call(&Request::post(&silent.url).unwrap()).await.unwrap();
    let failed = AsyncWriteExt::write_all(&mut call, &vec![0; 64 << 20]).await.unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::TimedOut);
}

#[tokio::test]
async fn the_kind_of_an_error_is_that_of_a_proxy() {
    for (reply, expected) in [
        (&[5, 1, 0, 1, 0, 0, 0, 0, 0, 0][..], ErrorKind::ConnectionRefused),
        (&[5, 5, 0, 1, 0, 0, 0, 0, 0, 0], ErrorKind::ConnectionRefused),
        (&[5, 0, 0], ErrorKind::UnexpectedEof),
    ] {
        let proxy = Scripted::new(move |mut peer, _| async move {
            peer.stream.read_exact(&mut [0; 3]).await?;
            peer.send(b"\x05\x00").await?;
            peer.stream.read_exact(&mut [0; 10]).await?;
            peer.send(reply).await
        })
        .await;
        let proxies = Proxies::all(Proxy::new(&proxy.url.replace("http", "socks5h")).unwrap());
        let client = Client::builder().proxies(proxies).build();
        let failed = client.get("http://192.0.2.1/").await.unwrap_err();
        assert_eq!(io::Error::from(failed).kind(), expected, "{reply:?}");
    }
}

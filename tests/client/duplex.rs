//! The answer is read while the request is written: neither side waits for the other (RFC 9110 §7.5).

use corehttp::{BodyPlan, Client, Context, Request, Response, Server, with_plan};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::Stage;

const SIZE: usize = 24 << 20;

/// More than all buffers on the way hold goes there and comes back, from a server that answers as it reads.
#[test]
fn an_echo_larger_than_all_buffers_comes_back_while_it_is_sent() {
    let echo = async |ctx: &mut Context| {
        let (mut body, mut out) = ctx.duplex().await?;
        while let Some(chunk) = body.chunk().await? {
            out.write_all(chunk).await?;
        }
        Ok(out.finish().await?)
    };
    let running =
        Server::bind("127.0.0.1:0").cores(1).start(with_plan(|_: &Request| BodyPlan::Stream, echo)).unwrap();
    let url = format!("http://{}/", running.local_addr());
    let asked = corehttp::block_on(async {
        let (client, mut response) = (Client::new(), Response::new());
        for length in [Some(SIZE), None] {
            let mut request = Request::post(&url).unwrap();
            if let Some(length) = length {
                request.headers.set("content-length", length).unwrap();
            }
            let (mut writer, mut reader) = client.open(&request).await.unwrap().split();
            let write = async {
                let piece = [b'x'; 48 << 10];
                let mut left = SIZE;
                while left > 0 {
                    left -= writer.write(&piece[..piece.len().min(left)]).await?;
                }
                writer.finish().await
            };
            let read = async {
                let mut size = 0;
                reader.head(&mut response).await?;
                while let Some(chunk) = reader.chunk().await? {
                    assert!(chunk.len() <= 1 << 20 && chunk.iter().all(|byte| *byte == b'x'));
                    size += chunk.len();
                }
                Ok(size)
            };
            assert_eq!(tokio::try_join!(write, read).unwrap().1, SIZE);
            drop((writer, reader));
            assert_eq!((client.idle(), client.busy()), (1, 0), "the connection is used again");
        }
    });
    asked.unwrap();
    running.shutdown(std::time::Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn who_drops_a_half_too_early_closes_the_connection_and_frees_its_place() {
    let stage = Stage::always("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello");
    let client = stage.client();
    let mut request = Request::post("http://a/").unwrap();
    request.headers.set("content-length", 3).unwrap();
    let mut response = Response::new();

    let (mut writer, mut reader) = client.open(&request).await.unwrap().split();
    writer.write_all(b"ab").await.unwrap();
    drop(writer);
    drop(reader);
    assert_eq!((client.idle(), client.busy()), (0, 0));

    (writer, reader) = client.open(&request).await.unwrap().split();
    writer.write_all(b"abc").await.unwrap();
    writer.finish().await.unwrap();
    reader.head(&mut response).await.unwrap();
    drop((writer, reader));
    assert_eq!((client.idle(), client.busy()), (0, 0), "its body was not read");

    (writer, reader) = client.open(&request).await.unwrap().split();
    writer.write_all(b"abc").await.unwrap();
    writer.finish().await.unwrap();
    reader.head(&mut response).await.unwrap();
    let mut body = String::new();
    reader.read_to_string(&mut body).await.unwrap();
    assert_eq!((body.as_str(), client.busy()), ("hello", 1));
    drop((writer, reader));
    assert_eq!((client.idle(), client.busy()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_shorter_or_longer_than_announced_is_an_error() {
    let stage = Stage::always("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    let mut request = Request::post("http://a/").unwrap();
    request.headers.set("content-length", 3).unwrap();
    for body in ["ab", "abcd"] {
        let (mut writer, _reader) = stage.client().open(&request).await.unwrap().split();
        let written = async {
            writer.write(body.as_bytes()).await?;
            writer.finish().await
        };
        written.await.unwrap_err();
    }
}

/// The time of the answer begins when the request is sent, though its reader waits for longer.
#[tokio::test(start_paused = true)]
async fn a_server_that_says_nothing_is_waited_for_as_long_as_ever() {
    let stage = Stage::new(|mut peer, _| async move { peer.hear_all().await });
    let (mut writer, mut reader) =
        stage.client().open(&Request::post("http://a/").unwrap()).await.unwrap().split();
    let write = async {
        for _ in 0..10 {
            writer.write(b"piece").await.unwrap();
            writer.flush().await.unwrap();
            tokio::time::sleep(std::time::Duration::from_secs(20)).await;
        }
        writer.finish().await.unwrap();
        tokio::time::Instant::now()
    };
    let mut response = Response::new();
    let (sent, head) = tokio::join!(write, reader.head(&mut response));
    let waited = sent.elapsed().as_secs();
    assert!(head.unwrap_err().is_timeout() && (29..=31).contains(&waited), "{waited} s");
}

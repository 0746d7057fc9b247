//! Which [`ErrorKind`] a handler gets when a request's body ends too early, in each way to read.

use std::io::ErrorKind;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use corehttp::{Context, Timeouts};
use tokio::io::AsyncReadExt;

use crate::support::{Served, streaming};

/// How a peer ends its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Closed,
    Reset,
    Silent,
}

/// Reads the body as the path says, and returns how that failed.
async fn read(ctx: &mut Context, tell: &Mutex<Sender<ErrorKind>>) -> corehttp::Result {
    let way = ctx.request.path().to_owned();
    let read = match &*way {
        "/chunk" => {
            let mut body = ctx.body_reader();
            loop {
                match body.chunk().await {
                    Ok(Some(_)) => {}
                    end => break end.map(drop),
                }
            }
        }
        "/read" => ctx.body_reader().read_to_end(&mut Vec::new()).await.map(drop),
        "/decoded" => ctx.body_reader().decoded_up_to(1 << 20)?.read_to_end(&mut Vec::new()).await.map(drop),
        "/decode" => ctx.decode_body().await,
        "/duplex" => ctx.duplex().await?.0.read_to_end(&mut Vec::new()).await.map(drop),
        _ => ctx.buffer_body().await,
    };
    tell.lock().unwrap().send(read.as_ref().unwrap_err().kind()).unwrap();
    Ok(read?)
}

fn served() -> (Served, Receiver<ErrorKind>) {
    let (tell, told) = channel();
    let tell = Mutex::new(tell);
    let timeouts = Timeouts { body: Duration::from_millis(200), ..Timeouts::default() };
    let app = async move |ctx: &mut Context| read(ctx, &tell).await;
    (Served::with(|server| server.timeouts(timeouts), streaming(app)), told)
}

#[track_caller]
fn check(fields: &str, body: &[u8], end: End, ways: &[&str], expected: ErrorKind) {
    let (served, told) = served();
    for way in ways {
        let mut peer = served.connect();
        peer.send(format!("POST /{way} HTTP/1.1\r\nhost: a\r\n{fields}\r\n\r\n"));
        peer.send(body);
        // The data arrives before the end.
        thread::sleep(Duration::from_millis(20));
        let silent = match end {
            End::Closed => {
                peer.end();
                Some(peer)
            }
            End::Reset => {
                peer.reset();
                None
            }
            End::Silent => Some(peer),
        };
        assert_eq!(told.recv(), Ok(expected), "{way}: {fields} {end:?}");
        drop(silent);
    }
}

const ALL: &[&str] = &["chunk", "read", "decoded", "decode", "duplex", "buffer"];

#[test]
fn the_kind_of_an_error_reaches_the_handler() {
    let chunked = "transfer-encoding: chunked";
    for (fields, body) in [("content-length: 100", &b"hello"[..]), (chunked, b"5\r\nhello\r\n")] {
        check(fields, body, End::Reset, ALL, ErrorKind::ConnectionReset);
        check(fields, body, End::Closed, ALL, ErrorKind::UnexpectedEof);
        check(fields, body, End::Silent, ALL, ErrorKind::TimedOut);
    }
    check(chunked, b"5\r\nhello\r\nx\r\n", End::Silent, ALL, ErrorKind::InvalidData);
}

#[cfg(feature = "compress")]
#[test]
fn the_kind_of_an_error_of_a_coding_reaches_the_handler() {
    use std::io::Write;

    let mut coder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    coder.write_all(b"hello, hello, hello").unwrap();
    let coded = coder.finish().unwrap();
    let check_coded = |coded: &[u8], expected| {
        let fields = format!("content-encoding: gzip\r\ncontent-length: {}", coded.len());
        check(&fields, coded, End::Silent, &["decoded", "decode"], expected);
    };
    check_coded(&coded[..coded.len() - 1], ErrorKind::UnexpectedEof);
    check_coded(&coded[..12], ErrorKind::UnexpectedEof);
    check_coded(b"not a gzip stream at all", ErrorKind::InvalidData);
}

//! A WebSocket in memory, whose peer sends exactly the bytes of a test.

use std::time::Duration;

use corehttp::websocket::{self, WebSocket};
use corehttp::{Context, Server, Service};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::{sleep, timeout};

use crate::support::paused;

/// The head of a request that opens a WebSocket, but for its last line.
pub const HEAD: &str = "GET /echo HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
                        Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

pub const TEXT: u8 = 0x81;
pub const BINARY: u8 = 0x82;
pub const CLOSE: u8 = 0x88;
pub const PING: u8 = 0x89;
pub const PONG: u8 = 0x8a;
/// Without the bit of the last frame.
pub const FIRST_TEXT: u8 = 0x01;
pub const FIRST_BINARY: u8 = 0x02;
pub const MORE: u8 = 0x00;
pub const LAST: u8 = 0x80;
/// The bit of a compressed message.
pub const RSV1: u8 = 0x40;

/// A frame of a client.
pub fn frame(first: u8, payload: impl AsRef<[u8]>) -> Vec<u8> {
    let (payload, mask) = (payload.as_ref(), [0x37, 0xfa, 0x21, 0x3d]);
    let mut frame = head(first, 0x80, payload.len());
    frame.extend(mask);
    frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(octet, key)| octet ^ key));
    frame
}

/// A frame of a server, or one of a client that should have masked it.
pub fn unmasked(first: u8, payload: impl AsRef<[u8]>) -> Vec<u8> {
    let mut frame = head(first, 0, payload.as_ref().len());
    frame.extend(payload.as_ref());
    frame
}

fn head(first: u8, masked: u8, len: usize) -> Vec<u8> {
    match len {
        0..126 => vec![first, len as u8 | masked],
        126..0x1_0000 => [&[first, 126 | masked][..], &(len as u16).to_be_bytes()].concat(),
        _ => [&[first, 127 | masked][..], &(len as u64).to_be_bytes()].concat(),
    }
}

/// A close frame of a client.
pub fn close(code: u16, reason: &str) -> Vec<u8> {
    frame(CLOSE, [&code.to_be_bytes(), reason.as_bytes()].concat())
}

/// The frames that a server has sent, each as a text, such as `text "a"`; `end` once it has closed.
pub fn shown(mut received: &[u8]) -> Vec<String> {
    let mut frames = Vec::new();
    while let [first, len, rest @ ..] = received {
        let (len, rest) = match (len, rest) {
            (126, [high, low, rest @ ..]) => (usize::from(u16::from_be_bytes([*high, *low])), rest),
            (127, rest) => {
                let (len, rest) = rest.split_first_chunk().unwrap();
                (usize::try_from(u64::from_be_bytes(*len)).unwrap(), rest)
            }
            (len, rest) => (usize::from(*len), rest),
        };
        assert!(len <= rest.len(), "a frame is cut: {:02x?}", &received[..received.len().min(20)]);
        let (payload, rest) = rest.split_at(len);
        frames.push(shown_frame(*first, payload));
        received = rest;
    }
    frames
}

fn shown_frame(first: u8, payload: &[u8]) -> String {
    let text = match payload.len() {
        0..200 => format!("{:?}", String::from_utf8_lossy(payload)),
        len => format!("of {len}"),
    };
    match (first, payload) {
        (CLOSE, [high, low, reason @ ..]) => {
            let code = u16::from_be_bytes([*high, *low]);
            format!("close {code} {:?}", String::from_utf8_lossy(reason))
        }
        (CLOSE, []) => "close".into(),
        (TEXT, _) => format!("text {text}"),
        (BINARY, _) => format!("binary {text}"),
        (PING, _) => format!("ping {text}"),
        (PONG, _) => format!("pong {text}"),
        (first, _) => format!("{first:02x} {text}"),
    }
}

/// Sends messages back, whole.
pub async fn echo(ctx: &mut Context, settings: &websocket::Options) -> corehttp::Result {
    let mut socket = ctx.websocket(settings).await?;
    let WebSocket { reader, writer, .. } = &mut socket;
    while let Some(message) = reader.receive().await? {
        writer.send(message).await?;
    }
    Ok(())
}

/// Sends messages back part by part.
pub async fn echo_parts(ctx: &mut Context, settings: &websocket::Options) -> corehttp::Result {
    let mut socket = ctx.websocket(settings).await?;
    let WebSocket { reader, writer, .. } = &mut socket;
    while let Some(part) = reader.receive_part().await? {
        writer.send_part(part).await?;
    }
    Ok(())
}

/// Sends messages back, and gives up each wait for one again and again.
pub async fn echo_impatiently(ctx: &mut Context, settings: &websocket::Options) -> corehttp::Result {
    let mut socket = ctx.websocket(settings).await?;
    let WebSocket { reader, writer, .. } = &mut socket;
    loop {
        match timeout(Duration::ZERO, reader.receive()).await {
            Ok(received) => match received? {
                Some(message) => writer.send(message).await?,
                None => return Ok(()),
            },
            Err(_) => sleep(Duration::from_micros(100)).await,
        }
    }
}

/// Which echo a test talks to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Echo {
    Whole,
    Parts,
    Impatient,
}

pub fn service(echo_of: Echo, settings: &websocket::Options) -> Service<impl corehttp::Handler + use<>> {
    let settings = settings.clone();
    Server::new().service(async move |ctx: &mut Context| match echo_of {
        Echo::Whole => echo(ctx, &settings).await,
        Echo::Parts => echo_parts(ctx, &settings).await,
        Echo::Impatient => echo_impatiently(ctx, &settings).await,
    })
}

/// Sends the request and `pieces`, with a pause between them. Returns the head of the response, and the bytes behind it
/// until the server closes, or is silent for a second.
pub async fn talk<H: corehttp::Handler>(
    service: &Service<H>,
    lines: &str,
    pieces: &[&[u8]],
) -> (String, Vec<u8>) {
    let (mut near, far) = duplex(64 << 20);
    let serving = service.serve_connection(far);
    let talking = async move {
        near.write_all(format!("{HEAD}{lines}\r\n").as_bytes()).await.unwrap();
        let mut received = Vec::new();
        for piece in pieces {
            // The server may have closed already.
            let _ = near.write_all(piece).await;
            sleep(Duration::from_millis(1)).await;
        }
        read_all(&mut near, &mut received).await;
        received
    };
    let (_, received) = tokio::join!(serving, talking);
    let end = received.windows(4).position(|end| end == b"\r\n\r\n").expect("a head") + 4;
    (String::from_utf8(received[..end].to_vec()).unwrap(), received[end..].to_vec())
}

/// Reads until the end, or until nothing comes for a second.
pub async fn read_all(near: &mut DuplexStream, received: &mut Vec<u8>) {
    while let Ok(Ok(1..)) = timeout(Duration::from_secs(1), near.read_buf(received)).await {}
}

/// The echo answers `sent` with `expected`, however `sent` is cut.
#[track_caller]
pub fn check(sent: &[u8], expected: &[&str]) {
    check_with(&websocket::Options::default(), "", sent, expected);
}

#[track_caller]
pub fn check_with(settings: &websocket::Options, lines: &str, sent: &[u8], expected: &[&str]) {
    check_echo(Echo::Whole, settings, lines, sent, expected);
}

#[track_caller]
pub fn check_echo(echo_of: Echo, settings: &websocket::Options, lines: &str, sent: &[u8], expected: &[&str]) {
    let service = service(echo_of, settings);
    let step = sent.len().div_ceil(CUTS_MAX).max(1);
    paused(async {
        let octets: Vec<&[u8]> = sent.chunks(step).collect();
        let (head, received) = talk(&service, lines, &octets).await;
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        assert_eq!(shown(&received), expected, "octet by octet");
        for cut in (0..=sent.len()).step_by(step) {
            let (_, received) = talk(&service, lines, &[&sent[..cut], &sent[cut..]]).await;
            assert_eq!(shown(&received), expected, "cut at {cut}");
        }
    });
}

/// How often a test cuts what it sends.
const CUTS_MAX: usize = 300;

//! Coded bodies of requests. A server makes the same of them however they are cut or framed, read as a stream or as a
//! whole, within the limit and with bounded memory; a client makes the same of the same octets; and the next request on
//! the connection is read where the body ends.

use std::cell::RefCell;
use std::slice;

use corehttp::middleware::wrap;
use corehttp::{BodyPlan, BoxHandler, Context, Server};

use crate::decoding::{DECODED_MAX, decoded, encoded};
use crate::memory::bounded;
use crate::oracle::{Next, Reader};
use crate::settings::Settings;
use crate::wired::Wired;

/// The lowest three bits say which codings these are. Bit 3: the octets are encoded first. Bit 4: the body has chunks.
pub fn run(data: &[u8]) {
    let Some((settings, content)) = Settings::split(data) else { return };
    let coding = CODINGS[usize::from(settings.flags & 7)];
    let is_encoded = settings.flag(3) && !coding.contains(',');
    let body = if is_encoded { body_of(&encoded(coding, content)) } else { content.to_vec() };
    let shown = body.escape_ascii();
    let most = MEMORY_MAX + 100 * body.len();
    let whole = bounded(most, || upload("/whole", coding, slice::from_ref(&body), settings));
    let streamed = bounded(most, || upload("/stream", coding, slice::from_ref(&body), settings));
    let cut = bounded(most, || upload("/stream", coding, &settings.cut(&body), settings));
    assert_eq!(streamed, whole, "{coding}, as a stream: {shown}");
    assert_eq!(cut, whole, "{coding}, cut otherwise: {shown}");
    assert_eq!(whole, decoded(coding, &body), "{coding}, and at a client: {shown}");
    assert!(whole.as_ref().is_none_or(|content| content.len() <= DECODED_MAX), "{coding}: {shown}");
    assert!(!is_encoded || whole.as_deref() == Some(content), "{coding}, encoded before: {shown}");
}

const CODINGS: [&str; 8] =
    ["gzip", "deflate", "br", "zstd", "identity", "gzip, zstd", "br, x-gzip", "deflate, deflate"];

/// The window of zstd has up to 8 MiB.
const MEMORY_MAX: usize = 12 << 20;

thread_local! {
    static SERVER: Wired<BoxHandler> =
        Wired::new(Server::new().half_close(true), BoxHandler::new(wrap(BodyPlan::Stream, receive)));
    static CONTENT: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

async fn receive(ctx: &mut Context) -> corehttp::Result {
    if ctx.request.path() == "/next" {
        return Ok(());
    }
    let mut content = Vec::new();
    if ctx.request.path() == "/whole" {
        ctx.decode_body_up_to(DECODED_MAX).await?;
        content.extend(ctx.request.body.bytes());
    } else {
        let mut body = ctx.body_reader().decoded_up_to(DECODED_MAX)?;
        while let Some(piece) = body.chunk().await? {
            content.extend_from_slice(piece);
        }
    }
    CONTENT.set(Some(content));
    Ok(())
}

/// The content that a handler gets of a body; `None` if it cannot be decoded.
fn upload(path: &str, coding: &str, pieces: &[Vec<u8>], settings: Settings) -> Option<Vec<u8>> {
    CONTENT.set(None);
    let mut packets =
        vec![format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-encoding: {coding}\r\n").into_bytes()];
    if settings.flag(4) {
        packets.push(b"transfer-encoding: chunked\r\n\r\n".to_vec());
        for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
            let size = format!("{:x}\r\n", piece.len()).into_bytes();
            packets.push([size, piece.clone(), b"\r\n".to_vec()].concat());
        }
        packets.push(b"0\r\n\r\n".to_vec());
    } else {
        let len = pieces.iter().map(Vec::len).sum::<usize>();
        packets.push(format!("content-length: {len}\r\n\r\n").into_bytes());
        packets.extend(pieces.iter().filter(|piece| !piece.is_empty()).cloned());
    }
    packets.push(b"GET /next HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n".to_vec());
    let received = SERVER.with(|server| server.ask(packets, true)).octets;
    let (mut reader, mut statuses) = (Reader::strict(&received), Vec::new());
    while let Next::Whole(response) = reader.response(b"POST", true) {
        statuses.push(response.status);
    }
    assert_eq!(reader.rest(), b"", "{statuses:?}");
    let content = CONTENT.take();
    match statuses[..] {
        [200, 200] => assert!(content.is_some()),
        // A body that is refused may be left unread, and the connection with it.
        [400 | 413 | 415] | [400 | 413 | 415, 200] => {}
        _ => panic!("{statuses:?} for {coding}"),
    }
    content.filter(|_| statuses[0] == 200)
}

/// The content of a response, which is one of ours.
fn body_of(response: &[u8]) -> Vec<u8> {
    match Reader::strict(response).response(b"GET", true) {
        Next::Whole(response) => response.content,
        next => panic!("{next:?}"),
    }
}

//! The client's end of a WebSocket, against the server's, and against servers that break RFC 6455.

use std::io;
use std::sync::Mutex;
use std::time::Duration;

use corehttp::client::ClientCause;
use corehttp::net::{Dialer, MemoryListener};
use corehttp::websocket::{
    self, ClientWebSocket, CloseCode, DeflateOptions, Message, MessageKind, MessagePart, WebSocket,
};
use corehttp::{Client, Context, Response, Server, ServerHandle, block_on};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

use super::support::{
    BINARY, CLOSE, FIRST_TEXT, LAST, MORE, PING, PONG, TEXT, close, echo, frame, shown, unmasked,
};
use crate::support::{ErrorReports, paused};

fn served() -> (ServerHandle, Client) {
    let listener = MemoryListener::new();
    let client = Client::builder().connect_to(&listener).build();
    let settings = websocket::Options {
        protocols: vec!["v1".into()],
        deflate: Some(DeflateOptions {
            message_min: 10,
            context_takeover: true,
            ..DeflateOptions::default()
        }),
        ..websocket::Options::default()
    };
    let server = Server::bind(listener).cores(1);
    (server.start(async move |ctx: &mut Context| echo(ctx, &settings).await).unwrap(), client)
}

#[test]
fn a_client_sends_and_receives() {
    let (_server, client) = served();
    block_on(async {
        let mut socket = client.websocket("ws://a/echo?b").await.unwrap();
        assert_eq!(socket.protocol, None);
        for len in [0, 1, 125, 126, 65_535, 65_536, 300_000] {
            let (text, bytes) = ("x".repeat(len), vec![0xff; len]);
            socket.send(&text).await.unwrap();
            assert_eq!(socket.receive().await.unwrap(), Some(Message::Text(&text)));
            socket.send(&bytes).await.unwrap();
            assert_eq!(socket.receive().await.unwrap(), Some(Message::Binary(&bytes)));
        }
        socket.writer.ping(b"p").await.unwrap();
        socket.close(CloseCode(4000), "bye").await.unwrap();
        assert_eq!(socket.close_reason().unwrap().code, CloseCode(4000));
        assert!(socket.receive().await.unwrap().is_none());
    })
    .unwrap();
}

/// The halves are `Send`, and may be in tasks of several threads.
#[test]
fn halves_of_a_client_move_between_threads() {
    let (_server, client) = served();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let deflate = Some(DeflateOptions { message_min: 10, ..DeflateOptions::default() });
        let settings =
            websocket::Options { protocols: vec!["v1".into()], deflate, ..websocket::Options::default() };
        let socket = client.websocket("http://a/").options(&settings).await.unwrap();
        assert_eq!(socket.protocol.as_deref(), Some("v1"));
        let WebSocket { mut reader, mut writer, .. } = socket;
        let receives = tokio::spawn(async move {
            for at in 0..500 {
                let message = reader.receive().await.unwrap().unwrap();
                assert_eq!(message, Message::Text(&format!("message {at} {}", "x".repeat(at))));
            }
            reader
        });
        let sends = tokio::spawn(async move {
            for at in 0..500 {
                writer.feed(&format!("message {at} {}", "x".repeat(at))).await.unwrap();
                if at % 7 == 0 {
                    tokio::task::yield_now().await;
                }
            }
            writer.flush().await.unwrap();
            writer
        });
        let (mut reader, mut writer) = (receives.await.unwrap(), sends.await.unwrap());
        writer.close(CloseCode::NORMAL, "").await.unwrap();
        assert!(reader.receive().await.unwrap().is_none());
    });
}

#[test]
fn parts_need_not_be_in_memory() {
    let (_server, client) = served();
    block_on(async {
        let mut socket = client.websocket("ws://a/").await.unwrap();
        let part = MessagePart { kind: MessageKind::Text, bytes: "\u{e9}".as_bytes(), is_last: false };
        socket.writer.send_part(MessagePart { bytes: &part.bytes[..1], ..part }).await.unwrap();
        let refused = [
            socket.send("between").await.unwrap_err(),
            socket.writer.send_part(MessagePart { kind: MessageKind::Binary, ..part }).await.unwrap_err(),
            socket.writer.send_part(MessagePart { is_last: true, bytes: b"", ..part }).await.unwrap_err(),
            socket.writer.send_part(MessagePart { bytes: b"x", ..part }).await.unwrap_err(),
        ];
        let errors = refused.map(|error| error.get_ref().unwrap().downcast_ref().cloned());
        let [between, kind, end, text] = errors.map(|error: Option<websocket::Error>| error.unwrap());
        assert_eq!((between, kind), (websocket::Error::Interleaved, websocket::Error::Interleaved));
        assert_eq!((end, text), (websocket::Error::PartText, websocket::Error::PartText));
        socket
            .writer
            .send_part(MessagePart { bytes: &part.bytes[1..], is_last: true, ..part })
            .await
            .unwrap();
        assert_eq!(socket.receive().await.unwrap(), Some(Message::Text("\u{e9}")));
        // The rest of a message that was received in parts is skipped.
        socket.send(&vec![7; 200_000]).await.unwrap();
        socket.send("next").await.unwrap();
        assert!(!socket.reader.receive_part().await.unwrap().unwrap().is_last);
        assert_eq!(socket.receive().await.unwrap(), Some(Message::Text("next")));
    })
    .unwrap();
}

#[test]
fn a_refusal_has_its_reason() {
    let listener = MemoryListener::new();
    let client = Client::builder().connect_to(&listener).build();
    let _server =
        Server::bind(listener).cores(1).start(|ctx: &mut Context| ctx.response.set_text("no")).unwrap();
    block_on(async {
        let mut response = Response::new();
        let refused = client.websocket("wss2://a/").await.unwrap_err();
        assert!(matches!(refused.cause(), ClientCause::Request(_)), "{refused:?}");
        let refused = client.websocket("ws://a/").send_into(&mut response).await.unwrap_err();
        assert!(matches!(refused.cause(), ClientCause::Upgrade), "{refused:?}");
        assert_eq!(response.text().unwrap(), "no");
        // A request that is not sent leaves nothing of an earlier response.
        for request in [client.websocket("no url"), client.websocket("ws://a/").header("a\n", "b")] {
            client.get("http://a/").send_into(&mut response).await.unwrap();
            let refused = request.send_into(&mut response).await.unwrap_err();
            assert!(matches!(refused.cause(), ClientCause::Request(_)), "{refused:?}");
            assert_eq!((response.headers.len(), response.bytes()), (0, &b""[..]));
        }
    })
    .unwrap();
}

/// A server that answers the handshake with `fields`, and then with `frames`. Returns what the client gets, and the
/// frames that it has sent, without their masks.
async fn against(
    fields: &str,
    frames: &[u8],
) -> (Result<ClientWebSocket, String>, tokio::task::JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (url, fields, frames) =
        (format!("ws://{}/", listener.local_addr().unwrap()), fields.to_owned(), frames.to_vec());
    let server = tokio::spawn(async move {
        let mut stream = open(&listener, &fields).await;
        stream.write_all(&frames).await.unwrap();
        let mut received = Vec::new();
        let _ = stream.read_to_end(&mut received).await;
        received
    });
    let socket = Client::new().websocket(&url).await.map_err(|error| format!("{error:#}"));
    (socket, server)
}

/// The server's end of a WebSocket that it has accepted with `fields`.
async fn open(listener: &TcpListener, fields: &str) -> TcpStream {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap();
    let key = head.lines().find_map(|line| line.strip_prefix("sec-websocket-key: ")).unwrap();
    let fields = fields.replace("ACCEPT", &accept(key));
    let answer = format!("HTTP/1.1 101 x\r\nconnection: upgrade\r\nupgrade: websocket\r\n{fields}\r\n");
    stream.write_all(answer.as_bytes()).await.unwrap();
    stream
}

/// The socket wakes only the half that notices the end.
#[tokio::test]
async fn the_end_of_a_connection_wakes_both_halves_and_is_no_success() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/", listener.local_addr().unwrap());
    let (client, accepted) = (Client::new(), "sec-websocket-accept: ACCEPT\r\n");
    let (socket, mut stream) =
        tokio::join!(async { client.websocket(&url).await }, open(&listener, accepted));
    let WebSocket { mut reader, mut writer, .. } = socket.unwrap();
    let receives = tokio::spawn(async move { reader.receive().await.map(drop) });
    let sends = tokio::spawn(async move { writer.send(&vec![7; 64 << 20]).await });
    // The system's buffers are full by then.
    sleep(Duration::from_millis(200)).await;
    stream.shutdown().await.unwrap();
    let ends = timeout(Duration::from_secs(5), async { (receives.await.unwrap(), sends.await.unwrap()) });
    let (received, sent) = ends.await.expect("a half was not woken");
    assert!(received.is_err() && sent.is_err(), "{received:?} {sent:?}");
}

/// The time limit of the request ends with the opening, and does not shorten a close that comes later.
#[test]
fn a_time_limit_is_for_the_opening() {
    let reports = ErrorReports::default();
    let service = reports.attach(Server::new()).service(async |ctx: &mut Context| -> corehttp::Result {
        let mut socket = ctx.websocket(&websocket::Options::default()).await?;
        sleep(Duration::from_secs(20)).await;
        Ok(socket.close(CloseCode(4000), "").await?)
    });
    paused(async {
        let (near, far) = duplex(4096);
        let client = Client::builder().dialer(Once(Mutex::new(Some(near)))).build();
        let talk = async {
            let mut socket = client.websocket("ws://a/").timeout(Duration::from_secs(10)).await.unwrap();
            assert!(socket.receive().await.unwrap().is_none());
        };
        let _ = tokio::join!(service.serve_connection(far), talk);
    });
    assert_eq!(reports.take(), []);
}

/// Hands out one stream.
struct Once(Mutex<Option<DuplexStream>>);

impl Dialer for Once {
    type Stream = DuplexStream;

    async fn dial(&self, _: &str, _: u16) -> io::Result<DuplexStream> {
        self.0.lock().unwrap().take().ok_or_else(|| io::ErrorKind::ConnectionRefused.into())
    }
}

/// The value that accepts a key, as the server under test computes it.
pub(super) fn accept(key: &str) -> String {
    let head = super::support::HEAD.replace("dGhlIHNhbXBsZSBub25jZQ==", key);
    let answer = std::thread::spawn(move || {
        let service = super::support::service(super::support::Echo::Whole, &websocket::Options::default());
        paused(async move {
            let (mut near, far) = duplex(1 << 16);
            near.write_all(format!("{head}\r\n").as_bytes()).await.unwrap();
            near.shutdown().await.unwrap();
            let mut received = String::new();
            let (_, read) = tokio::join!(service.serve_connection(far), near.read_to_string(&mut received));
            read.unwrap();
            received
        })
    });
    let answer = answer.join().unwrap();
    answer.lines().find_map(|line| line.strip_prefix("sec-websocket-accept: ")).unwrap().to_owned()
}

#[tokio::test]
async fn bad_answers_open_nothing_rfc6455_4_1() {
    for (fields, expected) in [
        ("", "the sec-websocket-accept does not match"),
        ("sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n", "the sec-websocket-accept does not match"),
        ("sec-websocket-accept: ACCEPT\r\nsec-websocket-accept: ACCEPT\r\n", "the sec-websocket-accept"),
        (
            "sec-websocket-accept: ACCEPT\r\nsec-websocket-protocol: x\r\n",
            "a subprotocol that was not offered",
        ),
        (
            "sec-websocket-accept: ACCEPT\r\nsec-websocket-extensions: permessage-deflate\r\n",
            "an extension that was not offered",
        ),
    ] {
        let (socket, _) = against(fields, b"").await;
        let error = socket.unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

const GOOD: &str = "sec-websocket-accept: ACCEPT\r\n";

/// The client receives `expected` from `frames`, which may come with the head, and answers with a close frame of `code`.
async fn check(frames: &[u8], expected: Result<&str, io::ErrorKind>, code: u16) {
    let (socket, server) = against(GOOD, frames).await;
    let mut socket = socket.unwrap();
    let received = socket.receive().await;
    let received = received.map(|message| message.map_or("", |message| message.text().unwrap()));
    assert_eq!(received.map_err(|error| error.kind()), expected, "{frames:02x?}");
    drop(socket);
    let answer = server.await.unwrap();
    let masked = [answer[6] ^ answer[2], answer[7] ^ answer[3]];
    assert_eq!((answer[0], answer[1], u16::from_be_bytes(masked)), (0x88, 0x82, code), "{answer:02x?}");
}

#[tokio::test]
async fn servers_are_read_strictly() {
    check(&unmasked(TEXT, "with the head"), Ok("with the head"), 1001).await;
    check(&frame(TEXT, "masked"), Err(io::ErrorKind::InvalidData), 1002).await;
    check(&unmasked(0x83, ""), Err(io::ErrorKind::InvalidData), 1002).await;
    check(&unmasked(TEXT, b"\xff"), Err(io::ErrorKind::InvalidData), 1007).await;
    check(&unmasked(BINARY, vec![0; 1 << 21]), Err(io::ErrorKind::InvalidData), 1009).await;
    check(&unmasked(0x88, [3, 0xe8]), Ok(""), 1000).await;
    check(&close(1000, ""), Err(io::ErrorKind::InvalidData), 1002).await;
}

/// A client that sends messages back gets `sent` in two pieces, however it is cut, and answers `expected`.
async fn check_echo(sent: &[u8], expected: &[&str]) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/", listener.local_addr().unwrap());
    for cut in 0..=sent.len() {
        let server = async {
            let mut stream = open(&listener, GOOD).await;
            stream.set_nodelay(true).unwrap();
            for piece in [&sent[..cut], &sent[cut..]] {
                // The client may have closed already.
                let _ = stream.write_all(piece).await;
                sleep(Duration::from_micros(300)).await;
            }
            stream.shutdown().await.unwrap();
            let mut received = Vec::new();
            let _ = stream.read_to_end(&mut received).await;
            received
        };
        let client = async {
            let mut socket = Client::new().websocket(&url).await.unwrap();
            let WebSocket { reader, writer, .. } = &mut socket;
            while let Ok(Some(message)) = reader.receive().await {
                writer.send(message).await.unwrap();
            }
        };
        let (received, ()) = tokio::join!(server, client);
        assert_eq!(shown(&without_masks(&received)), expected, "{sent:02x?} cut at {cut}");
    }
}

/// The frames of a client, each of which is masked, without their masks.
fn without_masks(mut frames: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    while let [first, len @ 0x80..=0xfd, k0, k1, k2, k3, rest @ ..] = frames {
        let (payload, rest) = rest.split_at(usize::from(len & 0x7f));
        plain.extend([*first, len & 0x7f]);
        plain
            .extend(payload.iter().zip([k0, k1, k2, k3].into_iter().cycle()).map(|(octet, key)| octet ^ key));
        frames = rest;
    }
    assert!(frames.is_empty(), "a short frame with a mask: {frames:02x?}");
    plain
}

fn bye() -> Vec<u8> {
    unmasked(CLOSE, [3, 0xe8])
}

/// The client answers the frames before the last one, and refuses that with `code`. Frames behind it are not answered.
async fn check_broken(frames: &[Vec<u8>], expected: &[&str], code: u16) {
    let refused = format!("close {code} \"\"");
    let sent = [&frames.concat()[..], &unmasked(TEXT, "b"), &bye()].concat();
    check_echo(&sent, &[expected, &[&*refused]].concat()).await;
}

#[tokio::test]
async fn a_client_reads_frames_strictly_autobahn_2_to_5() {
    check_echo(
        &[unmasked(PING, ""), unmasked(PONG, "q"), unmasked(PING, "p"), bye()].concat(),
        &["pong \"\"", "pong \"p\"", "close 1000 \"\""],
    )
    .await;
    check_broken(&[unmasked(PING, "x".repeat(126))], &[], 1002).await;
    for bits in [0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70] {
        check_broken(&[unmasked(TEXT, "a"), unmasked(TEXT | bits, "b")], &["text \"a\""], 1002).await;
        check_broken(&[unmasked(PING | bits, "")], &[], 1002).await;
    }
    for opcode in [3, 4, 5, 6, 7, 0xb, 0xc, 0xd, 0xe, 0xf] {
        check_broken(&[unmasked(0x80 | opcode, "")], &[], 1002).await;
        check_broken(&[unmasked(opcode, "b")], &[], 1002).await;
    }
    for control in [PING, PONG, CLOSE] {
        check_broken(&[unmasked(control & 0x7f, "")], &[], 1002).await;
    }
    let fragments = [unmasked(FIRST_TEXT, "a"), unmasked(PING, "p"), unmasked(MORE, ""), unmasked(LAST, "b")];
    check_echo(
        &[&fragments.concat()[..], &bye()].concat(),
        &["pong \"p\"", "text \"ab\"", "close 1000 \"\""],
    )
    .await;
    check_broken(&[unmasked(LAST, "a")], &[], 1002).await;
    check_broken(&[unmasked(MORE, "a")], &[], 1002).await;
    check_broken(&[unmasked(FIRST_TEXT, "a"), unmasked(TEXT, "b")], &[], 1002).await;
    check_broken(&[unmasked(FIRST_TEXT, "a"), unmasked(FIRST_TEXT, "b")], &[], 1002).await;
    check_broken(&[unmasked(FIRST_TEXT, "a"), unmasked(LAST, ""), unmasked(LAST, "")], &["text \"a\""], 1002)
        .await;
}

#[tokio::test]
async fn a_client_reads_text_and_closes_strictly_autobahn_6_and_7() {
    for text in ["\u{3ba}\u{1f79}", "\u{0}\u{80}\u{800}\u{10000}", "\u{7ff}\u{ffff}\u{10ffff}"] {
        let (front, back) = text.as_bytes().split_at(3);
        let sent = [unmasked(TEXT, text), unmasked(FIRST_TEXT, front), unmasked(LAST, back), bye()].concat();
        let shown = format!("text {text:?}");
        check_echo(&sent, &[&*shown, &*shown, "close 1000 \"\""]).await;
    }
    for text in [&b"\xf4\x90\x80\x80"[..], b"\x80", b"\xc0\xaf", b"\xed\xa0\x80", b"\xfe", b"\xce"] {
        check_broken(&[unmasked(TEXT, text)], &[], 1007).await;
        check_broken(&[unmasked(FIRST_TEXT, text), unmasked(LAST, "")], &[], 1007).await;
    }
    // The octet that makes the error is enough.
    check_echo(&unmasked(TEXT, b"\xf4\x90xx")[..4], &["close 1007 \"\""]).await;
    check_echo(&unmasked(CLOSE, ""), &["close"]).await;
    for code in [1000u16, 1001, 1002, 1003, 1007, 1011, 1014, 3000, 4999] {
        check_echo(&unmasked(CLOSE, code.to_be_bytes()), &[&format!("close {code} \"\"")]).await;
    }
    for code in [0u16, 999, 1004, 1005, 1006, 1015, 1016, 2000, 2999, 5000, 65535] {
        check_broken(&[unmasked(CLOSE, code.to_be_bytes())], &[], 1002).await;
    }
    check_broken(&[unmasked(CLOSE, [3])], &[], 1002).await;
    check_broken(&[unmasked(CLOSE, b"\x03\xe8\xff")], &[], 1007).await;
    check_broken(&[unmasked(CLOSE, [b"\x03\xe8".as_slice(), &[b'x'; 124]].concat())], &[], 1002).await;
}

/// A server that closes or resets its connection anywhere ends the wait of a client with an error, and nothing hangs.
#[tokio::test]
async fn a_client_survives_ends_and_resets_at_every_byte() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/", listener.local_addr().unwrap());
    let sent =
        [unmasked(TEXT, "a"), unmasked(FIRST_TEXT, "b"), unmasked(PING, "p"), unmasked(LAST, "c")].concat();
    for (end, resets) in (0..sent.len()).flat_map(|end| [(end, false), (end, true)]) {
        let server = async {
            let mut stream = open(&listener, GOOD).await;
            stream.write_all(&sent[..end]).await.unwrap();
            sleep(Duration::from_micros(300)).await;
            if resets {
                socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
            }
        };
        let client = async {
            let mut socket = Client::new().websocket(&url).await.unwrap();
            let mut whole = 0;
            loop {
                match timeout(Duration::from_secs(5), socket.receive()).await.expect("an end in time") {
                    Ok(Some(_)) => whole += 1,
                    ended => break (whole, ended.map(drop)),
                }
            }
        };
        let ((), (whole, ended)) = tokio::join!(server, client);
        assert!(ended.is_err(), "{end} {resets}");
        assert!(resets || whole == usize::from(end >= 3), "{whole} of {end}");
    }
}

/// Opens a WebSocket to a server that answers the offer with `answer`. The client sends a repetition that a window of 2^9
/// bytes does not reach, and one of short ones. Returns the lengths of their frames' content; an error if it refuses.
async fn sent_to(answer: &str) -> Result<[usize; 2], String> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/", listener.local_addr().unwrap());
    let fields = format!("{GOOD}sec-websocket-extensions: {answer}\r\n");
    let deflate = DeflateOptions { message_min: 1, context_takeover: true, ..DeflateOptions::default() };
    let settings = websocket::Options { deflate: Some(deflate), ..websocket::Options::default() };
    let client = async {
        let opened = Client::new().websocket(&url).options(&settings).await;
        let mut socket = opened.map_err(|error| format!("{error:#}"))?;
        let scattered = |at: u32| char::from(b'a' + (at.wrapping_mul(2_654_435_761) >> 16) as u8 % 26);
        let line: String = (0..800).map(scattered).collect();
        socket.send(&line.repeat(3)).await.unwrap();
        socket.send(&"ab".repeat(500)).await.unwrap();
        socket.writer.close(CloseCode::NORMAL, "").await.map_err(|error| error.to_string())
    };
    let server = async {
        let mut stream = open(&listener, &fields).await;
        let mut received = Vec::new();
        let _ = stream.read_to_end(&mut received).await;
        received
    };
    let (opened, received) = tokio::join!(client, server);
    opened?;
    let [first, second, _close] = content_lengths(&received)[..] else { panic!("{received:02x?}") };
    Ok([first, second])
}

/// The length of the content of each of a client's frames, none of which is longer than two octets can count.
fn content_lengths(mut frames: &[u8]) -> Vec<usize> {
    let mut lengths = Vec::new();
    while !frames.is_empty() {
        let (head, len) = match frames[1] & 0x7f {
            126 => (8, usize::from(u16::from_be_bytes([frames[2], frames[3]]))),
            len => (6, usize::from(len)),
        };
        frames = &frames[head + len..];
        lengths.push(len);
    }
    lengths
}

#[tokio::test]
async fn a_client_sends_in_the_window_that_its_server_asks_for_rfc7692_7_1_2_2() {
    let [most, _] = sent_to("permessage-deflate").await.unwrap();
    assert_eq!(sent_to("permessage-deflate; client_max_window_bits=15").await.unwrap()[0], most);
    let small = sent_to("permessage-deflate; client_max_window_bits=9").await.unwrap();
    assert!(most < small[0] && small[0] < 2400 && small[1] < 100, "{small:?} {most}");
    let same = sent_to("permessage-deflate; client_max_window_bits=\"9\"").await.unwrap();
    assert_eq!(same, small);
    // zlib has no such window, and any message may be sent as it is (§6).
    assert_eq!(sent_to("permessage-deflate; client_max_window_bits=8").await.unwrap(), [2400, 1000]);
    for bad in ["client_max_window_bits", "client_max_window_bits=7", "client_max_window_bits=16"] {
        let error = sent_to(&format!("permessage-deflate; {bad}")).await.unwrap_err();
        assert!(error.contains("an extension that was not offered"), "{bad}: {error}");
    }
}

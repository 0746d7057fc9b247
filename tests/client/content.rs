//! Coded content is decoded if the client is set to, within its limit (RFC 9110 §8.4).

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, Write};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{self, Poll};
use std::time::Duration;

use corehttp::client::{ClientCause, ClientLimits, ClientTimeouts};
use corehttp::coding::{Coding, CodingError};
use corehttp::middleware::wrap;
use corehttp::net::Dialer;
use corehttp::{BodyPlan, Client, Context, Handler, Request, Response, Server};
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf, duplex};
#[cfg(feature = "tower")]
use tower_http::decompression::RequestDecompressionLayer;

use crate::support::{OK, Scripted, Stage, get, post, settle};

const TEXT: &[u8] = b"to be, or not to be, that is the question: whether 'tis nobler in the mind to suffer";

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn zlib(content: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn encoded_response(coding: &str, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-encoding: {coding}\r\ncontent-length: {length}\r\n\r\n");
    [head.as_bytes(), content].concat()
}

/// Content with this coding is received as `expected`: whole, piece by piece, by the reader of a call, which fails for
/// good, and as the reason why an upgrade was refused.
async fn check(coding: &str, content: &[u8], expected: Result<&[u8], CodingError>) {
    let server = Scripted::always(encoded_response(coding, content)).await;
    let client = Client::builder().decode_up_to(1 << 20).build();
    let (mut request, mut response) = (Request::get(&server.url).unwrap(), Response::new());
    let whole = client.send(&request, &mut response).await.map(|()| response.body.bytes().to_vec());
    let streamed = async {
        let (mut received, mut all) = (client.open_response(&request, &mut response).await?, Vec::new());
        while let Some(piece) = received.chunk().await? {
            all.extend_from_slice(piece);
        }
        Ok(all)
    };
    let streamed = streamed.await;
    let (writer, mut reader) = client.open_call(&request).await.unwrap().split();
    let halved = async {
        let mut all = Vec::new();
        reader.head(&mut Response::new()).await?;
        while let Some(piece) = reader.chunk().await? {
            all.extend_from_slice(piece);
        }
        Ok(all)
    };
    let halved = halved.await;
    assert_eq!(reader.chunk().await.is_ok(), expected.is_ok(), "{coding}");
    drop((writer, reader));
    for received in [whole, streamed, halved] {
        let received = received.map_err(|error: corehttp::ClientError| match error.cause() {
            ClientCause::Coding(error) => *error,
            _ => panic!("{error:#}"),
        });
        assert_eq!(received.as_deref().map_err(|error| *error), expected, "{coding}");
    }
    request.headers.set("upgrade", "own").unwrap();
    let refused = client.upgrade(&request, &mut response).await.unwrap_err();
    assert!(matches!(refused.cause(), ClientCause::Upgrade), "{refused:#}");
    assert_eq!(response.body.bytes(), expected.unwrap_or_default(), "{coding}");
    assert_eq!((client.busy_connections(), server.connections()), (0, if expected.is_ok() { 1 } else { 4 }));
}

#[tokio::test]
async fn coded_content_is_decoded() {
    check("gzip", &gzip(TEXT), Ok(TEXT)).await;
    check("GZip", &[gzip(b"to be, "), gzip(&TEXT[7..])].concat(), Ok(TEXT)).await;
    check("deflate", &zlib(TEXT), Ok(TEXT)).await;
    check("deflate, gzip", &gzip(&zlib(TEXT)), Ok(TEXT)).await;
    check("identity", TEXT, Ok(TEXT)).await;
    check("gzip", b"", Ok(b"")).await;
    check("x-unheard-of", TEXT, Ok(TEXT)).await;
}

#[tokio::test]
async fn row_83_corrupt_and_cut_content_and_bombs_are_errors() {
    let (good, bomb) = (gzip(TEXT), gzip(&vec![0; 3 << 20]));
    check("gzip", TEXT, Err(CodingError::NotCoded(Coding::Gzip))).await;
    check("deflate, gzip", &good, Err(CodingError::NotCoded(Coding::Deflate))).await;
    check("gzip", &good[..good.len() - 1], Err(CodingError::Incomplete)).await;
    let mut spoiled = good.clone();
    spoiled[good.len() - 6] ^= 1;
    check("gzip", &spoiled, Err(CodingError::Corrupt)).await;
    check("gzip", &bomb, Err(CodingError::TooLarge(1 << 20))).await;
    check("gzip, gzip, gzip, gzip, gzip", &good, Err(CodingError::TooMany)).await;
}

/// The framing of the response is sound, so its connection is used again.
#[tokio::test]
async fn what_follows_gzip_is_left_out_by_a_lenient_client_rfc1952_2_2() {
    let good = gzip(TEXT);
    let zeros = vec![0; 40 << 10];
    let (cut, mut spoiled) = (&good[..good.len() - 1], good.clone());
    spoiled[good.len() - 6] ^= 1;
    let not_coded = Err(CodingError::NotCoded(Coding::Gzip));
    for (content, strict, lenient) in [
        ([&good[..], b"junk"].concat(), Err(CodingError::Corrupt), Ok(TEXT)),
        ([&good[..], b"\r\n"].concat(), Err(CodingError::Corrupt), Ok(TEXT)),
        ([&good[..], b"\x1f\x8bX"].concat(), Err(CodingError::Corrupt), Ok(TEXT)),
        ([&good[..], b"\x1f"].concat(), Err(CodingError::Incomplete), Ok(TEXT)),
        ([&good[..], &zeros].concat(), Err(CodingError::Corrupt), Ok(TEXT)),
        ([gzip(b"to be, "), gzip(&TEXT[7..]), zeros.clone()].concat(), Err(CodingError::Corrupt), Ok(TEXT)),
        (good.clone(), Ok(TEXT), Ok(TEXT)),
        (spoiled, Err(CodingError::Corrupt), Err(CodingError::Corrupt)),
        (cut.to_vec(), Err(CodingError::Incomplete), Err(CodingError::Incomplete)),
        ([b"junk", &good[..]].concat(), not_coded, not_coded),
        (
            [&good[..], &good[..good.len() - 1]].concat(),
            Err(CodingError::Incomplete),
            Err(CodingError::Incomplete),
        ),
    ] {
        for (is_lenient, expected) in [(true, lenient), (false, strict)] {
            let server = Scripted::always(encoded_response("gzip", &content)).await;
            let client = Client::builder().decode_up_to(1 << 20).lenient(is_lenient).build();
            let (request, mut response) = (Request::get(&server.url).unwrap(), Response::new());
            for _ in 0..2 {
                let sent = client.send(&request, &mut response).await;
                match (&sent, expected) {
                    (Ok(()), Ok(text)) => assert_eq!(response.bytes(), text),
                    (Err(error), Err(coding)) => {
                        assert!(
                            matches!(error.cause(), ClientCause::Coding(found) if *found == coding),
                            "{error:#}"
                        );
                    }
                    _ => panic!("{sent:?}, {expected:?}"),
                }
            }
            assert_eq!(server.connections(), if expected.is_ok() { 1 } else { 2 });
        }
    }
}

/// Content that is received whole has to fit as a body, too. A stream has no such limit.
#[tokio::test]
async fn decoded_content_is_no_larger_than_a_body_may_be() {
    let server = Scripted::always(encoded_response("gzip", &gzip(&[0; 1000]))).await;
    for (body_max, fits) in [(1000, true), (999, false)] {
        let client = Client::builder()
            .decode_up_to(1 << 20)
            .limits(ClientLimits { body_max, ..ClientLimits::default() })
            .build();
        match client.get(&server.url).await {
            Ok(response) => assert!(fits && response.body.len() == 1000),
            Err(error) => {
                assert!(!fits && format!("{error:#}").contains("the body is too large"), "{error:#}")
            }
        }
        let (mut response, mut all) = (Response::new(), Vec::new());
        let request = Request::get(&server.url).unwrap();
        let mut reader = client.open_response(&request, &mut response).await.unwrap();
        reader.read_to_end(&mut all).await.unwrap();
        assert_eq!(all.len(), 1000);
        // The limit of a request takes the place of the client's.
        assert_eq!(client.get(&server.url).body_max(1000).await.unwrap().body.len(), 1000);
        let error = client.get(&server.url).body_max(10).await.unwrap_err();
        assert!(format!("{error:#}").contains("more than 10 bytes"), "{error:#}");
    }
}

/// One that drips would never be without progress, but is too slow. Here it is a name in a header that has no end.
#[tokio::test(start_paused = true)]
async fn a_decoded_body_has_its_least_rate_too() {
    let stage = Stage::new(|mut peer, _| async move {
        peer.request().await?;
        peer.send("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n").await?;
        peer.send(b"\x1f\x8b\x08\x08\0\0\0\0\0\x03").await?;
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            peer.send("n").await?;
        }
    });
    let timeouts = ClientTimeouts { receive_rate_min: 500, ..ClientTimeouts::default() };
    let client = stage.builder().decode_up_to(1 << 20).timeouts(timeouts).build();
    let received = tokio::time::timeout(Duration::from_secs(60), client.get("http://a/")).await;
    let error = received.expect("it is cut off").unwrap_err();
    assert!(error.is_timeout(), "{error:#}");
}

/// One that comes fast and decodes to nothing would be neither too large nor too slow, and was read for ever.
#[tokio::test]
async fn content_without_end_that_decodes_to_nothing_is_an_error() {
    let stage = Stage::new(|mut peer, _| async move {
        peer.request().await?;
        peer.send("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n").await?;
        loop {
            peer.send(gzip(b"").repeat(1_000)).await?;
        }
    });
    let client = stage.builder().decode_up_to(1 << 20).build();
    let (request, mut response) = (Request::get("http://a/").unwrap(), Response::new());
    let whole = client.send(&request, &mut response).await;
    let mut reply = client.open_response(&request, &mut response).await.unwrap();
    for received in [whole, reply.chunk().await.map(drop)] {
        let error = received.unwrap_err();
        assert!(matches!(error.cause(), ClientCause::Coding(CodingError::TooLarge(1048576))), "{error:#}");
    }
}

/// Even if all of it has come with the head.
#[tokio::test]
async fn decoding_counts_as_receiving() {
    let server = Scripted::always(encoded_response("gzip", &gzip(&vec![0; 1 << 20]))).await;
    let client = Client::builder().decode_up_to(1 << 20).build();
    let response = client.get(&server.url).await.unwrap();
    assert_eq!(response.body.len(), 1 << 20);
    assert!(response.timings().receive > Duration::ZERO, "{:?}", response.timings());
}

/// A request for a range that accepts codings may be answered with a part of coded content, which must not be
/// taken for the whole.
#[tokio::test]
async fn a_part_of_coded_content_stays_coded_rfc9110_15_3_7() {
    let coded = gzip(TEXT);
    for part in [&coded[..], &coded[..20], &coded[20..]] {
        let wire =
            [&b"HTTP/1.1 206 x\r\ncontent-range: bytes 0-1/2\r\n"[..], &encoded_response("gzip", part)[17..]]
                .concat();
        let server = Scripted::always(wire).await;
        let (client, mut response) = (Client::builder().decode_up_to(1 << 20).build(), Response::new());
        client.send(&Request::get(&server.url).unwrap(), &mut response).await.unwrap();
        assert_eq!((response.body.bytes(), response.headers.get("content-encoding")), (part, Some("gzip")));
    }
}

#[tokio::test]
async fn a_decoded_response_loses_the_fields_of_its_coding() {
    for (coding, content, is_undone) in [
        ("gzip", gzip(TEXT), true),
        ("deflate, gzip", gzip(&zlib(TEXT)), true),
        ("x-unheard-of", TEXT.to_vec(), false),
        ("x-unheard-of, gzip", gzip(TEXT), false),
    ] {
        let digests = "content-digest: x\r\ncontent-md5: x\r\ndigest: x\r\nrepr-digest: x";
        let server = Scripted::always(encoded_response(&format!("{coding}\r\n{digests}"), &content)).await;
        let (client, mut response) = (Client::builder().decode_up_to(1 << 20).build(), Response::new());
        client.send(&Request::get(&server.url).unwrap(), &mut response).await.unwrap();
        let of_coded =
            ["content-encoding", "content-length", "content-digest", "content-md5", "digest", "repr-digest"];
        for name in of_coded {
            assert_eq!(response.headers.contains(name), !is_undone, "{coding}: {name}");
        }
        assert_eq!(response.body.bytes(), if is_undone { TEXT } else { &content }, "{coding}");
    }
}

/// As with the headers; and as with those, a digest of the coded form would not be that of what is here.
#[tokio::test]
async fn a_decoded_response_loses_the_digests_behind_its_content_rfc9530_4() {
    let coded = gzip(TEXT);
    let head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n";
    let size = format!("{:x}\r\n", coded.len());
    let end = b"\r\n0\r\ncontent-digest: x\r\nx-own: x\r\n\r\n";
    let server = Scripted::always([&head[..], size.as_bytes(), &coded, end].concat()).await;
    for decode_max in [Some(1 << 20), None] {
        let plain = Client::builder();
        let builder = decode_max.map_or(plain.clone(), |most| plain.decode_up_to(most));
        let (client, mut response) = (builder.build(), Response::new());
        let request = Request::get(&server.url).unwrap();
        client.send(&request, &mut response).await.unwrap();
        let whole = response.trailers.clone();
        let mut reader = client.open_response(&request, &mut response).await.unwrap();
        while reader.chunk().await.unwrap().is_some() {}
        for trailers in [&whole, reader.trailers()] {
            let has = ["content-digest", "x-own"].map(|name| trailers.contains(name));
            assert_eq!(has, [decode_max.is_none(), true], "{decode_max:?}");
        }
    }
}

#[tokio::test]
async fn accept_encoding_names_what_can_be_decoded() {
    let server = Scripted::new(|mut peer, _| async move {
        while let Some(head) = peer.request().await? {
            let line = head.split("\r\n").find_map(|line| line.strip_prefix("accept-encoding: "));
            let line = line.unwrap_or("none");
            peer.send(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{line}", line.len())).await?;
        }
        Ok(())
    })
    .await;
    let one =
        Client::builder().default_header("accept-encoding", "gzip").unwrap().decode_up_to(1 << 20).build();
    assert_eq!(one.get(&server.url).await.unwrap().body.text(), Ok("gzip"));
    let client = Client::builder().decode_up_to(1 << 20).build();
    let response = client.get(&server.url).await.unwrap();
    let asked: Vec<_> =
        response.body.text().unwrap().split(", ").map(|name| Coding::parse(name.as_bytes())).collect();
    for coding in [Coding::Br, Coding::Zstd, Coding::Gzip, Coding::Deflate] {
        assert_eq!(asked.contains(&Some(coding)), coding.is_available(), "{coding:?}");
    }
    assert!(!asked.contains(&None));
    let mut request = Request::get(&server.url).unwrap();
    request.headers.set("accept-encoding", "br;q=0.5").unwrap();
    let mut response = Response::new();
    client.send(&request, &mut response).await.unwrap();
    assert_eq!(response.body.text(), Ok("br;q=0.5"), "a field that was set by hand is kept");
}

/// A server that codes on the fly would otherwise send all of the content, or a part of the coded content.
#[tokio::test(start_paused = true)]
async fn a_range_is_asked_for_without_codings_fetch_4_5() {
    let line = |head: &str| {
        head.split("\r\n").find_map(|line| line.strip_prefix("accept-encoding: ")).map(str::to_owned)
    };
    let codings = {
        let stage = Stage::always("HTTP/1.1 204 x\r\n\r\n");
        stage.builder().decode_up_to(1 << 20).build().get("http://a/").await.unwrap();
        line(&stage.received()[0]).unwrap()
    };
    for (method, fields, expected) in [
        ("GET", &[("range", "bytes=5-")][..], Some("identity")),
        ("GET", &[("Range", "bytes=5-"), ("if-range", "\"a\"")], Some("identity")),
        ("HEAD", &[("range", "bytes=5-")], Some("identity")),
        ("GET", &[("range", "bytes=5-"), ("accept-encoding", "br")], Some("br")),
        ("GET", &[("if-range", "\"a\"")], Some(&*codings)),
        ("GET", &[("x-range", "bytes=5-")], Some(&*codings)),
    ] {
        let mut request = Request::new(method, "http://a/").unwrap();
        fields.iter().for_each(|(name, value)| request.headers.set(name, *value).unwrap());
        let stage = Stage::always("HTTP/1.1 204 x\r\n\r\n");
        let client = stage.builder().decode_up_to(1 << 20).build();
        let mut response = Response::new();
        client.send(&request, &mut response).await.unwrap();
        drop(client.open_response(&request, &mut response).await.unwrap());
        client.pipeline("http://a/").unwrap().build().send(&request, &mut response).await.unwrap();
        // As a gateway would.
        drop(client.open_call(&request).await.unwrap().finish(&mut response).await.unwrap());
        for received in stage.received() {
            assert_eq!(line(&received).as_deref(), expected, "{method} {fields:?}: {received}");
        }
        // A client that does not decode, or whose codings were named, asks as it was told.
        let plain = Stage::always("HTTP/1.1 204 x\r\n\r\n");
        plain.client().send(&request, &mut response).await.unwrap();
        let named =
            plain.builder().default_header("accept-encoding", "gzip").unwrap().decode_up_to(99).build();
        named.send(&request, &mut response).await.unwrap();
        let own = request.headers.get("accept-encoding");
        let asked = plain.received();
        assert_eq!((line(&asked[0]).as_deref(), line(&asked[1]).as_deref()), (own, own.or(Some("gzip"))));
    }
}

#[tokio::test]
async fn only_a_client_that_decodes_sends_accept_encoding() {
    let server = Scripted::new(|mut peer, _| async move {
        while let Some(head) = peer.request().await? {
            let accepts = head.contains("accept-encoding: ");
            peer.send(format!("HTTP/1.1 200 OK\r\ncontent-length: 5\r\nx-e: {accepts}\r\n\r\n{accepts:5}"))
                .await?;
        }
        Ok(())
    })
    .await;
    for (client, expected) in
        [(Client::new(), "false"), (Client::builder().decode_up_to(99).build(), "true ")]
    {
        assert_eq!(client.get(&server.url).await.unwrap().body.text(), Ok(expected));
        let head = client.head(&server.url).await.unwrap();
        assert_eq!(head.headers.content_length(), Some(5));
    }
}

/// Opens connections on which a response comes in packets, and each of them is waited for.
struct Drips(Vec<Vec<u8>>);

impl Dialer for Drips {
    type Stream = Dripping;

    async fn dial(&self, _: &str, _: u16) -> io::Result<Dripping> {
        Ok(Dripping { packets: self.0.clone().into(), is_asked: false, is_due: false })
    }
}

struct Dripping {
    packets: VecDeque<Vec<u8>>,
    is_asked: bool,
    is_due: bool,
}

impl AsyncRead for Dripping {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.is_due = !self.is_due;
        let is_here = !self.is_due && self.is_asked;
        match self.packets.front_mut().filter(|_| is_here) {
            Some(packet) => {
                let count = packet.len().min(into.remaining());
                into.put_slice(&packet.drain(..count).collect::<Vec<_>>());
                if packet.is_empty() {
                    self.packets.pop_front();
                }
                Poll::Ready(Ok(()))
            }
            None => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }
}

impl AsyncWrite for Dripping {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut task::Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.is_asked |= bytes.ends_with(b"\r\n\r\n");
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Coded content may come in two packets: the second must not be read from where the first ended.
#[tokio::test]
async fn content_is_decoded_wherever_packets_end() {
    let wire = encoded_response("gzip", &gzip(TEXT));
    let head = wire.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
    for cut in head..wire.len() {
        let packets = vec![wire[..cut].to_vec(), wire[cut..].to_vec()];
        let client = Client::builder().dialer(Drips(packets)).decode_up_to(1 << 20).build();
        let (request, mut response) = (get(), Response::new());
        let mut reader = client.open_response(&request, &mut response).await.unwrap();
        let (mut all, mut some) = (Vec::new(), [0; 30]);
        loop {
            assert_eq!(reader.read(&mut []).await.unwrap(), 0, "it takes nothing");
            match reader.read(&mut some).await.unwrap() {
                0 => break,
                count => all.extend_from_slice(&some[..count]),
            }
        }
        assert_eq!(all, TEXT, "cut at {cut}");
        let client =
            Client::builder().dialer(Drips(wire.chunks(cut).map(<[u8]>::to_vec).collect())).decode_up_to(99);
        client.build().send(&request, &mut response).await.unwrap();
        assert_eq!(response.body.bytes(), TEXT, "cut every {cut}");
    }
}

/// How often `future` gave way before it was over.
async fn pauses<F: Future>(future: F) -> (F::Output, usize) {
    pauses_while(future, || true).await
}

/// As [`pauses`], but counts only while `is_so`.
async fn pauses_while<F: Future>(future: F, is_so: impl Fn() -> bool) -> (F::Output, usize) {
    let (mut future, mut pauses) = (pin!(future), 0);
    let output = poll_fn(|cx| {
        let polled = future.as_mut().poll(cx);
        pauses += usize::from(polled.is_pending() && is_so());
        polled
    });
    (output.await, pauses)
}

/// There is nothing to decode, though a coding is named (RFC 9112 §6.3).
#[tokio::test]
async fn a_response_without_a_body_is_not_decoded_rfc9110_9_3_2() {
    for (method, status) in
        [("HEAD", 200), ("HEAD", 404), ("GET", 204), ("GET", 304), ("GET", 205), ("GET", 200)]
    {
        let length = if (method, status) == ("HEAD", 200) { 5 } else { 0 };
        let wire =
            format!("HTTP/1.1 {status} x\r\ncontent-encoding: gzip\r\ncontent-length: {length}\r\n\r\n");
        let server = Scripted::always(wire).await;
        let client = Client::builder().decode_up_to(99).build();
        let (request, mut response) = (Request::new(method, &server.url).unwrap(), Response::new());
        client.send(&request, &mut response).await.unwrap();
        assert_eq!((response.status.as_u16(), response.body.bytes()), (status, &b""[..]), "{method}");
        assert_eq!(
            (response.headers.contains("content-encoding"), client.idle_connections()),
            (true, 1),
            "{method} {status}"
        );
    }
}

/// A little input may decode to a lot: 1 KiB may become a MiB, and other tasks must have a turn meanwhile.
#[tokio::test]
async fn decoding_a_lot_gives_way_to_other_tasks() {
    const TURN: usize = 256 << 10;
    let content = vec![0; 1 << 20];
    let server = Scripted::always(encoded_response("gzip", &gzip(&content))).await;
    let (client, mut response) = (Client::builder().decode_up_to(content.len()).build(), Response::new());
    let request = Request::get(&server.url).unwrap();
    let (whole, in_whole) = pauses(client.send(&request, &mut response)).await;
    whole.unwrap();
    let streamed = async {
        let (mut reader, mut len) = (client.open_response(&request, &mut response).await.unwrap(), 0);
        while let Some(piece) = reader.chunk().await.unwrap() {
            len += piece.len();
        }
        len
    };
    let (len, in_streamed) = pauses(streamed).await;
    assert_eq!((len, client.idle_connections()), (content.len(), 1));
    assert!(in_whole.min(in_streamed) >= len / TURN - 1, "{in_whole} and {in_streamed}");
}

/// Content that arrives during the upload is decoded within the limit, and not all at once.
#[tokio::test(start_paused = true)]
async fn decoding_a_lot_to_nothing_gives_way_to_other_tasks() {
    const TURN: usize = 256 << 10;
    let content = gzip(b"").repeat((2 << 20) / gzip(b"").len());
    let wire = encoded_response("gzip", &content);
    for is_streamed in [false, true] {
        let (source, end) = tokio::io::duplex(1);
        let (wire, is_here, end) =
            (wire.clone(), Arc::<AtomicBool>::default(), Arc::new(Mutex::new(Some(end))));
        let said = is_here.clone();
        let stage = Stage::new(move |mut peer, _| {
            let (wire, said, end) = (wire.clone(), said.clone(), end.clone());
            async move {
                peer.head().await?;
                peer.send(wire).await?;
                settle().await;
                said.store(true, Ordering::Relaxed);
                drop(end.lock().unwrap().take());
                peer.receive_all().await
            }
        });
        let (client, mut response) = (stage.builder().decode_up_to(2 << 20).build(), Response::new());
        let mut request = post();
        request.body.set_stream(source, None);
        let asked = async {
            match is_streamed {
                false => client.send(&request, &mut response).await.unwrap(),
                true => {
                    let mut reader = client.open_response(&request, &mut response).await.unwrap();
                    assert!(reader.chunk().await.unwrap().is_none());
                }
            }
        };
        let ((), pauses) = pauses_while(asked, || is_here.load(Ordering::Relaxed)).await;
        assert!(pauses >= content.len() / TURN, "{pauses} pauses, {is_streamed}");
    }
}

/// The response that a peer gets through a gateway whose client decodes, as its lines in order.
async fn through_a_gateway(asked: &str, response: Vec<u8>) -> Vec<String> {
    let stage = Stage::new(move |peer, _| peer.answer(response.clone()));
    let client = stage.builder().decode_up_to(1 << 20).build();
    let service = Server::new().service(async move |ctx: &mut Context| {
        let onward = ctx.request.forwarded_to("http://b")?;
        ctx.forward(client.open_call(&onward)).await
    });
    let (mut near, far) = duplex(64 << 10);
    let peer = async {
        near.write_all(format!("{asked}host: a\r\nconnection: close\r\n\r\n").as_bytes()).await.unwrap();
        let mut received = Vec::new();
        near.read_to_end(&mut received).await.unwrap();
        received
    };
    let received = tokio::join!(peer, service.serve_connection(far)).0;
    let head = String::from_utf8_lossy(&received).split("\r\n\r\n").next().unwrap().to_owned();
    let told = ["content-", "etag", "accept-ranges"];
    let is_told = |line: &&str| told.iter().any(|name| line.starts_with(name));
    head.lines().filter(is_told).map(str::to_owned).collect()
}

/// A tag and ranges of the coded octets would be those of others for a peer that has the decoded ones.
#[tokio::test(start_paused = true)]
async fn a_gateway_that_decodes_tells_of_the_decoded_content_rfc9110_8_8_3_3() {
    const GET: &str = "GET / HTTP/1.1\r\n";
    const HEAD: &str = "HEAD / HTTP/1.1\r\n";
    const TOLD: [&str; 3] = ["etag: \"a\"", "accept-ranges: bytes", "content-length: 9"];
    const OTHER: [&str; 4] = ["content-encoding: x-own", TOLD[0], TOLD[1], TOLD[2]];
    const CODED: [&str; 4] = ["content-encoding: deflate", TOLD[0], TOLD[1], TOLD[2]];
    let coded = zlib(b"1");
    assert_eq!(coded.len(), 9);
    let response = |status: &str, lines: &[&str], content: &[u8]| {
        let head = format!("HTTP/1.1 {status}\r\n{}\r\n\r\n", lines.join("\r\n"));
        [head.as_bytes(), content].concat()
    };
    let rows = [
        (GET, response("200 OK", &TOLD, b"012345678"), TOLD.to_vec()),
        (GET, response("200 OK", &OTHER, b"012345678"), OTHER.to_vec()),
        (GET, response("200 OK", &CODED, &coded), vec!["etag: W/\"a\""]),
        (HEAD, response("200 OK", &CODED, b""), vec!["etag: W/\"a\""]),
        (HEAD, response("200 OK", &TOLD, b""), TOLD.to_vec()),
        (HEAD, response("200 OK", &OTHER, b""), OTHER.to_vec()),
        (GET, response("304 x", &TOLD[..2], b""), vec!["etag: W/\"a\"", TOLD[1]]),
        (GET, response("206 x", &CODED, b"012345678"), CODED.to_vec()),
    ];
    for (asked, response, expected) in rows {
        let shown = String::from_utf8_lossy(&response).into_owned();
        assert_eq!(through_a_gateway(asked, response).await, expected, "{asked}{shown}");
    }
}

/// Decodes the content, unless layers around have done so, and forwards it.
async fn pass_decoded(client: &Client, ctx: &mut Context) -> corehttp::Result {
    ctx.decode_body().await?;
    let onward = ctx.request.forwarded_to("http://b")?;
    ctx.forward(client.open_call(&onward)).await
}

/// Sends `asked` to the gateway `passing` in front of `stage`, and returns what the server behind got.
async fn forwarded(stage: &Stage, passing: impl Handler + 'static, asked: &[u8]) -> String {
    let service = Server::new().half_close(true).service(passing);
    let (mut near, far) = duplex(64 << 10);
    let peer = async {
        near.write_all(asked).await.unwrap();
        near.read_to_end(&mut Vec::new()).await.unwrap();
    };
    let _ = tokio::join!(peer, service.serve_connection(far));
    stage.received().concat()
}

/// Without a length, the content of a DELETE would not be forwarded.
#[tokio::test(start_paused = true)]
async fn decoded_content_is_forwarded_as_it_is_framed_rfc9110_8_6() {
    for method in ["GET", "DELETE", "OPTIONS", "POST"] {
        for plan in [BodyPlan::Buffer, BodyPlan::Stream] {
            for (framing, onward) in [
                ("content-length: 25", "content-length: 5\r\n\r\nhello"),
                ("transfer-encoding: chunked", "transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
            ] {
                let mut content = gzip(b"hello");
                assert_eq!(content.len(), 25);
                if framing.starts_with('t') {
                    content = [b"19\r\n", &content[..], b"\r\n0\r\n\r\n"].concat();
                }
                let head = format!("{method} / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n");
                let head = format!("{head}content-encoding: gzip\r\n{framing}\r\n\r\n");
                let asked = [head.as_bytes(), &content].concat();
                let onward = format!("{method} / HTTP/1.1\r\nhost: b\r\n{onward}");
                let stage = Stage::always(OK);
                let client = stage.client();
                let passing = async move |ctx: &mut Context| pass_decoded(&client, ctx).await;
                assert_eq!(forwarded(&stage, wrap(plan, passing.clone()), &asked).await, onward);
                #[cfg(feature = "tower")]
                {
                    let layer = corehttp::tower::layer(RequestDecompressionLayer::new());
                    assert_eq!(forwarded(&stage, wrap((layer, plan), passing), &asked).await, onward);
                }
            }
        }
    }
}

/// A range of coded content would be of no use, also if all requests ask for one.
#[tokio::test(start_paused = true)]
async fn a_default_range_asks_for_no_coding_fetch_4_5() {
    let stage = Stage::always("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    let client = stage.builder().decode_up_to(1 << 20).default_header("range", "bytes=0-1").unwrap().build();
    client.get("http://a/").await.unwrap();
    let received = stage.received().concat();
    assert!(received.contains("range: bytes=0-1") && !received.contains("gzip"), "{received}");
}

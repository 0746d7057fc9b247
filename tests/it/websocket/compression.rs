//! permessage-deflate (RFC 7692), in the order of the cases of Autobahn: negotiation, messages, and bombs.

use std::io::Read;

use corehttp::Context;
use corehttp::websocket::{self, DeflateOptions};
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};

use super::support::{
    BINARY, Echo, FIRST_TEXT, HEAD, LAST, MORE, PING, RSV1, TEXT, check_with, close, echo, frame, service,
    shown, talk,
};
use crate::support::{Served, alone, paused, resident};

pub const OFFER: &str = "Sec-WebSocket-Extensions: permessage-deflate\r\n";

fn settings(context_takeover: bool) -> websocket::Options {
    let deflate = DeflateOptions { message_min: 10, context_takeover, ..DeflateOptions::default() };
    websocket::Options { deflate: Some(deflate), message_max: 100_000, ..websocket::Options::default() }
}

/// `content`, compressed as a message.
pub fn compressed(deflate: &mut Compress, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(content.len() + 100);
    deflate.compress_vec(content, &mut out, FlushCompress::Sync).unwrap();
    assert!(out.ends_with(&[0, 0, 0xff, 0xff]));
    out.truncate(out.len() - 4);
    out
}

pub fn deflate() -> Compress {
    Compress::new(Compression::best(), false)
}

/// The content of a message that the server has compressed.
pub fn inflated(inflate: &mut Decompress, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(1 << 20);
    inflate
        .decompress_vec(&[payload, &[0, 0, 0xff, 0xff]].concat(), &mut out, FlushDecompress::Sync)
        .unwrap();
    out
}

/// The extension that is agreed on for these `offers`.
#[track_caller]
fn check_offer(context_takeover: bool, offers: &str, expected: Option<&str>) {
    let lines =
        if offers.is_empty() { String::new() } else { format!("Sec-WebSocket-Extensions: {offers}\r\n") };
    let service = service(Echo::Whole, &settings(context_takeover));
    let (head, _) = paused(async { talk(&service, &lines, &[&close(1000, "")]).await });
    let agreed = head.lines().find_map(|line| line.strip_prefix("sec-websocket-extensions: "));
    assert_eq!(agreed, expected, "{offers}");
}

const ALONE: &str = "permessage-deflate; server_no_context_takeover; client_no_context_takeover";

#[test]
fn the_first_offer_that_can_be_met_is_accepted_rfc7692_7_1() {
    check_offer(false, "", None);
    check_offer(false, "permessage-deflate", Some(ALONE));
    check_offer(true, "permessage-deflate", Some("permessage-deflate"));
    check_offer(
        true,
        "permessage-deflate; server_no_context_takeover",
        Some("permessage-deflate; server_no_context_takeover"),
    );
    check_offer(
        true,
        "permessage-deflate; client_no_context_takeover; client_max_window_bits",
        Some("permessage-deflate; client_no_context_takeover"),
    );
    check_offer(
        true,
        "permessage-deflate; server_max_window_bits=9",
        Some("permessage-deflate; server_max_window_bits=9"),
    );
    check_offer(true, "permessage-deflate; client_max_window_bits=\"12\"", Some("permessage-deflate"));
    check_offer(true, "x-webkit-deflate-frame, permessage-deflate", Some("permessage-deflate"));
    check_offer(
        true,
        "permessage-deflate; server_max_window_bits=8, permessage-deflate; server_max_window_bits=10",
        Some("permessage-deflate; server_max_window_bits=10"),
    );
    for bad in [
        "permessage-deflate; unknown",
        "permessage-deflate; server_max_window_bits",
        "permessage-deflate; server_max_window_bits=8",
        "permessage-deflate; server_max_window_bits=16",
        "permessage-deflate; server_max_window_bits=010",
        "permessage-deflate; server_max_window_bits=+9",
        "permessage-deflate; server_no_context_takeover=1",
        "permessage-deflate; client_max_window_bits=7",
        "permessage-deflate; client_no_context_takeover; client_no_context_takeover",
        "permessage-deflate2",
        "",
    ] {
        check_offer(true, bad, None);
    }
}

#[test]
fn compressed_messages_are_read_autobahn_12() {
    let bye = close(1000, "");
    for context_takeover in [false, true] {
        let small = [
            frame(TEXT | RSV1, compressed(&mut deflate(), b"Hello")),
            frame(TEXT, "plain"),
            frame(BINARY | RSV1, compressed(&mut deflate(), b"")),
            // An empty message has no block at all.
            frame(BINARY | RSV1, [0]),
            bye.clone(),
        ];
        check_with(
            &settings(context_takeover),
            OFFER,
            &small.concat(),
            &["text \"Hello\"", "text \"plain\"", "binary \"\"", "binary \"\"", "close 1000 \"\""],
        );
        let whole = compressed(&mut deflate(), b"Hello, Hello");
        let cut = [
            frame(FIRST_TEXT | RSV1, &whole[..2]),
            frame(PING, "p"),
            frame(MORE, ""),
            frame(LAST, &whole[2..]),
            bye.clone(),
        ];
        let service = service(Echo::Whole, &settings(context_takeover));
        let (_, received) = paused(async { talk(&service, OFFER, &[&cut.concat()]).await });
        assert_eq!(received[..3], [0x8a, 1, b'p']);
    }
}

/// The examples of RFC 7692 §7.2.3.
#[test]
fn the_examples_are_read_rfc7692_7_2_3() {
    let examples: [&[u8]; 5] = [
        &[0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00],
        &[0x00, 0x05, 0x00, 0xfa, 0xff, 0x48, 0x65, 0x6c, 0x6c, 0x6f, 0x00],
        &[0xf3, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00, 0x00],
        &[0xf2, 0x48, 0x05, 0x00, 0x00, 0x00, 0xff, 0xff, 0xca, 0xc9, 0xc9, 0x07, 0x00],
        &[0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00],
    ];
    let sent: Vec<u8> = examples.iter().flat_map(|example| frame(TEXT | RSV1, example)).collect();
    let expected = [&["text \"Hello\""; 5][..], &["close 1000 \"\""]].concat();
    check_with(&settings(false), OFFER, &[&sent[..], &close(1000, "")].concat(), &expected);
    // The second refers to the first.
    let context =
        [frame(TEXT | RSV1, examples[0]), frame(TEXT | RSV1, [0xf2, 0x00, 0x11, 0x00, 0x00])].concat();
    check_with(
        &settings(true),
        OFFER,
        &[&context[..], &close(1000, "")].concat(),
        &["text \"Hello\"", "text \"Hello\"", "close 1000 \"\""],
    );
}

#[test]
fn long_messages_are_compressed_autobahn_13() {
    for (context_takeover, lines) in [
        (false, OFFER.to_owned()),
        (true, OFFER.to_owned()),
        (true, OFFER.replace("deflate\r", "deflate; server_max_window_bits=9\r")),
        (
            true,
            OFFER.replace("deflate\r", "deflate; server_no_context_takeover; client_no_context_takeover\r"),
        ),
    ] {
        let (mut own, text) = (deflate(), "All work and no play. ".repeat(900));
        let (mut sent, mut inflate) = (Vec::new(), Decompress::new(false));
        let peer_context_takeover = context_takeover && !lines.contains("client_no");
        for _ in 0..3 {
            sent.extend(frame(TEXT | RSV1, compressed(&mut own, text.as_bytes())));
            if !peer_context_takeover {
                own.reset();
            }
        }
        sent.extend(close(1000, ""));
        let service = service(Echo::Whole, &settings(context_takeover));
        let (_, received) = paused(async { talk(&service, &lines, &[&sent]).await });
        let (mut rest, mut sizes) = (&received[..], Vec::new());
        while let [0xc1, len, more @ ..] = rest {
            let (len, more) = match len {
                126 => (usize::from(u16::from_be_bytes([more[0], more[1]])), &more[2..]),
                len => (usize::from(*len), more),
            };
            let (payload, behind) = more.split_at(len);
            assert_eq!(inflated(&mut inflate, payload), text.as_bytes());
            if !context_takeover || lines.contains("server_no") {
                inflate.reset(false);
            }
            sizes.push(len);
            rest = behind;
        }
        assert_eq!((sizes.len(), shown(rest)), (3, vec!["close 1000 \"\"".into()]));
        let refers = context_takeover && !lines.contains("server_no");
        assert!(refers || sizes[1] == sizes[0], "{sizes:?}");
    }
}

#[test]
fn corrupt_messages_are_refused_rfc7692_7_2_2() {
    for (payload, expected) in [
        (&b"\xff\xff\xff"[..], "close 1007 \"\""),
        (b"\x07", "close 1007 \"\""),
        (b"\x00\x05\x00\x00\x00hello", "close 1007 \"\""),
    ] {
        check_with(
            &settings(false),
            OFFER,
            &[frame(TEXT | RSV1, payload), close(1000, "")].concat(),
            &[expected],
        );
    }
    let text = compressed(&mut deflate(), b"valid \xff not");
    check_with(
        &settings(false),
        OFFER,
        &[frame(TEXT | RSV1, &text), close(1000, "")].concat(),
        &["close 1007 \"\""],
    );
    let sent = [frame(FIRST_TEXT | RSV1, &text[..3]), frame(LAST | RSV1, &text[3..])].concat();
    check_with(&settings(false), OFFER, &sent, &["close 1002 \"\""]);
    check_with(&settings(false), "", &frame(TEXT | RSV1, &text), &["close 1002 \"\""]);
    check_with(&settings(false), OFFER, &frame(PING | RSV1, ""), &["close 1002 \"\""]);
}

/// The end that a message leaves out must not fill up what is missing of it.
#[test]
fn messages_that_are_cut_short_are_refused() {
    let whole =
        compressed(&mut deflate(), "All work and no play makes a dull message. ".repeat(3).as_bytes());
    let service = service(Echo::Whole, &settings(false));
    for cut in (0..whole.len()).map(|end| &whole[..end]) {
        let sent = [frame(BINARY | RSV1, cut), close(1000, "")].concat();
        let (_, received) = paused(async { talk(&service, OFFER, &[&sent]).await });
        assert_eq!(shown(&received), ["close 1007 \"\""], "{cut:02x?}");
    }
}

/// A bomb is refused once it has become more than a message may be, and not kept.
#[test]
fn bombs_are_refused() {
    let bomb = compressed(&mut deflate(), &vec![0; 50_000_000]);
    assert!(bomb.len() < 60_000);
    check_with(&settings(false), OFFER, &frame(BINARY | RSV1, &bomb), &["close 1009 \"\""]);
    // With the second bound, a message that is refused has as many bytes as a part has at most.
    for message_max in [100_000, 65_535] {
        let settings = websocket::Options { message_max, ..settings(false) };
        let full = frame(BINARY | RSV1, compressed(&mut deflate(), &vec![7; message_max]));
        let one_more = frame(BINARY | RSV1, compressed(&mut deflate(), &vec![7; message_max + 1]));
        let service = service(Echo::Whole, &settings);
        for (sent, expected) in [(full, "c2"), (one_more, "close 1009")] {
            let (_, received) = paused(async { talk(&service, OFFER, &[&sent, &close(1000, "")]).await });
            assert!(shown(&received)[0].starts_with(expected), "{:?}", shown(&received));
        }
    }
}

/// A peer that has been told to close may stay for some time.
#[cfg(target_os = "linux")]
#[test]
fn a_bomb_that_was_refused_holds_no_memory() {
    alone("websocket::compression::a_bomb_that_was_refused_holds_no_memory", || {
        let deflated = Some(DeflateOptions::default());
        let settings = websocket::Options { deflate: deflated, ..websocket::Options::default() };
        let served = Served::new(async move |ctx: &mut Context| echo(ctx, &settings).await);
        let bomb = frame(BINARY | RSV1, compressed(&mut deflate(), &vec![0; (1 << 20) + 1]));
        let before = resident();
        let _peers: Vec<_> = (0..50)
            .map(|_| {
                let mut peer = served.connect();
                peer.send(format!("{HEAD}{OFFER}\r\n"));
                peer.receive_through("\r\n\r\n");
                peer.send(&bomb);
                let mut refusal = [0; 4];
                peer.stream.read_exact(&mut refusal).unwrap();
                assert_eq!(shown(&refusal), ["close 1009 \"\""]);
                peer
            })
            .collect();
        let after = resident();
        assert!(after < before + (16 << 20), "{before} bytes became {after}");
    });
}

/// In parts, a message may become any size.
#[test]
fn parts_are_decompressed_in_constant_memory() {
    let content: Vec<u8> = (0..3_000_000u32).map(|at| (at / 1000) as u8).collect();
    let bomb = frame(BINARY | RSV1, compressed(&mut deflate(), &content));
    let service = service(Echo::Parts, &settings(false));
    let (_, received) = paused(async { talk(&service, OFFER, &[&bomb, &close(1000, "")]).await });
    let (mut rest, mut joined) = (&received[..], Vec::<u8>::new());
    while let [0x00 | 0x02 | 0x80, len, more @ ..] = rest {
        let (len, more) = match len {
            126 => (usize::from(u16::from_be_bytes([more[0], more[1]])), &more[2..]),
            127 => (u64::from_be_bytes(*more.first_chunk().unwrap()) as usize, &more[8..]),
            len => (usize::from(*len), more),
        };
        joined.extend(&more[..len]);
        rest = &more[len..];
    }
    assert!(joined == content, "{} bytes", joined.len());
    let text = frame(TEXT | RSV1, compressed(&mut deflate(), b"\xce"));
    let (_, received) = paused(async { talk(&service, OFFER, &[&text]).await });
    assert_eq!(shown(&received), ["close 1007 \"\""]);
}

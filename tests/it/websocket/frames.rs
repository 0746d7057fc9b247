//! Frames, fragments, text and control frames (RFC 6455 §5, §8.1), in the order of the cases of Autobahn.

use corehttp::websocket;

use super::support::{
    BINARY, CLOSE, Echo, FIRST_BINARY, FIRST_TEXT, LAST, MORE, PING, PONG, TEXT, check, check_echo, close,
    frame, unmasked,
};

/// The answers of the echo at the end.
const BYE: &str = "close 1000 \"\"";
const BROKEN: &str = "close 1002 \"\"";
const NOT_UTF8: &str = "close 1007 \"\"";

fn bye() -> Vec<u8> {
    close(1000, "")
}

/// The echo answers `frames`, and then a close frame.
#[track_caller]
fn check_then_bye(frames: &[Vec<u8>], expected: &[&str]) {
    check(&[&frames.concat()[..], &bye()].concat(), &[expected, &[BYE]].concat());
}

/// The echo answers the frames before the last one, and refuses that. Frames behind it are not answered.
#[track_caller]
fn check_broken(frames: &[Vec<u8>], expected: &[&str]) {
    check(&[&frames.concat()[..], &frame(TEXT, "behind"), &bye()].concat(), &[expected, &[BROKEN]].concat());
}

#[test]
fn messages_of_all_lengths_autobahn_1() {
    for len in [0, 1, 125, 126, 127, 128, 199] {
        let text = "*".repeat(len);
        check_then_bye(&[frame(TEXT, &text)], &[&format!("text {text:?}")]);
        check_then_bye(&[frame(BINARY, &text)], &[&format!("binary {text:?}")]);
    }
    for len in [65_535, 65_536, 100_000] {
        check_then_bye(&[frame(TEXT, vec![b'*'; len])], &[&format!("text of {len}")]);
        check_then_bye(&[frame(BINARY, vec![0xfe; len])], &[&format!("binary of {len}")]);
    }
}

#[test]
fn pings_are_answered_and_pongs_are_not_autobahn_2() {
    check_then_bye(&[frame(PING, "")], &["pong \"\""]);
    check_then_bye(&[frame(PING, "Hello, world!")], &["pong \"Hello, world!\""]);
    let long = "x".repeat(125);
    check_then_bye(&[frame(PING, &long)], &[&format!("pong {long:?}")]);
    check_broken(&[frame(PING, "x".repeat(126))], &[]);
    check_then_bye(&[frame(PONG, "")], &[]);
    check_then_bye(&[frame(PONG, "unasked"), frame(PING, "a"), frame(PONG, "b")], &["pong \"a\""]);
    let (pings, pongs): (Vec<_>, Vec<_>) =
        (0..10).map(|at| (frame(PING, format!("{at}")), format!("pong \"{at}\""))).unzip();
    check_then_bye(&pings, &pongs.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn reserved_bits_end_it_autobahn_3() {
    for bits in [0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70] {
        check_broken(&[frame(TEXT, "a"), frame(TEXT | bits, "b")], &["text \"a\""]);
        check_broken(&[frame(PING | bits, "b")], &[]);
        check_broken(&[frame(FIRST_TEXT, "a"), frame(LAST | bits, "b")], &[]);
    }
}

#[test]
fn reserved_opcodes_end_it_autobahn_4() {
    for opcode in [3, 4, 5, 6, 7, 0xb, 0xc, 0xd, 0xe, 0xf] {
        check_broken(&[frame(TEXT, "a"), frame(0x80 | opcode, "")], &["text \"a\""]);
        check_broken(&[frame(0x80 | opcode, "b")], &[]);
        check_broken(&[frame(opcode, "b")], &[]);
    }
}

#[test]
fn control_frames_are_whole_autobahn_5_1_5_2() {
    check_broken(&[frame(PING & 0x7f, "a"), frame(LAST, "b")], &[]);
    check_broken(&[frame(PONG & 0x7f, "a"), frame(LAST, "b")], &[]);
    check_broken(&[frame(0x08, "\x03\u{e8}")], &[]);
}

#[test]
fn fragments_are_one_message_autobahn_5_3_to_5_8() {
    check_then_bye(&[frame(FIRST_TEXT, "a"), frame(LAST, "b")], &["text \"ab\""]);
    check_then_bye(
        &[frame(FIRST_TEXT, "a"), frame(PING, "p"), frame(LAST, "b")],
        &["pong \"p\"", "text \"ab\""],
    );
    let many = [
        frame(FIRST_BINARY, "1"),
        frame(PING, "p"),
        frame(MORE, ""),
        frame(PONG, "q"),
        frame(MORE, "22"),
        frame(PING, ""),
        frame(MORE, "333"),
        frame(LAST, ""),
        frame(FIRST_TEXT, ""),
        frame(LAST, ""),
    ];
    check_then_bye(&many, &["pong \"p\"", "pong \"\"", "binary \"122333\"", "text \"\""]);
}

#[test]
fn a_continuation_goes_on_with_something_autobahn_5_9_to_5_20() {
    check_broken(&[frame(LAST, "a")], &[]);
    check_broken(&[frame(MORE, "a")], &[]);
    check_broken(&[frame(TEXT, "a"), frame(LAST, "b")], &["text \"a\""]);
    check_broken(&[frame(FIRST_TEXT, "a"), frame(LAST, "b"), frame(LAST, "c")], &["text \"ab\""]);
    check_broken(&[frame(FIRST_TEXT, "a"), frame(TEXT, "b")], &[]);
    check_broken(&[frame(FIRST_TEXT, "a"), frame(FIRST_TEXT, "b")], &[]);
    check_broken(&[frame(FIRST_TEXT, "a"), frame(PING, "p"), frame(BINARY, "b")], &["pong \"p\""]);
}

#[test]
fn text_is_utf8_autobahn_6() {
    let texts =
        ["Hello-µ@ßöäüàá-UTF-8!!", "κόσμε", "\u{0}\u{80}\u{800}\u{10000}", "\u{7ff}\u{ffff}\u{10ffff}"];
    for text in texts {
        check_then_bye(&[frame(TEXT, text)], &[&format!("text {text:?}")]);
        for cut in 0..=text.len() {
            let (front, back) = text.as_bytes().split_at(cut);
            let frames = [frame(FIRST_TEXT, front), frame(MORE, ""), frame(LAST, back)];
            check_then_bye(&frames, &[&format!("text {text:?}")]);
        }
    }
    let bad: [&[u8]; 12] = [
        b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xed\xa0\x80edited",
        b"\xf4\x90\x80\x80",
        b"\x80",
        b"\xbf\xbf",
        b"\xc0 ",
        b"\xe0\x80\x80",
        b"\xf8\x88\x80\x80\x80",
        b"\xfe",
        b"\xc0\xaf",
        b"\xed\xb0\x80",
        b"\xce",
        b"\xf0\x90\x8d",
    ];
    for text in bad {
        check(&[frame(TEXT, text), bye()].concat(), &[NOT_UTF8]);
        check(&[frame(FIRST_TEXT, text), frame(LAST, ""), bye()].concat(), &[NOT_UTF8]);
        check_then_bye(&[frame(BINARY, text)], &[&format!("binary {:?}", String::from_utf8_lossy(text))]);
    }
}

/// The error is found at the octet that makes it, and not at the end of the message.
#[test]
fn text_fails_early_autobahn_6_4() {
    let text = b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xf4\x90";
    check(&frame(FIRST_TEXT, text), &[NOT_UTF8]);
    let unfinished = &frame(TEXT, [&text[..], &[b'x'; 100]].concat())[..6 + text.len()];
    check(unfinished, &[NOT_UTF8]);
    check(&[frame(FIRST_TEXT, b"\xf4"), frame(MORE, b"\x90")].concat(), &[NOT_UTF8]);
    // Up to there, nothing is wrong.
    check(&unfinished[..unfinished.len() - 1], &[]);
}

#[test]
fn clients_mask_their_frames_rfc6455_5_1() {
    check_broken(&[frame(TEXT, "a"), unmasked(TEXT, "b")], &["text \"a\""]);
    check_broken(&[unmasked(PING, "")], &[]);
    check_broken(&[frame(FIRST_TEXT, "a"), unmasked(LAST, "b")], &[]);
}

#[test]
fn lengths_have_one_spelling_rfc6455_5_2() {
    check_broken(&[vec![TEXT, 0xfe, 0, 125, 0, 0, 0, 0]], &[]);
    check_broken(&[vec![TEXT, 0xff, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0]], &[]);
    check_broken(&[vec![TEXT, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0]], &[]);
}

/// A message of the greatest length, in frames and in pieces of many sizes.
#[test]
fn long_messages_come_in_any_pieces_autobahn_9_10() {
    const LEN: usize = 1 << 20;
    let service = super::support::service(Echo::Whole, &websocket::Options::default());
    let mut expected = unmasked(BINARY, vec![b'*'; LEN]);
    expected.extend(unmasked(CLOSE, 1000u16.to_be_bytes()));
    let fragmented = |len: usize| {
        let mut wire = frame(FIRST_BINARY, vec![b'*'; len]);
        for _ in 1..LEN / len {
            wire.extend(frame(MORE, vec![b'*'; len]));
        }
        wire.extend(frame(LAST, vec![b'*'; LEN % len]));
        wire
    };
    for (wire, piece_lens) in [
        (frame(BINARY, vec![b'*'; LEN]), &[64, 2048, 65_536, 2 << 20][..]),
        (fragmented(257), &[1300, 65_536]),
        (fragmented(1300), &[1024, 2 << 20]),
        (fragmented(65_536), &[4096, 2 << 20]),
    ] {
        let wire = [wire, bye()].concat();
        for len in piece_lens {
            let pieces: Vec<&[u8]> = wire.chunks(*len).collect();
            let (_, received) =
                crate::support::paused(async { super::support::talk(&service, "", &pieces).await });
            assert!(received == expected, "{} bytes for pieces of {len}", received.len());
        }
    }
}

/// A message that is received in parts may be cut anywhere, but is the same.
#[test]
fn parts_are_the_message_rfc6455_5_4() {
    let joined = |sent: &[u8], expected: &[u8]| {
        let service = super::support::service(Echo::Parts, &websocket::Options::default());
        crate::support::paused(async {
            for cut in 0..=sent.len() {
                let pieces = [&sent[..cut], &sent[cut..]];
                let (_, received) = super::support::talk(&service, "", &pieces).await;
                let mut content: Vec<u8> = Vec::new();
                let mut rest = &received[..];
                while let [first, len, more @ ..] = rest {
                    let (payload, behind) = more.split_at(usize::from(*len));
                    if first & 0x08 == 0 {
                        content.extend(payload);
                    }
                    rest = behind;
                }
                assert_eq!(content, expected, "cut at {cut}");
            }
        });
    };
    let frames = [
        frame(FIRST_TEXT, "\u{10348}a".as_bytes().split_at(2).0),
        frame(PING, "p"),
        frame(MORE, "\u{10348}a".as_bytes().split_at(2).1),
        frame(LAST, ""),
        frame(BINARY, "\u{fe}"),
        bye(),
    ];
    joined(&frames.concat(), "\u{10348}a\u{fe}".as_bytes());
    let parts = websocket::Options::default();
    check_echo(Echo::Parts, &parts, "", &[frame(TEXT, b"\xff"), bye()].concat(), &[NOT_UTF8]);
    check_echo(Echo::Parts, &parts, "", &[frame(TEXT, ""), bye()].concat(), &["text \"\"", BYE]);
    check_echo(Echo::Parts, &parts, "", &[frame(LAST, ""), bye()].concat(), &[BROKEN]);
}

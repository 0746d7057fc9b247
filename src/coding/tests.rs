//! Coded content is decoded whole or in pieces, and refused if it is corrupted or too large (RFC 9110 §8.4).

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use super::codec::Flush;
use super::{Coding, CodingError, ContentEncoder, DecoderChain};
use crate::memory::Arena;
use crate::message::Headers;

/// Content with these codings is decoded to `expected`, wherever it is cut.
#[track_caller]
fn check(codings: &str, content: &[u8], expected: Result<&[u8], CodingError>) {
    for cut in 0..=content.len() {
        let (first, second) = content.split_at(cut);
        let decoded = decode(codings, &[first, second], LIMIT);
        assert_eq!(
            decoded.as_deref(),
            expected.as_ref().map(|content| &content[..]),
            "{codings}, cut at {cut}"
        );
    }
}

fn decode(codings: &str, pieces: &[&[u8]], limit: usize) -> Result<Vec<u8>, CodingError> {
    let mut decoders = decoders(codings, limit)?;
    let mut out = Arena::default();
    pieces.iter().try_for_each(|piece| feed(&mut decoders, piece, &mut out))?;
    decoders.end().map(|()| out.as_slice().to_vec())
}

/// Decodes all of `piece`.
fn feed(decoders: &mut DecoderChain, mut piece: &[u8], out: &mut Arena) -> Result<(), CodingError> {
    while decoders.pull(&mut piece, out)? > 0 {}
    Ok(())
}

fn decoders(codings: &str, limit: usize) -> Result<DecoderChain, CodingError> {
    let mut headers = Headers::new();
    headers.set("content-encoding", codings).expect("it can stand in a field");
    DecoderChain::from_headers(&headers, limit).map(|decoders| decoders.expect("it is coded"))
}

fn encode(coding: Coding, content: &[u8]) -> Vec<u8> {
    let mut encoder = ContentEncoder::new(coding, 4).expect("it is available");
    let mut out = Vec::new();
    encoder.encode(content, Flush::End, &mut out).expect("there is memory");
    out
}

fn available() -> impl Iterator<Item = Coding> {
    [Coding::Br, Coding::Zstd, Coding::Gzip, Coding::Deflate]
        .into_iter()
        .filter(|coding| coding.is_available())
}

const LIMIT: usize = 1 << 16;

/// `hello` as Python's gzip module writes it, with a name in its header.
const GZIP: &[u8] =
    b"\x1f\x8b\x08\x08\x00\x00\x00\x00\x02\xffname\0\xcb\x48\xcd\xc9\xc9\x07\0\x86\xa6\x10\x36\x05\0\0\0";
const ZLIB: &[u8] = b"\x78\x9c\xcb\x48\xcd\xc9\xc9\x07\0\x06\x2c\x02\x15";
const RAW: &[u8] = b"\xcb\x48\xcd\xc9\xc9\x07\0";
const BR: &[u8] = b"\x0b\x02\x80hello\x03";

#[test]
fn content_from_other_encoders_is_decoded() {
    check("gzip", GZIP, Ok(b"hello"));
    check("X-GZIP", GZIP, Ok(b"hello"));
    check("identity, gzip", GZIP, Ok(b"hello"));
    check("gzip", &[GZIP, GZIP].concat(), Ok(b"hellohello"));
    check("deflate", ZLIB, Ok(b"hello"));
    check("deflate", RAW, Ok(b"hello"));
    check("br", BR, Ok(b"hello"));
    check("br", b"\x06", Ok(b""));
    check("gzip, deflate, br", b"", Ok(b""));
}

/// A reader that is polled while no input arrives makes steps without progress. The library of zstd refuses too many.
#[test]
fn content_that_is_waited_for_is_no_fault() {
    for coding in available() {
        let encoded = encode(coding, b"hello");
        for cut in 0..encoded.len() {
            let (first, second) = encoded.split_at(cut);
            let pieces = [&[first][..], &[&b""[..]; 100], &[second]].concat();
            assert_eq!(
                decode(coding.as_str(), &pieces, LIMIT).as_deref(),
                Ok(&b"hello"[..]),
                "{coding:?}, {cut}"
            );
        }
    }
}

#[test]
fn every_section_of_a_gzip_header_is_skipped_and_checked_rfc1952() {
    let data = &GZIP[15..];
    let all = b"\x1f\x8b\x08\x1e\0\0\0\0\0\x03\x03\0abcn\0\0\x90\x45";
    let crc = {
        let mut crc = flate2::Crc::new();
        crc.update(&all[..18]);
        crc.sum() as u16
    };
    let header = [&all[..18], &crc.to_le_bytes()].concat();
    check("gzip", &[&header, data].concat(), Ok(b"hello"));
    check("gzip", &[&header[..18], &(crc ^ 1).to_le_bytes(), data].concat(), Err(CodingError::Corrupt));
    check("gzip", &[b"\x1f\x8b\x08\x04\0\0\0\0\0\x03\0\0", data].concat(), Ok(b"hello"));
}

#[test]
fn corrupt_content_is_an_error() {
    let corrupt = Err(CodingError::Corrupt);
    check("gzip", b"\x1f\x8b\x07", corrupt);
    check("gzip", b"\x1f\x8b\x08\x20", corrupt);
    check("gzip", &[GZIP, b"\0"].concat(), corrupt);
    check("gzip", &[GZIP, b"junk"].concat(), corrupt);
    check("deflate", &[ZLIB, b"\0"].concat(), corrupt);
    check("deflate", &[RAW, b"\0"].concat(), corrupt);
    check("br", &[BR, b"\0"].concat(), corrupt);
    // One octet of the checksums or of gzip's length is wrong.
    for at in [GZIP.len() - 8, GZIP.len() - 5, GZIP.len() - 4, GZIP.len() - 1] {
        check("gzip", &corrupted(GZIP, at), corrupt);
    }
    (ZLIB.len() - 4..ZLIB.len()).for_each(|at| check("deflate", &corrupted(ZLIB, at), corrupt));
}

/// An intermediary that decodes content may leave the field, and a sender may use an extension that HTTP does not have.
#[test]
fn content_of_another_kind_is_no_corrupt_content() {
    let not = |coding| Err(CodingError::NotCoded(coding));
    check("gzip", b"hello", not(Coding::Gzip));
    check("gzip", b"\x1f\x8c", not(Coding::Gzip));
    check("gzip", ZLIB, not(Coding::Gzip));
    check("gzip, gzip", GZIP, not(Coding::Gzip));
    check("gzip, br", BR, not(Coding::Gzip));
    check("deflate", b"hello, this is no deflate", not(Coding::Deflate));
    check("deflate", GZIP, not(Coding::Deflate));
    check("br", b"\xff\xff\xff\xff", not(Coding::Br));
    check("br", GZIP, not(Coding::Br));
    check("br", b"\x11\x1e", Err(CodingError::Window(Coding::Br)));
    // With the bit that announces a dictionary, and the id of one.
    check("deflate", b"\x78\xbb\x0a\x02\x01\x75\xcb\x48", Err(CodingError::Dictionary(0x0a02_0175)));
    if Coding::Zstd.is_available() {
        check("zstd", b"hello", not(Coding::Zstd));
        check("zstd", GZIP, not(Coding::Zstd));
        check("zstd", b"\x28\xb5\x2f\xfd\x21\x07\x05\x29\0\0hello", Err(CodingError::Dictionary(7)));
        let frame = encode(Coding::Zstd, b"hello");
        check("zstd", &[&frame, &b"hello"[..]].concat(), Err(CodingError::Corrupt));
    }
}

#[test]
fn a_fault_is_described() {
    for (error, text) in [
        (
            CodingError::NotCoded(Coding::Gzip),
            "the content does not begin as gzip does: it is coded otherwise, or not at all",
        ),
        (
            CodingError::Dictionary(7),
            "the coded content needs the dictionary 7: its sender has to do without",
        ),
        (
            CodingError::Window(Coding::Br),
            "the coded content has a window that br does not have over HTTP: its sender has to turn large windows off \
             (RFC 7932)",
        ),
    ] {
        assert_eq!(error.to_string(), text);
        assert_eq!(error.status(), crate::message::Status::BAD_REQUEST);
    }
}

fn corrupted(content: &[u8], at: usize) -> Vec<u8> {
    let mut corrupted = content.to_vec();
    corrupted[at] ^= 1;
    corrupted
}

#[test]
fn content_cut_anywhere_is_an_error() {
    let text = b"All that glitters is not gold; often have you heard that told.".repeat(8);
    for coding in available() {
        let content = encode(coding, &text);
        for len in 1..content.len() {
            let decoded = decode(coding.as_str(), &[&content[..len]], LIMIT);
            assert_eq!(decoded, Err(CodingError::Incomplete), "{coding:?}, {len} bytes");
        }
        assert_eq!(decode(coding.as_str(), &[&content], LIMIT).as_deref(), Ok(&text[..]));
    }
}

/// A changed octet is an error, unless it only describes when and by which program the content was coded.
#[test]
fn content_changed_anywhere_is_noticed() {
    let text = b"All that glitters is not gold; often have you heard that told.".repeat(8);
    for coding in available() {
        let content = encode(coding, &text);
        for at in 0..content.len() {
            let decoded = decode(coding.as_str(), &[&corrupted(&content, at)], LIMIT);
            // brotli has no checksum.
            let is_noticed = decoded.is_err() || decoded.as_deref() == Ok(&text) || coding == Coding::Br;
            assert!(is_noticed, "{coding:?}, octet {at}");
        }
    }
}

#[test]
fn codings_are_undone_in_turn_and_only_so_many() {
    let text = b"once upon a midnight dreary".repeat(99);
    for first in available() {
        for second in available() {
            if first.has_large_window() && second.has_large_window() {
                continue;
            }
            let twice = encode(second, &encode(first, &text));
            let codings = format!("{} , {}", first.as_str(), second.as_str());
            assert_eq!(decode(&codings, &[&twice], LIMIT).as_deref(), Ok(&text[..]), "{codings}");
        }
    }
    let unknown = ["compress", "gzip, x", "gzip;q=1", "g zip", "\"gzip\"", "zstd2", "aes128gcm"];
    unknown.into_iter().for_each(|codings| check(codings, b"", Err(CodingError::Unknown)));
    check("gzip, gzip, gzip, gzip, gzip", b"", Err(CodingError::TooMany));
    check("gzip, gzip, gzip, gzip", b"", Ok(b""));
    check("identity, gzip, gzip, identity, gzip, gzip, identity", b"", Ok(b""));
}

/// Windows of `br` and `zstd` take megabytes, and are claimed by a few octets each.
#[test]
fn only_one_coding_of_a_chain_has_a_large_window() {
    let claims = [&b"\xcf\xff\xff\xff".repeat(4)[..], b"x"].concat();
    for codings in ["br, br, br, br", "br, br", "br, gzip, br", "br, identity, br", "gzip, br, deflate, br"] {
        check(codings, &claims, Err(CodingError::TooMany));
    }
    let others = available().filter(|coding| coding.has_large_window());
    for coding in others.map(Coding::as_str) {
        check(&format!("{coding}, br"), b"", Err(CodingError::TooMany));
        check(&format!("br, {coding}"), b"", Err(CodingError::TooMany));
        check(&format!("gzip, {coding}, deflate, gzip"), b"", Ok(b""));
    }
}

#[test]
fn a_limit_is_kept_to_the_byte_and_bombs_take_no_memory() {
    let zeros = vec![0; LIMIT + 1];
    for coding in available() {
        assert_eq!(
            decode(coding.as_str(), &[&encode(coding, &zeros[1..])], LIMIT).map(|all| all.len()),
            Ok(LIMIT)
        );
        assert_eq!(
            decode(coding.as_str(), &[&encode(coding, &zeros)], LIMIT),
            Err(CodingError::TooLarge(LIMIT))
        );
        let bomb = encode(coding, &vec![0; 8 * LIMIT]);
        let mut decoders = decoders(coding.as_str(), LIMIT).unwrap();
        let mut out = Arena::default();
        assert_eq!(feed(&mut decoders, &bomb, &mut out), Err(CodingError::TooLarge(LIMIT)));
        assert!(out.len() + out.spare(0).len() <= 4 * LIMIT, "{coding:?}");
    }
    // The layers within count as well.
    let nothing = encode(Coding::Gzip, b"");
    let often = nothing.repeat(2 * LIMIT / nothing.len());
    assert_eq!(decode("gzip", &[&often], LIMIT), Ok(Vec::new()));
    assert_eq!(
        decode("gzip, gzip", &[&encode(Coding::Gzip, &often)], LIMIT),
        Err(CodingError::TooLarge(LIMIT))
    );
}

/// 143 bytes can become 4 MiB of empty members, which take a core a tenth of a second.
#[test]
fn members_that_decode_to_nothing_count_against_the_limit() {
    let nothing = encode(Coding::Gzip, b"");
    let mut named = b"\x1f\x8b\x08\x08\0\0\0\0\0\x03".to_vec();
    named.resize(named.len() + (32 << 10), b'n');
    named.extend_from_slice(b"\0\x03\0\0\0\0\0\0\0\0\0");
    for (member, layers) in [(nothing, 2), (named, 1), (encode(Coding::Gzip, b"x"), 1)] {
        for (len, expected) in [(60 << 10, Ok(())), (300 << 10, Err(CodingError::TooLarge(64 << 20)))] {
            let often = member.repeat(len / member.len());
            let wire = (0..layers).fold(often, |wire, _| encode(Coding::Gzip, &wire));
            let codings = ["gzip"; 3][..=layers].join(", ");
            assert_eq!(decode(&codings, &[&wire], 64 << 20).map(drop), expected, "{len} bytes: {codings}");
        }
    }
}

/// An endless sequence of empty members would never be too large.
#[test]
fn no_more_decodes_to_nothing_than_may_come_out() {
    let often = encode(Coding::Gzip, b"").repeat((1 << 20) / encode(Coding::Gzip, b"").len());
    assert_eq!(decode("gzip", &[&often], 1 << 20), Ok(Vec::new()));
    assert_eq!(decode("gzip", &[&often, &often], 1 << 20), Err(CodingError::TooLarge(1 << 20)));
}

/// Content that is flushed at each line, as events are, is longer coded than plain.
#[test]
fn content_that_was_flushed_often_may_be_coded_twice() {
    for coding in available() {
        let mut encoder = ContentEncoder::new(coding, 4).unwrap();
        let mut made = Vec::new();
        let mut text = Vec::new();
        for line in 0..2_000u32 {
            let line = format!("{:x}\n", line.wrapping_mul(0x9e37_79b9));
            encoder.encode(line.as_bytes(), Flush::Now, &mut made).unwrap();
            text.extend_from_slice(line.as_bytes());
        }
        encoder.encode(b"", Flush::End, &mut made).unwrap();
        let codings = format!("{}, gzip", coding.as_str());
        let decoded = decode(&codings, &[&encode(Coding::Gzip, &made)], 1 << 20);
        assert!(decoded == Ok(text), "{codings}: {} bytes", made.len());
    }
}

/// Content that does not shrink gets larger by its header and by each flush. So content between two codings may be a
/// little larger than the limit of the output.
#[test]
fn content_of_just_the_limit_may_be_coded_twice() {
    let noise = |at| BuildHasherDefault::<DefaultHasher>::default().hash_one(at) as u8;
    for (coding, len) in available().flat_map(|coding| [(coding, 5), (coding, LIMIT)]) {
        let content = Vec::from_iter((0..len).map(noise));
        let mut encoder = ContentEncoder::new(coding, 4).unwrap();
        let mut made = Vec::new();
        for piece in content.chunks(256) {
            encoder.encode(piece, Flush::Now, &mut made).unwrap();
        }
        encoder.encode(b"", Flush::End, &mut made).unwrap();
        let codings = format!("{}, gzip", coding.as_str());
        let twice = encode(Coding::Gzip, &made);
        let decoded = decode(&codings, &[&twice], len);
        assert!(decoded == Ok(content), "{codings}: {len} bytes were {}: {decoded:?}", made.len());
    }
}

#[test]
fn flushed_content_can_be_decoded_at_once() {
    for coding in available() {
        let first = encode(coding, b"first");
        assert_eq!(encode(coding, b"first"), first, "the state was used before");
        let mut decoders = decoders(coding.as_str(), LIMIT).unwrap();
        let mut encoder = ContentEncoder::new(coding, 4).unwrap();
        let mut out = Arena::default();
        let mut made = Vec::new();
        for event in ["one", "", "two", "three"] {
            made.clear();
            out.clear();
            encoder.encode(event.as_bytes(), Flush::Later, &mut made).unwrap();
            encoder.encode(b"", Flush::Now, &mut made).unwrap();
            feed(&mut decoders, &made, &mut out).unwrap();
            assert_eq!(out.as_slice(), event.as_bytes(), "{coding:?}");
            assert_eq!(decoders.end(), Err(CodingError::Incomplete));
        }
        made.clear();
        encoder.encode(b"", Flush::End, &mut made).unwrap();
        feed(&mut decoders, &made, &mut out).unwrap();
        assert_eq!(decoders.end(), Ok(()));
    }
}

/// Encoders are used again on the same thread; a new thread has a new one.
#[test]
fn a_used_encoder_codes_like_a_new_one() {
    let contents = [(20_000, 3), (300, 64), (5000, 200)];
    for (coding, level) in available().flat_map(|coding| [1, 4, 5].map(|level| (coding, level))) {
        let made = move |(len, alphabet): (u32, u32)| {
            let content: Vec<u8> = (0..len).map(|at| (at.wrapping_mul(at) / 128 % alphabet) as u8).collect();
            let mut encoder = ContentEncoder::new(coding, level).unwrap();
            let mut out = Vec::new();
            encoder.encode(&content, Flush::End, &mut out).unwrap();
            out
        };
        for content in contents {
            let by_new = std::thread::spawn(move || made(content)).join().unwrap();
            assert!(made(content) == by_new, "{coding:?}, level {level}, {content:?}");
        }
    }
}

/// A reset of zlib-rs does not close an open block: a peer that left in the middle of a response would corrupt the next
/// response.
#[test]
fn an_encoder_that_was_given_up_codes_like_a_new_one() {
    let content: &[u8] = &b"to be, or not to be, that is the question".repeat(20);
    for (coding, level) in available().flat_map(|coding| (0..=11).map(move |level| (coding, level))) {
        let encode = move |flush| {
            let mut encoder = ContentEncoder::new(coding, level).unwrap();
            let mut out = Vec::new();
            encoder.encode(content, flush, &mut out).unwrap();
            out
        };
        let by_new = std::thread::scope(|scope| scope.spawn(|| encode(Flush::End)).join().unwrap());
        for flush in [Flush::Later, Flush::Now] {
            encode(flush);
            assert_eq!(encode(Flush::End), by_new, "{coding:?}, level {level}, {flush:?}");
        }
    }
}

#[test]
fn content_of_any_size_comes_back_unchanged() {
    let text: Vec<u8> = (0..6000u32).map(|at| (at * at / 128) as u8 % 64).collect();
    for (coding, level) in available().flat_map(|coding| [0, 4, 99].map(|level| (coding, level))) {
        for len in [0, 1, 100, 6000] {
            let mut encoder = ContentEncoder::new(coding, level).unwrap();
            let mut out = Vec::new();
            encoder.encode(&text[..len], Flush::End, &mut out).unwrap();
            assert_eq!(
                decode(coding.as_str(), &[&out], LIMIT).as_deref(),
                Ok(&text[..len]),
                "{coding:?} {level}"
            );
        }
    }
}

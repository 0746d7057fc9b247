//! Bodies of parts (RFC 7578), however they are cut and whatever is wrong with them; parts that are saved, and forms
//! that are written.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{self, Poll};

use corehttp::error::MessageError;
use corehttp::middleware::wrap;
use corehttp::multipart::{Form, Multipart, MultipartError, MultipartLimits, Part};
use corehttp::{Body, BodyPlan, Client, Context, Headers, Request, Response, Server, Status};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf};

use crate::support::{ErrorReports, Served, eventually, paused, status, streaming};

/// Yields bytes in pieces, and is pending before each.
struct Pieces<'a> {
    pieces: VecDeque<&'a [u8]>,
    is_ready: bool,
    /// The end: an error, or none.
    end: End,
}

#[derive(Clone, Copy)]
enum End {
    Close,
    Failure,
    Silence,
}

impl<'a> Pieces<'a> {
    fn new(pieces: impl IntoIterator<Item = &'a [u8]>) -> Pieces<'a> {
        let pieces = pieces.into_iter().filter(|piece| !piece.is_empty());
        Pieces { pieces: pieces.collect(), is_ready: false, end: End::Close }
    }
}

impl AsyncRead for Pieces<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.is_ready = !self.is_ready;
        if self.is_ready {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let end = self.end;
        let Some(piece) = self.pieces.front_mut() else {
            return match end {
                End::Close => Poll::Ready(Ok(())),
                End::Failure => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
                End::Silence => Poll::Pending,
            };
        };
        let count = piece.len().min(out.remaining());
        out.put_slice(&piece[..count]);
        *piece = &piece[count..];
        if piece.is_empty() {
            self.pieces.pop_front();
        }
        Poll::Ready(Ok(()))
    }
}

/// How the content of parts is read.
#[derive(Clone, Copy, Debug)]
enum Way {
    Chunks,
    /// Into a buffer of so many bytes.
    Reads(usize),
    /// Only the first byte.
    Skip,
}

type Found = Vec<(String, Option<String>, Vec<u8>)>;

/// Reads all the parts that `source` yields.
async fn read(source: impl AsyncRead + Unpin, limits: MultipartLimits, way: Way) -> io::Result<Found> {
    let (mut parts, mut found) = (Multipart::new(source, "b", limits)?, Vec::new());
    let read = async {
        while let Some(mut part) = parts.part().await? {
            let content = content(&mut part, way).await?;
            found.push((part.name().to_owned(), part.file_name().map(str::to_owned), content));
        }
        Ok(())
    };
    let read: io::Result<()> = read.await;
    match (read, parts.part().await) {
        (Ok(()), Ok(None)) => Ok(found),
        (Err(error), Err(again)) => {
            assert!(multipart_error(&error).is_none_or(|own| multipart_error(&again) == Some(own)));
            Err(error)
        }
        (read, again) => panic!("{read:?}, and then {again:?}"),
    }
}

async fn content<R: AsyncRead + Unpin>(part: &mut Part<'_, R>, way: Way) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    match way {
        Way::Chunks => {
            while let Some(chunk) = part.chunk().await? {
                assert_ne!(chunk, b"");
                content.extend_from_slice(chunk);
            }
            assert_eq!(part.chunk().await?, None, "the end stays the end");
        }
        Way::Reads(size) => {
            let mut buffer = vec![0; size];
            while let count @ 1.. = part.read(&mut buffer).await? {
                content.extend_from_slice(&buffer[..count]);
            }
        }
        Way::Skip => {
            part.take(1).read_to_end(&mut content).await?;
        }
    }
    Ok(content)
}

fn multipart_error(error: &io::Error) -> Option<MultipartError> {
    error.get_ref()?.downcast_ref().cloned()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

/// Checks that the same is read of `body` however it is cut in two, in pieces of any size, and into buffers of any
/// size.
#[track_caller]
fn check_within(limits: &MultipartLimits, body: &[u8], expected: Result<&[(&str, &str)], String>) {
    let expected = expected.map(|parts| {
        Vec::from_iter(
            parts.iter().map(|(name, content)| (name.to_string(), None, content.as_bytes().to_vec())),
        )
    });
    let runtime = runtime();
    let check = |pieces: Pieces<'_>, way, how: &dyn std::fmt::Debug| {
        let found = runtime.block_on(read(pieces, *limits, way));
        let found = found.map_err(|error| multipart_error(&error).unwrap().to_string());
        let mut expected = expected.clone();
        if let (Way::Skip, Ok(parts)) = (way, &mut expected) {
            parts.iter_mut().for_each(|(_, _, content)| content.truncate(1));
        }
        assert_eq!(found, expected, "{} {how:?} {way:?}", body.escape_ascii());
    };
    for cut in 0..=body.len() {
        let (first, second) = body.split_at(cut);
        for way in [Way::Chunks, Way::Skip] {
            check(Pieces::new([first, second]), way, &("cut at", cut));
        }
    }
    for size in 1..=body.len() {
        for way in [Way::Chunks, Way::Reads(size), Way::Skip] {
            check(Pieces::new(body.chunks(size)), way, &("in pieces of", size));
        }
        check(Pieces::new([body]), Way::Reads(size), &"whole");
    }
}

#[track_caller]
fn check(body: impl AsRef<[u8]>, expected: Result<&[(&str, &str)], String>) {
    check_within(&MultipartLimits::default(), body.as_ref(), expected);
}

#[track_caller]
fn refused(body: impl AsRef<[u8]>, error: MultipartError) {
    check(body, Err(error.to_string()));
}

/// A part named `a` with `content`, and the delimiter before it.
fn part(content: &str) -> String {
    format!("--b\r\ncontent-disposition: form-data; name=a\r\n\r\n{content}\r\n")
}

/// A body of one part, whose head is `head`.
fn headed(head: &str) -> String {
    format!("--b\r\n{head}\r\n\r\n1\r\n--b--\r\n")
}

mod parts {
    use super::*;

    #[test]
    fn parts_are_between_boundaries_rfc2046_5_1_1() {
        check(part("1") + "--b--\r\n", Ok(&[("a", "1")]));
        check(part("1") + &part("") + "--b--", Ok(&[("a", "1"), ("a", "")]));
        check("--b--\r\n", Ok(&[]));
        check("--b--", Ok(&[]));
    }

    #[test]
    fn a_preamble_and_an_epilogue_are_skipped() {
        check("pre\r\nb\r\n--\r\n".to_owned() + &part("1") + "--b--\r\n", Ok(&[("a", "1")]));
        check("\r\n".to_owned() + &part("1") + "--b--", Ok(&[("a", "1")]));
        check(part("1") + "--b--\r\n\r\nGET / HTTP/1.1\r\n--b\r\nx", Ok(&[("a", "1")]));
    }

    #[test]
    fn a_part_ends_only_at_a_whole_boundary() {
        for content in [
            "\r\n",
            "\r\n\r\n",
            "\r",
            "\n",
            "-",
            "--",
            "--c",
            "\r\n\r",
            "\n--b",
            "\r--b",
            "\r\n--",
            "\r\n-b",
            "\r\n--c\r\n--",
            "\r\n --b",
        ] {
            check(part(content) + &part("2") + "--b--\r\n", Ok(&[("a", content), ("a", "2")]));
        }
    }

    #[test]
    fn boundaries_may_be_padded() {
        let body = part("1").replace("--b\r\n", "--b \t\r\n") + "--b-- \t\r\n";
        check(&body, Ok(&[("a", "1")]));
        check(body.trim_end(), Ok(&[("a", "1")]));
    }

    /// Mailers and some clients for .NET and Java fold fields.
    #[test]
    fn fields_may_be_folded_rfc5322_2_2_3() {
        for head in [
            "content-disposition: form-data;\r\n name=a",
            "content-disposition: form-data;\r\n\tname=\"a\"\r\nx: y",
            "content-disposition:\r\n form-data;\r\n  name=a;\r\n\t x=b",
            "x: y\r\n z\r\nContent-Disposition: form-data; name=a",
            "x: y\r\n z: w\r\ncontent-disposition: form-data; name=a\r\nx:\r\n y\r\n z",
        ] {
            check(headed(head), Ok(&[("a", "1")]));
        }
    }

    #[test]
    fn a_part_may_have_other_fields() {
        check(
            headed("content-type: a/b\r\nX-Own: 1\r\nCONTENT-disposition:form-data;name=a"),
            Ok(&[("a", "1")]),
        );
        check(
            headed("content-disposition: form-data; name=\"a\"\r\ncontent-transfer-encoding: Binary"),
            Ok(&[("a", "1")]),
        );
    }

    #[test]
    fn a_part_has_a_name_a_type_and_fields() {
        runtime().block_on(async {
            let head = "content-disposition: form-data; name=\"p\"; filename=\"../x\"\r\ncontent-type: image/png\r\nx-own: 1";
            let body = headed(head) + &part("2");
            let body = body.replacen("--b--\r\n", &part("2"), 1);
            let mut parts = Multipart::new(body.as_bytes(), "b", MultipartLimits::default()).unwrap();
            let file = parts.part().await.unwrap().unwrap();
            assert_eq!((file.name(), file.file_name()), ("p", Some("../x")));
            assert_eq!((file.content_type(), file.headers().get("x-own")), ("image/png", Some("1")));
            let mut text = parts.part().await.unwrap().unwrap();
            assert_eq!((text.name(), text.file_name(), text.content_type()), ("a", None, "text/plain"));
            assert_eq!((text.headers().len(), text.text().await.unwrap().as_str()), (1, "2"));
        });
    }

    #[test]
    fn a_part_may_be_larger_than_the_window() {
        let content = "\r\n--\r\n-\r--b \r\n--c".repeat(2_000);
        let body = part(&content) + &part("2") + "--b--\r\n";
        for size in [1, 2, 7, 74, 4096, 16383, 16384, 16385, body.len()] {
            for way in [Way::Chunks, Way::Reads(1), Way::Reads(8000)] {
                let pieces = Pieces::new(body.as_bytes().chunks(size));
                let found = runtime().block_on(read(pieces, MultipartLimits::default(), way)).unwrap();
                assert_eq!(found.len(), 2);
                assert!(found[0].2 == content.as_bytes() && found[1].2 == b"2", "{size} {way:?}");
            }
        }
    }

    #[test]
    fn a_read_that_is_dropped_loses_nothing() {
        runtime().block_on(async {
            let body = part("123") + "--b--\r\n";
            let pieces = Pieces::new(body.as_bytes().chunks(1));
            let mut parts = Multipart::new(pieces, "b", MultipartLimits::default()).unwrap();
            let mut content = Vec::new();
            let mut part = loop {
                tokio::select! {
                    biased;
                    // Each future is polled once, and dropped.
                    part = parts.part() => if let Some(part) = part.unwrap() { break part },
                    () = std::future::ready(()) => continue,
                }
            };
            loop {
                tokio::select! {
                    biased;
                    chunk = part.chunk() => match chunk.unwrap() {
                        Some(chunk) => content.extend_from_slice(chunk),
                        None => break,
                    },
                    () = std::future::ready(()) => {}
                }
            }
            assert_eq!(content, b"123");
        });
    }
}

mod refused {
    use MultipartError as E;

    use super::*;

    #[test]
    fn a_body_cut_short_at_any_byte_is_refused() {
        let (first, line) = (part("1"), "--b\r\n".len());
        let whole = first.clone() + &part("2\r\n") + "--b--";
        for end in 0..whole.len() {
            let begun = [line, first.len() + line].into_iter().filter(|&begins| end >= begins).count();
            refused(&whole[..end], E::Incomplete(begun));
        }
        refused(whole + " \r", E::Incomplete(2));
    }

    #[test]
    fn a_boundary_with_something_behind_it_is_refused_rfc2046_5_1_1() {
        for line in [
            "--bb", "--b-", "--b-x", "--b--x", "--b---", "--b x", "--b\n", "--b--\n", "--b \n", "--b\rx",
            "--b\0",
        ] {
            refused(part("1") + line + "\r\n" + &part("2") + "--b--\r\n", E::Delimiter(1));
            refused(line.to_owned() + "\r\n" + &part("2") + "--b--\r\n", E::Delimiter(0));
        }
        refused(part("1") + "--b" + &" ".repeat(129) + "\r\n", E::Delimiter(1));
    }

    /// Undici and Werkzeug find a boundary anywhere, Go behind an LF, Python's email behind a CR too.
    #[test]
    fn a_boundary_in_a_preamble_is_refused_rfc2046_5_1_1() {
        for preamble in
            ["\n", "\r", "\n\r", "x", "x\n", "-", "\r\n-", "\n--b--\r\n", "x--b--\r\n", "x--b\n\r\n"]
        {
            refused(preamble.to_owned() + &part("1") + "--b--\r\n", E::Delimiter(0));
        }
    }

    /// Go, Werkzeug and busboy end the part there, others begin its content.
    #[test]
    fn a_boundary_directly_behind_a_head_is_refused_rfc2046_5_1_1() {
        for content in
            ["--b", "--bx", "--b\r\n", "--b--\r\n", "--b\r\ncontent-disposition: form-data; name=b\r\n\r\n2"]
        {
            refused(part(content) + "--b--\r\n", E::Delimiter(1));
        }
        refused(part("1") + &part("--b") + "--b--\r\n", E::Delimiter(2));
    }

    #[test]
    fn bare_line_feeds_are_refused() {
        let body = part("1") + "--b--\r\n";
        refused(body.replace('\r', ""), E::Delimiter(0));
        refused("\n".to_owned() + &body.replace('\r', ""), E::Delimiter(0));
        refused(body.replacen('\r', "", 1), E::Delimiter(0));
        refused(body.replace("name=a\r\n\r\n", "name=a\n\r\n"), E::Incomplete(1));
        refused(body.replace("name=a\r\n\r\n", "name=a\r\n\n"), E::Incomplete(1));
        refused(headed("x: y\ncontent-disposition: form-data; name=a"), E::PartHead(1));
        refused(headed("content-disposition: form-data; name=a\nx: y"), E::PartHead(1));
        refused(body.replace("\r\n--b--", "\n--b--"), E::Incomplete(1));
    }

    #[test]
    fn malformed_part_heads_are_refused_rfc2046_5_1() {
        let good = "content-disposition: form-data; name=a";
        for line in [
            "x",
            "x y",
            ": y",
            "x : y",
            "x\t: y",
            "x: y\0",
            "x: y\rz",
            "x\r: y",
            "\u{e9}: y",
            "x(: y",
            "x: \x07",
            "--b",
        ] {
            refused(headed(&format!("{line}\r\n{good}")), E::PartHead(1));
            refused(headed(&format!("{good}\r\n{line}")), E::PartHead(1));
        }
        for line in [" x: y", "\tx: y", " ", "\t"] {
            refused(headed(&format!("{line}\r\n{good}")), E::PartHead(1));
        }
        // Other programs could take a line of blanks for the end of the head.
        for line in [" ", "\t", " \t "] {
            refused(headed(&format!("{good}\r\n{line}\r\nx: y")), E::PartHead(1));
            refused(headed(&format!("{good}\r\n{line}")), E::PartHead(1));
        }
        refused(headed("content-disposition\r\n : form-data; name=a"), E::PartHead(1));
        refused(headed(&format!("{good}\r\n x: y")), E::Disposition(1));
        refused(&b"--b\r\n\xff: x\r\n\r\n1\r\n--b--"[..], E::PartHead(1));
    }

    #[test]
    fn a_part_without_exactly_one_name_is_refused_rfc7578_4_2() {
        let good = "content-disposition: form-data; name=a";
        for head in [
            "",
            "x: y",
            "content-type: text/plain",
            "content-disposition:",
            "content-disposition: form-data",
            "content-disposition: attachment; name=a",
            "content-disposition: form-data; name=a; name=b",
            "content-disposition: form-data; name=\"a",
            "content-disposition: form-data; filename=a",
            &format!("{good}\r\n{good}"),
            &format!("{good}\r\nContent-Disposition: form-data; name=b"),
        ] {
            refused(headed(head), E::Disposition(1));
        }
    }

    #[test]
    fn transfer_encodings_are_refused_rfc7578_4_7() {
        let good = "content-disposition: form-data; name=a\r\ncontent-transfer-encoding:";
        for coding in [
            "base64",
            "quoted-printable",
            "x-own",
            "",
            "binary, base64",
            "8bit\r\ncontent-transfer-encoding: base64",
        ] {
            refused(headed(&format!("{good} {coding}")), E::TransferEncoding(1));
        }
    }

    #[test]
    fn more_than_a_limit_allows_is_refused() {
        use MultipartLimits as L;
        let check = |limits: fn(usize) -> L, body: &str, used: usize, error: &str| {
            check_within(&limits(used), body.as_bytes(), Ok(&[("a", "12"), ("a", "12")]));
            check_within(&limits(used - 1), body.as_bytes(), Err(error.to_owned()));
        };
        let body = &(part("12").repeat(2) + "--b--\r\n");
        let head = "content-disposition: form-data; name=a";
        let large = "the part `a` is too large: more than 1 bytes (`part_max`)";
        check(|max| L { part_max: max as u64, ..L::default() }, body, 2, large);
        let many = "there are too many parts: more than 1 parts (`parts_max`)";
        check(|max| L { parts_max: max, ..L::default() }, body, 2, many);
        let large = format!("the body is too large: more than {} bytes (`bytes_max`)", body.len() - 1);
        check(|max| L { bytes_max: max as u64, ..L::default() }, body, body.len(), &large);
        let long =
            format!("the head of part 1 is too large: more than {} bytes (`head_max`)", head.len() + 1);
        check(|max| L { head_max: max, ..L::default() }, body, head.len() + 2, &long);
        let many = "the head of part 1 is too large: more than 0 fields (`fields_max`)";
        check(|max| L { fields_max: max, ..L::default() }, body, 1, many);
        let around =
            "too much precedes the first boundary or follows the last: more than 7 bytes (`margin_max`)";
        for surrounded in [format!("{body}epilogue"), format!("preamble\r\n{body}")] {
            check(|max| L { margin_max: max as u64, ..L::default() }, &surrounded, 8, around);
        }
    }

    #[test]
    fn multipart_limits_may_be_zero_or_boundless() {
        let unlimited = MultipartLimits {
            parts_max: usize::MAX,
            fields_max: usize::MAX,
            head_max: usize::MAX,
            part_max: u64::MAX,
            memory_max: usize::MAX,
            bytes_max: u64::MAX,
            margin_max: u64::MAX,
        };
        let nothing = MultipartLimits {
            parts_max: 0,
            fields_max: 0,
            head_max: 0,
            part_max: 0,
            memory_max: 0,
            bytes_max: 0,
            margin_max: 0,
        };
        let body = format!("preamble\r\n{}{}--b--\r\nepilogue", part("12"), part(""));
        for (limits, parts) in [(unlimited, Some(2)), (nothing, None)] {
            let found = runtime().block_on(read(Pieces::new([body.as_bytes()]), limits, Way::Chunks));
            assert_eq!(found.as_ref().map(Vec::len).ok(), parts, "{found:?}");
        }
        // A head must end, even without a limit.
        let endless = format!("--b\r\n{}", "x: y\r\n".repeat(1 << 18));
        let found = runtime().block_on(read(Pieces::new([endless.as_bytes()]), unlimited, Way::Chunks));
        let text = found.unwrap_err().to_string();
        assert_eq!(text, "the head of part 1 is too large: more than 1048576 bytes (`head_max`)");
    }

    #[test]
    fn heads_and_margins_without_end_are_refused() {
        let long = "x".repeat(64 << 10);
        const HEAD: &str = "the head of part 1 is too large: more than 16384 bytes (`head_max`)";
        const MARGIN: &str =
            "too much precedes the first boundary or follows the last: more than 16384 bytes (`margin_max`)";
        for (body, error) in [
            (format!("--b\r\n{long}"), HEAD),
            (format!("--b\r\n{}", "x: y\r\n".repeat(10_000)), HEAD),
            (long.clone(), MARGIN),
            (format!("--b--\r\n{long}"), MARGIN),
            ("\r\n".repeat(32 << 10), MARGIN),
        ] {
            for size in [1, 1000, body.len()] {
                let pieces = Pieces::new(body.as_bytes().chunks(size));
                let error_found = runtime().block_on(read(pieces, MultipartLimits::default(), Way::Chunks));
                assert_eq!(error_found.unwrap_err().to_string(), error, "{size}");
            }
        }
    }

    #[test]
    fn text_that_is_too_long_or_not_utf8_is_refused() {
        let check = |content: &[u8], memory_max, error: Option<&str>| {
            let body =
                [b"--b\r\ncontent-disposition: form-data; name=a\r\n\r\n", content, b"\r\n--b--"].concat();
            let limits = MultipartLimits { memory_max, ..MultipartLimits::default() };
            for size in 1..=body.len() {
                let mut parts = Multipart::new(Pieces::new(body.chunks(size)), "b", limits).unwrap();
                let text = runtime().block_on(async { parts.part().await.unwrap().unwrap().text().await });
                assert_eq!(text.err().map(|error| error.to_string()).as_deref(), error, "{size}");
            }
        };
        check("12é".as_bytes(), 4, None);
        let large = |max| format!("the part `a` is too large: more than {max} bytes (`memory_max`)");
        check(b"12345", 4, Some(&large(4)));
        check(b"1", 0, Some(&large(0)));
        check(b"", 0, None);
        check(b"\xff", 4, Some("the part `a` is not UTF-8"));
        check(b"\xc3", 4, Some("the part `a` is not UTF-8"));
    }

    #[test]
    fn a_failure_of_the_source_is_passed_on() {
        let body = part("1");
        for end in 0..body.len() {
            let source = Pieces { end: End::Failure, ..Pieces::new([&body.as_bytes()[..end]]) };
            let failed = runtime().block_on(read(source, MultipartLimits::default(), Way::Chunks));
            assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        }
    }

    #[test]
    fn invalid_boundaries_are_refused() {
        let longest = "b".repeat(70);
        let new = |boundary: &str| Multipart::new(&b""[..], boundary, MultipartLimits::default()).map(drop);
        assert_eq!(new(&longest), Ok(()));
        for boundary in ["", " ", "a ", "a\r\nb", "a\"b", "\u{e9}", "a\0", &format!("{longest}b")] {
            assert_eq!(new(boundary), Err(E::Boundary), "{boundary:?}");
        }
    }
}

const NEXT: &str = "GET /next HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";

fn post(fields: &str, body: &str) -> String {
    format!(
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-type: multipart/form-data; boundary=b\r\n{fields}content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

mod served {
    use super::*;

    async fn list(ctx: &mut Context) -> corehttp::Result {
        let mut listed = String::new();
        if ctx.request.path() == "/next" {
            listed.push_str("next");
        } else {
            let mut parts = ctx.multipart()?;
            while let Some(mut part) = parts.part().await? {
                listed.push_str(&format!("{}={};", part.name().to_owned(), part.text().await?));
            }
        }
        ctx.response.set_text(listed);
        Ok(())
    }

    /// Answers with the first part, and reads no more.
    async fn first(ctx: &mut Context) -> corehttp::Result {
        let text = match ctx.request.path() {
            "/next" => "next".to_owned(),
            _ => ctx.multipart()?.part().await?.map(|part| part.name().to_owned()).unwrap_or_default(),
        };
        ctx.response.set_text(text);
        Ok(())
    }

    #[test]
    fn row_49_the_epilogue_is_never_the_next_request() {
        let smuggled = "GET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n";
        let body = part("1") + "--b--\r\n" + smuggled;
        for served in [Served::new(streaming(list)), Served::new(list)] {
            let received = served.ask(post("", &body) + NEXT);
            let responses = received.matches("HTTP/1.1 200 OK").count();
            assert!(
                responses == 2
                    && received.contains("\r\n\r\na=1;HTTP/1.1")
                    && received.ends_with("\r\n\r\nnext"),
                "{received}"
            );
        }
        for served in [Served::new(streaming(first)), Served::new(first)] {
            let received = served.ask(post("", &body) + NEXT);
            assert!(
                received.contains("\r\n\r\naHTTP/1.1 200") && received.ends_with("\r\n\r\nnext"),
                "{received}"
            );
        }
    }

    #[test]
    fn parts_may_come_in_chunks() {
        let body = part("1") + &part("two") + "--b--\r\n";
        let mut chunked = post("transfer-encoding: chunked\r\n", "");
        chunked = chunked.replace("content-length: 0\r\n", "");
        body.bytes().for_each(|byte| chunked.push_str(&format!("1\r\n{}\r\n", char::from(byte))));
        let received = Served::new(streaming(list)).ask(chunked + "0\r\n\r\n" + NEXT);
        assert!(
            received.contains("\r\n\r\na=1;a=two;HTTP/1.1 200") && received.ends_with("next"),
            "{received}"
        );
    }

    #[test]
    fn each_fault_of_a_body_has_its_status() {
        let refusals = ErrorReports::default();
        let strict = async |ctx: &mut Context| -> corehttp::Result {
            let limits = MultipartLimits {
                parts_max: 1,
                part_max: 4,
                fields_max: 1,
                bytes_max: 200,
                ..Default::default()
            };
            let mut parts = ctx.multipart_up_to(limits)?;
            while parts.part().await?.is_some() {}
            Ok(())
        };
        let served = Served::with(|server| refusals.attach(server), streaming(strict));
        let check = |wire: String, expected_status: u16| {
            let received = served.ask(&wire);
            assert_eq!(status(&received), expected_status, "{wire:?}: {received}");
            let seen = refusals.take();
            assert_eq!(
                seen.iter().map(|seen| seen.0).collect::<Vec<_>>(),
                [expected_status].repeat(usize::from(expected_status != 200))
            );
        };
        let good = part("1") + "--b--\r\n";
        let of_type = |value: &str| post("", &good).replace("multipart/form-data; boundary=b", value);
        check(post("", &good), 200);
        check(post("", "--b-"), 400);
        check(post("", "--bb\r\n"), 400);
        check(post("", &headed("x: y")), 400);
        check(of_type("multipart/form-data"), 400);
        check(of_type("multipart/form-data; boundary=\"\""), 400);
        check(of_type("multipart/mixed; boundary=b"), 415);
        check(of_type("text/plain"), 415);
        check(post("content-type: multipart/form-data; boundary=c\r\n", &good), 415);
        check(post("", &good).replace("content-type", "x-type"), 415);
        check(
            post("", &headed("content-disposition: form-data; name=a\r\ncontent-transfer-encoding: base64")),
            431,
        );
        check(post("", &headed("content-transfer-encoding: base64")), 415);
        check(post("content-encoding: identity\r\n", &good), 200);
        for codings in ["gzip", "identity, gzip", "x", "identity;q=1"] {
            check(post(&format!("content-encoding: {codings}\r\n"), &good), 415);
        }
        check(post("", &(part("1") + &good)), 413);
        check(post("", &(part("12345") + "--b--\r\n")), 413);
        check(post("", &"x".repeat(201)), 413);
        check(post("", &good).replace("content-length: ", "content-length: 1"), 400);
    }

    /// The program is at fault, and not the peer.
    #[test]
    fn a_body_that_was_not_received_is_the_fault_of_the_program() {
        let ask = async |ctx: &mut Context| -> corehttp::Result { Ok(ctx.request.multipart().map(drop)?) };
        let (unread, buffered) = (Served::new(streaming(ask)), Served::new(ask));
        let body = part("1") + "--b--\r\n";
        let sized = post("", &body);
        let chunked = post("transfer-encoding: chunked\r\n", "").replace("content-length: 0\r\n", "");
        let chunked = format!("{chunked}{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
        for wire in [&sized, &chunked] {
            assert_eq!(status(&unread.ask(wire)), 500, "{wire}");
            assert_eq!(status(&buffered.ask(wire)), 200, "{wire}");
            // A wrong head is the fault of the peer all the same.
            let other = wire.replace("multipart/form-data", "multipart/mixed");
            assert_eq!(status(&unread.ask(other)), 415);
        }
        let mut request = Request::post("/").unwrap();
        request.headers.set("content-type", "multipart/form-data; boundary=b").unwrap();
        request.body.set_stream(&b"--b--\r\n"[..], None);
        assert_eq!(request.multipart().err(), Some(MultipartError::Unread));
        request.headers.set("content-encoding", "gzip").unwrap();
        assert_eq!(request.multipart().err(), Some(MultipartError::ContentCoding));
    }

    #[test]
    fn a_body_announced_too_large_is_refused_without_continue() {
        let mut peer_served = Served::new(streaming(list)).ask(
            post("expect: 100-continue\r\n", "").replace("content-length: 0", "content-length: 99999999999"),
        );
        peer_served.truncate(20);
        assert_eq!(peer_served, "HTTP/1.1 413 Content");
    }
}

/// Whether nothing is in `dir`.
fn is_empty(dir: &TempDir) -> bool {
    fs::read_dir(dir.path()).unwrap().next().is_none()
}

mod saved {
    use super::*;

    /// A file with that content, whose name leads out of the directory.
    fn file(content: &str) -> String {
        format!(
            "--b\r\ncontent-disposition: form-data; name=a; filename=\"../../../tmp/owned\"\r\n\r\n{content}\r\n--b--"
        )
    }

    /// Saves the one part that `source` yields, and returns its path and its length.
    async fn save(
        source: Pieces<'_>,
        part_max: u64,
        dir: &Path,
        name: Option<&str>,
    ) -> io::Result<(PathBuf, u64)> {
        let limits = MultipartLimits { part_max, ..MultipartLimits::default() };
        let mut parts = Multipart::new(source, "b", limits)?;
        let mut part = parts.part().await?.unwrap();
        let saved = match name {
            None => part.save(dir).await?,
            Some(name) => part.save_as(dir, name).await?,
        };
        assert!(parts.part().await?.is_none());
        Ok((saved.path, saved.len))
    }

    #[test]
    fn a_part_is_saved_under_a_random_or_a_given_name() {
        let (dir, content) = (TempDir::new().unwrap(), "0123456789".repeat(50_000));
        let body = file(&content);
        for size in [1000, body.len()] {
            let source = Pieces::new(body.as_bytes().chunks(size));
            let (path, len) = runtime().block_on(save(source, 500_000, dir.path(), None)).unwrap();
            assert_eq!((path.parent(), len), (Some(dir.path()), 500_000));
            assert!(fs::read_to_string(&path).unwrap() == content);
            let name = path.file_name().unwrap().to_str().unwrap();
            assert!(name.len() == 32 && name.bytes().all(|octet| octet.is_ascii_hexdigit()), "{name}");
        }
        let source = Pieces::new([body.as_bytes()]);
        let (path, _) = runtime().block_on(save(source, 500_000, dir.path(), Some("cat.jpg"))).unwrap();
        assert_eq!(path, dir.path().join("cat.jpg"));
    }

    #[test]
    fn saving_overwrites_nothing_and_stays_in_its_directory() {
        let (dir, body) = (TempDir::new().unwrap(), file("new"));
        fs::write(dir.path().join("here"), "old").unwrap();
        let save =
            |name| runtime().block_on(save(Pieces::new([body.as_bytes()]), 10, dir.path(), Some(name)));
        assert_eq!(save("here").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        let long = "a".repeat(5000);
        for name in
            ["../../../tmp/owned", "/tmp/owned", "..", ".", "", "a/b", "a\\b", ".hidden", "a\0b", &long]
        {
            let error = save(name).unwrap_err();
            assert!(
                matches!(multipart_error(&error), Some(MultipartError::FileName(_))),
                "{name:?}: {error}"
            );
            assert_eq!(corehttp::Error::from(error).status(), Status::BAD_REQUEST, "{name:?}");
        }
        assert_eq!(fs::read_to_string(dir.path().join("here")).unwrap(), "old");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn saving_follows_no_link() {
        let (dir, other, body) = (TempDir::new().unwrap(), TempDir::new().unwrap(), file("new"));
        std::os::unix::fs::symlink(other.path().join("target"), dir.path().join("link")).unwrap();
        let saved = runtime().block_on(save(Pieces::new([body.as_bytes()]), 10, dir.path(), Some("link")));
        assert_eq!(saved.unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert!(is_empty(&other));
    }

    #[test]
    fn a_part_that_is_too_large_or_cut_short_leaves_no_file() {
        let (dir, body) = (TempDir::new().unwrap(), file("12345"));
        for end in body.find("\r\n\r\n").unwrap() + 4..body.len() - 2 {
            let source = Pieces::new([&body.as_bytes()[..end]]);
            let failed = runtime().block_on(save(source, 5, dir.path(), None)).unwrap_err();
            assert_eq!(multipart_error(&failed), Some(MultipartError::Incomplete(1)));
            assert!(is_empty(&dir));
        }
        let failed =
            runtime().block_on(save(Pieces::new([body.as_bytes()]), 4, dir.path(), None)).unwrap_err();
        assert!(matches!(multipart_error(&failed), Some(MultipartError::PartTooLarge(..))), "{failed}");
        assert!(is_empty(&dir));
        let lost = dir.path().join("lost");
        let failed = runtime().block_on(save(Pieces::new([body.as_bytes()]), 5, &lost, None)).unwrap_err();
        assert_eq!(failed.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn saving_that_is_given_up_leaves_no_file() {
        let (dir, body) = (TempDir::new().unwrap(), file("12345"));
        let source = Pieces { end: End::Silence, ..Pieces::new([&body.as_bytes()[..body.len() - 10]]) };
        paused(async {
            let saving = save(source, 5, dir.path(), None);
            assert!(tokio::time::timeout(std::time::Duration::from_secs(1), saving).await.is_err());
        });
        eventually("the file is removed", || is_empty(&dir));
    }

    /// Content that was taken and lost is missing, and the rest does not pass for all of it. The next part is another matter.
    #[test]
    fn a_part_of_which_content_is_lost_cannot_be_read_or_saved() {
        let dir = TempDir::new().unwrap();
        let one = |content: &[u8]| {
            [b"--b\r\ncontent-disposition: form-data; name=a\r\n\r\n", content, b"\r\n"].concat()
        };
        let body = [&one(b"12\xff45")[..], &one(b"next"), b"--b--"].concat();
        let (front, rest) = body.split_at(body.iter().position(|octet| *octet == 0xff).unwrap());
        paused(async {
            for way in ["text", "bytes", "save", "chunk"] {
                let mut parts =
                    Multipart::new(Pieces::new([front, rest]), "b", MultipartLimits::default()).unwrap();
                let mut part = parts.part().await.unwrap().unwrap();
                part.text().await.unwrap_err();
                let again = match way {
                    "text" => part.text().await.map(drop),
                    "bytes" => part.bytes().await.map(drop),
                    "save" => part.save(dir.path()).await.map(drop),
                    _ => part.chunk().await.map(drop),
                };
                assert!(again.is_err() && is_empty(&dir), "{way}");
                assert_eq!(parts.part().await.unwrap().unwrap().text().await.unwrap(), "next");
            }
            let (mut peer, stream) = tokio::io::duplex(1000);
            peer.write_all(front).await.unwrap();
            let mut parts = Multipart::new(stream, "b", MultipartLimits::default()).unwrap();
            let mut part = parts.part().await.unwrap().unwrap();
            let second = std::time::Duration::from_secs(1);
            tokio::time::timeout(second, part.save(dir.path())).await.unwrap_err();
            peer.write_all(rest).await.unwrap();
            part.save(dir.path()).await.unwrap_err();
        });
        eventually("the file is removed", || is_empty(&dir));
    }

    #[test]
    fn a_handler_saves_the_parts_that_a_peer_sends() {
        let dir = TempDir::new().unwrap();
        let path = dir.path().to_owned();
        let served = Served::new(streaming(async move |ctx: &mut Context| -> corehttp::Result {
            let mut parts = ctx.multipart()?;
            let mut len = 0;
            while let Some(mut part) = parts.part().await? {
                len += part.save(&path).await?.len;
            }
            ctx.response.set_text(len.to_string());
            Ok(())
        }));
        assert!(served.ask(post("", &file(&"x".repeat(100_000)))).ends_with("\r\n\r\n100000"));
        assert!(!is_empty(&dir));
    }
}

mod written {
    use super::*;

    fn attached(form: Form) -> Request {
        let mut request = Request::post("http://a/").unwrap();
        request.set_multipart(form).unwrap();
        request
    }

    /// Returns the parts that a server reads of `request`.
    fn found(request: &Request) -> Found {
        runtime().block_on(async {
            let mut parts = request.multipart().unwrap();
            let mut found = Vec::new();
            while let Some(mut part) = parts.part().await.unwrap() {
                let (name, file_name) = (part.name().to_owned(), part.file_name().map(str::to_owned));
                found.push((name, file_name, part.bytes().await.unwrap()));
            }
            found
        })
    }

    #[test]
    fn names_read_as_they_were_set() {
        let names = [
            "",
            "a",
            "a b",
            "ü 猫",
            "a\"b",
            "a\r\nb",
            "\"",
            "C:\\dir",
            "dir\\",
            "\\\\host\\dir",
            "\\\"",
            "a;b=\"c\"",
            "%",
            "a\tb",
            "' or 1=1",
        ];
        let mut form = Form::new();
        for name in names {
            form.append_text(name, name).unwrap();
            form.append_file(name, name, "text/plain", name.as_bytes().to_vec()).unwrap();
        }
        let expected: Found = names
            .iter()
            .flat_map(|name| [(*name, None), (*name, Some(*name))])
            .map(|(name, file)| (name.to_owned(), file.map(str::to_owned), name.as_bytes().to_vec()))
            .collect();
        assert_eq!(found(&attached(form)), expected);
        assert_eq!(found(&attached(Form::new())), []);
    }

    #[test]
    fn names_are_escaped_as_by_browsers_but_for_backslashes() {
        let mut form = Form::new();
        form.append_text("a\"\r\n%22", "1").unwrap();
        form.append_file("f", "\\\"\n.txt", "text/plain", &b"2"[..]).unwrap();
        let request = attached(form);
        let boundary = request.headers.content_type().unwrap().split_once("boundary=").unwrap().1;
        let expected = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"a%22%0D%0A%22\"\r\n\r\n1\r\n--{boundary}\r\n\
             Content-Disposition: form-data; name=\"f\"; filename=\"\\\\%22%0A.txt\"\r\nContent-Type: text/plain\r\n\r\n2\
             \r\n--{boundary}--\r\n"
        );
        assert_eq!(request.body.text(), Ok(expected.as_str()));
    }

    /// APIs want parts with a content type and no file name, or with other fields.
    #[test]
    fn a_part_may_have_fields_of_its_own_rfc7578_4_4() {
        let (mut form, mut fields) = (Form::new(), Headers::new());
        fields.set("content-type", "application/json").unwrap();
        form.append_part("json", None, &fields, r#"{"a":1}"#).unwrap();
        fields.set("x-own", b"caf\xe9").unwrap();
        fields.set("Content-Disposition", "attachment; name=evil").unwrap();
        form.append_part("file", Some("a.json"), &fields, vec![b'2'; 3]).unwrap();
        let mut body = Body::new();
        body.set_stream(&b"streamed"[..], Some(8));
        form.append_part("stream", None, &Headers::new(), body).unwrap();
        form.append_text("text", "4").unwrap();
        let refused = form.append_part("a\0", None, &fields, "").unwrap_err();
        assert!(matches!(refused, MessageError::FieldValue(_)), "{refused}");
        let mut request = attached(form);
        let length = request.body.known_len().unwrap();
        let sent = runtime().block_on(async {
            let mut sent = Vec::new();
            let service = Server::new().service(wrap(BodyPlan::Stream, async |ctx: &mut Context| {
                let mut sent = Vec::new();
                ctx.body_reader().read_to_end(&mut sent).await?;
                Ok(ctx.response.set_shared_bytes("text/plain", sent)?)
            }));
            sent.extend_from_slice(service.respond(request.clone()).await.body.bytes());
            sent
        });
        assert_eq!(sent.len() as u64, length);
        request.body.set_bytes(sent);
        let heads = runtime().block_on(async {
            let (mut parts, mut heads) = (request.multipart().unwrap(), Vec::new());
            while let Some(mut part) = parts.part().await.unwrap() {
                let own = part.headers().get_bytes("x-own").map(<[u8]>::to_vec);
                let (name, content_type) = (part.name().to_owned(), part.content_type().to_owned());
                heads.push((
                    name,
                    part.file_name().map(str::to_owned),
                    content_type,
                    own,
                    part.text().await.unwrap(),
                ));
            }
            heads
        });
        let head = |name: &str, file: Option<&str>, content_type: &str, own: Option<&[u8]>, text: &str| {
            (name.into(), file.map(Into::into), content_type.into(), own.map(<[u8]>::to_vec), text.into())
        };
        assert_eq!(
            heads,
            [
                head("json", None, "application/json", None, "{\"a\":1}"),
                head("file", Some("a.json"), "application/json", Some(b"caf\xe9"), "222"),
                head("stream", None, "text/plain", None, "streamed"),
                head("text", None, "text/plain", None, "4"),
            ]
        );
    }

    #[test]
    fn names_and_types_cannot_break_out() {
        let mut form = Form::new();
        for name in ["a\0", "\x07", "\x7f"] {
            assert!(matches!(form.append_text(name, ""), Err(MessageError::FieldValue(_))), "{name:?}");
            assert!(
                matches!(form.append_file("a", name, "a/b", ""), Err(MessageError::FieldValue(_))),
                "{name:?}"
            );
        }
        for content_type in ["a/b\r\nx: y", "a/b\n", "\0"] {
            assert!(
                matches!(form.append_file("a", "b", content_type, ""), Err(MessageError::FieldValue(_))),
                "{content_type:?}"
            );
            assert!(matches!(
                form.append_stream("a", "b", content_type, &b""[..], None),
                Err(MessageError::FieldValue(_))
            ));
        }
        assert_eq!(found(&attached(form)), []);
    }

    #[test]
    fn each_form_has_a_boundary_of_its_own() {
        let boundary = || attached(Form::new()).headers.content_type().unwrap().to_owned();
        assert_ne!(boundary(), boundary());
    }

    /// Sends a form of `streams`, and returns the server's response and its reports.
    fn sent(streams: &'static [(&str, Option<u64>)]) -> (String, ErrorReports) {
        let refusals = ErrorReports::default();
        let respond = move |ctx: &mut Context| -> corehttp::Result {
            let mut form = Form::new();
            form.append_text("t", "text")?;
            for (content, len) in streams {
                form.append_stream("s", "f", "a/b", content.as_bytes(), *len)?;
            }
            let mut request = Request::get("/")?;
            request.set_multipart(form)?;
            ctx.response.headers.set("content-type", request.headers.content_type().unwrap_or_default())?;
            ctx.response.body = request.body;
            Ok(())
        };
        let received = Served::with(|server| refusals.attach(server), respond)
            .ask("GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
        (received, refusals)
    }

    #[test]
    fn streams_of_known_length_are_sent_with_a_length() {
        let (received, _) = sent(&[("hello", Some(5)), ("", Some(0)), ("x", Some(1))]);
        let (head, body) = received.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("\r\ncontent-length: {}", body.len())), "{received}");
        let mut request = Request::get("/").unwrap();
        let content_type = head.split("content-type: ").nth(1).unwrap().split("\r\n").next().unwrap();
        request.headers.set("content-type", content_type).unwrap();
        request.body.set_bytes(body);
        let contents: Vec<_> = found(&request).into_iter().map(|(_, _, content)| content).collect();
        assert_eq!(contents, [&b"text"[..], b"hello", b"", b"x"]);
    }

    #[test]
    fn streams_of_unknown_length_are_sent_in_chunks() {
        let (received, _) = sent(&[("hello", Some(5)), ("unknown", None)]);
        assert!(
            received.contains("transfer-encoding: chunked\r\n") && received.ends_with("\r\n0\r\n\r\n"),
            "{received}"
        );
        assert!(received.contains("hello") && received.contains("unknown"));
    }

    #[test]
    fn a_server_reads_what_a_client_sends() {
        let served = Served::new(streaming(async |ctx: &mut Context| -> corehttp::Result {
            let mut received = format!("{:?};", ctx.request.headers.content_length());
            let mut parts = ctx.multipart()?;
            while let Some(mut part) = parts.part().await? {
                let name = part.name().to_owned();
                received.push_str(&format!("{name}={};", part.bytes().await?.len()));
            }
            ctx.response.set_text(received);
            Ok(())
        }));
        let url = format!("http://{}/", served.addr());
        let check = |content: &'static [u8], len: Option<u64>| {
            let mut form = Form::new();
            form.append_text("text", "hello").unwrap();
            form.append_stream("s", "f", "a/b", content, len).unwrap();
            let mut request = Request::post(&url).unwrap();
            request.set_multipart(form).unwrap();
            let mut response = Response::new();
            corehttp::block_on(Client::new().send(&request, &mut response)).unwrap().unwrap();
            let (length, received) = response.body.text().unwrap().split_once(';').unwrap();
            assert_eq!(received, format!("text=5;s={};", content.len()));
            assert_eq!(length.starts_with("Some"), len.is_some(), "{length}");
        };
        check(&[b'x'; 100_000], Some(100_000));
        check(&[b'x'; 100_000], None);
        check(b"", None);
    }

    #[test]
    fn a_stream_of_another_length_than_announced_cuts_the_body() {
        for (streams, why) in [
            (&[("hell", Some(5)), ("x", Some(1))][..], "shorter"),
            (&[("hello!", Some(5))], "longer"),
            (&[("hell", Some(5)), ("xx", Some(1))], "shorter"),
            (&[("x", Some(0))], "longer"),
            (&[("hello!", Some(5)), ("y", None)], "longer"),
        ] {
            let (received, refusals) = sent(streams);
            assert!(!received.ends_with("--\r\n") && !received.ends_with("\r\n0\r\n\r\n"), "{received}");
            let seen = refusals.take();
            assert!(seen.len() == 1 && seen[0].1.contains(why), "{seen:?}");
        }
    }
}

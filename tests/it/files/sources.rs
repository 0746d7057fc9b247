//! Files that do not come from a disk: what `Files` makes of a source, and what a source can do wrong.

use std::collections::BTreeMap;
use std::future::pending;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context as TaskContext, Poll};
use std::time::{Duration, SystemTime};

use corehttp::fs::{DirEntry, DirSource, FileMetadata, FileSource, Files, SourceEntry};
use corehttp::{Body, Context, Server, Status, Timeouts};
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};

use super::{body, field, get};
use crate::support::{ErrorReports, Served, status};

/// Files in memory, by path.
#[derive(Default)]
struct Memory {
    files: BTreeMap<String, (FileMetadata, &'static str)>,
    /// The paths that were looked up, and the ranges that were read.
    calls: Mutex<Vec<String>>,
}

impl Memory {
    fn new(files: &[(&str, &'static str)]) -> Memory {
        let mut memory = Memory::default();
        files.iter().for_each(|(path, content)| memory.add(path, content, |_| {}));
        memory
    }

    /// Adds a file, whose tag is its path.
    fn add(&mut self, path: &str, content: &'static str, change: impl FnOnce(&mut FileMetadata)) {
        let etag = Some(format!("\"{}\"", path.replace(|it: char| !it.is_ascii_alphanumeric(), "-")));
        let mut metadata = FileMetadata { len: content.len() as u64, etag, ..FileMetadata::default() };
        change(&mut metadata);
        self.files.insert(path.to_owned(), (metadata, content));
    }

    fn below(&self, path: &str) -> impl Iterator<Item = &str> {
        let prefix = if path.is_empty() { String::new() } else { format!("{path}/") };
        self.files.keys().filter_map(move |name| name.strip_prefix(&*prefix))
    }

    fn note(&self, call: String) {
        self.calls.lock().unwrap().push(call);
    }

    fn take_calls(&self) -> Vec<String> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }
}

impl FileSource for Memory {
    async fn find(&self, path: &str) -> io::Result<Option<SourceEntry>> {
        self.note(path.to_owned());
        let file = self.files.get(path).map(|(metadata, _)| SourceEntry::File(metadata.clone()));
        Ok(file.or_else(|| self.below(path).next().map(|_| SourceEntry::Directory)))
    }

    async fn read(&self, path: &str, found: &FileMetadata, range: Range<u64>) -> io::Result<Body> {
        self.note(format!("{range:?}"));
        let (metadata, content) = self.files.get(path).ok_or(ErrorKind::NotFound)?;
        assert_eq!(metadata, found);
        let mut body = Body::new();
        let part = &content.as_bytes()[range.start as usize..range.end as usize];
        // Of a file whose length is even, the content is a stream of unknown length.
        match content.len() % 2 {
            0 => body.set_stream(part, None),
            _ => body.set_shared_bytes(part),
        }
        Ok(body)
    }

    async fn list(&self, path: &str, _: usize) -> io::Result<Option<Vec<DirEntry>>> {
        let entry = |rest: &str| match rest.split_once('/') {
            Some((name, _)) => DirEntry::directory(name),
            None => DirEntry::file(rest, 1),
        };
        let mut entries: Vec<DirEntry> = self.below(path).map(entry).collect();
        entries.dedup();
        Ok(Some(entries))
    }
}

fn served(memory: Memory, set: impl FnOnce(Files) -> Files) -> (Served, Arc<Memory>) {
    let memory = Arc::new(memory);
    (Served::new(set(Files::from_source(memory.clone()))), memory)
}

#[test]
fn paths_lead_to_files_and_indexes() {
    let memory = Memory::new(&[
        ("a.txt", "a"),
        ("b/index.html", "index"),
        ("c/d e/é", "é!"),
        ("empty", ""),
        (".x", "x"),
    ]);
    let (served, memory) = served(memory, |files| files.cache_control("/b/*", "no-cache").unwrap());
    for (target, expected) in [
        ("/a.txt", "a"),
        ("/b/", "index"),
        ("/b/index.html", "index"),
        ("/c/d%20e/%c3%a9", "é!"),
        ("/empty", ""),
    ] {
        let received = served.ask(get(target, ""));
        assert_eq!((status(&received), body(&received)), (200, expected), "{target}: {received}");
        assert_eq!(field(&received, "content-length"), Some(&*expected.len().to_string()), "{received}");
    }
    let received = served.ask(get("/b?q", ""));
    assert_eq!((status(&received), field(&received, "location")), (301, Some("/b/?q")), "{received}");
    assert_eq!(field(&served.ask(get("/b/", "")), "cache-control"), Some("no-cache"));
    for target in ["/", "/x", "/a.txt/", "/a.txt/x", "/c/", "/c", "/.x", "/b/index.html/", "/%ff"] {
        assert_eq!(status(&served.ask(get(target, ""))), 404, "{target}");
    }
    let received = served.ask("POST /a.txt HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n");
    assert_eq!((status(&received), field(&received, "allow")), (405, Some("GET, HEAD")), "{received}");
    memory.take_calls();
    for target in
        ["/..", "/../a.txt", "/b/../a.txt", "/%2e%2e/a.txt", "/b%2findex.html", "//a.txt", "/a.txt%00"]
    {
        assert_eq!(status(&served.ask(get(target, ""))), 404, "{target}");
    }
    assert_eq!(memory.take_calls(), [""; 0], "no such path reaches a source");
}

#[test]
fn preconditions_and_head_read_nothing_rfc9110_13() {
    let mut memory = Memory::new(&[("none.txt", "content")]);
    let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
    memory.add("a.txt", "content", |it| it.modified = Some(modified));
    memory.files.get_mut("none.txt").unwrap().0.etag = None;
    let (served, memory) = served(memory, |files| files);
    let date = "Sun, 06 Nov 1994 08:49:37 GMT";
    for (fields, expected) in [
        ("if-none-match: \"a-txt\"\r\n", 304),
        ("if-none-match: *\r\n", 304),
        ("if-modified-since: Sun, 06 Nov 1994 08:49:37 GMT\r\n", 304),
        ("if-match: \"b\"\r\n", 412),
        ("range: bytes=7-\r\n", 416),
    ] {
        let received = served.ask(get("/a.txt", fields));
        assert_eq!(status(&received), expected, "{fields}: {received}");
        assert_eq!(field(&received, "etag"), Some("\"a-txt\""), "{received}");
        assert_eq!(memory.take_calls(), ["a.txt"], "{fields}");
    }
    let received = served.ask(get("/a.txt", "").replace("GET", "HEAD"));
    assert_eq!(field(&received, "content-length"), Some("7"), "{received}");
    assert_eq!((field(&received, "last-modified"), body(&received)), (Some(date), ""), "{received}");
    assert_eq!(memory.take_calls(), ["a.txt"]);
    let received = served.ask(get("/none.txt", "if-none-match: \"\"\r\n"));
    assert_eq!((status(&received), field(&received, "etag")), (200, None), "{received}");
    assert_eq!(field(&received, "last-modified"), None, "{received}");
}

#[test]
fn ranges_are_read_one_by_one_rfc9110_14() {
    for (name, content) in [("bytes.txt", "0123456789a"), ("stream.txt", "0123456789")] {
        let (served, memory) = served(Memory::new(&[(name, content)]), |files| files);
        let target = format!("/{name}");
        let received = served.ask(get(&target, "range: bytes=2-4\r\n"));
        assert_eq!((status(&received), body(&received)), (206, "234"), "{received}");
        let range = format!("bytes 2-4/{}", content.len());
        assert_eq!(field(&received, "content-range"), Some(&*range));
        assert_eq!(memory.take_calls(), [name, "2..5"]);
        let tag = name.replace('.', "-");
        for (if_range, expected) in [(&*tag, 206), ("other", 200)] {
            let fields = format!("range: bytes=-1\r\nif-range: \"{if_range}\"\r\n");
            assert_eq!(status(&served.ask(get(&target, &fields))), expected, "{fields}");
        }
        memory.take_calls();
        let received = served.ask(get(&target, "range: bytes=0-0, 9-9\r\n"));
        // The parts are close, so they are sent as one.
        assert_eq!((status(&received), body(&received)), (206, &content[..10]), "{received}");
    }
    let long = "x".repeat(1000).leak();
    let (served, memory) = served(Memory::new(&[("long.txt", long)]), |files| files);
    let received = served.ask(get("/long.txt", "range: bytes=0-0, 990-994\r\n"));
    assert!(field(&received, "content-type").unwrap().starts_with("multipart/byteranges"), "{received}");
    let length: usize = field(&received, "content-length").unwrap().parse().unwrap();
    assert_eq!(length, body(&received).len(), "{received}");
    for part in ["content-range: bytes 0-0/1000\r\n\r\nx\r\n", "bytes 990-994/1000\r\n\r\nxxxxx\r\n"] {
        assert!(received.contains(part), "{received}");
    }
    assert_eq!(memory.take_calls(), ["long.txt", "0..1", "990..995"]);
}

#[test]
fn a_type_is_that_of_the_settings_or_of_the_source_or_of_the_name_rfc9110_8_3() {
    let mut memory = Memory::new(&[("a.txt", "a"), ("a.png", "a"), ("a.none", "a")]);
    memory.add("own.txt", "a", |it| it.content_type = Some("text/x-own".to_owned()));
    memory.add("set.txt", "a", |it| it.content_type = Some("text/x-own".to_owned()));
    let (served, _) = served(memory, |files| files.content_type("/set*", "text/x-set").unwrap());
    for (target, expected) in [
        ("/a.txt", "text/plain; charset=utf-8"),
        ("/a.png", "image/png"),
        ("/a.none", "application/octet-stream"),
        ("/own.txt", "text/x-own"),
        ("/set.txt", "text/x-set; charset=utf-8"),
    ] {
        assert_eq!(field(&served.ask(get(target, "")), "content-type"), Some(expected), "{target}");
    }
}

#[test]
fn precompressed_siblings_are_sent_rfc9110_12_5_3() {
    let files =
        [("a.js", "a script"), ("a.js.br", "br"), ("a.js.gz", "gzip"), ("b.js", "b"), ("b.js.gz", "long")];
    let (served, memory) = served(Memory::new(&files), |files| files.precompressed(true));
    for (target, accepted, coding, content) in [
        ("/a.js", "gzip, br", Some("br"), "br"),
        ("/a.js", "gzip", Some("gzip"), "gzip"),
        ("/a.js", "identity", None, "a script"),
        ("/b.js", "gzip", None, "b"),
    ] {
        let received = served.ask(get(target, &format!("accept-encoding: {accepted}\r\n")));
        assert_eq!((field(&received, "content-encoding"), body(&received)), (coding, content), "{received}");
        assert_eq!(field(&received, "content-type"), Some("text/javascript; charset=utf-8"), "{received}");
    }
    assert_eq!(field(&served.ask(get("/a.js", "")), "vary"), Some("accept-encoding"));
    assert!(memory.take_calls().contains(&"a.js.zst".to_owned()));
}

mod listings {
    use super::*;

    const NAMES: [(&str, &str); 6] = [
        ("<script>", "a"),
        ("</script>", "a"),
        ("a\n\x1b\"b", "a"),
        ("d/</script>/x", "a"),
        (".hidden", "a"),
        ("é", "a"),
    ];

    #[test]
    fn a_source_is_listed_as_a_page() {
        let (served, _) = served(Memory::new(&NAMES), |files| files.listing(true));
        let received = served.ask(get("/", ""));
        assert!(field(&received, "content-security-policy").unwrap().starts_with("default-src 'none'"));
        for expected in ["./%3Cscript%3E\">&lt;script&gt;</a>", "./d/\">d/</a>", ">é</a>", "./a%0A%1B%22b\""]
        {
            assert!(received.contains(expected), "{expected}: {received}");
        }
        for bad in ["<script", "</script", ".hidden", "\x1b", "a\n"] {
            let page = body(&received).replace("\n", " ");
            assert!(!page.contains(bad), "{bad:?}: {page}");
        }
        assert_eq!(status(&served.ask(get("/d", ""))), 301);
    }

    #[test]
    fn a_source_and_a_directory_are_listed_as_json() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("a<b.txt"), "four").unwrap();
        std::fs::create_dir(root.path().join("d")).unwrap();
        let served = Served::new(Files::new(root.path()).unwrap().listing_json());
        let received = served.ask(get("/?sort=name", ""));
        assert_eq!(field(&received, "content-type"), Some("application/json"), "{received}");
        let json: serde_json::Value = serde_json::from_str(body(&received)).unwrap();
        assert_eq!(json["path"], "/");
        assert_eq!(json["truncated"], false);
        assert_eq!(
            (&json["entries"][0]["type"], &json["entries"][0]["href"]),
            (&"directory".into(), &"./d/".into())
        );
        let file = &json["entries"][1];
        assert_eq!((&file["name"], &file["size"]), (&"a<b.txt".into(), &4.into()), "{json}");
        assert!(file["modified"].as_str().unwrap().ends_with('Z'), "{json}");
        assert!(!received.contains('<'), "{received}");

        let (served, _) = super::served(Memory::new(&NAMES), Files::listing_json);
        let received = served.ask(get("/", ""));
        let json: serde_json::Value = serde_json::from_str(body(&received)).unwrap();
        let names: Vec<&str> =
            json["entries"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["<", "d", "<script>", "a\u{fffd}\u{fffd}\"b", "é"], "{json}");
        assert!(!received.contains('<'), "{received}");
    }

    #[test]
    fn a_function_lists() {
        let list = |files: Files| {
            files.listing_with(|ctx, listing| {
                if listing.path() == "/secret/" {
                    return Err(Status::FORBIDDEN.into());
                }
                let names = listing.entries().iter().map(|entry| entry.display_name().into_owned());
                ctx.response.set_text(format!("{}: {}", listing.path(), names.collect::<Vec<_>>().join(" ")));
                Ok(())
            })
        };
        let (served, _) = served(Memory::new(&[("b/x", ""), ("b/y/z", ""), ("secret/x", "")]), list);
        for (target, expected) in [("/", "/: b secret"), ("/b/", "/b/: y x"), ("/b/?order=desc", "/b/: y x")]
        {
            let received = served.ask(get(target, ""));
            assert_eq!((status(&received), body(&received)), (200, expected), "{received}");
        }
        assert_eq!(status(&served.ask(get("/secret/", ""))), 403);
        assert_eq!(status(&served.ask(get("/secret/x/", ""))), 404);
    }

    /// A source that lists more than it was asked for.
    struct Endless;

    impl FileSource for Endless {
        async fn find(&self, _: &str) -> io::Result<Option<SourceEntry>> {
            Ok(None)
        }

        async fn read(&self, _: &str, _: &FileMetadata, _: Range<u64>) -> io::Result<Body> {
            Err(ErrorKind::NotFound.into())
        }

        async fn list(&self, _: &str, entries_max: usize) -> io::Result<Option<Vec<DirEntry>>> {
            let names = ["..", "", ".", "a/b", "a\0b"].map(|name| DirEntry::file(name, u64::MAX));
            let more = (0..2 * entries_max).map(|at| DirEntry::file(at.to_string(), u64::MAX));
            Ok(Some(names.into_iter().chain(more).collect()))
        }
    }

    #[test]
    fn a_listing_has_a_bound_and_no_impossible_name() {
        let served = Served::new(Files::from_source(Endless).listing_json());
        let json: serde_json::Value = serde_json::from_str(body(&served.ask(get("/", "")))).unwrap();
        assert!(json["entries"].as_array().unwrap().len() <= 10_000);
        assert_eq!(json["entries"][0]["name"], "0");
    }
}

mod lies {
    use super::*;

    /// The faults of a source whose files have 100,000 bytes.
    #[derive(Clone, Copy, Debug)]
    enum Lie {
        ShortBytes,
        LongBytes,
        NoBytes,
        ShortStream,
        LongStream,
        EndlessStream,
        AnnouncedStream,
        FailedRead,
        FailedStream,
        DeniedRead,
        Gone,
    }

    const LEN: u64 = 100_000;

    struct Liar(Lie);

    impl FileSource for Liar {
        async fn find(&self, _: &str) -> io::Result<Option<SourceEntry>> {
            let etag = Some("\"a\"".to_owned());
            Ok(Some(SourceEntry::File(FileMetadata { len: LEN, etag, ..FileMetadata::default() })))
        }

        async fn read(&self, _: &str, _: &FileMetadata, range: Range<u64>) -> io::Result<Body> {
            let len = range.end - range.start;
            let bytes = |len: u64| vec![b'x'; len as usize];
            let mut body = Body::new();
            match self.0 {
                Lie::ShortBytes => body.set_shared_bytes(bytes(len - 1)),
                Lie::LongBytes => body.set_shared_bytes(bytes(len + 1)),
                Lie::NoBytes => {}
                Lie::ShortStream => body.set_stream(tokio::io::repeat(b'x').take(len - 1), None),
                Lie::LongStream => body.set_stream(tokio::io::repeat(b'x').take(len + 1), None),
                Lie::EndlessStream => body.set_stream(tokio::io::repeat(b'x'), Some(len)),
                Lie::AnnouncedStream => body.set_stream(tokio::io::repeat(b'x').take(len), Some(len + 1)),
                Lie::FailedRead => return Err(io::Error::other("the store is down")),
                Lie::FailedStream => {
                    body.set_stream(tokio::io::repeat(b'x').take(len / 2).chain(Failing), Some(len))
                }
                Lie::DeniedRead => return Err(ErrorKind::PermissionDenied.into()),
                Lie::Gone => return Err(ErrorKind::NotFound.into()),
            }
            Ok(body)
        }
    }

    struct Failing;

    impl AsyncRead for Failing {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut TaskContext<'_>,
            _: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Poll::Ready(Err(ErrorKind::ConnectionReset.into()))
        }
    }

    /// How far a response comes that cannot be complete.
    #[derive(Clone, Copy, Debug)]
    enum End {
        Refused(u16),
        /// After the head.
        Cut,
    }

    #[track_caller]
    fn check(lie: Lie, fields: &str, expected: End) {
        let errors = ErrorReports::default();
        let files = Files::from_source(Liar(lie)).cache_control("*", "max-age=60").unwrap();
        let served = Served::with(|server| errors.attach(server), files);
        let received = served.ask(get("/a", fields));
        let announced: usize = field(&received, "content-length").unwrap().parse().unwrap();
        match expected {
            End::Refused(status) => {
                assert_eq!(crate::support::status(&received), status, "{lie:?}");
                for name in ["etag", "cache-control", "last-modified", "accept-ranges", "content-range"] {
                    assert_eq!(field(&received, name), None, "{lie:?}: {received}");
                }
                assert_eq!(body(&received).len(), announced, "{lie:?}");
            }
            End::Cut => {
                // The marker of a reset follows.
                let content = body(&received).split('<').next().unwrap_or_default();
                assert!(content.len() < announced, "{lie:?}: {} bytes", content.len());
                assert_eq!(errors.take().len(), 1, "{lie:?}");
            }
        }
    }

    #[test]
    fn a_source_that_lies_gives_no_complete_response() {
        for (lie, expected) in [
            (Lie::ShortBytes, End::Refused(500)),
            (Lie::LongBytes, End::Refused(500)),
            (Lie::NoBytes, End::Refused(500)),
            (Lie::AnnouncedStream, End::Refused(500)),
            (Lie::FailedRead, End::Refused(500)),
            (Lie::DeniedRead, End::Refused(403)),
            (Lie::Gone, End::Refused(404)),
            (Lie::ShortStream, End::Cut),
            (Lie::LongStream, End::Cut),
            (Lie::EndlessStream, End::Cut),
            (Lie::FailedStream, End::Cut),
        ] {
            check(lie, "", expected);
            check(lie, "range: bytes=100-50000\r\n", expected);
            // Of several ranges, each is read when its turn has come.
            check(lie, "range: bytes=0-999, 50000-60000\r\n", End::Cut);
        }
    }

    /// A source that finds nothing but an error, or never anything.
    struct Broken(Option<ErrorKind>);

    impl FileSource for Broken {
        async fn find(&self, _: &str) -> io::Result<Option<SourceEntry>> {
            match self.0 {
                Some(kind) => Err(kind.into()),
                None => pending().await,
            }
        }

        async fn read(&self, _: &str, _: &FileMetadata, _: Range<u64>) -> io::Result<Body> {
            pending().await
        }

        async fn list(&self, path: &str, _: usize) -> io::Result<Option<Vec<DirEntry>>> {
            self.find(path).await.map(|_| None)
        }
    }

    #[test]
    fn a_source_that_fails_has_a_status() {
        for (kind, expected) in [
            (ErrorKind::NotFound, 404),
            (ErrorKind::NotADirectory, 404),
            (ErrorKind::PermissionDenied, 403),
            (ErrorKind::TimedOut, 500),
            (ErrorKind::InvalidInput, 500),
            (ErrorKind::Other, 500),
        ] {
            let served =
                Served::new(Files::from_source(Broken(Some(kind))).precompressed(true).listing(true));
            assert_eq!(status(&served.ask(get("/a", ""))), expected, "{kind:?}");
            assert_eq!(status(&served.ask(get("/", ""))), expected, "{kind:?}");
        }
    }

    /// The time for the handler is the time of the source.
    #[test]
    fn a_source_that_never_answers_is_given_up() {
        let timeouts = Timeouts { handler: Some(Duration::from_millis(10)), ..Timeouts::default() };
        let served = Served::with(|server| server.timeouts(timeouts), Files::from_source(Broken(None)));
        assert_eq!(status(&served.ask(get("/a", ""))), 503);
    }

    #[test]
    fn metadata_that_no_field_can_have_is_refused() {
        for (etag, content_type) in [
            (Some("\"a\r\nx: y\""), None),
            (Some("a"), None),
            (None, Some("text/plain\r\nx: y")),
            (None, Some("text/\0")),
        ] {
            let mut memory = Memory::default();
            memory.add("a", "content", |it| {
                it.etag = etag.map(str::to_owned);
                it.content_type = content_type.map(str::to_owned);
            });
            let (served, _) = served(memory, |files| files);
            let received = served.ask(get("/a", ""));
            assert_eq!((status(&received), field(&received, "x")), (500, None), "{received}");
        }
    }

    /// A length beyond all memory is a number like any other.
    #[test]
    fn a_length_may_be_any_number() {
        let mut memory = Memory::default();
        memory.add("a", "content", |it| it.len = u64::MAX);
        let (served, _) = served(memory, |files| files);
        let received = served.ask(get("/a", "").replace("GET", "HEAD"));
        assert_eq!(field(&received, "content-length"), Some("18446744073709551615"), "{received}");
        let received = served.ask(get("/a", "range: bytes=0-2\r\n"));
        assert_eq!(body(&received), "con", "{received}");
    }
}

mod directories {
    use super::*;

    /// A directory over another source.
    struct Overlay(DirSource, Memory);

    impl FileSource for Overlay {
        async fn find(&self, path: &str) -> io::Result<Option<SourceEntry>> {
            match self.0.find(path).await? {
                Some(found) => Ok(Some(found)),
                None => self.1.find(path).await,
            }
        }

        async fn read(&self, path: &str, found: &FileMetadata, range: Range<u64>) -> io::Result<Body> {
            match self.0.find(path).await? {
                Some(_) => self.0.read(path, found, range).await,
                None => self.1.read(path, found, range).await,
            }
        }

        async fn list(&self, path: &str, entries_max: usize) -> io::Result<Option<Vec<DirEntry>>> {
            self.0.list(path, entries_max).await
        }
    }

    #[test]
    fn a_directory_lies_over_a_source() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("d")).unwrap();
        std::fs::write(root.path().join("a.txt"), "upper").unwrap();
        std::fs::write(root.path().join("large.bin"), "0123456789".repeat(20_000)).unwrap();
        let memory = Memory::new(&[("a.txt", "lower"), ("b.txt", "lower"), ("d/c.txt", "deep")]);
        let overlay = Overlay(DirSource::new(root.path()).unwrap(), memory);
        let served = Served::new(Files::from_source(overlay).listing(true));
        for (target, expected) in [("/a.txt", "upper"), ("/b.txt", "lower"), ("/d/c.txt", "deep")] {
            let received = served.ask(get(target, ""));
            assert_eq!((status(&received), body(&received)), (200, expected), "{received}");
        }
        let received = served.ask(get("/large.bin", "range: bytes=100003-100007\r\n"));
        assert_eq!((status(&received), body(&received)), (206, "34567"), "{received}");
        let received = served.ask(get("/large.bin", "range: bytes=3-5, 100003-100007\r\n"));
        assert!(received.contains("\r\n\r\n345\r\n") && received.contains("\r\n\r\n34567\r\n"), "{received}");
        let received = served.ask(get("/large.bin", ""));
        assert_eq!(body(&received).len(), 200_000);
        let fields = format!("if-none-match: {}\r\n", field(&received, "etag").unwrap());
        // The tag of a file that was just changed is weak, and another one each time.
        assert!(matches!(status(&served.ask(get("/large.bin", &fields))), 200 | 304));
        assert!(served.ask(get("/", "")).contains("./large.bin"));
        assert_eq!(status(&served.ask(get("/d/", ""))), 200);
    }

    /// Paths that `Files` would refuse, from a caller of its own.
    #[tokio::test]
    async fn no_path_leaves_the_directory() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("in")).unwrap();
        std::fs::write(root.path().join("secret"), "secret").unwrap();
        std::fs::write(root.path().join("in/a"), "a").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(root.path().join("secret"), root.path().join("in/link")).unwrap();
        let source = DirSource::new(root.path().join("in")).unwrap();
        for path in
            ["../secret", "..", "/etc/passwd", "a/../../secret", "./a", "a//", "a\0", "link", "none", "a/b"]
        {
            assert_eq!(source.find(path).await.unwrap(), None, "{path:?}");
            let found = FileMetadata { len: 6, ..FileMetadata::default() };
            assert!(source.read(path, &found, 0..6).await.is_err(), "{path:?}");
            assert_eq!(source.list(path, 9).await.unwrap(), None, "{path:?}");
        }
        assert_eq!(source.list("a", 9).await.unwrap(), None);
        assert_eq!(source.list("", 9).await.unwrap().unwrap().len(), 1);
        assert_eq!(source.list("", 0).await.unwrap().unwrap().len(), 0);
        let Some(SourceEntry::File(found)) = source.find("a").await.unwrap() else { panic!("`a` is a file") };
        assert!(source.read("a", &FileMetadata { len: 2, ..found.clone() }, 0..2).await.is_err());
        assert_eq!(source.read("a", &found, 0..1).await.unwrap().known_len(), Some(1));
    }
}

/// A handler of an application may read a source that a `Files` serves as well.
#[test]
fn files_of_a_source_fall_through_to_another_handler() {
    let last = |ctx: &mut Context| ctx.response.set_text("nothing");
    let files = Files::from_source(Memory::new(&[("a", "a")])).not_found(last);
    let service = Server::new().service(files);
    for (path, expected) in [("/a", "a"), ("/b", "nothing")] {
        let request = corehttp::Request::get(path).unwrap();
        let response = corehttp::block_on(service.respond(request)).unwrap();
        assert_eq!(response.text().unwrap(), expected);
    }
}

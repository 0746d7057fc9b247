//! Serving directories: what is found, what is not, and with which conditions and ranges (RFC 9110 §13, §14).

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::ops::Range;
#[cfg(unix)]
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use corehttp::fs::{Etag, FileCacheLimits, Files};
use corehttp::middleware::{Cors, guard, limits, wrap};
use corehttp::{Body, Context, Handler, Headers, Request, Response, Server, Status};
use tempfile::TempDir;

use super::{body, field, get};
use crate::support::{ErrorReports, Served, eventually, in_time, paused, status, undated};
#[cfg(target_os = "linux")]
use crate::support::{alone, use_up_descriptors};

/// A directory with files of these paths, whose content is their path. A path that ends with a `/` is a directory.
fn tree(paths: &[&str]) -> TempDir {
    let root = TempDir::new().unwrap();
    for path in paths {
        let whole = root.path().join(path);
        if path.ends_with('/') {
            fs::create_dir_all(whole).unwrap();
        } else {
            fs::create_dir_all(whole.parent().unwrap()).unwrap();
            fs::write(whole, path).unwrap();
        }
    }
    root
}

/// Caches nothing, so that a test sees a file change.
const UNCACHED: FileCacheLimits =
    FileCacheLimits { bytes_max: 0, files_max: 0, file_bytes_max: 64 << 10, fresh: Duration::ZERO };

fn files(root: &Path) -> Files {
    Files::new(root).unwrap()
}

/// The response of `handler` to `request`, without a connection.
fn ask<H: Handler + 'static>(handler: H, request: Request) -> Response {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { Server::new().service(handler).respond(request).await })
}

mod paths {
    use super::*;

    /// Every target is answered with this status, and with nothing from outside of the root.
    #[track_caller]
    fn check(served: &Served, expected: u16, targets: &[&str]) {
        for target in targets {
            let received = served.ask(get(target, ""));
            assert_eq!(status(&received), expected, "{target}: {received}");
            assert!(!received.contains("secret") && !received.contains("root:"), "{target}: {received}");
        }
    }

    #[test]
    fn a_path_leads_to_its_file() {
        let root = tree(&["a.txt", "b/c d.txt", "b/index.html", "%61", "é", "empty/", "a..b", "...x/...y"]);
        let served = Served::new(files(root.path()));
        for (target, path) in [
            ("/a.txt", "a.txt"),
            ("/a.txt?x=../y", "a.txt"),
            ("/%61.txt", "a.txt"),
            ("/b/c%20d.txt", "b/c d.txt"),
            ("/b/", "b/index.html"),
            ("/%2561", "%61"),
            ("/%C3%A9", "é"),
            ("/a..b", "a..b"),
            ("http://x/a.txt", "a.txt"),
        ] {
            let received = served.ask(get(target, ""));
            assert_eq!((status(&received), body(&received)), (200, path), "{target}: {received}");
        }
        check(
            &served,
            404,
            &["/", "/x", "/a.txt/", "/a.txt/x", "/b/x", "/empty/", "/empty", "/b/index.html/"],
        );
        // Other systems may ignore case.
        #[cfg(target_os = "linux")]
        check(&served, 404, &["/A.TXT"]);
    }

    #[cfg(unix)]
    #[test]
    fn row_67_and_68_no_path_leaves_the_root() {
        let outside = tree(&["secret", "dir/secret"]);
        let root = tree(&["in/secret.txt", "in/root/a.txt", "in/root/b/c.txt"]);
        let inside = root.path().join("in/root");
        symlink(outside.path().join("secret"), inside.join("out")).unwrap();
        symlink(outside.path(), inside.join("outdir")).unwrap();
        symlink("../secret.txt", inside.join("up")).unwrap();
        symlink("..", inside.join("b/parent")).unwrap();
        symlink("a.txt", inside.join("beside")).unwrap();
        symlink(inside.canonicalize().unwrap().join("b"), inside.join("whole")).unwrap();
        symlink(outside.path().canonicalize().unwrap().join("secret"), inside.join("wholeout")).unwrap();
        symlink("/proc/self/environ", inside.join("proc")).unwrap();
        symlink("loop", inside.join("loop")).unwrap();
        for is_followed in [false, true] {
            let files = files(&inside).listing(true).show_dot_files(true);
            let served = Served::new(if is_followed { files.follow_links(true) } else { files });
            check(
                &served,
                404,
                &[
                    "/..%2f..%2fetc/passwd",
                    "/%2e%2e/",
                    "/%2e%2e/secret.txt",
                    "/a/../../secret.txt",
                    "/../secret.txt",
                    "/..%5c..%5csecret.txt",
                    "/..%5c..%5cx",
                    "/%00",
                    "/a.txt%00",
                    "/C:/x",
                    "/file::$DATA",
                    "/%252e%252e/",
                    "/%252e%252e/secret.txt",
                    "/%2fetc/passwd",
                    "//etc/passwd",
                    "/b/../../secret.txt",
                    "/.%2e/secret.txt",
                    "/b/..",
                    "/./a.txt",
                    "/b//c.txt",
                    "/%c0%ae%c0%ae/secret.txt",
                    "/%ff",
                    "/out",
                    "/outdir",
                    "/outdir/",
                    "/outdir/secret",
                    "/outdir/dir/secret",
                    "/up",
                    "/wholeout",
                    "/proc",
                    "/loop",
                    "/loop/x",
                    "/b/parent/../../secret.txt",
                ],
            );
            check(&served, 400, &["/\0"]);
            let beneath = if is_followed { 200 } else { 404 };
            check(&served, beneath, &["/beside", "/b/parent/a.txt", "/b/parent/", "/whole/", "/whole/c.txt"]);
            check(&served, 200, &["/a.txt", "/b/c.txt"]);
            let listing = served.ask(get("/", ""));
            for name in ["out", "outdir", "up", "wholeout", "proc", "loop"] {
                assert!(!listing.contains(&format!("\"./{name}")), "{name}: {listing}");
            }
            assert_eq!(listing.contains("\"./beside\""), is_followed, "{listing}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn only_regular_files_are_served() {
        let root = tree(&["a.txt"]);
        let _socket = std::os::unix::net::UnixListener::bind(root.path().join("socket")).unwrap();
        let fifo = std::process::Command::new("mkfifo").arg(root.path().join("fifo")).status().unwrap();
        assert!(fifo.success());
        let served = Served::new(files(root.path()).listing(true));
        check(&served, 404, &["/socket", "/fifo", "/fifo/"]);
        let listing = served.ask(get("/", ""));
        assert!(listing.contains("a.txt") && !listing.contains("fifo") && !listing.contains("socket"));
        check(&Served::new(Files::new("/dev").unwrap()), 404, &["/null", "/zero", "/tty", "/stdin"]);
        let (fifo, dir) = (root.path().join("fifo"), root.path().to_owned());
        for path in [fifo, dir, root.path().join("none")] {
            let send = async move |ctx: &mut Context| ctx.send_file(&path).await;
            assert_eq!(status(&Served::new(send).ask(get("/", ""))), 404);
        }
    }

    #[test]
    fn dot_files_are_hidden() {
        let root = tree(&[".env", ".git/config", "a/.htaccess", "a/b.txt", "..c"]);
        let targets = ["/.env", "/%2eenv", "/.git/config", "/.git/", "/.git", "/a/.htaccess", "/..c"];
        let hidden = Served::new(files(root.path()).listing(true));
        check(&hidden, 404, &targets);
        assert!(
            !hidden.ask(get("/", "")).contains(".git") && !hidden.ask(get("/a/", "")).contains("htaccess")
        );
        let shown = Served::new(files(root.path()).listing(true).show_dot_files(true));
        check(&shown, 200, &["/.env", "/.git/config", "/.git/", "/a/.htaccess", "/..c"]);
        assert!(shown.ask(get("/", "")).contains(".git"));
    }

    #[test]
    fn row_69_a_guard_and_the_files_see_the_same_path() {
        let root = tree(&["admin/f", "%61dmin/f", "free"]);
        let files = files(root.path());
        let guarded = async move |ctx: &mut Context| -> corehttp::Result {
            if ctx.request.path_decoded()?.starts_with("/admin") {
                return Err(Status::FORBIDDEN.into());
            }
            files.handle(ctx).await
        };
        let served = Served::new(guarded);
        check(&served, 403, &["/admin/f", "/%61dmin/f", "/%61%64min/f", "/admin%2ff"]);
        check(
            &served,
            404,
            &["//admin/f", "/./admin/f", "/free/../admin/f", "/%2fadmin/f", "/x%2f..%2fadmin/f"],
        );
        let twice = served.ask(get("/%2561dmin/f", ""));
        assert_eq!((status(&twice), body(&twice)), (200, "%61dmin/f"));
    }

    #[test]
    fn row_67_a_rewritten_path_is_checked_like_any_other() {
        let root = tree(&["in/a.txt", "in/b/index.html", "in/%61.txt", "secret"]);
        let rewrite = |request: &Request| request.query().get("to").map(|to| to.into_owned());
        let served = Served::new(files(&root.path().join("in")).rewrite(rewrite));
        check(
            &served,
            404,
            &[
                "/?to=../secret",
                "/?to=..",
                "/?to=a/..",
                "/?to=b/../../secret",
                "/?to=.",
                "/?to=/../secret",
                "/?to=//etc/passwd",
                "/?to=/etc/passwd",
                "/?to=..%5csecret",
                "/?to=a%00",
                "/?to=%252e%252e/secret",
                "/?to=.x",
                "/a.txt?to=none",
                // A redirect would lead to the same target again, or to another host.
                "/?to=b",
                "/x/?to=b",
            ],
        );
        for (target, path) in [
            ("/a.txt", "in/a.txt"),
            ("/x?to=a.txt", "in/a.txt"),
            ("/?to=/a.txt", "in/a.txt"),
            ("/../..?to=b/", "in/b/index.html"),
            ("/?to=%2561.txt", "in/%61.txt"),
        ] {
            let received = served.ask(get(target, ""));
            assert_eq!((status(&received), body(&received)), (200, path), "{target}");
        }
    }

    #[test]
    fn a_prefix_is_stripped() {
        let root = tree(&["a.txt", "b/index.html"]);
        let served = Served::new(files(root.path()).strip_prefix("/static/v1/"));
        check(&served, 200, &["/static/v1/a.txt", "/static/v1/b/", "/st%61tic/v1/a.txt"]);
        check(
            &served,
            404,
            &[
                "/a.txt",
                "/static",
                "/static/v1a",
                "/static/v1a.txt",
                "/static/a.txt",
                "/static/v1/../v1/a.txt",
                "/x/static/v1/a.txt",
            ],
        );
        for (target, location) in [
            ("/static/v1/b?q", "/static/v1/b/?q"),
            ("/static/v1", "/static/v1/"),
            ("/static/v1?q", "/static/v1/?q"),
            ("/static/%761", "/static/%761/"),
        ] {
            let received = served.ask(get(target, ""));
            assert_eq!((status(&received), field(&received, "location")), (301, Some(location)), "{target}");
        }
        // Without a prefix there is nothing that lacks a slash.
        check(&Served::new(files(root.path())), 404, &["/", "//"]);
    }

    #[test]
    fn row_73_a_directory_is_redirected_to_its_slash_on_the_same_host() {
        let root = tree(&["evil.com/index.html", "a b/index.html", "no/x"]);
        let served = Served::new(files(root.path()).rewrite(|request| {
            request.path().starts_with("//").then(|| request.path().trim_matches('/').to_owned())
        }));
        for (target, location) in [
            ("/evil.com", "/evil.com/"),
            ("/a%20b?x=1&y", "/a%20b/?x=1&y"),
            ("//evil.com", "/evil.com/"),
            ("///evil.com?//x", "/evil.com/?//x"),
            ("http://other/evil.com", "/evil.com/"),
        ] {
            let received = served.ask(get(target, ""));
            assert_eq!(
                (status(&received), field(&received, "location")),
                (301, Some(location)),
                "{target}: {received}"
            );
        }
        check(&served, 404, &["/no", "/no/"]);
        check(&Served::new(files(root.path()).listing(true)), 301, &["/no"]);
    }

    #[test]
    fn each_host_has_a_root_of_its_own() {
        let (one, two) = (tree(&["x", "one"]), tree(&["x", "two"]));
        let served = Served::new(
            ["B.example", "[::1]", "c.example."]
                .iter()
                .fold(files(one.path()), |files, host| files.host(host, two.path()).unwrap()),
        );
        for (host, path, expected) in [
            ("a.example", "/one", 200),
            ("a.example", "/two", 404),
            ("b.example", "/two", 200),
            ("b.example", "/one", 404),
            ("B.EXAMPLE:8080", "/two", 200),
            ("b.example.", "/two", 200),
            ("c.example", "/two", 200),
            ("C.example.", "/two", 200),
            ("[::1]:80", "/two", 200),
            ("[::1]", "/two", 200),
            ("xb.example", "/two", 404),
            ("b.example.x", "/two", 404),
            ("", "/one", 200),
        ] {
            let received = served.ask(format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n"));
            assert_eq!(status(&received), expected, "{host} {path}");
        }
        assert_eq!(status(&served.ask(get("http://b.example/two", ""))), 200, "an absolute target wins");
        let only = Files::from_embedded(&[]).host("b", two.path()).unwrap();
        assert_eq!(status(&Served::new(only).ask(get("/two", ""))), 404);
    }

    /// Its middleware sees the requests that it would have got, and no others.
    #[test]
    fn requests_without_a_file_are_refused_as_the_other_handler_does() {
        let root = tree(&["a.txt"]);
        let refuses = guard(|ctx: &mut Context| {
            if ctx.request.headers.contains("x-let-in") {
                return Ok(());
            }
            ctx.response.headers.set("www-authenticate", "Basic")?;
            Err(Status::UNAUTHORIZED.into())
        });
        let middleware = (Cors::new().allow_any_origin(), limits(|limits| limits.body_max = 8), refuses);
        let app = wrap(middleware, |ctx: &mut Context| ctx.response.set_text("app"));
        let served = Served::new(files(root.path()).not_found(app));
        let check = |line: &str, fields: &str, expected: u16, is_of_app: bool| {
            let received =
                served.ask(format!("{line} HTTP/1.1\r\nhost: a\r\norigin: https://b\r\n{fields}\r\n"));
            let has_cors = field(&received, "access-control-allow-origin").is_some();
            assert_eq!((status(&received), has_cors), (expected, is_of_app), "{line}: {received}");
            assert_eq!(field(&received, "www-authenticate").is_some(), expected == 401, "{line}: {received}");
        };
        check("GET /a.txt", "", 200, false);
        check("GET /a.txt", "content-length: 1\r\n", 200, false);
        check("GET /a.txt", "content-length: 0\r\n", 200, false);
        check("GET /x", "", 401, true);
        check("GET /x", "content-length: 0\r\n", 401, true);
        check("GET /x", "x-let-in: 1\r\ncontent-length: 0\r\n", 200, true);
        check("GET /x", "x-let-in: 1\r\ncontent-length: 9\r\n", 413, true);
        check("POST /x", "content-length: 1\r\n", 401, true);
        check("POST /x", "x-let-in: 1\r\ncontent-length: 0\r\n", 200, true);
        check("POST /x", "x-let-in: 1\r\ncontent-length: 9\r\n", 413, true);
    }

    #[test]
    fn a_path_that_is_not_found_is_left_to_another_handler() {
        let root = tree(&["a.txt"]);
        let served =
            Served::new(files(root.path()).not_found(|ctx: &mut Context| ctx.response.set_text("app")));
        for target in ["/x", "/", "/a.txt/", "/%2e%2e/x", "/%00"] {
            assert_eq!(body(&served.ask(get(target, ""))), "app", "{target}");
        }
        assert_eq!(body(&served.ask("POST /api HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\n\r\nx")), "app");
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "QUERY", "BREW"] {
            let received = served.ask(format!("{method} /a.txt HTTP/1.1\r\nhost: a\r\n\r\n"));
            assert_eq!((status(&received), field(&received, "allow")), (405, Some("GET, HEAD")), "{method}");
        }
    }

    #[test]
    fn a_root_must_be_a_directory() {
        let root = tree(&["a.txt"]);
        let (none, file) = (root.path().join("none"), root.path().join("a.txt"));
        for (opened, path, kind) in [
            (Files::new(&none), &none, ErrorKind::NotFound),
            (Files::new(&file), &file, ErrorKind::NotADirectory),
            (files(root.path()).host("b", &none), &none, ErrorKind::NotFound),
        ] {
            let error = opened.unwrap_err();
            assert_eq!(error.kind(), kind);
            // "No such file or directory" alone would not name the path.
            assert!(error.to_string().starts_with(&format!("cannot open {}: ", path.display())), "{error}");
        }
    }
}

mod responses {
    use super::*;

    /// A small file, a large one that is never held in memory, and an empty one.
    fn served() -> (TempDir, Served) {
        let root = tree(&["a/"]);
        fs::write(root.path().join("small.txt"), counting(1000)).unwrap();
        fs::write(root.path().join("large.bin"), counting(LARGE)).unwrap();
        fs::write(root.path().join("empty.html"), "").unwrap();
        for name in ["small.txt", "large.bin", "empty.html"] {
            settle(&root.path().join(name));
        }
        // The time of the large file was set just now, so it is no validator yet, unless the program has set the date.
        let served = Served::new(files(root.path()).cache(UNCACHED).etag("*.bin", Etag::Time));
        (root, served)
    }

    const LARGE: usize = 3 << 19;

    /// Text in which every position differs from all others.
    fn counting(len: usize) -> String {
        let mut text: String = (0..len / 8 + 1).map(|at| format!("{:07} ", at * 8)).collect();
        text.truncate(len);
        text
    }

    /// Sets the time of a file back, so that it was not changed lately.
    fn settle(path: &Path) {
        set_modified(path, 784_111_777);
    }

    fn set_modified(path: &Path, seconds: u64) {
        let file = File::options().write(true).open(path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
    }

    const MODIFIED: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";

    #[test]
    fn a_file_is_described_alike_to_get_and_head() {
        let (_root, served) = served();
        for (path, content_type, len) in [
            ("/small.txt", "text/plain; charset=utf-8", 1000),
            ("/large.bin", "application/octet-stream", LARGE),
            ("/empty.html", "text/html; charset=utf-8", 0),
        ] {
            let received = served.ask(get(path, ""));
            let (head, content) = received.split_once("\r\n\r\n").unwrap();
            assert_eq!(content, counting(len), "{path}");
            assert_eq!(field(&received, "content-type"), Some(content_type));
            assert_eq!(field(&received, "last-modified"), Some(MODIFIED));
            assert_eq!(field(&received, "accept-ranges"), Some("bytes"));
            assert_eq!(field(&received, "content-length"), Some(&*len.to_string()));
            assert_eq!(field(&received, "vary"), None);
            let etag = field(&received, "etag").unwrap();
            assert!(etag.starts_with('"') && etag.ends_with('"') && etag.len() > 4, "{etag}");
            let alone = served.ask(get(path, "").replacen("GET", "HEAD", 1));
            assert_eq!(undated(&alone), undated(&format!("{head}\r\n\r\n")), "{path}");
        }
    }

    #[test]
    fn a_changed_file_has_another_etag() {
        let (root, _served) = served();
        let path = root.path().join("small.txt");
        for etag in [Etag::Auto, Etag::Content, Etag::Time] {
            fs::write(&path, counting(1000)).unwrap();
            settle(&path);
            let served = Served::new(files(root.path()).cache(UNCACHED).etag("*", etag));
            let tag = || field(&served.ask(get("/small.txt", "")), "etag").unwrap().to_owned();
            let (first, again) = (tag(), tag());
            fs::write(&path, counting(999)).unwrap();
            settle(&path);
            let shorter = tag();
            set_modified(&path, 784_111_776);
            let earlier = tag();
            assert!(first == again && first != shorter, "{first} {shorter}");
            assert_eq!(shorter != earlier, etag == Etag::Time, "{shorter} {earlier}");
        }
    }

    /// Nix gives all files the time 1, npm one in 1985, `SOURCE_DATE_EPOCH` any. Large files are those that are not
    /// kept in memory. Whether a file is found in the cache makes no difference.
    #[cfg(unix)]
    #[test]
    fn content_of_the_same_size_and_time_has_another_etag_rfc9110_8_8_3() {
        let root = tree(&[]);
        let in_memory = FileCacheLimits { fresh: Duration::ZERO, ..FileCacheLimits::default() };
        let kept_open = FileCacheLimits { file_bytes_max: 3, ..in_memory };
        for (cache, etag) in
            [in_memory, kept_open, UNCACHED, FileCacheLimits { file_bytes_max: 3, ..UNCACHED }]
                .into_iter()
                .flat_map(|cache| [Etag::Auto, Etag::Content, Etag::Time].map(|etag| (cache, etag)))
        {
            // A program that chooses times gets them in the tag, if they are plausible.
            let times: &[u64] =
                if etag == Etag::Time { &[0, 1, 499_162_500] } else { &[0, 1, 499_162_500, 1_700_000_000] };
            for (at, modified) in times.iter().enumerate() {
                let name = format!("{at}.js");
                let path = root.path().join(&name);
                let served = Served::new(files(root.path()).cache(cache).etag("*.js", etag));
                let responses = ["AAAA", "BBBB", "AAAC"].map(|content| {
                    fs::write(&path, content).unwrap();
                    set_modified(&path, *modified);
                    let received = served.ask(get(&format!("/{name}"), ""));
                    assert_eq!(body(&received), content);
                    // The clock that stamps changes moves in ticks.
                    std::thread::sleep(Duration::from_millis(10));
                    field(&received, "etag").unwrap().to_owned()
                });
                for old in &responses[..2] {
                    for condition in ["if-none-match: {etag}\r\n", "range: bytes=0-1\r\nif-range: {etag}\r\n"]
                    {
                        let received =
                            served.ask(get(&format!("/{name}"), &condition.replace("{etag}", old)));
                        assert_eq!(
                            (status(&received), body(&received)),
                            (200, "AAAC"),
                            "{cache:?} {etag:?}: {condition}"
                        );
                    }
                }
                let _ = fs::remove_file(&path);
            }
        }
    }

    /// A client that compares dates alone would take the one date of a build for that of each new content.
    #[test]
    fn a_date_of_a_build_is_not_sent_rfc9110_8_8_2() {
        let (root, served) = served();
        let path = root.path().join("small.txt");
        for (modified, is_sent) in
            [(0, false), (1, false), (315_532_800, false), (499_162_500, false), (784_111_777, true)]
        {
            set_modified(&path, modified);
            let received = served.ask(get("/small.txt", ""));
            assert_eq!(field(&received, "last-modified").is_some(), is_sent, "{modified}: {received}");
            let since = served.ask(get("/small.txt", &format!("if-modified-since: {MODIFIED}\r\n")));
            assert_eq!(status(&since), if is_sent { 304 } else { 200 }, "{modified}");
            let etag = field(&received, "etag").unwrap();
            assert_eq!(status(&served.ask(get("/small.txt", &format!("if-none-match: {etag}\r\n")))), 304);
        }
    }

    /// Two servers, or two releases, have the same tag for the same content, and a cached tag is not computed again.
    #[test]
    fn an_etag_of_content_is_the_same_on_every_server() {
        let (one, two) = (tree(&[]), tree(&[]));
        let tags = [(one, 784_111_777), (two, 1_000_000_000)].map(|(root, modified)| {
            for (name, len) in [("small.txt", 1000), ("large.bin", LARGE)] {
                fs::write(root.path().join(name), counting(len)).unwrap();
                set_modified(&root.path().join(name), modified);
            }
            let served = Served::new(files(root.path()).etag("*", Etag::Content));
            ["/small.txt", "/large.bin"].map(|path| {
                let tag = || field(&served.ask(get(path, "")), "etag").unwrap().to_owned();
                let first = tag();
                assert!(first.starts_with('"') && first == tag(), "{first}");
                first
            })
        });
        assert_eq!(tags[0], tags[1]);
        assert_ne!(tags[0][0], tags[0][1]);
    }

    /// A request with these fields is answered with this status, Content-Range and part of the content, from memory and
    /// from a file.
    #[track_caller]
    fn check_range(
        served: &Served,
        fields: &str,
        expected: u16,
        content_range: Option<&str>,
        range: std::ops::Range<usize>,
    ) {
        for (path, len) in [("/small.txt", 1000), ("/large.bin", LARGE)] {
            let received = served.ask(get(path, fields));
            let content_range = content_range
                .map(|text| text.replace("{n}", &len.to_string()).replace("{last}", &(len - 1).to_string()));
            assert_eq!(
                (status(&received), field(&received, "content-range")),
                (expected, content_range.as_deref()),
                "{path} {fields}: {:.300}",
                received
            );
            let range = range.start..if range.end == usize::MAX { len } else { range.end };
            assert!(body(&received) == &counting(len)[range], "{path} {fields}");
        }
    }

    #[test]
    fn row_71_one_range_is_sent_without_parts_rfc9110_14_2() {
        let (_root, served) = served();
        check_range(&served, "range: bytes=0-0\r\n", 206, Some("bytes 0-0/{n}"), 0..1);
        check_range(&served, "range: bytes=10-19\r\n", 206, Some("bytes 10-19/{n}"), 10..20);
        check_range(&served, "range: bytes=5-\r\n", 206, Some("bytes 5-{last}/{n}"), 5..usize::MAX);
        check_range(&served, "range: bytes=0-99999999\r\n", 206, Some("bytes 0-{last}/{n}"), 0..usize::MAX);
        check_range(&served, "range: bytes=-99999999\r\n", 206, Some("bytes 0-{last}/{n}"), 0..usize::MAX);
        check_range(&served, "range: bytes=0-1,3-4\r\n", 206, Some("bytes 0-4/{n}"), 0..5);
        check_range(&served, "range: bytes=99999999-\r\n", 416, Some("bytes */{n}"), 0..0);
        check_range(&served, "range: bytes=-0\r\n", 416, Some("bytes */{n}"), 0..0);
        for field in ["bytes=5-2", "bytes=", "lines=0-1", "bytes=0-0,x", "bytes=+0-1"] {
            check_range(&served, &format!("range: {field}\r\n"), 200, None, 0..usize::MAX);
        }
        let suffix = served.ask(get("/small.txt", "range: bytes=-5\r\n"));
        assert_eq!((status(&suffix), body(&suffix)), (206, &counting(1000)[995..]));
        let head = served.ask(get("/small.txt", "range: bytes=0-0\r\n").replacen("GET", "HEAD", 1));
        assert_eq!(
            (status(&head), field(&head, "content-length")),
            (200, Some("1000")),
            "ranges are for GET"
        );
    }

    /// Content-Range cannot express an empty file, and 416 would deny that the file exists.
    #[test]
    fn an_empty_file_is_sent_whatever_range_is_asked_for_rfc9110_14_2() {
        let (root, served) = served();
        let path = root.path().join("empty.html");
        let chosen = Served::new(async move |ctx: &mut Context| ctx.send_file(&path).await);
        let embedded = Served::new(Files::from_embedded(&[("empty.html", b"")]));
        for served in [&served, &chosen, &embedded] {
            let whole = served.ask(get("/empty.html", ""));
            let etag = field(&whole, "etag").unwrap();
            for range in ["0-", "0-0", "-5", "-0", "5-", "0-,5-9", "0-0,1-1,-1"] {
                for condition in
                    [String::new(), format!("if-range: {etag}\r\n"), "if-range: \"x\"\r\n".into()]
                {
                    let fields = format!("range: bytes={range}\r\n{condition}");
                    let received = served.ask(get("/empty.html", &fields));
                    assert_eq!(undated(&received), undated(&whole), "{fields}");
                    let head = served.ask(get("/empty.html", &fields).replacen("GET", "HEAD", 1));
                    assert_eq!(undated(&head), undated(&whole), "{fields}");
                }
            }
        }
    }

    #[test]
    fn several_ranges_are_sent_as_parts_rfc9110_14_6() {
        let (_root, served) = served();
        let short = "600-609, 0-4, -3, 99999999-";
        // More than one read returns of each.
        let long = "100000-199999, 0-49999";
        for (path, len, asked, ranges) in [
            ("/small.txt", 1000, short, &[600..610, 0..5, 997..1000][..]),
            ("/large.bin", LARGE, short, &[600..610, 0..5, LARGE - 3..LARGE]),
            ("/large.bin", LARGE, long, &[100_000..200_000, 0..50_000]),
        ] {
            let received = served.ask(get(path, &format!("range: bytes={asked}\r\n")));
            let all = served.ask(get(path, ""));
            let content_type = field(&received, "content-type").unwrap();
            let boundary = content_type.strip_prefix("multipart/byteranges; boundary=").unwrap();
            assert_eq!((status(&received), field(&received, "content-range")), (206, None));
            assert_eq!(field(&received, "content-length"), Some(&*body(&received).len().to_string()));
            let part_type = field(&all, "content-type").unwrap();
            let part = |range: &Range<usize>| {
                let (first, last) = (range.start, range.end - 1);
                let head = format!(
                    "--{boundary}\r\ncontent-type: {part_type}\r\ncontent-range: bytes {first}-{last}/{len}"
                );
                format!("{head}\r\n\r\n{}\r\n", &counting(len)[range.clone()])
            };
            let parts: String = ranges.iter().map(part).collect();
            assert!(body(&received) == format!("{parts}--{boundary}--\r\n"), "{path}: {asked}");
            assert_ne!(served.ask(get(path, "range: bytes=600-609, 0-4\r\n")).matches(boundary).count(), 3);
        }
    }

    #[test]
    fn ranges_cannot_amplify() {
        let (_root, served) = served();
        let whole = served.ask(get("/small.txt", "")).len();
        let many = |count: usize| (0..count).map(|_| "0-").collect::<Vec<_>>().join(",");
        for (ranges, expected) in [
            (many(16), 206),
            (many(17), 200),
            (many(1000), 200),
            ((0..16).map(|at| format!("{0}-{0}", at * 60)).collect::<Vec<_>>().join(","), 206),
        ] {
            let received = served.ask(get("/small.txt", &format!("range: bytes={ranges}\r\n")));
            assert_eq!(status(&received), expected, "{ranges}");
            assert!(received.len() < whole + 300, "{}", received.len());
        }
    }

    #[test]
    fn conditions_are_evaluated_in_their_order_rfc9110_13_2_2() {
        let (_root, served) = served();
        let etag = field(&served.ask(get("/small.txt", "")), "etag").unwrap().to_owned();
        let range = "range: bytes=0-0\r\n";
        let rows: &[(&str, u16)] = &[
            ("if-match: {etag}\r\n", 200),
            ("if-match: *\r\n", 200),
            ("if-match: W/{etag}\r\n", 412),
            ("if-match: \"x\"\r\n", 412),
            ("if-match: {etag}\r\nif-unmodified-since: {before}\r\n", 200),
            ("if-match: \"x\"\r\nif-none-match: {etag}\r\n", 412),
            ("if-unmodified-since: {before}\r\n", 412),
            ("if-unmodified-since: {modified}\r\n", 200),
            ("if-unmodified-since: {before}\r\nif-none-match: {etag}\r\n", 412),
            ("if-none-match: {etag}\r\n", 304),
            ("if-none-match: W/{etag}\r\n", 304),
            ("if-none-match: *\r\n", 304),
            ("if-none-match: \"x\", {etag}\r\n", 304),
            ("if-none-match: \"x\"\r\n", 200),
            ("if-none-match: {etag}x\r\n", 200),
            ("if-none-match: \"x\"\r\nif-modified-since: {modified}\r\n", 200),
            ("if-modified-since: {modified}\r\n", 304),
            ("if-modified-since: {before}\r\n", 200),
            ("if-modified-since: x\r\n", 200),
            ("if-match: {etag}\r\nif-none-match: {etag}\r\n", 304),
            ("range: bytes=0-0\r\nif-none-match: {etag}\r\n", 304),
            ("range: bytes=0-0\r\nif-match: \"x\"\r\n", 412),
            ("range: bytes=9999-\r\nif-none-match: {etag}\r\n", 304),
            ("range: bytes=9999-\r\nif-range: \"x\"\r\n", 200),
            ("range: bytes=0-0\r\nif-range: {etag}\r\n", 206),
            ("range: bytes=0-0\r\nif-range: W/{etag}\r\n", 200),
            ("range: bytes=0-0\r\nif-range: \"x\"\r\n", 200),
            ("range: bytes=0-0\r\nif-range: {modified}\r\n", 206),
            ("range: bytes=0-0\r\nif-range: {before}\r\n", 200),
            ("range: bytes=0-0\r\nif-range: x\r\n", 200),
            ("if-range: \"x\"\r\n", 200),
        ];
        for (fields, expected) in rows {
            let fields =
                fields.replace("{etag}", &etag).replace("{modified}", MODIFIED).replace("{before}", BEFORE);
            let received = served.ask(get("/small.txt", &fields));
            assert_eq!(status(&received), *expected, "{fields}: {received}");
            let is_empty = matches!(expected, 304 | 412);
            assert_eq!(is_empty, body(&received).is_empty(), "{fields}");
            assert_eq!(field(&received, "etag"), Some(&*etag), "{fields}");
            assert_eq!(field(&received, "content-type").is_none(), is_empty, "{fields}: {received}");
            if !fields.contains("range") {
                let head = served.ask(get("/small.txt", &fields).replacen("GET", "HEAD", 1));
                assert_eq!(status(&head), *expected, "HEAD {fields}");
            }
        }
        assert_eq!(status(&served.ask(get("/none", &format!("if-none-match: *\r\n{range}")))), 404);
    }

    /// Less than the time in which a file may change again unnoticed.
    const JUST_NOW: Duration = Duration::from_secs(1);

    #[test]
    fn a_file_that_changed_just_now_has_a_weak_date_rfc9110_8_8_2_2() {
        let by_date = in_time(JUST_NOW, || {
            let (start, root) = (Instant::now(), tree(&["new"]));
            let served = Served::new(files(root.path()));
            let modified = field(&served.ask(get("/new", "")), "last-modified").unwrap().to_owned();
            let fields = format!("range: bytes=0-0\r\nif-range: {modified}\r\n");
            let received = served.ask(get("/new", &fields));
            (start.elapsed(), received)
        });
        assert_eq!(status(&by_date), 200);
    }

    /// A file may change twice before the clock of its file system moves: two contents of one size and time. A file
    /// that is too large for memory is not read to make its tag.
    #[test]
    fn a_large_file_that_changed_just_now_has_a_weak_etag_rfc9110_8_8_1() {
        let root = tree(&["new"]);
        let path = root.path().join("new");
        let large = FileCacheLimits { file_bytes_max: 2, ..UNCACHED };
        let served = Served::new(files(root.path()).cache(large).etag("*", Etag::Time));
        let first = in_time(JUST_NOW, || {
            let start = Instant::now();
            fs::write(&path, "new").unwrap();
            let received = served.ask(get("/new", ""));
            (start.elapsed(), field(&received, "etag").unwrap().to_owned())
        });
        assert!(first.starts_with("W/\""), "{first}");
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        fs::write(&path, "wen").unwrap();
        File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
        for fields in ["if-none-match: {etag}\r\n", "range: bytes=0-0\r\nif-range: {etag}\r\n"] {
            let received = served.ask(get("/new", &fields.replace("{etag}", &first)));
            assert_eq!((status(&received), body(&received)), (200, "wen"), "{fields}");
        }
        for age in [3, 3600] {
            let file = File::options().write(true).open(&path).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
            let strong = field(&served.ask(get("/new", "")), "etag").unwrap().to_owned();
            assert!(strong.starts_with('"'), "{strong}");
            assert_eq!(status(&served.ask(get("/new", &format!("if-none-match: {strong}\r\n")))), 304);
        }
    }

    /// A clock may be wrong, and the times in an archive may be arbitrary.
    #[test]
    fn last_modified_is_never_after_the_date_rfc9110_8_8_2_1() {
        let root = tree(&["a"]);
        for cache in [UNCACHED, FileCacheLimits::default()] {
            for ahead in [1, 3600, 2_000_000_000] {
                let file = File::options().write(true).open(root.path().join("a")).unwrap();
                let (start, ahead) = (Instant::now(), Duration::from_secs(ahead));
                file.set_modified(SystemTime::now() + ahead).unwrap();
                let served = Served::new(files(root.path()).cache(cache));
                for fields in ["", "if-none-match: *\r\n", "if-match: \"x\"\r\n", "range: bytes=0-0\r\n"] {
                    let received = served.ask(get("/a", fields));
                    let mut dates = Headers::new();
                    for name in ["date", "last-modified"] {
                        dates.append(name, field(&received, name).unwrap()).unwrap();
                    }
                    let (date, modified) = (dates.date("date"), dates.date("last-modified"));
                    assert!(modified <= date, "{ahead:?} {fields}: {received}");
                    let by_date = format!(
                        "range: bytes=0-0\r\nif-range: {}\r\n",
                        field(&received, "last-modified").unwrap()
                    );
                    let by_date = status(&served.ask(get("/a", &by_date)));
                    // By now the time may no longer be in the future.
                    assert!(by_date == 200 || start.elapsed() >= ahead, "it says nothing of the content");
                }
            }
        }
    }

    #[test]
    fn cache_control_is_set_by_pattern() {
        let root = tree(&["assets/a.js", "b.html", "assets/in/c.css", "assets/index.html"]);
        let files = files(root.path()).cache_control("*.html", "no-cache").unwrap();
        let files = files.cache_control("/assets/*", "max-age=1, immutable").unwrap();
        let served = Served::new(async move |ctx: &mut Context| {
            ctx.response.headers.set("expires", "Fri, 31 Dec 9999 23:59:59 GMT")?;
            files.handle(ctx).await
        });
        for (path, expected) in [
            ("/assets/a.js", Some("max-age=1, immutable")),
            ("/assets/in/c.css", Some("max-age=1, immutable")),
            ("/b.html", Some("no-cache")),
            ("/assets/", Some("no-cache")),
        ] {
            assert_eq!(field(&served.ask(get(path, "")), "cache-control"), expected, "{path}");
            let etag = field(&served.ask(get(path, "")), "etag").unwrap().to_owned();
            let kept = served.ask(get(path, &format!("if-none-match: {etag}\r\n")));
            assert_eq!((status(&kept), field(&kept, "cache-control")), (304, expected), "{path}");
            // A cache that kept a refusal for as long as the file would answer all clients with it.
            for (condition, refused) in [("range: bytes=99999-\r\n", 416), ("if-match: \"x\"\r\n", 412)] {
                let received = served.ask(get(path, condition));
                let limit = expected.filter(|value| *value == "no-cache");
                assert_eq!(
                    (status(&received), field(&received, "cache-control")),
                    (refused, limit),
                    "{path}"
                );
                assert_eq!(field(&received, "expires"), None, "{path}");
            }
        }
        assert!(super::files(root.path()).cache_control("*", "a\r\nb: c").is_err());
    }

    /// Browsers cache the redirect and the listing like the files.
    #[test]
    fn cache_control_is_sent_with_listings_and_redirects() {
        let root = tree(&["a/b/c.txt", "i/index.html"]);
        let all =
            files(root.path()).listing(true).strip_prefix("/p").cache_control("/i*", "max-age=1").unwrap();
        let served = Served::new(all.cache_control("*", "no-cache").unwrap());
        for (path, expected, cache_control) in [
            ("/p", 301, Some("no-cache")),
            ("/p/", 200, Some("no-cache")),
            ("/p/a", 301, Some("no-cache")),
            ("/p/a/?sort=size", 200, Some("no-cache")),
            ("/p/a/b/", 200, Some("no-cache")),
            ("/p/i", 301, Some("max-age=1")),
            ("/p/i/", 200, Some("max-age=1")),
            ("/p/none", 404, None),
            ("/p/a/none/", 404, None),
        ] {
            for method in ["GET", "HEAD"] {
                let received = served.ask(get(path, "").replacen("GET", method, 1));
                let seen = (status(&received), field(&received, "cache-control"));
                assert_eq!(seen, (expected, cache_control), "{method} {path}");
            }
        }
        let inner = Served::new(files(root.path()).listing(true).cache_control("/a/*", "no-cache").unwrap());
        let of = |path| field(&inner.ask(get(path, "")), "cache-control").map(str::to_owned);
        assert_eq!(
            [of("/"), of("/a"), of("/a/"), of("/a/b")],
            [None, None, Some("no-cache".into()), Some("no-cache".into())]
        );
    }

    #[test]
    fn types_and_charsets_are_those_that_a_pattern_sets() {
        let root = tree(&["a.js.gz"]);
        for (name, content) in [
            ("a.js", "a()".repeat(20).as_bytes()),
            ("list.m3u8", b"#EXTM3U"),
            ("doc.xml", b"<?xml version=\"1.0\" encoding=\"iso-8859-1\"?><a>\xe9</a>"),
            ("old.html", b"<meta charset=\"iso-8859-1\">\xe9"),
            ("new.html", "é".as_bytes()),
            ("LICENSE", b"free"),
            ("x.bin", b"\xe9"),
            ("x.log", b"\xe9"),
            ("y.log", b"plain"),
        ] {
            fs::write(root.path().join(name), content).unwrap();
        }
        let plain = Served::new(files(root.path()).precompressed(true));
        let of = |served: &Served, path| {
            field(&served.ask(get(path, "accept-encoding: gzip\r\n")), "content-type").unwrap().to_owned()
        };
        for (path, expected) in [
            ("/list.m3u8", "application/vnd.apple.mpegurl"),
            ("/doc.xml", "text/xml"),
            ("/old.html", "text/html"),
            ("/new.html", "text/html; charset=utf-8"),
            ("/LICENSE", "application/octet-stream"),
            ("/x.log", "text/plain"),
            ("/a.js", "text/javascript; charset=utf-8"),
        ] {
            assert_eq!(of(&plain, path), expected, "{path}");
        }
        let set = files(root.path()).precompressed(true);
        let set = set.content_type("/LICENSE", "text/plain").unwrap();
        let set = set.content_type("*.bin", "text/x-own; charset=koi8-r").unwrap();
        let set = set.content_type("*.js", "application/javascript").unwrap();
        let set = set.charset("/y*", None).unwrap().charset("/*o*", Some("iso-8859-1")).unwrap();
        let set = Served::new(set);
        for (path, expected) in [
            ("/LICENSE", "text/plain; charset=utf-8"),
            ("/x.bin", "text/x-own; charset=koi8-r"),
            ("/a.js", "application/javascript"),
            ("/y.log", "text/plain"),
            ("/x.log", "text/plain; charset=iso-8859-1"),
            ("/doc.xml", "text/xml; charset=iso-8859-1"),
            ("/old.html", "text/html; charset=iso-8859-1"),
            ("/new.html", "text/html; charset=utf-8"),
        ] {
            assert_eq!(of(&set, path), expected, "{path}");
            let part = set.ask(get(path, "accept-encoding: gzip\r\nrange: bytes=0-0\r\n"));
            assert_eq!((status(&part), field(&part, "content-type")), (206, Some(expected)), "{path}");
        }
        assert!(files(root.path()).content_type("*", "a\r\nb: c").is_err());
        assert!(files(root.path()).charset("*", Some("a\nb")).is_err());
    }

    #[test]
    fn precompressed_siblings_are_sent_to_peers_that_accept_them() {
        let root = tree(&[
            "a.js.gz",
            "a.js.br",
            "plain.txt",
            "stale.txt.gz",
            "long.txt.gz",
            "only.txt.gz",
            "a.js.zst/",
        ]);
        for name in ["a.js", "stale.txt"] {
            fs::write(root.path().join(name), counting(100)).unwrap();
        }
        fs::write(root.path().join("long.txt"), "short").unwrap();
        settle(&root.path().join("stale.txt.gz"));
        let served = Served::new(files(root.path()).precompressed(true));
        for (accept, coding, content) in [
            ("gzip, br", Some("br"), "a.js.br"),
            ("gzip", Some("gzip"), "a.js.gz"),
            ("br;q=0.5, gzip", Some("gzip"), "a.js.gz"),
            ("zstd", None, &*counting(100)),
            ("identity", None, &counting(100)),
            ("", None, &counting(100)),
            ("br;q=0", None, &counting(100)),
        ] {
            let received = served.ask(get("/a.js", &format!("accept-encoding: {accept}\r\n")));
            assert_eq!(
                (field(&received, "content-encoding"), body(&received)),
                (coding, content),
                "{accept}"
            );
            assert_eq!(field(&received, "vary"), Some("accept-encoding"), "{accept}");
            assert_eq!(field(&received, "content-type"), Some("text/javascript; charset=utf-8"), "{accept}");
        }
        let tags: std::collections::BTreeSet<_> = ["br", "gzip", ""]
            .map(|accept| {
                field(&served.ask(get("/a.js", &format!("accept-encoding: {accept}\r\n"))), "etag")
                    .unwrap()
                    .to_owned()
            })
            .into();
        assert_eq!(tags.len(), 3, "each representation has its own: {tags:?}");
        let part = served.ask(get("/a.js", "accept-encoding: br\r\nrange: bytes=2-3\r\n"));
        assert_eq!(
            (status(&part), field(&part, "content-range"), body(&part)),
            (206, Some("bytes 2-3/7"), "js")
        );
        for path in ["/plain.txt", "/stale.txt", "/long.txt"] {
            let received = served.ask(get(path, "accept-encoding: gzip\r\n"));
            assert_eq!(
                (field(&received, "content-encoding"), field(&received, "vary")),
                (None, None),
                "{path}"
            );
        }
        assert_eq!(status(&served.ask(get("/only.txt", "accept-encoding: gzip\r\n"))), 404);
        let asked_for = served.ask(get("/a.js.gz", "accept-encoding: gzip\r\n"));
        assert_eq!(
            (field(&asked_for, "content-type"), field(&asked_for, "content-encoding")),
            (Some("application/gzip"), None)
        );
        let strangers = Served::new(files(root.path()));
        assert_eq!(
            field(&strangers.ask(get("/a.js", "accept-encoding: gzip\r\n")), "content-encoding"),
            None
        );
    }

    /// A `content-encoding` would apply to the parts and the lines between them as a whole, which are not encoded.
    #[test]
    fn several_ranges_of_an_encoded_form_are_answered_with_all_of_it_rfc9110_8_4() {
        let root = tree(&[]);
        for (name, len) in [("a.js", 1000), ("a.js.br", 990)] {
            fs::write(root.path().join(name), counting(len)).unwrap();
        }
        let served = Served::new(files(root.path()).precompressed(true));
        for (accept, ranges, expected) in
            [("br", "0-9", 206), ("br", "0-9,900-909", 200), ("gzip", "0-9,900-909", 206)]
        {
            let lines = format!("accept-encoding: {accept}\r\nrange: bytes={ranges}\r\n");
            assert_eq!(status(&served.ask(get("/a.js", &lines))), expected, "{accept}: {ranges}");
        }
    }

    /// With the date alone a peer could combine parts of two of them.
    #[test]
    fn a_date_shared_by_several_representations_is_weak_rfc9110_8_8_1_13_1_5() {
        let root = tree(&["a.js.br"]);
        for name in ["a.js", "alone.js"] {
            fs::write(root.path().join(name), counting(100)).unwrap();
        }
        fs::read_dir(root.path()).unwrap().for_each(|file| settle(&file.unwrap().path()));
        let served = Served::new(files(root.path()).precompressed(true));
        for (path, accept, by_date) in
            [("/a.js", "br", 200), ("/a.js", "gzip", 200), ("/alone.js", "br", 206)]
        {
            let accept = format!("accept-encoding: {accept}\r\n");
            let whole = served.ask(get(path, &accept));
            for (validator, expected) in [("etag", 206), ("last-modified", by_date)] {
                let value = field(&whole, validator).unwrap();
                let part =
                    served.ask(get(path, &format!("{accept}range: bytes=2-3\r\nif-range: {value}\r\n")));
                assert_eq!(status(&part), expected, "{path} {accept} {value}");
            }
        }
    }

    #[test]
    fn middleware_and_files_both_add_to_vary() {
        let root = tree(&["a.js.gz"]);
        fs::write(root.path().join("a.js"), counting(100)).unwrap();
        let files = files(root.path()).precompressed(true);
        let wrapped = async move |ctx: &mut Context| -> corehttp::Result {
            ctx.response.headers.set("vary", "origin")?;
            ctx.response.headers.set("content-type", "x/y")?;
            files.handle(ctx).await
        };
        let received = Served::new(wrapped).ask(get("/a.js", ""));
        assert_eq!(received.matches("\r\nvary: ").count(), 2, "{received}");
        assert_eq!(received.matches("\r\ncontent-type: text/javascript").count(), 1, "{received}");
        assert!(!received.contains("x/y"), "{received}");
    }

    #[test]
    fn an_index_stands_for_its_directory() {
        let root = tree(&["a/home.htm", "a/index.html", "b/index.html", "c/index.html/", "d/x"]);
        let served = Served::new(files(root.path()).index(["home.htm", "index.html", "../d/x", ""]));
        for (target, content) in [("/a/", "a/home.htm"), ("/b/", "b/index.html")] {
            assert_eq!(body(&served.ask(get(target, ""))), content, "{target}");
        }
        for target in ["/c/", "/d/", "/c"] {
            assert_eq!(status(&served.ask(get(target, ""))), 404, "{target}");
        }
        assert_eq!(status(&Served::new(files(root.path()).index([""; 0])).ask(get("/b/", ""))), 404);
    }

    #[test]
    fn embedded_files_are_served_like_those_of_a_directory() {
        static SITE: &[(&str, &[u8])] = &[
            ("index.html", b"home"),
            ("/js/app.js", b"alert(123456789)"),
            ("js/app.js.gz", b"gz"),
            (".env", b"secret"),
            ("docs/a/b", b""),
        ];
        let served = Served::new(Files::from_embedded(SITE).precompressed(true).listing(true));
        for (target, expected) in [
            ("/", 200),
            ("/index.html", 200),
            ("/js", 301),
            ("/js/", 200),
            ("/docs/a/b", 200),
            ("/docs", 301),
            ("/js/app.js/", 404),
            ("/.env", 404),
            ("/../js/app.js", 404),
            ("/j", 404),
            ("/docs/a/b/", 404),
            ("/index.html/x", 404),
        ] {
            assert_eq!(status(&served.ask(get(target, ""))), expected, "{target}");
        }
        let received = served.ask(get("/js/app.js", "accept-encoding: gzip\r\n"));
        assert_eq!(
            (body(&received), field(&received, "content-encoding"), field(&received, "last-modified")),
            ("gz", Some("gzip"), None)
        );
        let etag = field(&received, "etag").unwrap();
        assert_eq!(
            status(
                &served
                    .ask(get("/js/app.js", &format!("accept-encoding: gzip\r\nif-none-match: {etag}\r\n")))
            ),
            304
        );
        let part = served.ask(get("/js/app.js", "range: bytes=0-4\r\n"));
        assert_eq!((status(&part), body(&part)), (206, "alert"));
        let listing = served.ask(get("/js/", ""));
        assert!(listing.contains("./app.js\"") && listing.contains("./app.js.gz\""), "{listing}");
    }

    #[cfg(unix)]
    #[test]
    fn send_file_sends_whatever_file_the_application_chooses() {
        let root = tree(&[".hidden/%41.html"]);
        let path = root.path().join(".hidden/%41.html");
        settle(&path);
        symlink(&path, root.path().join("link")).unwrap();
        let root_path = root.path().to_owned();
        let served = Served::new(async move |ctx: &mut Context| -> corehttp::Result {
            match ctx.request.path() {
                "/lost" => ctx.response.status = Status::NOT_FOUND,
                "/link" => return ctx.send_file(root_path.join("link")).await,
                "/none" => return ctx.send_file(root_path.join("none/none")).await,
                "/under" => return ctx.send_file(root_path.join("link/under")).await,
                "/long" => return ctx.send_file(root_path.join("x".repeat(300))).await,
                "/nul" => return ctx.send_file(root_path.join("a\0")).await,
                _ => {}
            }
            ctx.send_file(&path).await
        });
        let whole = served.ask(get("/", ""));
        assert_eq!(
            (status(&whole), body(&whole), field(&whole, "last-modified")),
            (200, ".hidden/%41.html", Some(MODIFIED))
        );
        assert_eq!(field(&whole, "content-type"), Some("text/html; charset=utf-8"));
        let etag = field(&whole, "etag").unwrap();
        for (target, fields, expected) in [
            ("/", "range: bytes=0-1\r\n", 206),
            ("/", "range: bytes=99-\r\n", 416),
            ("/link", "", 200),
            ("/none", "", 404),
            ("/under", "", 404),
            // No file can have such a name, so 404 and not 500.
            ("/long", "", 404),
            ("/nul", "", 404),
            ("/", &*format!("if-none-match: {etag}\r\n"), 304),
            ("/", "if-match: \"x\"\r\n", 412),
            ("/lost", &format!("if-none-match: {etag}\r\nrange: bytes=0-1\r\n"), 404),
        ] {
            let received = served.ask(get(target, fields));
            assert_eq!(status(&received), expected, "{target} {fields}: {received}");
        }
        assert_eq!(body(&served.ask(get("/lost", "range: bytes=0-1\r\n"))), ".hidden/%41.html");
        let post = served.ask("POST / HTTP/1.1\r\nhost: a\r\nif-match: \"x\"\r\n\r\n");
        assert_eq!(status(&post), 200, "what a POST did cannot be undone by a condition on its response");
    }

    /// A download has a name of its own, and may have another tag than the file.
    #[test]
    fn send_file_keeps_what_the_handler_has_set() {
        let root = tree(&[]);
        for (name, len) in [("small", 1000), ("large", LARGE)] {
            fs::write(root.path().join(name), counting(len)).unwrap();
        }
        let own: &[(&str, &str)] = &[
            ("content-type", "application/pdf"),
            ("content-disposition", "attachment; filename=\"a.pdf\""),
            ("content-language", "de"),
            ("etag", "\"v7\""),
            ("last-modified", BEFORE),
            ("cache-control", "private"),
            ("x-own", "1"),
        ];
        let path = root.path().to_owned();
        let served = Served::new(async move |ctx: &mut Context| -> corehttp::Result {
            for (name, value) in own {
                ctx.response.headers.set(name, *value)?;
            }
            let name = ctx.request.path()[1..].to_owned();
            ctx.send_file(path.join(name)).await
        });
        for (path, len) in [("/small", 1000), ("/large", LARGE)] {
            for (fields, expected, content_type) in [
                ("", 200, Some("application/pdf")),
                ("range: bytes=1-2\r\n", 206, Some("application/pdf")),
                ("range: bytes=1-2\r\nif-range: \"v7\"\r\n", 206, Some("application/pdf")),
                ("range: bytes=1-2\r\nif-range: {before}\r\n", 206, Some("application/pdf")),
                ("range: bytes=1-2\r\nif-range: \"v6\"\r\n", 200, Some("application/pdf")),
                ("range: bytes=1-2\r\nif-range: {modified}\r\n", 200, Some("application/pdf")),
                ("if-none-match: \"v6\"\r\n", 200, Some("application/pdf")),
                ("if-match: \"v7\"\r\n", 200, Some("application/pdf")),
                ("if-none-match: W/\"v7\"\r\n", 304, None),
                ("if-modified-since: {before}\r\n", 304, None),
                ("if-match: \"v6\"\r\n", 412, None),
                ("range: bytes=99999999-\r\n", 416, None),
            ] {
                let fields = fields.replace("{before}", BEFORE).replace("{modified}", MODIFIED);
                let received = served.ask(get(path, &fields));
                let seen = (status(&received), field(&received, "content-type"));
                assert_eq!(seen, (expected, content_type), "{path} {fields}: {received:.400}");
                assert_eq!(
                    received.matches("\r\ncontent-type: ").count(),
                    usize::from(content_type.is_some())
                );
                // A refusal has no fields of the content, and caches do not keep it for others.
                let is_refused = matches!(expected, 412 | 416);
                for (name, value) in own.iter().filter(|(name, _)| *name != "content-type") {
                    let describes = name.starts_with("content-");
                    let value = (!(is_refused && describes)).then_some(*value);
                    assert_eq!(field(&received, name), value, "{path} {fields}");
                }
            }
            let several = served.ask(get(path, "range: bytes=0-1, 900-901\r\n"));
            assert_eq!(status(&several), 206);
            assert!(field(&several, "content-type").unwrap().starts_with("multipart/byteranges; boundary="));
            let part = format!("content-type: application/pdf\r\ncontent-range: bytes 900-901/{len}");
            assert_eq!(body(&several).matches("content-type: application/pdf").count(), 2, "{several}");
            assert!(body(&several).contains(&part), "{several}");
            let head = served.ask(get(path, "").replacen("GET", "HEAD", 1));
            assert_eq!(field(&head, "content-type"), Some("application/pdf"));
        }
    }

    #[test]
    fn send_file_sends_no_ranges_of_encoded_content_or_against_accept_ranges() {
        let root = tree(&[]);
        fs::write(root.path().join("a"), counting(1000)).unwrap();
        let path = root.path().join("a");
        let served = Served::new(async move |ctx: &mut Context| -> corehttp::Result {
            match ctx.request.path() {
                "/coded" => ctx.response.headers.set("content-encoding", "gzip")?,
                "/whole" => ctx.response.headers.set("accept-ranges", "none")?,
                _ => ctx.response.headers.set("etag", "W/\"v7\"")?,
            }
            ctx.send_file(&path).await
        });
        for (target, range, expected) in [
            ("/coded", "0-1", 206),
            ("/coded", "0-1, 900-901", 200),
            ("/whole", "0-1", 200),
            ("/whole", "99999-", 200),
            ("/weak", "0-1, 900-901", 206),
            ("/weak", "0-1\r\nif-range: W/\"v7\"", 200),
        ] {
            let received = served.ask(get(target, &format!("range: bytes={range}\r\n")));
            assert_eq!(status(&received), expected, "{target} {range}");
            let ranges = if target == "/whole" { "none" } else { "bytes" };
            assert_eq!(field(&received, "accept-ranges"), Some(ranges));
            assert_eq!(
                field(&received, "content-encoding"),
                (target == "/coded").then_some("gzip"),
                "{received}"
            );
        }
    }

    mod sending {
        use super::*;

        #[cfg(unix)]
        #[test]
        fn a_large_file_arrives_whole_on_every_transport() {
            let (root, served) = served();
            let expected = counting(LARGE);
            let received = served.ask(get("/large.bin", ""));
            assert!(body(&received) == expected, "by sendfile");
            eventually("all is counted", || served.running.counts().total.sent == received.len() as u64);
            let old = served.ask("GET /large.bin HTTP/1.0\r\n\r\n");
            assert!(body(&old) == expected, "to HTTP/1.0");
            let path = root.path().join("socket");
            let running =
                Server::bind(format!("unix:{}", path.display())).cores(1).start(files(root.path())).unwrap();
            let mut peer = std::os::unix::net::UnixStream::connect(&path).unwrap();
            peer.write_all(get("/large.bin", "connection: close\r\n").as_bytes()).unwrap();
            let mut received = String::new();
            peer.read_to_string(&mut received).unwrap();
            assert!(body(&received) == expected, "over a unix socket");
            running.stop(Duration::ZERO);
            running.wait().unwrap();
            let response = ask(files(root.path()), Request::get("/large.bin").unwrap());
            assert!(response.body.text() == Ok(&*expected), "by reading, where there is no socket");
        }

        /// Responses from files and from memory alternate on one connection, and each is complete.
        #[test]
        fn files_can_be_pipelined() {
            let (_root, served) = served();
            let request: String = ["/large.bin", "/small.txt", "/none", "/large.bin", "/empty.html"]
                .iter()
                .map(|path| get(path, ""))
                .collect();
            let received = served.ask(request);
            assert_eq!(received.matches("HTTP/1.1 200 OK").count(), 4);
            assert_eq!(received.matches(&counting(LARGE)).count(), 2);
            assert!(received.contains("HTTP/1.1 404"));
        }

        /// A shrunken file ends its response early, as incomplete. A file that grows is sent to its earlier length.
        #[test]
        fn row_72_a_file_that_shrinks_while_it_is_sent_cuts_the_connection() {
            let root = tree(&[]);
            let path = root.path().join("file");
            for (len, is_whole) in [(0, false), (HUGE / 2, false), (HUGE * 2, true)] {
                File::create(&path).unwrap().set_len(HUGE).unwrap();
                let refusals = ErrorReports::default();
                let served = Served::with(|server| refusals.attach(server), files(root.path()));
                let mut peer = served.connect();
                peer.send(get("/file", "connection: close\r\n"));
                // The peer does not read: the server is in the middle of the file.
                let mut first = [0; 1000];
                peer.stream.read_exact(&mut first).unwrap();
                File::options().write(true).open(&path).unwrap().set_len(len).unwrap();
                let mut rest = Vec::new();
                let end = peer.stream.read_to_end(&mut rest);
                let head = String::from_utf8_lossy(&first).find("\r\n\r\n").unwrap() + 4;
                let received = (first.len() + rest.len() - head) as u64;
                assert_eq!(
                    (received == HUGE, end.is_ok()),
                    (is_whole, is_whole),
                    "{len}: {received} {end:?}"
                );
                if !is_whole {
                    eventually("the refusal", || {
                        refusals.take().iter().any(|(status, cause)| *status == 0 && cause.contains("shrank"))
                    });
                }
            }
        }

        /// More bytes than all buffers between the two hold.
        const HUGE: u64 = 48 << 20;

        #[test]
        fn a_body_may_be_a_range_of_a_file() {
            let root = tree(&["a.txt"]);
            let open = || File::open(root.path().join("a.txt")).unwrap();
            let mut body = Body::new();
            body.set_file(open(), 1..4);
            assert!(body.is_stream() && !body.is_empty() && body.bytes().is_empty());
            let path = root.path().join("a.txt");
            let served = Served::new(async move |ctx: &mut Context| -> corehttp::Result {
                let (start, end) = match ctx.request.path() {
                    "/all" => (0, 5),
                    "/none" => (2, 2),
                    "/backwards" => (4, 1),
                    "/beyond" => (0, 6),
                    _ => (1, 4),
                };
                if ctx.request.path() == "/trailers" {
                    ctx.response.trailers.set("x-sum", "1")?;
                }
                ctx.response.body.set_file(File::open(&path)?, start..end);
                Ok(())
            });
            for (target, expected) in [
                ("/all", "a.txt"),
                ("/some", ".tx"),
                ("/none", ""),
                ("/backwards", ""),
                ("/trailers", "3\r\n.tx\r\n0\r\nx-sum: 1\r\n\r\n"),
            ] {
                assert_eq!(super::super::body(&served.ask(get(target, ""))), expected, "{target}");
            }
            let beyond = served.ask(get("/beyond", ""));
            assert!(beyond.ends_with("<ConnectionReset>"), "{beyond}");
        }
    }
}

mod cache {
    use super::*;

    fn bounded(bounds: FileCacheLimits, root: &Path) -> Served {
        Served::new(files(root).cache(bounds))
    }

    /// While a file is fresh, it is not checked again.
    #[test]
    fn a_file_is_checked_again_once_it_is_stale() {
        let root = tree(&["a.txt"]);
        let fresh = |fresh| bounded(FileCacheLimits { fresh, ..FileCacheLimits::default() }, root.path());
        // No `Instant` is so far away, and adding such a duration to one panics.
        let [long, forever, never] = [Duration::from_secs(3600), Duration::MAX, Duration::ZERO].map(fresh);
        let said = |served: &Served| body(&served.ask(get("/a.txt", ""))).to_owned();
        let all_say = || [&long, &forever, &never].map(said);
        assert_eq!(all_say(), ["a.txt", "a.txt", "a.txt"]);
        fs::write(root.path().join("a.txt"), "changed").unwrap();
        assert_eq!(all_say(), ["a.txt", "a.txt", "changed"]);
        fs::remove_file(root.path().join("a.txt")).unwrap();
        assert_eq!((said(&long), said(&forever)), ("a.txt".into(), "a.txt".into()));
        assert_eq!(status(&never.ask(get("/a.txt", ""))), 404);
        assert_eq!(status(&never.ask(get("/a.txt", ""))), 404);
    }

    /// Of too many files, the most recently used ones are kept.
    #[test]
    fn the_cache_is_bounded_by_files_and_by_bytes() {
        let bounds = FileCacheLimits { fresh: Duration::from_secs(3600), ..FileCacheLimits::default() };
        let by_count = FileCacheLimits { files_max: 2, ..bounds };
        let by_bytes = FileCacheLimits { files_max: 10, bytes_max: 2 * 1100, ..bounds };
        let nothing = FileCacheLimits { files_max: 0, ..bounds };
        let max = usize::MAX;
        let all =
            FileCacheLimits { bytes_max: max, files_max: max, file_bytes_max: max, fresh: Duration::MAX };
        for (bounds, kept) in
            [(by_count, "a c"), (by_bytes, "a c"), (nothing, ""), (bounds, "a b c"), (all, "a b c")]
        {
            let root = tree(&["a", "b", "c"]);
            let served = bounded(bounds, root.path());
            let said = |path: &str| body(&served.ask(get(path, ""))).to_owned();
            ["/a", "/b", "/a", "/c"].iter().for_each(|path| drop(said(path)));
            ["a", "b", "c"].iter().for_each(|name| fs::write(root.path().join(name), "new").unwrap());
            let found: Vec<_> =
                ["/a", "/c", "/b"].iter().map(|path| said(path)).filter(|said| said != "new").collect();
            let mut found = found;
            found.sort();
            assert_eq!(found.join(" "), kept, "{bounds:?}");
        }
    }

    /// The largest file is kept whatever share of the cache a file may take.
    #[test]
    fn a_file_of_the_largest_size_allowed_is_kept() {
        for (bytes_max, file_bytes_max, is_kept) in [
            (20_000, 10_000, true),
            (20_000, 20_000, true),
            (20_000, usize::MAX, true),
            (9_000, 10_000, false),
        ] {
            let root = tree(&["a"]);
            fs::write(root.path().join("a"), "x".repeat(10_000)).unwrap();
            let fresh = Duration::from_secs(3600);
            let bounds = FileCacheLimits { bytes_max, file_bytes_max, fresh, ..FileCacheLimits::default() };
            let served = bounded(bounds, root.path());
            assert_eq!(body(&served.ask(get("/a", ""))).len(), 10_000);
            fs::write(root.path().join("a"), "new").unwrap();
            assert_eq!(body(&served.ask(get("/a", ""))) != "new", is_kept, "{bounds:?}");
        }
    }

    /// Files become stale without a connection, too.
    #[test]
    fn without_a_connection_stale_files_are_checked_again() {
        let root = tree(&["a"]);
        let bounds = FileCacheLimits { fresh: Duration::from_nanos(1), ..FileCacheLimits::default() };
        let service = Server::new().service(files(root.path()).cache(bounds));
        let said = || paused(service.respond(Request::get("/a").unwrap())).body.bytes().to_vec();
        assert_eq!(said(), b"a");
        fs::write(root.path().join("a"), "changed").unwrap();
        assert_eq!(said(), b"changed");
    }

    #[test]
    fn a_large_file_is_kept_open_and_not_in_memory() {
        let root = tree(&["a.txt"]);
        let bounds = FileCacheLimits {
            file_bytes_max: 4,
            fresh: Duration::from_secs(3600),
            ..FileCacheLimits::default()
        };
        let served = bounded(bounds, root.path());
        let first = served.ask(get("/a.txt", ""));
        assert_eq!(body(&first), "a.txt");
        fs::write(root.path().join("a.txt"), "longer.txt").unwrap();
        let longer = served.ask(get("/a.txt", ""));
        assert_eq!(body(&longer), "longer.txt", "it is seen at once, under another name");
        assert_ne!(field(&longer, "etag"), field(&first, "etag"));
        fs::write(root.path().join("a.txt"), "b.txt").unwrap();
        assert_eq!(body(&served.ask(get("/a.txt", ""))), "b.txt");
        fs::rename(root.path().join("a.txt"), root.path().join("c.txt")).unwrap();
        // A name is no part of a file, but `ctime` changes with it.
        assert_eq!(status(&served.ask(get("/a.txt", ""))), if cfg!(unix) { 404 } else { 200 });
    }
}

mod listings {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn row_73_names_are_escaped_in_a_listing() {
        let names = [
            "<img src=x onerror=alert(1)>",
            "\"quoted\"",
            "a&b",
            "it's",
            "javascript:alert(1)",
            "//evil.com",
            "?q#f",
            "100%41",
            "..x",
        ];
        let names = names.map(|name| name.replace('/', "\u{2215}"));
        let paths: Vec<String> = names.iter().map(|name| format!("<b>/{name}")).collect();
        let root = tree(&paths.iter().map(|path| &**path).collect::<Vec<_>>());
        let served = Served::new(files(root.path()).listing(true).show_dot_files(true));
        let listing = served.ask(get("/%3Cb%3E/", ""));
        assert_eq!(field(&listing, "content-type"), Some("text/html; charset=utf-8"));
        assert!(field(&listing, "content-security-policy").unwrap().starts_with("default-src 'none'"));
        assert!(
            !body(&listing).contains("<img")
                && !body(&listing).contains("<b>")
                && !listing.contains("\"\"quoted")
        );
        assert!(!body(&listing).contains("<script"), "it needs none");
        // Every link leads to the file that it names.
        let links: Vec<&str> = body(&listing)
            .split("<td><a href=\"./")
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
            .collect();
        assert_eq!(links.len(), names.len(), "{listing}");
        for link in links {
            let received = served.ask(get(&format!("/%3Cb%3E/{link}"), ""));
            assert!(
                status(&received) == 200 && paths.iter().any(|path| path == body(&received)),
                "{link}: {received}"
            );
        }
    }

    #[test]
    fn hidden_files_do_not_count_in_a_truncated_listing() {
        let names = (0..10_001).map(|number| format!("all/{number}"));
        let hidden = (0..10_001).map(|number| format!("most/.{number}"));
        let shown = (0..10_000).map(|number| format!("most/{number}"));
        let paths = names.chain(hidden).chain(shown).map(|path| &*path.leak());
        let site = Vec::from_iter(paths.map(|path| (path, &b"1"[..])));
        let served = Served::new(Files::from_embedded(&site).listing(true));
        for (target, summary) in [
            ("/all/", "<p>0 directories, 10000 files, 9.8 KiB, and more that are not shown</p>"),
            ("/most/", "<p>0 directories, 10000 files, 9.8 KiB</p>"),
        ] {
            let listing = served.ask(get(target, ""));
            assert!(listing.contains(summary), "{target}: {}", &listing[listing.len() - 200..]);
        }
    }

    #[test]
    fn a_listing_answers_get_and_head_and_can_be_sorted() {
        let root = tree(&["d/a", "d/b/"]);
        let served = Served::new(files(root.path()).listing(true));
        let listing = served.ask(get("/d/", ""));
        let head = served.ask(get("/d/", "").replacen("GET", "HEAD", 1));
        assert_eq!(undated(&head), undated(&listing[..listing.len() - body(&listing).len()]));
        assert!(body(&listing).find("./b/\"") < body(&listing).find("./a\""), "directories come first");
        assert!(body(&listing).contains("href=\"../\""));
        let sorted = served.ask(get("/d/?sort=size&order=desc", ""));
        assert!(sorted.contains("aria-sort=\"descending\""), "{sorted}");
        assert_eq!(status(&served.ask("POST /d/ HTTP/1.1\r\nhost: a\r\n\r\n")), 405);
        assert_eq!(
            status(&Served::new(files(root.path())).ask(get("/d/", ""))),
            404,
            "only where it is wanted"
        );
    }
}

/// Files that not even root may read, because only their mode bits count.
#[cfg(target_os = "linux")]
mod denied {
    use super::*;

    const FOLDER: &str = "/sys/bus/platform";
    const UNREADABLE: &str = "sys/bus/platform/drivers_probe";

    #[test]
    fn an_unreadable_file_is_403_rfc9110_15_5_4() {
        let served = Served::new(files(Path::new(FOLDER)).listing(true));
        for fields in ["", "if-none-match: *\r\n", "range: bytes=0-0\r\n"] {
            assert_eq!(status(&served.ask(get("/drivers_probe", fields))), 403, "{fields}");
        }
        let listing = served.ask(get("/", ""));
        assert!(listing.contains("./drivers/") && !listing.contains("drivers_probe"), "{listing}");
        let send = async |ctx: &mut Context| ctx.send_file(Path::new("/").join(UNREADABLE)).await;
        assert_eq!(status(&Served::new(send).ask(get("/", ""))), 403);
    }

    /// A file is served even if its precompressed sibling or an index may not be read.
    #[test]
    fn an_unreadable_sibling_is_ignored() {
        let root = tree(&["a.js"]);
        let folder = root.path().canonicalize().unwrap();
        let up = "../".repeat(folder.components().count() - 1);
        for name in ["a.js.gz", "a.js.br", "index.html"] {
            symlink(format!("{up}{UNREADABLE}"), folder.join(name)).unwrap();
        }
        let files = files(Path::new("/")).follow_links(true).show_dot_files(true).precompressed(true);
        let served = Served::new(files);
        let ask = |name: &str| {
            served.ask(get(&format!("{}/{name}", folder.display()), "accept-encoding: gzip, br\r\n"))
        };
        assert_eq!((status(&ask("a.js")), body(&ask("a.js"))), (200, "a.js"));
        assert_eq!((status(&ask("a.js.gz")), status(&ask(""))), (403, 403));
    }
}

/// Changes by other processes in a directory while it is served.
mod changing {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    #[cfg(unix)]
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

    use super::*;

    /// Between two checks a file or a directory becomes a link that leads out, and then a file or a directory again.
    #[cfg(unix)]
    #[test]
    fn a_link_that_comes_and_goes_leads_nowhere() {
        let outside = tree(&["secret", "dir/secret"]);
        let root = tree(&["a", "b/secret.txt"]);
        let (is_over, path) = (AtomicBool::new(false), root.path());
        fs::write(path.join("a"), "open").unwrap();
        fs::write(path.join("b/secret.txt"), "open").unwrap();
        let swap = || {
            while !is_over.load(Ordering::Relaxed) {
                fs::write(path.join("file"), "open").unwrap();
                symlink(outside.path().join("secret"), path.join("link")).unwrap();
                fs::rename(path.join("link"), path.join("a")).unwrap();
                fs::rename(path.join("b"), path.join("c")).unwrap();
                symlink(outside.path().join("dir"), path.join("b")).unwrap();
                fs::rename(path.join("file"), path.join("a")).unwrap();
                fs::remove_file(path.join("b")).unwrap();
                fs::rename(path.join("c"), path.join("b")).unwrap();
            }
        };
        for files in [files(path), files(path).follow_links(true)] {
            let served = Served::new(files.listing(true).cache(UNCACHED));
            is_over.store(false, Ordering::Relaxed);
            thread::scope(|scope| {
                scope.spawn(swap);
                let targets = ["/a", "/b/secret", "/b/secret.txt", "/b/"];
                let received = served.ask(targets.map(|target| get(target, "")).concat().repeat(60));
                is_over.store(true, Ordering::Relaxed);
                assert!(
                    !received.contains("\r\n\r\nsecret") && !received.contains("\r\n\r\ndir/secret"),
                    "{received}"
                );
                assert!(!received.contains("./secret\"") && !received.contains("HTTP/1.1 5"), "{received}");
                assert_eq!(received.matches("HTTP/1.1 ").count(), 240, "{received}");
            });
        }
    }

    /// A file name may consist of any octets, which its link escapes.
    #[cfg(unix)]
    #[test]
    fn names_that_are_not_utf_8_are_listed_and_served() {
        let names: [&[u8]; 6] =
            [b"good", b"new\nline", b"\xff\xfe.html", b"esc\x1b[31m", b"back\\slash", b"over\xc0\xaf"];
        let root = tree(&[]);
        for name in names {
            let in_directory = root.path().join(OsStr::from_bytes(&[b"d-", name].concat()));
            fs::create_dir(&in_directory).unwrap();
            fs::write(in_directory.join(OsStr::from_bytes(name)), "content").unwrap();
        }
        let served = Served::new(files(root.path()).listing(true));
        let links = |listing: &str| -> Vec<String> {
            let rows = body(listing).split("<td><a href=\"./").skip(1);
            rows.map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
        };
        let directories = links(&served.ask(get("/", "")));
        assert_eq!(directories.len(), names.len(), "{directories:?}");
        for directory in directories {
            let listing = served.ask(get(&format!("/{directory}"), ""));
            let files = links(&listing);
            assert_eq!(files.len(), 1, "{listing}");
            for fields in ["", "if-match: *\r\n"] {
                let received = served.ask(get(&format!("/{directory}{}", files[0]), fields));
                assert_eq!((status(&received), body(&received)), (200, "content"), "{directory}{}", files[0]);
            }
            let redirect = served.ask(get(&format!("/{}", directory.trim_end_matches('/')), ""));
            assert_eq!(field(&redirect, "location"), Some(&*format!("/{directory}")));
        }
        assert_eq!(status(&served.ask(get("/%fe", ""))), 404);
    }

    /// The path may lead to another directory in several ways.
    #[cfg(unix)]
    #[test]
    fn a_root_that_is_replaced_is_followed_within_a_second() {
        type Replace = fn(&Path);
        let replaced: [(&str, Replace); 5] = [
            ("made again", |top| {
                fs::remove_dir_all(top.join("root")).unwrap();
                make(&top.join("root"), "new");
            }),
            ("renamed", |top| {
                fs::rename(top.join("root"), top.join("old")).unwrap();
                make(&top.join("next"), "new");
                fs::rename(top.join("next"), top.join("root")).unwrap();
            }),
            ("a link that is switched", |top| {
                make(&top.join("2"), "new");
                switch(top, "root", "2");
            }),
            ("a link that is switched back", |top| {
                make(&top.join("2"), "other");
                switch(top, "root", "2");
                make(&top.join("3"), "new");
                switch(top, "root", "3");
            }),
            ("below a link that is switched", |top| {
                make(&top.join("releases/2/dist"), "new");
                switch(top, "current", "releases/2");
            }),
        ];
        thread::scope(|scope| {
            for (how, replace) in replaced {
                scope.spawn(move || check_replaced(how, replace));
            }
        });
    }

    /// A directory with an index of its own, a file of the same size and time in all directories, and a file of its
    /// own.
    fn make(root: &Path, content: &str) {
        fs::create_dir_all(root.join(content)).unwrap();
        for name in ["index.html", "same.js", &format!("{content}/only.txt")] {
            fs::write(root.join(name), &content[..3]).unwrap();
            let file = File::options().write(true).open(root.join(name)).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1)).unwrap();
        }
        fs::write(root.join("large.bin"), content.repeat(4 << 20)).unwrap();
    }

    fn switch(top: &Path, link: &str, target: &str) {
        symlink(target, top.join("new-link")).unwrap();
        fs::rename(top.join("new-link"), top.join(link)).unwrap();
    }

    /// The responses to a peer that requests files again and again, and to one that is being sent a large file
    /// meanwhile.
    #[track_caller]
    fn check_replaced(how: &str, replace: fn(&Path)) {
        let top = tree(&[]);
        let top = top.path();
        let root = match how {
            how if how.starts_with("below") => {
                make(&top.join("releases/1/dist"), "old");
                symlink("releases/1", top.join("current")).unwrap();
                "current/dist"
            }
            how if how.starts_with("a link") => {
                make(&top.join("1"), "old");
                symlink("1", top.join("root")).unwrap();
                "root"
            }
            _ => {
                make(&top.join("root"), "old");
                "root"
            }
        };
        // Files are fresh for as long as their root is the same.
        let cache = FileCacheLimits { fresh: Duration::from_secs(3600), ..FileCacheLimits::default() };
        let served = Served::new(files(&top.join(root)).listing(true).cache(cache));
        let content = |target: &str| body(&served.ask(get(target, ""))).to_owned();
        assert_eq!(["/", "/same.js", "/old/only.txt"].map(content), ["old"; 3], "{how}");
        let etag = field(&served.ask(get("/same.js", "")), "etag").unwrap().to_owned();
        let mut slow = served.connect();
        slow.send(get("/large.bin", "connection: close\r\n"));
        let mut first = [0; 1000];
        slow.stream.read_exact(&mut first).unwrap();
        replace(top);
        thread::sleep(Duration::from_secs(1));
        assert_eq!(["/", "/same.js", "/new/only.txt"].map(content), ["new"; 3], "{how}");
        let seen = served.ask(get("/same.js", &format!("if-none-match: {etag}\r\n")));
        assert_eq!((status(&seen), body(&seen)), (200, "new"), "{how}");
        assert_eq!(status(&served.ask(get("/old/only.txt", ""))), 404, "{how}");
        assert!(served.ask(get("/new/", "")).contains("./only.txt"), "{how}");
        let rest = slow.receive_all();
        let sent = String::from_utf8_lossy(&first).into_owned() + &rest;
        assert!(body(&sent) == "old".repeat(4 << 20), "{how}: what is being sent goes on");
    }

    /// A directory that was never there cannot be served, but one that was removed may come back.
    #[cfg(unix)]
    #[test]
    fn a_root_that_is_gone_is_404_until_it_is_back() {
        let top = tree(&[]);
        let root = top.path().join("root");
        make(&root, "old");
        let served = Served::new(files(&root).listing(true));
        let alone = Served::new(files(&root).not_found(|ctx: &mut Context| ctx.response.set_text("app")));
        let statuses =
            || ["/", "/same.js", "/large.bin", "/old/"].map(|path| status(&served.ask(get(path, ""))));
        assert_eq!(statuses(), [200; 4]);
        fs::remove_dir_all(&root).unwrap();
        thread::sleep(Duration::from_millis(600));
        assert_eq!(statuses(), [404; 4]);
        assert_eq!(body(&alone.ask(get("/same.js", ""))), "app");
        fs::write(&root, "a file").unwrap();
        thread::sleep(Duration::from_millis(600));
        assert_eq!(statuses(), [404; 4]);
        fs::remove_file(&root).unwrap();
        make(&root, "new");
        thread::sleep(Duration::from_millis(600));
        assert_eq!(body(&served.ask(get("/same.js", ""))), "new");
        assert_eq!(statuses(), [200, 200, 200, 404]);
    }

    /// Each check costs system calls, and requests are many.
    #[cfg(target_os = "linux")]
    #[test]
    fn the_path_of_a_root_is_not_checked_for_each_request() {
        let root = tree(&["a"]);
        let cache = FileCacheLimits { fresh: Duration::from_secs(3600), ..FileCacheLimits::default() };
        let served = Served::new(files(root.path()).cache(cache));
        let accessed = || {
            // A directory that is made and removed beside the root cannot be seen; one in its place can.
            let start = Instant::now();
            fs::rename(root.path(), root.path().with_extension("away")).unwrap();
            fs::create_dir(root.path()).unwrap();
            fs::write(root.path().join("a"), "new").unwrap();
            let received = served.ask(get("/a", "").repeat(50));
            fs::remove_dir_all(root.path()).unwrap();
            fs::rename(root.path().with_extension("away"), root.path()).unwrap();
            (start.elapsed(), received)
        };
        thread::sleep(Duration::from_millis(550));
        // The first request checks the path, and the next ones need not.
        assert_eq!(body(&served.ask(get("/a", ""))), "a");
        let received = in_time(Duration::from_millis(400), accessed);
        assert_eq!(received.matches("\r\n\r\na").count(), 50, "{received}");
    }

    /// A directory is replaced by a file of the same name, and the other way round.
    #[test]
    fn a_directory_may_become_a_file_and_a_file_a_directory() {
        let root = tree(&["x/index.html"]);
        let fresh = FileCacheLimits { fresh: Duration::ZERO, ..FileCacheLimits::default() };
        let served = Served::new(files(root.path()).listing(true).cache(fresh));
        let statuses = || ["/x", "/x/", "/x/index.html"].map(|target| status(&served.ask(get(target, ""))));
        assert_eq!(statuses(), [301, 200, 200]);
        fs::remove_dir_all(root.path().join("x")).unwrap();
        assert_eq!(statuses(), [404, 404, 404]);
        fs::write(root.path().join("x"), "file").unwrap();
        assert_eq!(statuses(), [200, 404, 404]);
        fs::remove_file(root.path().join("x")).unwrap();
        fs::create_dir(root.path().join("x")).unwrap();
        assert_eq!(statuses(), [301, 200, 404]);
    }

    /// Files that are kept open must leave descriptors for connections, however many roots there are: 1,024 are all
    /// that most systems give, and some give fewer.
    #[cfg(target_os = "linux")]
    #[test]
    fn no_more_files_are_kept_open_than_descriptors_allow() {
        alone("files::files::changing::no_more_files_are_kept_open_than_descriptors_allow", || {
            rlimit::increase_nofile_limit(1024).unwrap();
            check_kept_open(256);
        });
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn where_descriptors_are_few_fewer_files_are_kept_open() {
        use rustix::process::{Resource, Rlimit, setrlimit};
        alone("files::files::changing::where_descriptors_are_few_fewer_files_are_kept_open", || {
            setrlimit(Resource::Nofile, Rlimit { current: Some(160), maximum: Some(160) }).unwrap();
            check_kept_open(40);
        });
    }

    /// A listing must not leave out entries for which there were no descriptors.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_listing_is_whole_or_fails_where_descriptors_are_few() {
        use rustix::process::{Resource, Rlimit, setrlimit};
        alone("files::files::changing::a_listing_is_whole_or_fails_where_descriptors_are_few", || {
            let root = tree(&["a.txt"]);
            let served = Served::new(files(root.path()).listing(true));
            let mut peer = served.connect();
            let mut list = || {
                peer.send(get("/", ""));
                peer.receive()
            };
            assert!(list().contains("./a.txt"));
            setrlimit(Resource::Nofile, Rlimit { current: Some(64), maximum: Some(64) }).unwrap();
            let mut taken = use_up_descriptors();
            let mut statuses = Vec::new();
            for _ in 0..8 {
                let listing = list();
                assert_eq!(status(&listing) == 200, listing.contains("./a.txt"), "{listing}");
                statuses.push(status(&listing));
                taken.pop();
            }
            assert!(statuses.starts_with(&[500]) && statuses.ends_with(&[200]), "{statuses:?}");
        });
    }

    /// A cache would give a response that lacks `vary` to everybody.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_sibling_is_found_or_the_request_fails_where_descriptors_are_few() {
        use rustix::process::{Resource, Rlimit, setrlimit};
        alone(
            "files::files::changing::a_sibling_is_found_or_the_request_fails_where_descriptors_are_few",
            || {
                let root = tree(&[]);
                fs::write(root.path().join("a.js"), "a".repeat(220_000)).unwrap();
                fs::write(root.path().join("a.js.gz"), "a".repeat(200_000)).unwrap();
                let served = Served::new(files(root.path()).precompressed(true).cache(UNCACHED));
                let mut peer = served.connect();
                let mut ask = || {
                    peer.send(get("/a.js", "accept-encoding: gzip\r\n"));
                    peer.receive()
                };
                assert_eq!(field(&ask(), "content-encoding"), Some("gzip"));
                setrlimit(Resource::Nofile, Rlimit { current: Some(64), maximum: Some(64) }).unwrap();
                let mut taken = use_up_descriptors();
                let mut statuses = Vec::new();
                for _ in 0..8 {
                    let received = ask();
                    let is_coded = field(&received, "content-encoding") == Some("gzip");
                    assert_eq!(is_coded, status(&received) == 200, "{}", &received[..200]);
                    statuses.push(status(&received));
                    taken.pop();
                }
                assert!(statuses.starts_with(&[500]) && statuses.ends_with(&[200]), "{statuses:?}");
            },
        );
    }

    /// A file that is requested is worth more than a connection that nobody uses.
    #[cfg(target_os = "linux")]
    #[test]
    fn idle_connections_make_room_for_files() {
        use rustix::process::{Resource, Rlimit, setrlimit};
        alone("files::files::changing::idle_connections_make_room_for_files", || {
            let root = tree(&["1.txt", "2.txt", "many/1.txt"]);
            let own = root.path().join("2.txt");
            let directory = files(root.path()).listing(true).cache(UNCACHED);
            let app = async move |ctx: &mut Context| match ctx.request.path() {
                "/own" => ctx.send_file(&own).await,
                _ => directory.handle(ctx).await,
            };
            let served = Served::new(app);
            let mut idle = Vec::from_iter((0..60).map(|_| served.connect()));
            let mut peer = served.connect();
            for peer in idle.iter_mut().chain([&mut peer]) {
                peer.send(get("/missing", ""));
                assert_eq!(status(&peer.receive()), 404);
            }
            setrlimit(Resource::Nofile, Rlimit { current: Some(256), maximum: Some(256) }).unwrap();
            let mut taken = use_up_descriptors();
            // A connection that was used just now may have a request on its way.
            std::thread::sleep(Duration::from_millis(700));
            for (path, expected) in [("/1.txt", "1.txt"), ("/many/", "./1.txt"), ("/own", "2.txt")] {
                let open = served.running.counts().total.open;
                peer.send(get(path, ""));
                let received = peer.receive();
                assert!(status(&received) == 200 && received.contains(expected), "{path}: {received}");
                assert!(served.running.counts().total.open < open, "{path}: {open} are open");
                taken.extend(use_up_descriptors());
            }
            assert!(served.running.counts().total.open > 1);
        });
    }

    #[cfg(target_os = "linux")]
    #[track_caller]
    fn check_kept_open(max: usize) {
        let names: Vec<String> = (0..300).map(|name| name.to_string()).collect();
        let root = tree(&names.iter().map(|name| &**name).collect::<Vec<_>>());
        let kept = FileCacheLimits {
            file_bytes_max: 0,
            fresh: Duration::from_secs(3600),
            ..FileCacheLimits::default()
        };
        let both = files(root.path()).host("b", root.path()).unwrap().cache(kept);
        let served = Served::new(both);
        let asked = names.iter().flat_map(|name| {
            [get(&format!("/{name}"), ""), get(&format!("http://b/{name}"), "").replace("host: a", "host: b")]
        });
        let asked = String::from_iter(asked);
        assert_eq!(served.ask(asked).matches("HTTP/1.1 200").count(), 2 * names.len());
        let open =
            fs::read_dir("/proc/self/fd").unwrap().filter_map(|fd| fs::read_link(fd.ok()?.path()).ok());
        let of_root = open.filter(|path| path.starts_with(root.path()) && path != root.path()).count();
        assert!((max / 2..=max).contains(&of_root), "{of_root} of {max}");
    }
}

//! Files and ranges, of a directory and of the program itself. No octet comes from elsewhere, and a range is
//! the one that was asked for.

use std::fs;
use std::os::unix::fs::symlink;

use corehttp::Server;
use corehttp::fs::Files;
use tempfile::TempDir;
use tokio::runtime::Builder;

use crate::memory::bounded;
use crate::oracle::server::{CHOICES, may_refuse};
use crate::oracle::{Next, Reader, Request, Response};
use crate::settings::Settings;
use crate::wired::Wired;

/// Bit 0: the files are those of the program.
pub fn run(data: &[u8]) {
    let Some((settings, wire)) = Settings::split(data) else { return };
    SERVERS.with(|(servers, _)| {
        let wired = &servers[usize::from(settings.flag(0))];
        let received = bounded(MEMORY_MAX + 100 * wire.len(), || wired.ask(settings.cut(wire), true)).octets;
        let (mut asked, mut answered) = (Reader::new(wire, CHOICES), Reader::strict(&received));
        while let Next::Whole(request) = asked.request() {
            let response = loop {
                match answered.response(&request.method, true) {
                    Next::Whole(interim) if interim.status < 200 => {}
                    next => break next,
                }
            };
            // A refusal is the last one.
            let Next::Whole(response) = response else { break };
            check(&request, &response);
        }
        let shown = String::from_utf8_lossy(&received);
        assert!(!shown.contains(SECRET), "{shown} to {}", wire.escape_ascii());
    });
}

const MEMORY_MAX: usize = 1 << 20;

const SECRET: &str = "5ecret";

/// All that may be seen.
const SITE: &[(&str, &[u8])] = &[
    ("index.html", b"<h1>index</h1>"),
    ("a.txt", b"0123456789"),
    ("empty", b""),
    ("sub/b.css", b"h1 { color: teal }"),
    ("sub/index.html", b"<h1>sub</h1>"),
    ("sub/c d%.js", b"let c = 1;"),
];

thread_local! {
    static SERVERS: ([Wired<Files>; 2], TempDir) = servers();
}

fn servers() -> ([Wired<Files>; 2], TempDir) {
    let outer = tempfile::tempdir().unwrap();
    let root = outer.path().join("root");
    fs::write(outer.path().join("secret"), SECRET).unwrap();
    for (path, content) in SITE {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    fs::write(root.join(".hidden"), SECRET).unwrap();
    symlink("../secret", root.join("link")).unwrap();
    symlink("..", root.join("up")).unwrap();
    // Files are read on other threads, for which a clock that jumps ahead would not wait.
    let served = [Files::new(root).unwrap(), Files::from_embedded(SITE)].map(|files| {
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        Wired::on(runtime, Server::new(), files.index(["index.html"]).listing(true))
    });
    (served, outer)
}

/// The part of a file that is sent is the one that was asked for.
fn check(request: &Request, response: &Response) {
    let told = || format!("{request:?}: {response:?}");
    let value = |name: &str| {
        let field = response.fields.iter().find(|field| field.name.eq_ignore_ascii_case(name.as_bytes()));
        field.map(|field| String::from_utf8_lossy(&field.value).into_owned())
    };
    let file = SITE.iter().find(|(path, _)| request.path().strip_prefix(b"/") == Some(path.as_bytes()));
    let is_get = request.method == b"GET";
    if may_refuse(request, response.status) {
        return;
    }
    match (response.status, file) {
        (200, Some((_, content))) if is_get => assert_eq!(response.content, *content, "{}", told()),
        (206, _) if is_get => {
            let is_some =
                SITE.iter().any(|(_, content)| is_range_of(response, value("content-range"), content));
            assert!(is_some, "{}", told());
        }
        (416, Some((_, content))) => {
            assert_eq!(value("content-range"), Some(format!("bytes */{}", content.len())), "{}", told());
        }
        _ => {}
    }
    let Some((_, content)) = file.filter(|_| is_get) else { return };
    if let Some((first, last)) = sole_range(request, content.len()) {
        let expected = content.get(first..=last);
        assert_eq!((response.status, Some(&*response.content)), (206, expected), "{}", told());
    }
}

/// Whether the content is what its range says, or has several ranges, each of which is checked by its own field.
fn is_range_of(response: &Response, range: Option<String>, content: &[u8]) -> bool {
    let Some(range) = range else {
        return response.content.starts_with(b"--") || response.content.starts_with(b"\r\n--");
    };
    let parsed = range.strip_prefix("bytes ").and_then(|range| {
        let ((first, last), size) =
            range.split_once('/').and_then(|(ends, size)| Some((ends.split_once('-')?, size)))?;
        Some((first.parse::<usize>().ok()?, last.parse::<usize>().ok()?, size.parse::<usize>().ok()?))
    });
    let Some((first, last, size)) = parsed else { return false };
    size == content.len() && content.get(first..=last) == Some(&*response.content)
}

/// The range that a request without conditions asks for, if it is a single one that can be satisfied (RFC 9110 §14.1).
fn sole_range(request: &Request, size: usize) -> Option<(usize, usize)> {
    let named = |prefix: &[u8]| {
        let starts =
            |name: &[u8]| name.len() >= prefix.len() && name[..prefix.len()].eq_ignore_ascii_case(prefix);
        request.fields.iter().filter(move |field| starts(&field.name)).count()
    };
    if named(b"if-") > 0 || named(b"range") != 1 || named(b"accept-encoding") > 0 {
        return None;
    }
    let field = request.fields.iter().find(|field| field.name.eq_ignore_ascii_case(b"range"))?;
    let range = str::from_utf8(&field.value).ok()?.strip_prefix("bytes=")?;
    let (first, last) = range.split_once('-')?;
    let number = |text: &str| {
        let is_decimal =
            !text.is_empty() && text.len() < 9 && text.bytes().all(|octet| octet.is_ascii_digit());
        is_decimal.then(|| text.parse::<usize>().unwrap())
    };
    match (number(first), number(last)) {
        (Some(first), Some(last)) if first <= last && first < size => Some((first, last.min(size - 1))),
        (Some(first), None) if last.is_empty() && first < size => Some((first, size - 1)),
        (None, Some(count)) if first.is_empty() && count > 0 && size > 0 => {
            Some((size - count.min(size), size - 1))
        }
        _ => None,
    }
}

//! Compressed copies of files, kept in a directory of their own.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
#[cfg(unix)]
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, SystemTime};

use corehttp::Response;
use corehttp::coding::Coding;
use corehttp::fs::{FileCacheLimits, Files};
use tempfile::TempDir;

use crate::handlers::compress::decoded;
use crate::support::Served;

/// A server, its files, and the directory of their copies.
struct Site {
    root: TempDir,
    copies: TempDir,
    served: Served,
}

impl Site {
    fn new(prepare: impl FnOnce(&Path, &Path)) -> Site {
        let (root, copies) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        fs::write(root.path().join("a.js"), script()).unwrap();
        prepare(root.path(), copies.path());
        for file in fs::read_dir(root.path()).unwrap() {
            settle(&file.unwrap().path());
        }
        let uncached = FileCacheLimits { files_max: 0, ..FileCacheLimits::default() };
        let files =
            Files::new(root.path()).unwrap().cache(uncached).compressed_copies(copies.path()).unwrap();
        Site { root, copies, served: Served::new(files) }
    }

    /// The head of the response, and its content.
    fn ask(&self, path: &str, accept: &str) -> (String, Vec<u8>) {
        let mut peer = TcpStream::connect(self.served.addr()).unwrap();
        write!(
            peer,
            "GET {path} HTTP/1.1\r\nhost: a\r\naccept-encoding: {accept}\r\nconnection: close\r\n\r\n"
        )
        .unwrap();
        let mut received = Vec::new();
        peer.read_to_end(&mut received).unwrap();
        let head = received.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
        let content = received.split_off(head);
        (String::from_utf8(received).unwrap(), content)
    }

    #[track_caller]
    fn check(&self, path: &str, accept: &str, coding: Option<&str>, expected: &str) {
        let (head, content) = self.ask(path, accept);
        let line = coding.map(|coding| format!("\r\ncontent-encoding: {coding}\r\n"));
        assert_eq!(head.contains("content-encoding"), line.is_some(), "{path} {accept}: {head}");
        assert!(line.is_none_or(|line| head.contains(&line)), "{path} {accept}: {head}");
        let mut response = Response::new();
        coding.into_iter().for_each(|coding| response.headers.set("content-encoding", coding).unwrap());
        response.body.set_bytes(content);
        assert_eq!(decoded(&response), expected.as_bytes(), "{path} {accept}");
    }

    fn names(&self) -> Vec<String> {
        let names = fs::read_dir(self.copies.path()).unwrap();
        let mut names: Vec<_> = names.map(|name| name.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// Sets the time of a file back, so that it was not changed just now.
fn settle(path: &Path) {
    let file = File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(60)).unwrap();
}

/// The names of the copies of these files: one for each coding that is available.
fn copies_of(names: &[&str]) -> Vec<String> {
    let codings = [(Coding::Br, ".br"), (Coding::Gzip, ".gz"), (Coding::Zstd, ".zst")];
    let available = codings.iter().filter(|(coding, _)| coding.is_available());
    let copies = available.flat_map(|(_, suffix)| names.iter().map(move |name| format!("{name}{suffix}")));
    let mut copies: Vec<_> = copies.collect();
    copies.sort();
    copies
}

fn script() -> String {
    "let count = count + 1;\n".repeat(200)
}

#[test]
fn a_copy_is_made_once_and_sent_to_peers_that_accept_it() {
    let site = Site::new(|_, _| {});
    site.check("/a.js", "gzip", Some("gzip"), &script());
    site.check("/a.js", "gzip, br", Some("br"), &script());
    site.check("/a.js", "zstd", Coding::Zstd.is_available().then_some("zstd"), &script());
    site.check("/a.js", "", None, &script());
    assert_eq!(site.names(), copies_of(&["%2Fa.js"]));
    let made = fs::metadata(site.copies.path().join("%2Fa.js.gz")).unwrap();
    site.check("/a.js", "gzip", Some("gzip"), &script());
    let again = fs::metadata(site.copies.path().join("%2Fa.js.gz")).unwrap();
    assert_eq!(made.created().unwrap(), again.created().unwrap(), "it is not made again");
}

#[test]
fn a_file_that_changes_has_another_copy() {
    let site = Site::new(|_, _| {});
    site.check("/a.js", "gzip", Some("gzip"), &script());
    let changed = script().replace("count", "other");
    fs::write(site.root.path().join("a.js"), &changed).unwrap();
    let file = File::options().write(true).open(site.root.path().join("a.js")).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777)).unwrap();
    site.check("/a.js", "gzip", Some("gzip"), &changed);
    site.check("/a.js", "br", Some("br"), &changed);
    assert_eq!(site.names(), copies_of(&["%2Fa.js"]));
    fs::remove_file(site.root.path().join("a.js")).unwrap();
    assert!(site.ask("/a.js", "gzip").0.starts_with("HTTP/1.1 404"));
}

/// Builds may give all files one time, and a link may be switched between releases.
#[test]
fn content_of_the_same_size_and_time_has_a_copy_of_its_own() {
    let site = Site::new(|_, _| {});
    for modified in [0, 1, 499_162_500, 1_700_000_000] {
        for name in ["count", "other", "third"] {
            let text = script().replace("count", name);
            fs::write(site.root.path().join("a.js"), &text).unwrap();
            let file = File::options().write(true).open(site.root.path().join("a.js")).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(modified)).unwrap();
            site.check("/a.js", "gzip", Some("gzip"), &text);
            site.check("/a.js", "br", Some("br"), &text);
        }
    }
    assert_eq!(site.names(), copies_of(&["%2Fa.js"]));
}

/// Copies must be looked for in the directory in which they are made, or they are made again and again.
#[test]
fn a_directory_of_copies_may_be_made_again() {
    let site = Site::new(|_, _| {});
    site.check("/a.js", "gzip", Some("gzip"), &script());
    fs::remove_dir_all(site.copies.path()).unwrap();
    site.check("/a.js", "gzip", None, &script());
    fs::create_dir(site.copies.path()).unwrap();
    site.check("/a.js", "gzip", Some("gzip"), &script());
    assert_eq!(site.names(), copies_of(&["%2Fa.js"]));
}

/// Such a file may change again without looking newer, and its copy would stay for ever.
#[test]
fn a_file_that_changed_just_now_has_no_copy() {
    let site = Site::new(|_, _| {});
    let file = site.root.path().join("a.js");
    fs::write(&file, script()).unwrap();
    site.check("/a.js", "gzip", None, &script());
    assert_eq!(site.names(), [""; 0]);
    settle(&file);
    site.check("/a.js", "gzip", Some("gzip"), &script());
}

#[test]
fn a_file_that_does_not_shrink_has_no_copy() {
    let site = Site::new(|root, _| {
        fs::write(root.join("small.js"), "x".repeat(1023)).unwrap();
        fs::write(root.join("photo.png"), script()).unwrap();
        fs::write(root.join("unknown"), script()).unwrap();
        fs::write(root.join("own.js.gz"), "own").unwrap();
        fs::write(root.join(format!("{}.js", "n".repeat(240))), script()).unwrap();
        let noise = (0..4000u64).map(|at| {
            char::from(33 + (at.wrapping_mul(at).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8 % 90)
        });
        fs::write(root.join("noise.txt"), String::from_iter(noise)).unwrap();
    });
    site.check("/small.js", "gzip, br", None, &"x".repeat(1023));
    site.check("/photo.png", "gzip, br", None, &script());
    site.check("/unknown", "gzip, br", None, &script());
    site.check(&format!("/{}.js", "n".repeat(240)), "gzip, br", None, &script());
    assert_eq!(site.names(), [""; 0]);
    let noise = fs::read_to_string(site.root.path().join("noise.txt")).unwrap();
    site.check("/noise.txt", "gzip, br", None, &noise);
    site.check("/noise.txt", "gzip, br", None, &noise);
    let kept = fs::metadata(site.copies.path().join("%2Fnoise.txt.gz")).unwrap();
    assert_eq!(kept.len(), 0, "that it was not worth it is remembered");
}

/// A link that was planted is not followed, neither to read nor to write.
#[cfg(unix)]
#[test]
fn row_70_a_planted_link_is_replaced() {
    let outside = TempDir::new().unwrap();
    let victim = outside.path().join("victim");
    fs::write(&victim, "secret").unwrap();
    let site = Site::new(|root, copies| {
        symlink(&victim, copies.join("%2Fa.js.gz")).unwrap();
        symlink(&victim, copies.join(format!(".%2Fa.js.br.{}", std::process::id()))).unwrap();
        // The link is planted even with the time of the file.
        settle(&root.join("a.js"));
        let modified = fs::metadata(root.join("a.js")).unwrap().modified().unwrap();
        File::options().write(true).open(&victim).unwrap().set_modified(modified).unwrap();
    });
    site.check("/a.js", "gzip", Some("gzip"), &script());
    site.check("/a.js", "br", Some("br"), &script());
    assert_eq!(fs::read_to_string(&victim).unwrap(), "secret");
    assert!(!fs::symlink_metadata(site.copies.path().join("%2Fa.js.gz")).unwrap().is_symlink());
    assert_eq!(site.names(), copies_of(&["%2Fa.js"]), "no draft is left");
}

#[test]
fn a_file_is_sent_as_it_is_where_no_copy_can_be_made() {
    // A directory in the place of the copy cannot be replaced.
    let site = Site::new(|_, copies| fs::create_dir_all(copies.join("%2Fa.js.gz/in")).unwrap());
    site.check("/a.js", "gzip", None, &script());
    site.check("/a.js", "gzip, br", Some("br"), &script());
    assert_eq!(site.names(), copies_of(&["%2Fa.js"]));
}

#[test]
fn copies_are_kept_outside_of_what_is_served() {
    let root = TempDir::new().unwrap();
    fs::create_dir(root.path().join("copies")).unwrap();
    let files = || Files::new(root.path()).unwrap();
    for copies in [root.path().to_owned(), root.path().join("copies"), root.path().join("none")] {
        assert!(files().compressed_copies(&copies).is_err(), "{}", copies.display());
    }
    let file = root.path().join("file");
    fs::write(&file, "").unwrap();
    let error = files().compressed_copies(&file).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotADirectory);
    // "Not a directory" alone would not name the path.
    assert!(error.to_string().starts_with(&format!("cannot open {}: ", file.display())), "{error}");
    // The order of the settings makes no difference.
    let (other, copies) = (TempDir::new().unwrap(), root.path().join("copies"));
    let elsewhere = || Files::new(other.path()).unwrap();
    assert!(elsewhere().compressed_copies(&copies).unwrap().host("b", root.path()).is_err());
    assert!(elsewhere().host("b", root.path()).unwrap().compressed_copies(&copies).is_err());
    assert!(elsewhere().compressed_copies(&copies).unwrap().host("b", other.path()).is_ok());
}

/// Files of two hosts may have the same path.
#[test]
fn each_host_has_copies_of_its_own() {
    let (other, copies) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let site = Site::new(|_, _| {});
    let text = script().replace("count", "other");
    fs::write(other.path().join("a.js"), &text).unwrap();
    let modified = fs::metadata(site.root.path().join("a.js")).unwrap().modified().unwrap();
    File::options().write(true).open(other.path().join("a.js")).unwrap().set_modified(modified).unwrap();
    let files = Files::new(site.root.path()).unwrap().host("b", other.path()).unwrap();
    let site = Site {
        served: Served::new(files.compressed_copies(copies.path()).unwrap()),
        copies,
        root: site.root,
    };
    site.check("/a.js", "gzip", Some("gzip"), &script());
    site.check("http://b/a.js", "gzip", Some("gzip"), &text);
    assert_eq!(site.names(), copies_of(&["%2Fa.js", "b%2Fa.js"]));
}

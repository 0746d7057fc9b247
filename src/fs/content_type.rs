//! [`content_type`]: the type that the name of a file suggests, and the charset of its content (RFC 9110 §8.3).

use std::path::Path;

use memchr::memmem;

use super::snapshot::FileContent;
use crate::message::Parameters;

/// The charset that text is announced in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Charset<'a> {
    /// UTF-8, if the content is valid UTF-8.
    Detected,
    /// The charset of this name.
    Fixed(&'a str),
    /// No charset.
    Omitted,
}

/// The media type that a name suggests.
pub(super) fn media_type(name: &[u8]) -> &'static str {
    let name = String::from_utf8_lossy(name);
    let extension = Path::new(&*name).extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let corrected =
        CORRECTED.iter().find(|(suffix, _)| *suffix == extension).map(|(_, corrected)| *corrected);
    let suggested = || mime_guess::from_ext(&extension).first_raw();
    corrected.or_else(suggested).unwrap_or("application/octet-stream")
}

/// Types that `mime_guess` lacks, or calls by other names than browsers and registries do.
const CORRECTED: [(&str, &str); 19] = [
    ("cjs", "text/javascript"),
    ("deb", "application/vnd.debian.binary-package"),
    ("diff", "text/x-diff"),
    ("m3u8", "application/vnd.apple.mpegurl"),
    ("m4a", "audio/mp4"),
    ("m4s", "video/iso.segment"),
    ("m4v", "video/mp4"),
    ("map", "application/json"),
    ("md", "text/markdown"),
    ("mjs", "text/javascript"),
    ("mts", "video/mp2t"),
    ("ndjson", "application/x-ndjson"),
    ("otf", "font/otf"),
    ("patch", "text/x-diff"),
    ("rpm", "application/x-rpm"),
    ("ts", "video/mp2t"),
    ("usdz", "model/vnd.usdz+zip"),
    ("woff", "font/woff"),
    ("zst", "application/zstd"),
];

/// The value of `content-type` for content of this media type.
///
/// Text gets a charset, unless the type has one. XML does not: a document names its own, or is in UTF-8, and a
/// parameter would overrule it (RFC 7303 §3.2). Text that is not in UTF-8 gets none either: browsers then use the
/// charset that the content declares, as HTML and CSS can, or guess it.
pub(super) fn content_type(media_type: &str, charset: Charset<'_>, content: &FileContent) -> String {
    let (essence, parameters) = Parameters::split(media_type.as_bytes());
    let essence = essence.to_ascii_lowercase();
    let (is_text, is_xml) = (essence.starts_with(b"text/"), essence.ends_with(b"xml"));
    // One more parameter does not mend malformed ones.
    let is_charset = |name: &str| name.eq_ignore_ascii_case("charset");
    let has_charset = || parameters.clone().any(|read| read.map_or(true, |(name, _)| is_charset(name)));
    let charset = match charset {
        Charset::Detected if is_text && !is_xml && !has_charset() => is_utf8(content).then_some("utf-8"),
        Charset::Fixed(name) if (is_text || is_xml) && !has_charset() => Some(name),
        Charset::Detected | Charset::Fixed(_) | Charset::Omitted => None,
    };
    charset.map_or(media_type.to_owned(), |charset| format!("{media_type}; charset={charset}"))
}

/// Whether the beginning of content is text in UTF-8.
fn is_utf8(content: &FileContent) -> bool {
    let Ok((head, is_all)) = content.head() else { return false };
    let is_text = match str::from_utf8(&head) {
        Ok(_) => true,
        // The last character may be cut.
        Err(error) => !is_all && error.error_len().is_none(),
    };
    // ASCII in UTF-16 and text in ISO-2022 are valid UTF-8, but contain NUL and `ESC $`, which text in UTF-8 does not.
    is_text && memchr::memchr(0, &head).is_none() && memmem::find(&head, b"\x1b$").is_none()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[track_caller]
    fn check(name: &str, content: &[u8], charset: Charset<'_>, expected: &str) {
        let content = FileContent::Bytes(Bytes::copy_from_slice(content));
        assert_eq!(content_type(media_type(name.as_bytes()), charset, &content), expected, "{name}");
    }

    /// The types that browsers of today need to display, run or play these.
    #[test]
    fn a_name_suggests_a_type_that_browsers_know_rfc9110_8_3() {
        for (name, expected) in [
            ("a.html", "text/html; charset=utf-8"),
            ("A.HTM", "text/html; charset=utf-8"),
            ("a.css", "text/css; charset=utf-8"),
            ("a.js", "text/javascript; charset=utf-8"),
            ("a.mjs", "text/javascript; charset=utf-8"),
            ("a.txt", "text/plain; charset=utf-8"),
            ("a.csv", "text/csv; charset=utf-8"),
            ("a.md", "text/markdown; charset=utf-8"),
            ("a.vtt", "text/vtt; charset=utf-8"),
            ("a.json", "application/json"),
            ("a.js.map", "application/json"),
            ("a.webmanifest", "application/manifest+json"),
            ("a.wasm", "application/wasm"),
            ("a.svg", "image/svg+xml"),
            ("a.xml", "text/xml"),
            ("a.xhtml", "application/xhtml+xml"),
            ("a.rss", "application/rss+xml"),
            ("a.atom", "application/atom+xml"),
            ("a.avif", "image/avif"),
            ("a.webp", "image/webp"),
            ("a.ico", "image/x-icon"),
            ("a.woff", "font/woff"),
            ("a.woff2", "font/woff2"),
            ("a.ttf", "font/ttf"),
            ("a.otf", "font/otf"),
            ("a.m3u8", "application/vnd.apple.mpegurl"),
            ("a.ts", "video/mp2t"),
            ("a.mpd", "application/dash+xml"),
            ("a.mp4", "video/mp4"),
            ("a.webm", "video/webm"),
            ("a.mp3", "audio/mpeg"),
            ("a.m4a", "audio/mp4"),
            ("a.pdf", "application/pdf"),
            ("a.tar.gz", "application/gzip"),
            ("a.unknown", "application/octet-stream"),
            ("README", "application/octet-stream"),
            (".txt", "application/octet-stream"),
            ("", "application/octet-stream"),
        ] {
            check(name, b"", Charset::Detected, expected);
        }
        assert_eq!(media_type(b"\xff.html"), "text/html");
    }

    #[test]
    fn text_is_announced_as_utf_8_if_it_is_valid_rfc9110_8_3_2() {
        for (content, is_utf8) in [
            (&b"plain"[..], true),
            ("é".as_bytes(), true),
            (b"\xef\xbb\xbfwith a mark", true),
            (b"\x1b[31mred\x1b[0m", true),
            (b"caf\xe9 in ISO-8859-1", false),
            (b"\x93quoted\x94 in windows-1252", false),
            (b"\xff\xfea\0 in UTF-16", false),
            (b"\0a\0b", false),
            (b"\x1b$B$\"\x1b(B in ISO-2022-JP", false),
            (b"\x82\xa0 in Shift_JIS", false),
            (b"cut \xc3", false),
        ] {
            let charset = if is_utf8 { "; charset=utf-8" } else { "" };
            for name in ["a.txt", "a.html", "a.css", "a.js"] {
                let essence = media_type(name.as_bytes());
                check(name, content, Charset::Detected, &format!("{essence}{charset}"));
                check(name, content, Charset::Omitted, essence);
                check(name, content, Charset::Fixed("x"), &format!("{essence}; charset=x"));
            }
            check("a.xml", content, Charset::Detected, "text/xml");
            check("a.svg", content, Charset::Fixed("x"), "image/svg+xml; charset=x");
            check("a.png", content, Charset::Fixed("x"), "image/png");
        }
    }

    #[test]
    fn a_type_that_has_a_charset_gets_no_other() {
        let content = FileContent::Bytes(Bytes::new());
        for charset in [Charset::Detected, Charset::Fixed("x"), Charset::Omitted] {
            for media_type in ["text/plain; charset=y", "text/plain;CHARSET=\"y\""] {
                assert_eq!(content_type(media_type, charset, &content), media_type);
            }
        }
        let flowed = content_type("text/plain; format=flowed", Charset::Detected, &content);
        assert_eq!(flowed, "text/plain; format=flowed; charset=utf-8");
        let quoted = content_type("text/plain; a=\";charset=y\"", Charset::Detected, &content);
        assert_eq!(quoted, "text/plain; a=\";charset=y\"; charset=utf-8");
    }

    /// Only the beginning of a large file is read, and may end within a character.
    #[test]
    fn a_large_file_is_in_utf_8_if_it_begins_so() {
        use std::io::Write;
        use std::sync::Arc;
        for (offset, expected) in [(0, "text/plain; charset=utf-8"), (1, "text/plain; charset=utf-8")] {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all("a".repeat(offset).as_bytes()).unwrap();
            file.write_all("é".repeat(50_000).as_bytes()).unwrap();
            let content = FileContent::File(Arc::new(file), 100_000 + offset as u64);
            assert_eq!(content_type("text/plain", Charset::Detected, &content), expected);
        }
    }
}

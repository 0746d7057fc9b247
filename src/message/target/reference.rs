//! Resolves a URI reference against the URL it was found at (RFC 3986 §5.2).

use super::parts::{PATH, QUERY};
use super::{InvalidTarget, Target};
use crate::message::percent;

impl Target {
    /// Resolves `reference`, such as a link in a page or the `location` of an answer, against this URL (RFC 3986 §5.2).
    ///
    /// The fragment is dropped, since it is never sent, and so is white space around the reference. Bytes that should
    /// have been escaped are escaped as browsers do it: servers send spaces, UTF-8 and Latin-1 in `location`, and get back
    /// what they sent.
    ///
    /// # Errors
    ///
    /// Fails if this target is not in absolute-form, or the reference does not lead to an `http` or `https` URL, or would
    /// lead browsers to another host.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Request;
    ///
    /// let page = Request::get("http://example.com/shop/list?page=2")?; // or of `Response::url`, if that is set
    /// assert_eq!(page.target().join("?page=3")?.as_str(), "http://example.com/shop/list?page=3");
    /// assert_eq!(page.target().join("../about us#team")?.as_str(), "http://example.com/about%20us");
    /// assert!(page.target().join("mailto:ada@example.com").is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "resolve")]
    pub fn join(&self, reference: impl AsRef<[u8]>) -> Result<Target, InvalidTarget> {
        let origin = self.origin().ok_or(InvalidTarget::Form)?;
        let reference = reference.as_ref().trim_ascii();
        let reference = reference.split(|&octet| octet == b'#').next().unwrap_or_default();
        if is_ambiguous(reference) {
            return Err(InvalidTarget::Byte);
        }
        let reference = escape(reference);
        let (path, query) = split_query(self.resource_text());
        // An empty path is the same as "/" (RFC 9110 §4.2.3).
        let path = if path.is_empty() { "/" } else { path };
        let url = match reference.as_str() {
            absolute if has_scheme(absolute) => clean(absolute),
            network if network.starts_with("//") => {
                clean(&format!("{}:{network}", self.scheme().unwrap_or_default()))
            }
            path if path.starts_with('/') => clean(&format!("{origin}{path}")),
            "" => format!("{origin}{path}{query}"),
            only_query if only_query.starts_with('?') => format!("{origin}{path}{only_query}"),
            relative => {
                let folder = &path[..path.rfind('/').map_or(0, |slash| slash + 1)];
                clean(&format!("{origin}{folder}{relative}"))
            }
        };
        let mut target = Target::default();
        target.set_url(&url)?;
        Ok(target)
    }
}

/// Whether browsers may read a host where there is none: they drop controls in front, and tabs and ends of lines
/// anywhere, and take `\` for `/` (WHATWG URL §4.4).
fn is_ambiguous(reference: &[u8]) -> bool {
    matches!(reference, [b'/', b'\\', ..] | [b'\\', b'/' | b'\\', ..] | [..b' ', ..])
        || memchr::memchr3(b'\t', b'\r', b'\n', reference).is_some()
}

/// Splits a resource into its path, and its query with the `?`.
fn split_query(resource: &str) -> (&str, &str) {
    resource.split_at(resource.find('?').unwrap_or(resource.len()))
}

/// Whether a reference begins with `scheme ":"`. Schemes other than http and https count too, so that they are refused
/// later.
fn has_scheme(reference: &str) -> bool {
    let Some((scheme, _)) = reference.split_once(':') else { return false };
    let is_fit = |char: char| char.is_ascii_alphanumeric() || "+-.".contains(char);
    scheme.starts_with(|first: char| first.is_ascii_alphabetic()) && scheme.chars().all(is_fit)
}

/// Removes `.` and `..` from the path of a URL (§5.2.4). Text without an authority stays as it is, to be refused later:
/// without its dots, `http:/.//g` would name a host.
fn clean(url: &str) -> String {
    let Some(colon) = url.find("://") else { return url.into() };
    let authority = colon + "://".len();
    let start = url[authority..].find(['/', '?']).map_or(url.len(), |at| authority + at);
    let (origin, resource) = url.split_at(start);
    let (path, query) = split_query(resource);
    let mut kept: Vec<&str> = Vec::new();
    let segments = path.strip_prefix('/').unwrap_or(path).split('/');
    let is_folder = path.ends_with("/.") || path.ends_with("/..");
    for segment in segments {
        match segment {
            "." => {}
            ".." => drop(kept.pop()),
            segment => kept.push(segment),
        }
    }
    if is_folder {
        kept.push("");
    }
    format!("{origin}/{}{query}", kept.join("/"))
}

/// Escapes what a path or a query cannot contain. If that is in the host, it is still refused later: a host has no `%`.
fn escape(reference: &[u8]) -> String {
    let (path, query) = reference.split_at(memchr::memchr(b'?', reference).unwrap_or(reference.len()));
    let mut escaped = String::with_capacity(reference.len());
    percent::encode(path, &PATH, &mut escaped);
    percent::encode(query, &QUERY, &mut escaped);
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(base: &str, rows: &[(&str, Option<&str>)]) {
        let mut target = Target::default();
        target.set_url(base).unwrap();
        for (reference, expected) in rows {
            let joined = target.join(reference.as_bytes());
            assert_eq!(joined.as_ref().ok().map(Target::as_str), *expected, "{reference}");
        }
    }

    #[test]
    fn references_are_resolved_as_in_the_standard_rfc3986_5_4() {
        check(
            "http://a/b/c/d;p?q",
            &[
                ("g", Some("http://a/b/c/g")),
                ("./g", Some("http://a/b/c/g")),
                ("g/", Some("http://a/b/c/g/")),
                ("/g", Some("http://a/g")),
                ("//g", Some("http://g/")),
                ("?y", Some("http://a/b/c/d;p?y")),
                ("g?y", Some("http://a/b/c/g?y")),
                ("#s", Some("http://a/b/c/d;p?q")),
                ("g#s", Some("http://a/b/c/g")),
                (";x", Some("http://a/b/c/;x")),
                ("", Some("http://a/b/c/d;p?q")),
                (".", Some("http://a/b/c/")),
                ("./", Some("http://a/b/c/")),
                ("..", Some("http://a/b/")),
                ("../g", Some("http://a/b/g")),
                ("../..", Some("http://a/")),
                ("../../g", Some("http://a/g")),
                ("../../../../g", Some("http://a/g")),
                ("/./g", Some("http://a/g")),
                ("/../g", Some("http://a/g")),
                ("g.", Some("http://a/b/c/g.")),
                ("..g", Some("http://a/b/c/..g")),
                ("./../g", Some("http://a/b/g")),
                ("g/../h", Some("http://a/b/c/h")),
                ("g?y/../x", Some("http://a/b/c/g?y/../x")),
                ("g?y/../x?z", Some("http://a/b/c/g?y/../x?z")),
                ("./g?http://h/..", Some("http://a/b/c/g?http://h/..")),
                ("g/h:i", Some("http://a/b/c/g/h:i")),
                ("g?y:z", Some("http://a/b/c/g?y:z")),
                ("1:2", Some("http://a/b/c/1:2")),
                ("1a:2", Some("http://a/b/c/1a:2")),
                ("https://h:8/x/../y#z", Some("https://h:8/y")),
                ("//[::1]:8/[g]", Some("http://[::1]:8/[g]")),
                ("HTTP://h", Some("HTTP://h/")),
            ],
        );
    }

    /// An empty segment is a segment like any other (RFC 3986 §3.3).
    #[test]
    fn empty_segments_are_kept_rfc3986_5_2_4() {
        check(
            "http://a/b//c",
            &[
                (".", Some("http://a/b//")),
                ("..", Some("http://a/b/")),
                ("../..", Some("http://a/")),
                ("g//.", Some("http://a/b//g//")),
                ("g//h/..?y", Some("http://a/b//g//?y")),
                ("/g//", Some("http://a/g//")),
                ("/.//g", Some("http://a//g")),
                ("/..//", Some("http://a//")),
                ("http://h//.", Some("http://h//")),
            ],
        );
    }

    #[test]
    fn unescaped_octets_are_escaped_and_other_references_refused() {
        check(
            "https://a.b",
            &[
                ("c d/\u{e9}\"<>", Some("https://a.b/c%20d/%C3%A9%22%3C%3E")),
                ("?a b", Some("https://a.b/?a%20b")),
                ("c%20d", Some("https://a.b/c%20d")),
                ("c|d{e}^`?f|g{h}^`", Some("https://a.b/c%7Cd%7Be%7D%5E%60?f|g{h}^`")),
                ("\\evil", Some("https://a.b/%5Cevil")),
                ("?a\\b#\t", Some("https://a.b/?a%5Cb")),
                ("\\\\evil", None),
                ("/\\evil", None),
                ("\\/evil", None),
                ("/\t/evil", None),
                ("ht\ttp://evil", None),
                ("ht\ntp://evil", None),
                ("/\n/evil", None),
                ("\u{1}//evil", None),
                (" \n//evil ", Some("https://evil/")),
                ("\thttp://evil/c d\r\n", Some("http://evil/c%20d")),
                (" c ", Some("https://a.b/c")),
                ("http://ev%69l/", None),
                ("//ev%69l/", None),
                ("", Some("https://a.b/")),
                ("ftp://a/", None),
                ("javascript:alert(1)", None),
                ("git+ssh://a/", None),
                ("http:", None),
                ("http:g", None),
                // Without its dots, the path once passed for a host.
                ("http:/.//g", None),
                ("https:/..//g", None),
                ("http:/h/..//g", None),
                ("http://", None),
                ("///g", None),
                ("http://user@g/", None),
                ("http://g:99999/", None),
                ("http://g h/", None),
                ("//g\u{e9}", None),
                ("http://g\"/", None),
                ("//g/h i", Some("https://g/h%20i")),
                ("h//i j", Some("https://a.b/h//i%20j")),
            ],
        );
        check("/only/a/path", &[("http://a/", None)]);
    }

    #[test]
    fn octets_that_are_not_utf8_are_escaped_as_they_came() {
        let mut target = Target::default();
        target.set_url("https://a.b/c/d").unwrap();
        for (reference, expected) in [
            (&b"caf\xe9?\xff"[..], Ok("https://a.b/c/caf%E9?%FF")),
            (b"//g/\xc3\x28", Ok("https://g/%C3(")),
            (b"http://g/h#\xff", Ok("http://g/h")),
            (b"\xff:g", Ok("https://a.b/c/%FF:g")),
            (b"//caf\xe9/", Err(InvalidTarget::Authority)),
            (b"http://g\xff", Err(InvalidTarget::Authority)),
            (b"http://g\xff:80/h", Err(InvalidTarget::Authority)),
        ] {
            let joined = target.join(reference);
            assert_eq!(joined.as_ref().map(Target::as_str), expected.as_ref().copied(), "{reference:?}");
        }
    }
}

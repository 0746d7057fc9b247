//! Targets as they are received, and URLs as people, pages and attackers write them.

use std::borrow::Cow;

use super::url::{Url, parse_normalized};
use super::{Target, TargetForm};
use crate::message::text::percent;
use crate::message::{InvalidTarget, InvalidText, Method, OctetSet, basic_credentials};

fn parsed(method: Method, target: &str) -> Result<Target, InvalidTarget> {
    let mut parsed = Target::default();
    parsed.parse(&method, target).map(|()| parsed)
}

type Shape<'a> = (TargetForm, Option<&'a str>, Option<&'a str>, &'a str, &'a str);

#[track_caller]
fn check_target(method: Method, text: &str, expected: Result<Shape, InvalidTarget>) {
    let found = parsed(method, text);
    assert_eq!(found.as_ref().map(shape), expected.as_ref().copied(), "{method} {text:?}");
    assert!(found.is_err() || found.is_ok_and(|target| target.as_str() == text));
}

fn shape(target: &Target) -> Shape<'_> {
    (target.form(), target.scheme(), target.authority(), target.path(), target.query().raw())
}

#[track_caller]
fn check_target_refused(method: Method, targets: &[&str], reason: InvalidTarget) {
    targets.iter().for_each(|text| check_target(method, text, Err(reason)));
}

#[test]
fn origin_form_is_path_and_query_rfc9112_3_2_1() {
    let origin = |path, query| Ok((TargetForm::Origin, None, None, path, query));
    check_target(Method::Get, "/", origin("/", ""));
    check_target(Method::Get, "/a/b;c=1", origin("/a/b;c=1", ""));
    check_target(Method::Get, "/a?", origin("/a", ""));
    check_target(Method::Post, "/a?b=c?d/e", origin("/a", "b=c?d/e"));
    check_target(Method::Options, "/a", origin("/a", ""));
    check_target(Method::Get, "//host/../a", origin("//host/../a", ""));
    check_target(Method::Get, "/%zz%?a[]=%", origin("/%zz%", "a[]=%"));
    check_target(Method::Get, "/?a={b|c}^", origin("/", "a={b|c}^"));
}

#[test]
fn absolute_form_has_scheme_and_host_rfc9112_3_2_2() {
    let absolute = |scheme, authority, path, query| {
        Ok((TargetForm::Absolute, Some(scheme), Some(authority), path, query))
    };
    check_target(Method::Get, "http://a/b?c", absolute("http", "a", "/b", "c"));
    check_target(Method::Get, "HTTPS://A:443", absolute("https", "A:443", "/", ""));
    check_target(Method::Get, "http://a?b", absolute("http", "a", "/", "b"));
    check_target(Method::Options, "http://[::1]:8080/", absolute("http", "[::1]:8080", "/", ""));
    check_target(Method::Get, "http://a:/?http://b", absolute("http", "a:", "/", "http://b"));
}

#[test]
fn absolute_form_needs_a_good_authority_rfc9110_4_2() {
    let bad = [
        "http://",
        "http:///a",
        "http://?a",
        "http://:80/",
        "http://a:1:2/",
        "http://a:65536/",
        "http://a:+1/",
        "http://[::1/",
        "http://127.0.0.1[x]/",
        "http://u@h/",
        "http://u:p@h/",
        "http://u\\0@h/",
        "http://@h/",
        "http://h.com\\\\admin",
        "http://h.com\\admin/",
        "http://h%/",
        "http://%68/",
        "http://h%2e/",
        "http://caf%C3%A9:80/",
        "http://h\0/",
        "http://h com/",
        "http://h#/",
    ];
    check_target_refused(Method::Get, &bad, InvalidTarget::Authority);
    check_target_refused(
        Method::Get,
        &["ftp://a/", "a:80", "ws://a/", "://a", "httpx://a/"],
        InvalidTarget::Scheme,
    );
    check_target_refused(Method::Get, &["http:a", "http:/a", "https:", "http:\\\\a"], InvalidTarget::Form);
}

#[test]
fn authority_form_is_for_connect_only_rfc9112_3_2_3() {
    let authority = |host| Ok((TargetForm::Authority, None, Some(host), "", ""));
    check_target(Method::Connect, "h:443", authority("h:443"));
    check_target(Method::Connect, "[::1]:1", authority("[::1]:1"));
    let bad = [
        "",
        "h",
        "h:",
        "h:0",
        ":443",
        "h:65536",
        "h:44x",
        "h:443/",
        "u@h:443",
        "%68:443",
        "/",
        "/a",
        "*",
        "http://h:443",
        "http://h/",
        "h:443?a",
        "h :443",
        "[::1]",
        "[::1:443",
        "h:443#",
        "h:443\0",
    ];
    check_target_refused(Method::Connect, &bad, InvalidTarget::Authority);
    check_target_refused(Method::Get, &["h:443", "[::1]:1"], InvalidTarget::Scheme);
}

#[test]
fn asterisk_form_is_for_options_only_rfc9112_3_2_4() {
    check_target(Method::Options, "*", Ok((TargetForm::Asterisk, None, None, "*", "")));
    check_target_refused(Method::Get, &["*", "", "foo", "?a", "#", "./a", " /", "\\"], InvalidTarget::Form);
    check_target_refused(Method::Options, &["**", "*/", "*?a", ""], InvalidTarget::Form);
}

#[test]
fn octets_at_which_some_readers_end_a_target_are_refused_rfc9112_3_2() {
    for char in ('\0'..='\u{ff}').chain(['\u{2028}', '\u{ff0f}', '\u{1f600}']) {
        let in_query = !char.is_control() && !matches!(char, ' ' | '#');
        let in_path = in_query && char != '\\';
        for (before, is_valid) in [
            ("/a", in_path),
            ("/a?b", in_query),
            ("http://h/", in_path),
            ("http://h/?", in_query),
            ("http://h?", in_query),
        ] {
            let target = format!("{before}{char}c");
            let found = parsed(Method::Get, &target).map(|target| target.as_str().to_owned());
            assert_eq!(found, if is_valid { Ok(target) } else { Err(InvalidTarget::Byte) }, "{char:?}");
        }
    }
}

#[test]
fn a_path_is_decoded_as_a_whole_or_by_segment() {
    let target = parsed(Method::Get, "/a%20b/%2e%2E%2Fc/%%41/+/").unwrap();
    assert_eq!(target.path_decoded().as_deref(), Ok("/a b/../c/%A/+/"));
    assert!(target.segments().map(Result::unwrap).eq(["a b", "../c", "%A", "+", ""]));
    let target = parsed(Method::Get, "/ok/%ff").unwrap();
    assert_eq!(target.path_decoded(), Err(InvalidText::Path));
    assert!(target.segments().eq([Ok("ok".into()), Err(InvalidText::Path)]));
    assert_eq!(parsed(Method::Options, "*").unwrap().segments().count(), 0);
    assert_eq!(parsed(Method::Connect, "h:1").unwrap().segments().count(), 0);
    assert!(parsed(Method::Get, "http://h").unwrap().segments().map(Result::unwrap).eq([""]));
}

#[test]
fn a_url_loses_its_fragment_and_a_malformed_one_is_refused() {
    let mut target = Target::default();
    for (url, sent) in [("http://a/b?c#d?e#f", "http://a/b?c"), ("/a#b", "/a"), ("https://a", "https://a")] {
        assert_eq!((target.set_url(url), target.as_str()), (Ok(()), sent));
    }
    let bad = [
        "",
        "#",
        "*",
        "a",
        "a/b",
        "a:80",
        "http:",
        "http://",
        "http:///",
        "ftp://a",
        "http://a b/",
        "http://a\0/",
        "http://a:99999/",
        "file:///etc",
        "javascript:0",
    ];
    for url in bad {
        assert!(target.set_url(url).is_err(), "{url:?}");
        assert_eq!(target.as_str(), "https://a", "a refused URL changes nothing");
    }
}

#[test]
fn a_query_is_replaced_and_escaped() {
    for (url, query, sent) in [
        ("/", "a=b", "/?a=b"),
        ("/a?b", "c?d", "/a?c?d"),
        ("/a?b", "", "/a"),
        ("/a?", "", "/a"),
        ("http://a", "b", "http://a?b"),
        ("http://a/b?c", "d", "http://a/b?d"),
    ] {
        let mut target = parsed(Method::Get, url).unwrap();
        assert_eq!(target.set_query(query), Ok(()));
        assert_eq!((target.as_str(), target.query().raw()), (sent, query));
        assert_eq!(target, parsed(Method::Get, sent).unwrap());
    }
    for (query, sent) in [
        ("a b", "/?a%20b"),
        ("a#b", "/?a%23b"),
        ("a\r\nX: y", "/?a%0D%0AX:%20y"),
        ("é\0\"<>\\^`{|}[]'", "/?%C3%A9%00%22%3C%3E%5C%5E%60%7B%7C%7D%5B%5D%27"),
        ("a=%20%&b=%2", "/?a=%20%25&b=%252"),
        ("a=b+c&d=/?:@", "/?a=b+c&d=/?:@"),
    ] {
        let mut target = parsed(Method::Get, "/?x").unwrap();
        assert_eq!((target.set_query(query), target.as_str()), (Ok(()), sent));
        assert_eq!(target.query().raw(), &sent["/?".len()..]);
    }
    let mut target = Target::default();
    assert_eq!((target.set_query("a"), target.as_str(), target.path()), (Ok(()), "/?a", "/"));
    for (method, text) in [(Method::Connect, "h:443"), (Method::Options, "*")] {
        assert_eq!(parsed(method, text).unwrap().set_query("a"), Err(InvalidTarget::Form));
    }
}

#[test]
fn a_segment_is_escaped_so_that_it_stays_one() {
    for text in ["", "a", "a/b", "é", "100%", "%2F", "a b", "...", "..a", "a\\b?c#d", "\0\r\n"] {
        let segment = Target::escape_segment(text).unwrap();
        let mut target = Target::default();
        target.set_url(&format!("http://h/x/{segment}?y")).unwrap();
        assert!(target.segments().map(Result::unwrap).eq(["x", text]), "{text:?}");
        assert_eq!(target.as_str(), format!("http://h/x/{segment}?y"), "nothing is left to be escaped");
    }
    for text in [".", ".."] {
        assert_eq!(Target::escape_segment(text), Err(InvalidTarget::Outside));
    }
    assert!(matches!(Target::escape_segment("plain"), Ok(Cow::Borrowed("plain"))));
}

#[test]
fn targets_are_compared_as_they_are_spelled() {
    let of = |text| parsed(Method::Get, text).unwrap();
    assert_eq!(Target::default(), of("/"));
    assert_eq!(of("http://a"), of("http://a"));
    for (one, other) in [
        ("/", "/?"),
        ("/a", "/%61"),
        ("/a", "/a/"),
        ("/?", "/?a"),
        ("http://a", "http://a/"),
        ("http://a", "http://A"),
        ("http://a", "https://a"),
    ] {
        assert_ne!(of(one), of(other));
    }
    assert_ne!(parsed(Method::Connect, "a:1").unwrap(), parsed(Method::Connect, "a:2").unwrap());
    assert_ne!(parsed(Method::Options, "*").unwrap(), of("/*"));
}

#[test]
fn a_target_is_shown_as_it_is_spelled() {
    for (method, text) in [
        (Method::Get, "/%61?b"),
        (Method::Get, "http://A/%"),
        (Method::Connect, "a:1"),
        (Method::Options, "*"),
    ] {
        let target = parsed(method, text).unwrap();
        assert_eq!(format!("{target} {target:?}"), format!("{text} {text:?}"));
    }
}

/// The target of `url`.
fn read(url: &str) -> Result<Target, InvalidTarget> {
    let mut target = Target::default();
    target.set_url(url).map(|()| target)
}

/// Each URL becomes the other, which no longer changes, and has only what RFC 3986 allows.
#[track_caller]
fn check_urls(rows: &[(&str, &str)]) {
    for (url, expected) in rows {
        let found = read(url);
        assert_eq!(found.as_ref().map(Target::as_str), Ok(*expected), "{url:?}");
        check_plain(expected);
        let parsed = Target::from(Url::parse(url.as_bytes()).unwrap());
        assert_eq!(parsed, found.unwrap(), "the short way and the long way lead to one target");
    }
}

/// Nothing is left to be changed in `url`, and it is read without the long way.
#[track_caller]
fn check_plain(url: &str) {
    let components = parse_normalized(url).unwrap_or_else(|| panic!("{url:?} is not plain"));
    let long = Url::parse(url.as_bytes()).unwrap();
    assert_eq!((&*long.text, format!("{:?}", long.components)), (url, format!("{components:?}")));
    static OCTETS: OctetSet = OctetSet::URI_PLAIN.with(b":/?@%[]");
    assert!(OCTETS.contains_all(url.as_bytes()) && percent::is_well_formed(url), "{url:?}");
    assert_eq!(components.query.end(), url.len(), "there is no fragment");
    let resource = &url[components.path.range().start..];
    assert!(!resource.contains(['[', ']']), "{url:?}");
}

#[track_caller]
fn check_url_refused(urls: &[&str], reason: InvalidTarget) {
    for url in urls {
        assert_eq!(read(url).err(), Some(reason), "{url:?}");
        assert!(parse_normalized(url).is_none(), "{url:?}");
    }
}

#[test]
fn a_url_that_needs_no_change_stays_as_it_is() {
    for url in [
        "/",
        "/a/b;c=d?e=f&g",
        "//a",
        "/?",
        "/a:b@c",
        "/%41%2f%00",
        "/.a/..b/...",
        "/a..",
        "http://a",
        "http://a/",
        "https://a.b-c.d_e~/f?",
        "http://a:81",
        "https://a:80/b",
        "http://127.0.0.1:8080/x",
        "http://[::1]/",
        "http://[2001:db8::7]:65535/",
        "http://[::ffff:192.0.2.1]/",
        "http://1.a/",
        "http://a./",
        "http://a!$&'()*+,;=b/",
    ] {
        check_urls(&[(url, url)]);
    }
}

/// WHATWG URL §4.4: "remove any leading and trailing C0 control or space", "remove all ASCII tab or newline".
#[test]
fn controls_spaces_and_fragments_are_dropped() {
    check_urls(&[
        (" http://a/b ", "http://a/b"),
        ("\u{0}\u{1b} \u{4}http://a/\u{1f} \r\n", "http://a/"),
        ("h\tttp\n:/\r/a\t/b\nc?d\re", "http://a/bc?de"),
        ("http://a\t\n.b:8\r0/", "http://a.b/"),
        ("http://a/b#c", "http://a/b"),
        ("http://a#b?c/d", "http://a"),
        ("http://a/?#", "http://a/?"),
        ("http://a/b #c ", "http://a/b%20"),
        ("/a\t/\nb", "/a/b"),
        ("/#", "/"),
        (" /a", "/a"),
    ]);
    check_url_refused(&["", " ", "\t\n", "#", "?", "a", "a/b", "./a", "?a", "*", ":80"], InvalidTarget::Form);
}

#[test]
fn any_slashes_lead_to_the_authority_and_a_backslash_is_one() {
    for url in [
        "http:a/b",
        "http:/a/b",
        "http://a/b",
        "http:///a/b",
        "http:////\\/a/b",
        "http:\\\\a\\b",
        "HTTP:/\\a\\b",
    ] {
        check_urls(&[(url, "http://a/b")]);
    }
    check_urls(&[
        ("https:\\a\\..\\b?c\\d", "https://a/b?c%5Cd"),
        ("/a\\b", "/a/b"),
        ("\\a", "/a"),
        ("\\\\a", "//a"),
        ("/\\a", "//a"),
        ("http://a\\@b/", "http://a/@b/"),
        ("http:\\\\a\\b:c\\d@e\\", "http://a/b:c/d@e/"),
    ]);
    check_url_refused(
        &["http:", "http:/", "http://", "http:////", "http://?a", "http://#a", "http:/\\?"],
        InvalidTarget::Authority,
    );
    check_url_refused(
        &["ftp://a/", "ws://a/", "a:80", "file:///a", "javascript:0", "git+ssh://a", "a.b:1"],
        InvalidTarget::Scheme,
    );
}

#[test]
fn dot_segments_are_resolved_however_they_are_spelled_rfc3986_5_2_4() {
    for (path, expected) in [
        ("/././a", "/a"),
        ("/./.a", "/.a"),
        ("/a/.", "/a/"),
        ("/a/./", "/a/"),
        ("/a/b/..", "/a/"),
        ("/a/b/../", "/a/"),
        ("/a/..b", "/a/..b"),
        ("/a/b/../c", "/a/c"),
        ("/a/b/../c/../../d", "/d"),
        ("/a/../../..", "/"),
        ("/a/../../../b", "/b"),
        ("/a/%2e", "/a/"),
        ("/a/%2E%2e?b", "/?b"),
        ("/a/b/.%2e/c", "/a/c"),
        ("/a/%2e./%2e%2e/.%2E/%2e.b", "/%2e.b"),
        ("/a/%2e%2", "/a/%2e%252"),
        ("////../..", "//"),
        ("/a/b//../..", "/a/"),
        ("/a/b//..", "/a/b/"),
        ("/a/../?b/../c", "/?b/../c"),
        ("/...", "/..."),
        ("/%2e%2e%2e", "/%2e%2e%2e"),
        ("/..", "/"),
        ("/..//", "//"),
        ("/a%2f..%2fb", "/a%2f..%2fb"),
    ] {
        let url = format!("https://h{path}");
        check_urls(&[(path, expected), (&url, &format!("https://h{expected}"))]);
    }
    check_urls(&[("http://h?a", "http://h/?a"), ("http://h?", "http://h/?")]);
}

/// WHATWG URL §1.3 leaves `[`, `]`, `|`, a lone `%`, and in queries `^`, `` ` ``, `{`, `}` and `\` as they are, which
/// RFC 3986 does not have there.
#[test]
fn all_256_octets_are_sent_as_rfc3986_has_them() {
    let base = read("http://h/x").unwrap();
    for octet in 0..=u8::MAX {
        let escaped = format!("%{octet:02X}");
        let is_plain = octet.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&octet);
        for (before, is_plain) in [
            ("/a", is_plain || octet == b'/'),
            ("/a?", (is_plain && octet != b'\'') || b"/?".contains(&octet)),
        ] {
            let reference = [before.as_bytes(), &[octet], b"c"].concat();
            let middle = match octet {
                b'\t' | b'\n' | b'\r' => String::new(),
                b'\\' if before == "/a" => "/".into(),
                octet if is_plain || (octet == b'?' && before == "/a") => char::from(octet).into(),
                _ => escaped.clone(),
            };
            let expected = match octet {
                b'#' => format!("http://h{before}"),
                _ => format!("http://h{before}{middle}c"),
            };
            let joined = base.join(&reference).unwrap();
            assert_eq!(joined.as_str(), expected, "{before} {octet:#x}");
            check_plain(joined.as_str());
        }
    }
    check_urls(&[
        ("/é", "/%C3%A9"),
        ("/a b", "/a%20b"),
        ("/a|b", "/a%7Cb"),
        ("/100%", "/100%25"),
        ("/%zz%4", "/%25zz%254"),
        ("/你好/\u{feff}\u{202e}", "/%E4%BD%A0%E5%A5%BD/%EF%BB%BF%E2%80%AE"),
        ("http://a/?a[]={b}&c='d'", "http://a/?a%5B%5D=%7Bb%7D&c=%27d%27"),
        ("http://a/?%GH%23", "http://a/?%25GH%23"),
        ("http://a/\u{7f}?\u{7f}", "http://a/%7F?%7F"),
        ("http://a/?q=ü ö", "http://a/?q=%C3%BC%20%C3%B6"),
    ]);
}

#[test]
fn all_256_octets_in_a_host() {
    for octet in (0..=u8::MAX).filter(u8::is_ascii) {
        let url = format!("http://a{}b", char::from(octet));
        let expected = match octet {
            b'\t' | b'\n' | b'\r' => Ok("http://ab".into()),
            b'/' => Ok("http://a/b".into()),
            b'\\' => Ok("http://a/b".into()),
            b'?' => Ok("http://a/?b".into()),
            b'#' => Ok("http://a".into()),
            b'@' => Ok("http://b".into()),
            b'A'..=b'Z' => Ok(url.to_ascii_lowercase()),
            octet if octet.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(&octet) => Ok(url.clone()),
            // Browsers take `"`, `` ` ``, `{` and `}`, which RFC 3986 does not have.
            _ => Err(InvalidTarget::Authority),
        };
        let found = read(&url).map(|target| target.as_str().to_owned());
        assert_eq!(found, expected, "{url:?}");
        let escaped = format!("http://a%{octet:02X}b");
        let expected = match octet {
            b'A'..=b'Z' => Ok(url.to_ascii_lowercase()),
            octet if octet.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(&octet) => Ok(url),
            _ => Err(InvalidTarget::Authority),
        };
        assert_eq!(read(&escaped).map(|target| target.as_str().to_owned()), expected, "{escaped:?}");
    }
}

#[test]
fn a_host_has_one_spelling() {
    check_urls(&[
        ("http://ExAmPlE.CoM/A", "http://example.com/A"),
        ("HTTPS://%65x%61mple.com", "https://example.com"),
        ("http://./", "http://./"),
        ("http://a..b/", "http://a..b/"),
        ("http://a.b.:80/", "http://a.b./"),
    ]);
    check_url_refused(
        &[
            "http://a b/",
            "http://a%20b/",
            "http://%/",
            "http://a%zz/",
            "http://a%2fb/",
            "http://a%40b/",
            "http://a%00/",
            "http://a%25b/",
            "http://[",
            "http://]/",
            "http://a[b]/",
            "http://a<b>/",
            "http://a^b/",
            "http://a|b/",
        ],
        InvalidTarget::Authority,
    );
}

#[test]
fn numbers_are_addresses_as_browsers_and_curl_read_them() {
    for (host, expected) in [
        ("127.0.0.1", "127.0.0.1"),
        ("127.1", "127.0.0.1"),
        ("0x7f.1", "127.0.0.1"),
        ("0X7F000001", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("017700000001", "127.0.0.1"),
        ("127.0.0.01", "127.0.0.1"),
        ("127.0.1.", "127.0.0.1"),
        ("%31%32%37.1", "127.0.0.1"),
        ("192.0x00A80001", "192.168.0.1"),
        ("192.168.257", "192.168.1.1"),
        ("256", "0.0.1.0"),
        ("0", "0.0.0.0"),
        ("0x", "0.0.0.0"),
        ("0x.0x.0", "0.0.0.0"),
        ("4294967295", "255.255.255.255"),
        ("0xffffffff", "255.255.255.255"),
        ("1.2.65535", "1.2.255.255"),
    ] {
        check_urls(&[(&format!("http://{host}:81/"), &format!("http://{expected}:81/"))]);
    }
    for name in ["192.168.257.com", "256.com", "0x7f.0.0.0x7g", "1.2.3.4a", "a.09..", "1..a"] {
        check_urls(&[(&format!("http://{name}/"), &format!("http://{name}/"))]);
    }
    for host in [
        "4294967296",
        "10000000000",
        "0xffffffff1",
        "0999999999999999999",
        "256.256.256.256",
        "192.168.0.257",
        "1.2.65536",
        "1.2.3.4.5",
        "1.2.3.08",
        "09.2.3.4",
        "0..0x300",
        "0x100.2.3.4",
        "1.2.3.4.5.",
        "a.1.2.3.4",
        "a.09",
        "a.0x4",
        "a.0x",
        "1.",
        "a.0xfffffffffffffffffffface",
    ] {
        let expected =
            if host == "1." { Ok("http://0.0.0.1/".into()) } else { Err(InvalidTarget::Authority) };
        let found = read(&format!("http://{host}/")).map(|target| target.as_str().to_owned());
        assert_eq!(found, expected, "{host}");
    }
}

#[test]
fn an_ipv6_address_is_spelled_as_in_rfc5952() {
    for (host, expected) in [
        ("[::1]", "[::1]"),
        ("[0:0:0:0:0:0:0:1]", "[::1]"),
        ("[2001:DB8:0:0::7]", "[2001:db8::7]"),
        ("[1:0::]", "[1::]"),
        ("[0:1:0:1:0:1:0:1]", "[0:1:0:1:0:1:0:1]"),
        ("[::127.0.0.1]", "[::7f00:1]"),
        ("[0:0:0:0:0:0:13.1.68.3]", "[::d01:4403]"),
        // Browsers write `[::ffff:c000:201]`; the mixed notation is that of RFC 5952 §5.
        ("[::ffff:192.0.2.1]", "[::ffff:192.0.2.1]"),
    ] {
        check_urls(&[(&format!("http://{host}:80/"), &format!("http://{expected}/"))]);
    }
    for host in [
        "[]",
        "[:]",
        "[::1",
        "[::1]x",
        "[[::1]]",
        "::1",
        "2001::1]",
        "[::1%25eth0]",
        "[::%31]",
        "%5B::1]",
        "[0:0:]",
        "[0::0::0]",
        "[1:2:3:4:5:6:7:8:9]",
        "[::127.0.0.1.]",
        "[::1.2.3.]",
        "[::.1.2]",
        "[0:1.00.0.0.0]",
        "[0:1.290.0.0.0]",
        "[::1.2.3.4x]",
        "[a.com]",
        "[v1.a]",
        "[ ::1]",
    ] {
        check_url_refused(&[&format!("http://{host}/")], InvalidTarget::Authority);
    }
}

#[test]
fn a_default_port_is_dropped() {
    check_urls(&[
        ("http://a:80/", "http://a/"),
        ("http://a:/", "http://a/"),
        ("http://a:443", "http://a:443"),
        ("https://a:443", "https://a"),
        ("https://a:80/", "https://a:80/"),
        ("http://a:000000000000000000000000080/", "http://a/"),
        ("http://a:00081/", "http://a:81/"),
        ("http://a:0/", "http://a:0/"),
        ("http://a:000/", "http://a:0/"),
    ]);
    for port in [
        "b",
        " ",
        "+80",
        "-80",
        "0x50",
        "80 ",
        "65536",
        "4294967376",
        "18446744073709551696",
        "80:80",
        "٣",
        "8%30",
    ] {
        check_url_refused(
            &[&format!("http://a:{port}/"), &format!("http://[::1]:{port}/b")],
            InvalidTarget::Authority,
        );
    }
}

/// The user and the password of `url`, which is otherwise `expected`.
#[track_caller]
fn check_credentials(url: &str, expected: &str, user: &str, password: &str) {
    let target = read(url).unwrap();
    assert_eq!(target.as_str(), expected, "{url:?}");
    let basic = basic_credentials(user.as_bytes(), password.as_bytes()).unwrap();
    assert_eq!(target.authorization(), Some(&*basic), "{url:?}");
}

#[test]
fn a_user_and_a_password_are_decoded_rfc7617() {
    check_credentials("http://u:p@a/", "http://a/", "u", "p");
    check_credentials("https:u@a", "https://a", "u", "");
    check_credentials("https://u:@a", "https://a", "u", "");
    check_credentials("http://:p@a/", "http://a/", "", "p");
    check_credentials("http::p@a/", "http://a/", "", "p");
    check_credentials("http://a.com:b@c:29/d", "http://c:29/d", "a.com", "b");
    check_credentials("http://u:p:q@a/", "http://a/", "u", "p:q");
    check_credentials("http://::@c@d:2", "http://d:2", "", ":@c");
    check_credentials("http://u@v@a:800/", "http://a:800/", "u@v", "");
    check_credentials("http://%75:%70%25+@a/", "http://a/", "u", "p%+");
    check_credentials("http://ü:😀 x@a/", "http://a/", "ü", "😀 x");
    check_credentials("http://u:p%@a/", "http://a/", "u", "p%");
    check_credentials("http://`{}|^:[]<>\"@a/", "http://a/", "`{}|^", "[]<>\"");
    for url in ["http://@a/b", "http://:@a/b", "http:@a/b"] {
        check_urls(&[(url, "http://a/b")]);
        assert_eq!(read(url).unwrap().authorization(), None);
    }
    check_url_refused(
        &["http://u%3av:p@a/", "http://u:%0d%0a@a/", "http://\u{7f}@a/", "http://u:%00@a/"],
        InvalidTarget::Userinfo,
    );
    check_url_refused(
        &["http://u:p@/", "http://u@", "http://@/a", "http://u@:80/", "http:@:80", "http://u@?a"],
        InvalidTarget::Authority,
    );
}

#[track_caller]
fn check_joined(base: &str, rows: &[(&str, Option<&str>)]) {
    let mut target = Target::default();
    target.set_url(base).unwrap();
    for (reference, expected) in rows {
        let joined = target.join(reference.as_bytes());
        assert_eq!(joined.as_ref().ok().map(Target::as_str), *expected, "{reference}");
    }
}

#[test]
fn references_are_resolved_as_in_the_standard_rfc3986_5_4() {
    check_joined(
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
            ("//[::1]:8/[g]", Some("http://[::1]:8/%5Bg%5D")),
            ("HTTP://h", Some("http://h/")),
        ],
    );
}

/// An empty segment is a segment like any other (RFC 3986 §3.3).
#[test]
fn empty_segments_are_kept_rfc3986_5_2_4() {
    check_joined(
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
    check_joined(
        "https://a.b",
        &[
            ("c d/\u{e9}\"<>", Some("https://a.b/c%20d/%C3%A9%22%3C%3E")),
            ("?a b", Some("https://a.b/?a%20b")),
            ("c%20d", Some("https://a.b/c%20d")),
            ("c|d{e}^`?f|g{h}^`", Some("https://a.b/c%7Cd%7Be%7D%5E%60?f%7Cg%7Bh%7D%5E%60")),
            ("\\x", Some("https://a.b/x")),
            ("?a\\b#\t", Some("https://a.b/?a%5Cb")),
            ("\\\\h", Some("https://h/")),
            ("/\\h", Some("https://h/")),
            ("\\/h", Some("https://h/")),
            ("///h", Some("https://h/")),
            ("/\\/\\//h/../i", Some("https://h/i")),
            ("/\t/h", Some("https://h/")),
            ("ht\ttp://h", Some("http://h/")),
            ("\u{1}//h", Some("https://h/")),
            (" \n//h ", Some("https://h/")),
            ("\thttp://h/c d\r\n", Some("http://h/c%20d")),
            (" c ", Some("https://a.b/c")),
            ("  \t", Some("https://a.b/")),
            ("http://h%69/", Some("http://hi/")),
            ("https:g", Some("https://a.b/g")),
            ("https:/g", Some("https://a.b/g")),
            ("https:", Some("https://a.b/")),
            ("http:g", Some("http://g/")),
            ("http:/g", Some("http://g/")),
            ("http:/.//g", Some("http://.//g")),
            (":", Some("https://a.b/:")),
            (":a\\", Some("https://a.b/:a/")),
            ("::23", Some("https://a.b/::23")),
            ("[61:24]:98", Some("https://a.b/%5B61:24%5D:98")),
            ("http://user@g/", Some("http://g/")),
            ("//0x7f.1:080", Some("https://127.0.0.1:80/")),
            ("", Some("https://a.b/")),
            ("ftp://a/", None),
            ("javascript:alert(1)", None),
            ("git+ssh://a/", None),
            ("http:", None),
            ("http://", None),
            ("//", None),
            ("http://g:99999/", None),
            ("http://g h/", None),
            ("http://g\"/", None),
            ("//g/h i", Some("https://g/h%20i")),
            ("h//i j", Some("https://a.b/h//i%20j")),
        ],
    );
    check_joined("/only/a/path", &[("http://a/", None)]);
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
        let joined = target.resolve(reference);
        assert_eq!(joined.as_ref().map(Target::as_str), expected.as_ref().copied(), "{reference:?}");
    }
}

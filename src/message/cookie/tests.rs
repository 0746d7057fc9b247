//! Which cookies may be set, how they are spelled, and how those of others are read (RFC 6265bis §4).

use std::time::{Duration, SystemTime};

use super::{Cookies, RawSetCookie, SameSite, SetCookie};
use crate::message::{CookieFault, Headers, MessageError, Request, Response};

/// `cookie` is spelled as `expected`, and read back as it was.
#[track_caller]
fn check(cookie: SetCookie, expected: &str) {
    let mut response = Response::new();
    assert_eq!(response.set_cookie(&cookie), Ok(()));
    assert_eq!(response.headers.get("set-cookie"), Some(expected));
    assert_eq!(response.cookies().next(), Some(cookie));
}

#[track_caller]
fn check_refused(cookie: SetCookie, fault: CookieFault) {
    let mut response = Response::new();
    assert_eq!(
        response.set_cookie(&cookie),
        Err(MessageError::from_cookie(fault, cookie.name)),
        "{cookie:?}"
    );
    assert!(response.headers.is_empty());
}

#[track_caller]
fn check_read(field: &str, expected: Option<SetCookie>) {
    assert_eq!(SetCookie::parse(field.as_bytes()), expected, "{field:?}");
}

const PLAIN: SetCookie<'static> = SetCookie {
    name: "a",
    value: "b",
    max_age: None,
    expires: None,
    domain: None,
    path: None,
    secure: false,
    http_only: false,
    same_site: None,
    partitioned: false,
};

/// Sun, 06 Nov 1994 08:49:37 GMT
fn date() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777)
}

/// 0 would remove the cookie.
#[test]
fn a_part_of_a_second_counts_as_one() {
    for (millis, seconds) in [(0, 0), (1, 1), (1000, 1), (59_999, 60)] {
        let mut headers = Headers::new();
        let max_age = Some(Duration::from_millis(millis));
        SetCookie { max_age, ..PLAIN }.append_to(&mut headers);
        assert_eq!(headers.get("set-cookie"), Some(&*format!("a=b; Max-Age={seconds}")));
    }
}

#[test]
fn every_attribute_is_spelled_rfc6265bis_4_1_1() {
    check(PLAIN, "a=b");
    check(SetCookie { value: "", ..PLAIN }, "a=");
    check(SetCookie { value: "\"b\"", ..PLAIN }, "a=\"b\"");
    check(SetCookie { value: "!#$%&'()*+-./:<=>?@[]^_`{|}~", ..PLAIN }, "a=!#$%&'()*+-./:<=>?@[]^_`{|}~");
    check(SetCookie { max_age: Some(Duration::from_secs(60)), ..PLAIN }, "a=b; Max-Age=60");
    check(SetCookie { expires: Some(date()), ..PLAIN }, "a=b; Expires=Sun, 06 Nov 1994 08:49:37 GMT");
    check(SetCookie { domain: Some("Example.com"), ..PLAIN }, "a=b; Domain=Example.com");
    check(SetCookie { path: Some("/a"), ..PLAIN }, "a=b; Path=/a");
    check(SetCookie { same_site: Some(SameSite::Strict), ..PLAIN }, "a=b; SameSite=Strict");
    check(SetCookie { secure: true, partitioned: true, ..PLAIN }, "a=b; Secure; Partitioned");
    check(
        SetCookie {
            domain: Some("a.b"),
            same_site: Some(SameSite::None),
            ..SetCookie::new_session("a", "b")
        },
        "a=b; Domain=a.b; Path=/; Secure; HttpOnly; SameSite=None",
    );
    check(
        SetCookie::new_session("__Host-a", "b").removal(),
        "__Host-a=; Max-Age=0; Expires=Thu, 01 Jan 1970 00:00:00 GMT; Path=/; Secure; HttpOnly; SameSite=Lax",
    );
}

#[test]
fn row_62_no_part_of_a_cookie_breaks_out() {
    let injections =
        ["a; Domain=evil", ";", "a\r\nInjected: 1", "a\n", "a\0", "a\x7f", "a\t", "a b", " a", "é"];
    for text in injections {
        check_refused(SetCookie { name: text, ..PLAIN }, CookieFault::Name);
        check_refused(SetCookie { value: text, ..PLAIN }, CookieFault::Value);
        check_refused(SetCookie { domain: Some(text), ..PLAIN }, CookieFault::Domain);
        check_refused(SetCookie { path: Some(text), ..PLAIN }, CookieFault::Path);
        check_refused(SetCookie { path: Some(&format!("/{text}")), ..PLAIN }, CookieFault::Path);
        let mut request = Request::default();
        assert_eq!(
            request.append_cookie(text, "b"),
            Err(MessageError::from_cookie(CookieFault::Name, text)),
            "{text:?}"
        );
        assert_eq!(
            request.append_cookie("a", text),
            Err(MessageError::from_cookie(CookieFault::Value, "a")),
            "{text:?}"
        );
        assert!(request.headers.is_empty());
    }
    for name in ["", "=", "a=b", "a,b", "\"a\"", "a\\b", "(a)", "a/b"] {
        check_refused(SetCookie { name, ..PLAIN }, CookieFault::Name);
    }
    for value in ["a,b", "\"", "\"a", "a\"", "a\"b", "\"a\"b\"", "\"a;b\"", "a\\b", "\"a b\""] {
        check_refused(SetCookie { value, ..PLAIN }, CookieFault::Value);
    }
    let label = "a".repeat(64);
    for domain in ["", ".", ".a.b", "a.b.", "a..b", "a_b", "[::1]", "a:80", "a/b", "*.a.b", &label] {
        check_refused(SetCookie { domain: Some(domain), ..PLAIN }, CookieFault::Domain);
    }
    for path in ["", "a", "*", "http://a/", &format!("/{}", "a".repeat(1024))] {
        check_refused(SetCookie { path: Some(path), ..PLAIN }, CookieFault::Path);
    }
    let domain = "a.".repeat(126) + "a";
    let path = format!("/{}", "a".repeat(1023));
    assert_eq!(SetCookie { domain: Some(&domain), path: Some(&path), ..PLAIN }.check(), Ok(()));
    check_refused(SetCookie { domain: Some(&(domain + "a")), ..PLAIN }, CookieFault::Domain);
}

#[test]
fn a_cookie_that_user_agents_would_drop_is_refused_rfc6265bis_5_7() {
    let (fits, long) = ("a".repeat(4095), "a".repeat(4096));
    assert_eq!(SetCookie { value: &fits, ..PLAIN }.check(), Ok(()));
    check_refused(SetCookie { value: &long, ..PLAIN }, CookieFault::TooLong);
    check_refused(SetCookie { same_site: Some(SameSite::None), ..PLAIN }, CookieFault::Insecure);
    check_refused(SetCookie { partitioned: true, ..PLAIN }, CookieFault::Insecure);
    for name in ["__Secure-a", "__SECURE-a", "__secure-"] {
        assert_eq!(SetCookie { name, secure: true, ..PLAIN }.check(), Ok(()));
        check_refused(SetCookie { name, ..PLAIN }, CookieFault::Prefix);
    }
    for name in ["__Host-a", "__HOST-a", "__host-"] {
        let good = SetCookie::new_session(name, "b");
        assert_eq!(good.check(), Ok(()));
        check_refused(SetCookie { secure: false, ..good }, CookieFault::Prefix);
        check_refused(SetCookie { domain: Some("a.b"), ..good }, CookieFault::Prefix);
        check_refused(SetCookie { path: Some("/a"), ..good }, CookieFault::Prefix);
        check_refused(SetCookie { path: None, ..good }, CookieFault::Prefix);
    }
    for value in ["__Host-a", "__secure-a=b"] {
        assert!(!SetCookie { name: "", value, secure: true, ..PLAIN }.has_valid_prefix(), "{value}");
    }
    assert!(SetCookie { name: "__Hos", ..PLAIN }.has_valid_prefix());
    assert!(SetCookie { name: "__Hostä", ..PLAIN }.has_valid_prefix());
}

#[test]
fn cookies_of_others_are_read_leniently_rfc6265bis_5_6() {
    check_read("a=b", Some(PLAIN));
    check_read(" a\t= b ; ", Some(PLAIN));
    check_read("a=b=c", Some(SetCookie { value: "b=c", ..PLAIN }));
    check_read("a=\"b c\",", Some(SetCookie { value: "\"b c\",", ..PLAIN }));
    check_read("alone", Some(SetCookie { name: "", value: "alone", ..PLAIN }));
    check_read("=b; Secure", Some(SetCookie { name: "", secure: true, ..PLAIN }));
    check_read("ä=ö", Some(SetCookie { name: "ä", value: "ö", ..PLAIN }));
    check_read(
        "a=b; SECURE=no; httpOnly ;foo; =; Secure2",
        Some(SetCookie { secure: true, http_only: true, ..PLAIN }),
    );
    check_read(
        "a=b; domain=.A.b; Path=/x; path=/",
        Some(SetCookie { domain: Some("A.b"), path: Some("/"), ..PLAIN }),
    );
    check_read("a=b; Domain=x; Domain=; Path=/x; Path=y", Some(PLAIN));
    check_read(
        "a=b; SameSite=lax; samesite=STRICT",
        Some(SetCookie { same_site: Some(SameSite::Strict), ..PLAIN }),
    );
    check_read("a=b; SameSite=Lax; SameSite=x", Some(PLAIN));
    check_read(
        "a=b; expires=Sunday, 06-Nov-94 08:49:37 GMT; Expires=x",
        Some(SetCookie { expires: Some(date()), ..PLAIN }),
    );
    let path = format!("/{}", "x".repeat(1024));
    check_read(&format!("a=b; Path=/; Path={path}"), Some(SetCookie { path: Some("/"), ..PLAIN }));
}

#[test]
fn ages_are_digits_rfc6265bis_5_6_2() {
    for (age, seconds) in [
        ("60", 60),
        ("0", 0),
        ("-1", 0),
        ("-0", 0),
        ("007", 7),
        ("99999999999999999999999", u64::MAX),
        ("-99999999999999999999999", 0),
    ] {
        let max_age = Some(Duration::from_secs(seconds));
        check_read(&format!("a=b; Max-Age={age}"), Some(SetCookie { max_age, ..PLAIN }));
    }
    for age in ["", "-", "+5", "5s", "1.5", "--1", "5 5", "0x5", "\u{663}"] {
        let max_age = Some(Duration::from_secs(60));
        check_read(&format!("a=b; Max-Age=60; Max-Age={age}"), Some(SetCookie { max_age, ..PLAIN }));
    }
}

#[test]
fn a_malformed_cookie_is_ignored_rfc6265bis_5_6() {
    for field in ["", ";", "=", " = ; Secure", "; a=b", "a=b\0", "a=b\r\nc", "a=\x7f", "a=b; Path=/\x01"] {
        check_read(field, None);
    }
    assert_eq!(SetCookie::parse(b"a=\xff"), None);
    assert_eq!(SetCookie::parse(b"\xff=a"), None);
    check_read(&format!("a={}", "b".repeat(4096)), None);
    assert!(SetCookie::parse(format!("a={}", "b".repeat(4095)).as_bytes()).is_some());
}

#[test]
fn sent_cookies_share_one_line_rfc6265bis_5_8_1() {
    let mut request = Request::default();
    request.headers.append("cookie", "a=1").expect("it is a field");
    request.headers.append("Cookie", "b=2").expect("it is a field");
    request.append_cookie("c", "\"3\"").expect("it is a cookie");
    assert_eq!(request.headers.all("cookie").collect::<Vec<_>>(), [b"a=1; b=2; c=\"3\""]);
    assert!(request.cookies().iter().eq([("a", "1"), ("b", "2"), ("c", "\"3\"")]));
}

#[test]
fn cookies_are_octets_rfc6265bis_5_6() {
    let check = |field: &'static [u8], expected: Option<(&[u8], &[u8])>| {
        let found = RawSetCookie::parse(field).map(|cookie| (cookie.name, cookie.value));
        assert_eq!(found, expected, "{}", field.escape_ascii());
    };
    check(b"n=caf\xe9", Some((b"n", b"caf\xe9")));
    check(b" \xe9\t= \xff\xfe ; Path=/", Some((b"\xe9", b"\xff\xfe")));
    check(b"\xff", Some((b"", b"\xff")));
    check(b"a=\xc3\xa9; x=\xff; Expires=\xff; Max-Age=\xff; SameSite=\xff; \xff", Some((b"a", b"\xc3\xa9")));
    // No URL matches such a path or domain.
    check(b"a=b; Path=/\xff", None);
    check(b"a=b; Domain=\xff.example", None);
    check(b"a=b; Path=\xff", Some((b"a", b"b")));
    for control in (0..b' ').filter(|&octet| octet != b'\t').chain([0x7f]) {
        let field = [b"a=\xe9", &[control][..], b"; Path=/"].concat();
        assert_eq!(RawSetCookie::parse(&field), None, "{control}");
    }
    let long = |len| [b"a=", &b"\xff".repeat(len)[..]].concat();
    assert!(RawSetCookie::parse(&long(4095)).is_some() && RawSetCookie::parse(&long(4096)).is_none());
    let unkept = RawSetCookie::parse(b"__HOST-\xff=1; Secure").expect("it is a cookie");
    let attributes = SetCookie { path: Some("/"), ..unkept.attributes };
    let kept = RawSetCookie { attributes, ..unkept };
    assert!(!unkept.has_valid_prefix() && kept.has_valid_prefix());
}

#[track_caller]
fn check_cookies(lines: &[&[u8]], expected: &[(&str, &str)]) {
    let mut headers = Headers::new();
    headers.append("accept", "x=y").unwrap();
    lines.iter().for_each(|line| headers.append("Cookie", *line).unwrap());
    let cookies = Cookies::new(&headers);
    assert_eq!(Vec::from_iter(cookies.iter()), expected);
    assert_eq!(cookies.is_empty(), expected.is_empty());
    for (name, _) in expected {
        let values = expected.iter().filter(|(other, _)| other == name).map(|(_, value)| *value);
        assert!(cookies.all(name).eq(values.clone()) && values.take(1).eq(cookies.get(name)));
        assert!(cookies.contains(name));
    }
    assert!(!cookies.contains("absent"));
}

#[test]
fn cookies_are_pairs_between_semicolons_rfc6265bis_4_2() {
    check_cookies(&[b"a=1"], &[("a", "1")]);
    check_cookies(&[b"a=1; b=2"], &[("a", "1"), ("b", "2")]);
    check_cookies(&[b"a=1; a=2; A=3"], &[("a", "1"), ("a", "2"), ("A", "3")]);
    check_cookies(&[b"a=b=c; d="], &[("a", "b=c"), ("d", "")]);
    check_cookies(&[b"a=1", b"b=2; c=3"], &[("a", "1"), ("b", "2"), ("c", "3")]);
}

#[test]
fn cookies_beyond_the_grammar_are_read_as_browsers_send_them() {
    check_cookies(&[b"a=1;b=2 ;\t;; c=3;"], &[("a", "1"), ("b", "2"), ("c", "3")]);
    check_cookies(&[b"a=\"1 2\"; b=\"x; c=y\""], &[("a", "\"1 2\""), ("b", "\"x"), ("c", "y\"")]);
    check_cookies(&[b"a=1, b=2"], &[("a", "1, b=2")]);
    check_cookies(&["näme=välue; a={\"b\":1}".as_bytes()], &[("näme", "välue"), ("a", "{\"b\":1}")]);
    check_cookies(&[b"alone; =nameless; ="], &[("", "alone"), ("", "nameless"), ("", "")]);
    check_cookies(&[b"a=%3B\\x; $Version=1"], &[("a", "%3B\\x"), ("$Version", "1")]);
}

#[test]
fn an_absent_value_is_none_and_a_malformed_one_an_error() {
    let mut headers = Headers::new();
    headers
        .set("cookie", "page=12; size=; sort=up; far=+5; twice=1; twice=x; quoted=\"1\"; on=true")
        .unwrap();
    let cookies = Cookies::new(&headers);
    assert_eq!((cookies.get_as::<u32>("page"), cookies.get_as::<u8>("twice")), (Ok(Some(12)), Ok(Some(1))));
    assert_eq!((cookies.get_as::<bool>("on"), cookies.get_as::<u32>("Page")), (Ok(Some(true)), Ok(None)));
    for name in ["size", "sort", "far", "quoted", "on"] {
        assert!(cookies.get_as::<u32>(name).is_err(), "{name}");
    }
}

#[test]
fn empty_and_unreadable_pieces_are_skipped() {
    check_cookies(&[], &[]);
    check_cookies(&[b""], &[]);
    check_cookies(&[b";", b" ; \t;"], &[]);
    check_cookies(&[b"a=\xff; b=2; \xc3=3"], &[("b", "2")]);
}

#[test]
fn octets_that_are_not_utf8_are_found_as_such() {
    let mut headers = Headers::new();
    headers.set("cookie", b"a=\xff; b=2; \xc3=3; a=4; \xfe").unwrap();
    let cookies = Cookies::new(&headers);
    let all: [(&[u8], &[u8]); 5] =
        [(b"a", b"\xff"), (b"b", b"2"), (b"\xc3", b"3"), (b"a", b"4"), (b"", b"\xfe")];
    assert!(cookies.iter_bytes().eq(all));
    assert_eq!(
        ["a", "b", "", "c"].map(|name| cookies.get_bytes(name)),
        [Some(&b"\xff"[..]), Some(b"2"), Some(b"\xfe"), None]
    );
    assert_eq!((cookies.get("a"), cookies.iter().count()), (Some("4"), 2));
}

#[test]
fn pieces_beyond_the_bound_are_not_looked_at() {
    let line = |pieces: usize| format!("{}; last=1", vec!["a=1"; pieces - 1].join("; "));
    for (pieces, expected) in [(1024, Some("1")), (1025, None), (5000, None)] {
        let mut headers = Headers::new();
        headers.set("cookie", line(pieces)).unwrap();
        assert_eq!(Cookies::new(&headers).get("last"), expected, "{pieces}");
        assert_eq!(Cookies::new(&headers).iter().count(), pieces.min(1024));
    }
}

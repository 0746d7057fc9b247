//! The cookies that a jar accepts, sends and drops (RFC 6265bis).

use std::io::{self, BufReader, Read, Write};
use std::time::{Duration, SystemTime};

use super::cookie::{Cookie, Error, RequestUri};
use super::cookie_jar::{Jar, Store};
use crate::Headers;
use crate::Request;
use crate::SetCookie;
use crate::message::RawSetCookie;

/// A store with a clock that only [`Case::wait`] moves.
struct Case {
    store: Store,
    now: SystemTime,
}

impl Case {
    fn new() -> Case {
        Case::with_limits(10, 100)
    }

    fn with_limits(per_site_max: usize, cookies_max: usize) -> Case {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        Case { store: Store::with_limits(per_site_max, cookies_max), now }
    }

    fn try_set(&mut self, url: &str, field: &str) -> Result<(), Error> {
        let request = request(url);
        let uri = RequestUri::new(request.target()).ok_or(Error::Target)?;
        let set = RawSetCookie::parse(field.as_bytes()).expect("the field is a cookie");
        self.store.insert(&uri, Cookie::new(&uri, &set, self.now)?, self.now)
    }

    #[track_caller]
    fn set(&mut self, url: &str, field: &str) {
        assert_eq!(self.try_set(url, field), Ok(()), "{url} {field}");
    }

    #[track_caller]
    fn check_refused(&mut self, url: &str, field: &str, reason: Error) {
        assert_eq!(self.try_set(url, field), Err(reason), "{url} {field}");
    }

    /// A request to `url` carries the cookies `expected`, or none if that is empty.
    #[track_caller]
    fn check(&mut self, url: &str, expected: &str) {
        let request = request(url);
        let uri = RequestUri::new(request.target()).expect("the url names a host");
        assert_eq!(
            self.store.cookie_header(&uri, self.now).unwrap_or_default(),
            expected.as_bytes(),
            "{url}"
        );
    }

    fn wait(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }
}

#[track_caller]
fn request(url: &str) -> Request {
    Request::get(url).expect("the url is good")
}

#[test]
fn a_cookie_without_a_domain_goes_to_its_host_alone_rfc6265bis_5_7() {
    let mut case = Case::new();
    case.set("http://www.example.com/", "a=1");
    case.check("http://www.example.com/any/where?x", "a=1");
    case.check("HTTPS://WWW.Example.COM:8443", "a=1");
    for url in [
        "http://example.com/",
        "http://a.www.example.com/",
        "http://www.example.com./",
        "http://www.example.org/",
    ] {
        case.check(url, "");
    }
}

#[test]
fn a_cookie_with_a_domain_goes_to_all_below_it_rfc6265bis_5_1_3() {
    let mut case = Case::new();
    case.set("http://www.example.com/", "a=1; Domain=.EXAMPLE.com");
    for url in ["http://example.com/", "http://www.example.com/", "http://a.b.example.com/"] {
        case.check(url, "a=1");
    }
    for url in ["http://badexample.com/", "http://example.com.evil.com/", "http://com/", "http://example.co/"]
    {
        case.check(url, "");
    }
}

#[test]
fn a_host_cannot_set_cookies_for_another_rfc6265bis_5_7() {
    let mut case = Case::new();
    for (url, domain, reason) in [
        ("http://www.example.com/", "example.org", Error::Domain),
        ("http://www.example.com/", "a.www.example.com", Error::Domain),
        ("http://badexample.com/", "example.com", Error::Domain),
        ("http://a.s3.amazonaws.com/", "amazonaws.com", Error::Domain),
        ("http://127.0.0.1/", "0.0.1", Error::Domain),
        ("http://127.0.0.1/", "127.0.0.2", Error::Domain),
        ("http://www.example.com/", "com", Error::PublicSuffix),
        ("http://www.example.com./", "com.", Error::PublicSuffix),
        ("http://127.0.0.1/", "1", Error::PublicSuffix),
        ("http://a.example.co.uk/", "co.uk", Error::PublicSuffix),
        ("http://a.github.io/", "github.io", Error::PublicSuffix),
        ("http://a.local/", "local", Error::PublicSuffix),
    ] {
        case.check_refused(url, &format!("a=1; Domain={domain}"), reason);
        case.check(url, "");
    }
    for (url, domain) in
        [("http://github.io/", "github.io"), ("http://localhost/", "LOCALHOST"), ("http://[::1]/", "[::1]")]
    {
        case.set(url, &format!("a=1; Domain={domain}"));
        case.check(url, "a=1");
    }
    case.check("http://a.github.io/", "");
    case.set("http://127.0.0.1/", "a=1; Domain=127.0.0.1");
    case.check("http://127.0.0.1:8080/", "a=1");
}

#[test]
fn paths_bound_and_order_cookies_rfc6265bis_5_1_4() {
    let mut case = Case::new();
    case.set("http://a.com/x/y", "folder=1");
    case.set("http://a.com/x/y", "root=1; Path=/");
    case.set("http://a.com/x/y", "odd=1; Path=x");
    case.set("http://a.com/", "deep=1; Path=/x/y/z");
    case.check("http://a.com/x/y/z/", "deep=1; folder=1; odd=1; root=1");
    case.check("http://a.com/x", "folder=1; odd=1; root=1");
    case.check("http://a.com/xy", "root=1");
    case.check("http://a.com", "root=1");
    case.check("http://a.com/X/y?/x/y", "root=1");
    // Java servers put their sessions there.
    case.set("http://b.com/app;sid=1/page", "folder=1");
    case.check("http://b.com/app;sid=1/", "folder=1");
    case.check("http://b.com/app/page", "");
}

#[test]
fn secure_cookies_are_for_https_and_left_alone_by_http_rfc6265bis_5_7() {
    let mut case = Case::new();
    case.set("https://a.com/", "sid=1; Secure; Path=/x");
    case.set("https://www.a.com/", "own=1; Secure");
    case.check("https://a.com/x", "sid=1");
    case.check("http://a.com/x", "");
    for (url, field) in [
        ("http://a.com/", "b=1; Secure"),
        ("http://a.com/", "sid=2; Path=/x"),
        ("http://a.com/", "sid=2; Path=/x/y"),
        ("http://a.com/x/y", "sid=2"),
        ("http://a.com/", "sid=; Max-Age=0; Path=/x"),
        ("http://www.a.com/", "sid=2; Domain=a.com; Path=/x"),
        ("http://www.a.com/", "sid=2; Path=/x"),
        ("http://a.com/", "own=2; Domain=a.com"),
    ] {
        case.check_refused(url, field, Error::Insecure);
    }
    case.set("http://mail.a.com/", "own=3");
    case.set("http://a.com/", "sid=3; Path=/");
    case.set("http://b.com/", "sid=4; Path=/x");
    case.check("https://a.com/x", "sid=1; sid=3");
}

/// A server under development has no certificate yet, but sets the cookies that it will set with one.
#[test]
fn a_secure_cookie_that_has_expired_shadows_nothing_rfc6265bis_5_7() {
    let mut case = Case::new();
    case.set("https://a.com/", "sid=1; Secure; Max-Age=10");
    case.check_refused("http://a.com/", "sid=2", Error::Insecure);
    case.wait(10);
    case.set("http://a.com/", "sid=2");
    case.check("http://a.com/", "sid=2");
}

#[test]
fn http_to_this_machine_is_secure_rfc6265bis_5_7() {
    for host in ["localhost", "LOCALHOST:8080", "127.0.0.1", "127.1.2.3:81", "[::1]", "[::1]:8080"] {
        let mut case = Case::new();
        let url = format!("http://{host}/");
        case.set(&url, "sid=1; Secure");
        case.set(&url, "__Host-id=2; Secure; Path=/");
        case.set(&url, "sid=3");
        case.check(&url, "sid=3; __Host-id=2");
        case.check("http://a.com/", "");
    }
    let mut case = Case::new();
    for host in
        ["a.localhost", "localhost.", "localhost.a.com", "128.0.0.1", "0.0.0.0", "[::2]", "127.0.0.1.a.com"]
    {
        case.check_refused(&format!("http://{host}/"), "sid=1; Secure", Error::Insecure);
        case.check_refused(&format!("http://{host}/"), "__Host-id=1; Secure; Path=/", Error::Insecure);
    }
    case.set("https://a.localhost/", "sid=1; Secure");
    case.check("http://a.localhost/", "");
    case.check("http://localhost/", "");
}

#[test]
fn the_name_prefixes_are_enforced_rfc6265bis_4_1_3() {
    let mut case = Case::new();
    for field in [
        "__Secure-a=1",
        "__secure-a=1; Domain=a.com",
        "__Host-a=1; Path=/",
        "__Host-a=1; Secure",
        "__Host-a=1; Secure; Path=/x",
        "__HOST-a=1; Secure; Path=/; Domain=a.com",
        "=__Host-a=1; Secure; Path=/",
        "__Secure-a; Secure",
    ] {
        case.check_refused("https://a.com/", field, Error::Prefix);
    }
    case.check_refused("http://a.com/", "__Secure-a=1; Secure", Error::Insecure);
    case.set("https://a.com/", "__Secure-a=1; Secure; Domain=a.com");
    case.set("https://a.com/", "__Host-a=1; Secure; Path=/; SameSite=Strict; HttpOnly; Partitioned");
    case.check("https://a.com/", "__Secure-a=1; __Host-a=1");
}

#[test]
fn cookies_expire_by_max_age_or_by_expires_rfc6265bis_5_5() {
    let mut case = Case::new();
    case.set("http://a.com/", "age=1; Max-Age=10; Expires=Thu, 01 Jan 1970 00:00:00 GMT");
    case.set("http://a.com/", "date=1; Expires=Tue, 14 Nov 2023 22:13:40 GMT");
    case.set("http://a.com/", "long=1; Max-Age=99999999999999999999");
    case.set("http://a.com/", "far=1; Expires=Fri, 31 Dec 9999 23:59:59 GMT");
    case.set("http://a.com/", "session=1");
    case.set("http://a.com/", "ended=1; Expires=Thu, 01 Jan 1970 00:00:00 GMT");
    case.wait(9);
    case.check("http://a.com/", "age=1; date=1; long=1; far=1; session=1");
    case.wait(1);
    case.check("http://a.com/", "date=1; long=1; far=1; session=1");
    case.wait(10);
    case.check("http://a.com/", "long=1; far=1; session=1");
    case.wait(400 * 86_400);
    case.check("http://a.com/", "session=1");
}

#[test]
fn a_cookie_is_replaced_by_one_of_its_name_domain_and_path_and_removed_by_an_expired_one() {
    let mut case = Case::new();
    case.set("http://a.com/", "a=1");
    case.set("http://a.com/", "b=1");
    case.set("http://a.com/", "a=2");
    case.check("http://a.com/", "a=2; b=1");
    case.set("http://a.com/", "a=3; Domain=a.com");
    case.set("http://a.com/", "A=4; Path=/x");
    case.check("http://a.com/x", "A=4; a=2; b=1; a=3");
    case.set("http://a.com/", "a=; Max-Age=0; Domain=a.com");
    case.set("http://a.com/", "a=; Max-Age=0; Path=/x");
    case.check("http://a.com/", "a=2; b=1");
    case.set("http://a.com/", "a=; Max-Age=-1");
    case.set("http://a.com/", "b=; Expires=1 Jan 1970 00:00:00");
    case.set("http://a.com/x", "A=; Max-Age=0; Path=/x");
    case.check("http://a.com/x", "");
    assert_eq!(case.store.iter().count(), 0);
}

#[test]
fn a_site_has_a_bound_and_loses_its_least_recently_used_cookie() {
    let mut case = Case::with_limits(3, 100);
    case.set("https://a.com/", "a=1; Secure");
    for (url, field) in [("https://a.com/", "b=1"), ("https://x.a.com/", "c=1"), ("https://x.a.com/", "d=1")]
    {
        case.set(url, field);
    }
    case.check("https://a.com/", "a=1");
    case.check("https://x.a.com/", "c=1; d=1");
    case.set("https://b.com/", "e=1");
    case.set("https://a.com/", "short=1; Secure; Max-Age=1");
    case.check("https://x.a.com/", "d=1");
    case.wait(1);
    case.set("https://a.com/", "f=1");
    case.check("https://a.com/", "a=1; f=1");
    case.check("https://x.a.com/", "d=1");
    case.check("https://b.com/", "e=1");
}

#[test]
fn a_jar_has_a_bound_and_loses_its_least_recently_used_cookie() {
    let mut case = Case::with_limits(10, 3);
    for host in ["a", "b", "c"] {
        case.set(&format!("http://{host}.com/"), "a=1");
    }
    case.check("http://a.com/", "a=1");
    case.set("http://d.com/", "a=1");
    for (host, expected) in [("a", "a=1"), ("b", ""), ("c", "a=1"), ("d", "a=1")] {
        case.check(&format!("http://{host}.com/"), expected);
    }
    case.set("http://d.com/", "a=2; Max-Age=1");
    case.wait(1);
    case.set("http://e.com/", "a=1");
    for (host, expected) in [("a", "a=1"), ("c", "a=1"), ("d", ""), ("e", "a=1")] {
        case.check(&format!("http://{host}.com/"), expected);
    }
    for number in 0..1000 {
        case.set(&format!("http://{number}.com.example.net/"), &format!("a{number}=1"));
        case.set(&format!("http://h{number}.com/"), "a=; Max-Age=0");
    }
    assert_eq!(case.store.iter().count(), 3);
}

#[test]
fn a_jar_stores_and_gives_cookies_and_ends_its_session() {
    let jar = Jar::new();
    let request = request("https://a.com/");
    let mut headers = Headers::new();
    for field in ["kept=1; Max-Age=100", "session=2", "bad=1; Domain=b.com", "=", "nameless"] {
        headers.append("Set-Cookie", field).expect("it is a field");
    }
    jar.store(request.target(), &headers);
    assert_eq!(
        jar.cookie_header(request.target()).as_deref(),
        Some("kept=1; session=2; nameless".as_bytes())
    );
    let relative = Request::get("/").expect("it is a path");
    assert_eq!(jar.set(relative.target(), &SetCookie::new("a", "b")), Err(Error::Target));
    assert_eq!(jar.cookie_header(relative.target()), None);
    for (name, value) in [("a;b", "c"), ("a", "b; c=d"), ("a=b", "c"), (" a", "b"), ("a", "b\r\n"), ("", "")]
    {
        assert_eq!(
            jar.set(request.target(), &SetCookie::new(name, value)),
            Err(Error::Value),
            "{name}={value}"
        );
    }
    for path in ["", "a", ";/a", "/a\0", "/ "] {
        let cookie = SetCookie { path: Some(path), ..SetCookie::new("a", "b") };
        assert_eq!(jar.set(request.target(), &cookie), Err(Error::Value), "{path:?}");
    }
    assert!(!jar.is_empty());
    assert_eq!((jar.len(), format!("{jar:?}")), (3, "a jar of 3 cookies".into()));
    jar.end_session();
    assert_eq!(jar.cookie_header(request.target()).as_deref(), Some("kept=1".as_bytes()));
    jar.clear();
    assert!(jar.is_empty());
}

/// The jar that is loaded from `file`, or the number of the line that is invalid.
fn loaded(file: &str) -> Result<Jar, Option<usize>> {
    let jar = Jar::new();
    let line = |error: std::io::Error| match error.get_ref()?.downcast_ref() {
        Some(Error::Line(line)) => Some(*line),
        _ => None,
    };
    jar.load(file.as_bytes()).map_err(line).map(|()| jar)
}

/// A file that uses the jar whenever it is read or written.
struct LockProbe<'a, T>(&'a Jar, T);

impl<T: Write> Write for LockProbe<'_, T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        assert_eq!(self.0.len(), 2);
        self.1.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.1.flush()
    }
}

impl<T: Read> Read for LockProbe<'_, T> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        assert!(self.0.len() <= 2);
        self.1.read(out)
    }
}

/// Requests must not wait for the disk on which their jar is saved.
#[test]
fn a_jar_is_free_while_a_file_is_read_or_written() {
    let jar = Jar::new();
    let twin = Jar::new();
    let request = request("https://a.com/");
    for name in ["a", "b"] {
        let cookie = SetCookie { max_age: Some(Duration::from_secs(100)), ..SetCookie::new(name, "1") };
        jar.set(request.target(), &cookie).expect("it may be set");
    }
    let mut file = Vec::new();
    jar.save(LockProbe(&jar, &mut file)).expect("there is room");
    twin.load(BufReader::new(LockProbe(&twin, &file[..]))).expect("it was saved so");
    assert_eq!(twin.cookie_header(request.target()).as_deref(), Some("a=1; b=1".as_bytes()));
}

#[test]
fn bounds_of_any_size_work() {
    for (per_site_max, cookies_max, kept) in [
        (0, usize::MAX, 0),
        (usize::MAX, 0, 0),
        (1, usize::MAX, 1),
        (usize::MAX, 1, 1),
        (usize::MAX, usize::MAX, 3),
    ] {
        let jar = Jar::with_bounds(per_site_max, cookies_max);
        let request = request("https://a.com/");
        for name in ["a", "b", "c"] {
            jar.set(request.target(), &SetCookie::new(name, "1")).expect("it may be set");
        }
        assert_eq!(jar.len(), kept, "{per_site_max} of a site, {cookies_max} in all");
    }
}

#[test]
fn a_file_keeps_the_cookies_that_outlive_the_session() {
    let jar = Jar::new();
    let request = request("https://www.a.com/x/y");
    for field in [
        "b=\"1, é\\\"; Max-Age=100; Domain=a.com; Path=/; Secure; HttpOnly; SameSite=None; Partitioned",
        "session=1",
        "a=2; Max-Age=100; SameSite=Lax",
    ] {
        let set = SetCookie::parse(field.as_bytes()).expect("the field is a cookie");
        assert_eq!(jar.set(request.target(), &set), Ok(()));
    }
    let mut file = Vec::new();
    jar.save(&mut file).expect("memory can be written");
    let file = String::from_utf8(file).expect("JSON is UTF-8");
    assert_eq!((file.lines().count(), file.contains("session")), (2, false), "{file}");
    let again = loaded(&format!("\n{file} \n")).expect("what was saved can be loaded");
    assert_eq!(again.cookie_header(request.target()).as_deref(), Some("a=2; b=\"1, é\\\"".as_bytes()));
    let mut saved = Vec::new();
    again.save(&mut saved).expect("memory can be written");
    assert_eq!(String::from_utf8_lossy(&saved), file);
}

/// Cookies are sent in the order in which they were set, so a file keeps that order.
#[test]
fn a_file_begins_with_the_oldest_cookie() {
    let jar = Jar::new();
    let sites = Vec::from_iter((0..32).map(|number| format!("h{number}.com")));
    for site in &sites {
        let cookie = SetCookie { max_age: Some(Duration::from_secs(100)), ..SetCookie::new("a", "1") };
        jar.set(request(&format!("https://{site}/")).target(), &cookie).expect("it may be set");
    }
    let mut file = Vec::new();
    jar.save(&mut file).expect("memory can be written");
    let file = String::from_utf8_lossy(&file);
    let saved = file.lines().map(|line| line.split("\"domain\":\"").nth(1)?.split('"').next());
    assert!(saved.eq(sites.iter().map(|site| Some(&**site))), "{file}");
}

/// An old file must not remove cookies that were set since.
#[test]
fn a_cookie_that_has_expired_in_a_file_removes_none() {
    let jar = Jar::new();
    let request = request("https://a.com/");
    let cookie = SetCookie { max_age: Some(Duration::from_secs(100)), ..SetCookie::new("a", "1") };
    jar.set(request.target(), &cookie).expect("it may be set");
    let mut file = Vec::new();
    jar.save(&mut file).expect("memory can be written");
    let old = String::from_utf8_lossy(&file).replace("\"expires\":", "\"expires\":1,\"expired\":");
    jar.load(old.as_bytes()).expect("a jar has written it");
    assert_eq!(jar.cookie_header(request.target()).as_deref(), Some("a=1".as_bytes()));
}

/// A cookie for a path of 64 KiB, if a jar accepted it, would make a line that cannot be loaded again.
#[test]
fn every_cookie_that_is_accepted_can_be_saved_and_loaded() {
    for (len, is_accepted) in [(1, true), (1023, true), (1024, false), (100_000, false)] {
        let jar = Jar::new();
        let path = format!("/{}", ";".repeat(len));
        let request = request(&format!("https://a.com{path}/b"));
        let set = SetCookie::parse(b"a=1; Max-Age=100").expect("the field is a cookie");
        assert_eq!(jar.set(request.target(), &set), if is_accepted { Ok(()) } else { Err(Error::Value) });
        let mut file = Vec::new();
        jar.save(&mut file).expect("memory can be written");
        let again = loaded(&String::from_utf8_lossy(&file)).expect("what was saved can be loaded");
        assert_eq!(again.cookie_header(request.target()).is_some(), is_accepted, "{len}");
    }
    // A cookie of a host alone, with the prefix for that, and one of a host that is a public suffix.
    for (url, field) in [
        ("https://a.com/", "__Host-a=1; Secure; Path=/; Max-Age=9"),
        ("https://github.io/", "a=1; Max-Age=9"),
    ] {
        let jar = Jar::new();
        let request = request(url);
        let set = SetCookie::parse(field.as_bytes()).expect("the field is a cookie");
        assert_eq!(jar.set(request.target(), &set), Ok(()), "{field}");
        let mut file = Vec::new();
        jar.save(&mut file).expect("memory can be written");
        let again = loaded(&String::from_utf8_lossy(&file)).expect("what was saved can be loaded");
        assert!(again.cookie_header(request.target()).is_some(), "{field}");
    }
}

#[test]
fn a_file_with_an_invalid_record_is_refused() {
    let good = concat!(
        r#"{"domain":"a.com","expires":4000000000,"host_only":false,"http_only":false,"name":"a","#,
        r#""partitioned":false,"path":"/","same_site":null,"secure":true,"value":"1"}"#
    );
    assert_eq!(loaded(good).map(|jar| jar.len()), Ok(1));
    assert_eq!(loaded(&good.replace(r#""name":"a""#, r#""name":"""#)).map(|jar| jar.len()), Ok(1));
    assert_eq!(loaded(&good.replace("4000000000", "1")).map(|jar| jar.len()), Ok(0));
    for (part, spoilt) in [
        ("{", ""),
        ("}", ""),
        ("}", "}}"),
        (r#""a.com""#, r#""com""#),
        (r#""a.com""#, r#""A.com""#),
        (r#""a.com""#, r#""""#),
        (r#""a.com""#, "1"),
        ("4000000000", "-1"),
        ("4000000000", "1.5"),
        ("4000000000", "18446744073709551615"),
        ("4000000000", "null"),
        (r#""host_only":false,"#, ""),
        ("true", r#""yes""#),
        (r#""name":"a""#, r#""name":"a;b""#),
        (r#""name":"a""#, r#""name":"__Host-a""#),
        (r#""value":"1""#, r#""value":"1; evil=1""#),
        (r#""value":"1""#, r#""value":"1\r\nInjected: 1""#),
        (r#""path":"/""#, r#""path":"x""#),
        (r#""path":"/""#, r#""path":"; x""#),
        (r#""path":"/""#, &format!(r#""path":"/{}""#, "x".repeat(1024))),
        ("null", r#""Sometimes""#),
        (r#""value":"1""#, &format!(r#""value":"{}""#, "x".repeat(4096))),
        ("{", &format!("{{{}", " ".repeat(64 << 10))),
    ] {
        assert!(good.contains(part), "{part}");
        let file = format!("{good}\n{}\n", good.replacen(part, spoilt, 1));
        assert_eq!(loaded(&file).map(drop), Err(Some(2)), "{spoilt}");
    }
    assert_eq!(loaded("[1]").map(drop), Err(Some(1)));
}

#[test]
fn a_cookie_from_a_file_lives_no_longer_than_another() {
    let mut case = Case::new();
    case.set("http://a.com/", "a=1; Max-Age=1");
    let expires = SystemTime::UNIX_EPOCH + Duration::from_secs(4_000_000_000);
    let cookie = case.store.iter().next().cloned().expect("one is in");
    case.store.restore(Cookie { expires: Some(expires), ..cookie }, case.now);
    case.wait(400 * 86_400 - 1);
    case.check("http://a.com/", "a=1");
    case.wait(1);
    case.check("http://a.com/", "");
}

/// Servers do set cookies in other charsets, and expect the same octets back.
#[test]
fn cookies_that_are_not_utf8_are_kept_and_given_back_rfc6265bis_5_7() {
    let jar = Jar::new();
    let request = request("https://example.com/");
    let mut headers = Headers::new();
    for field in [
        &b"n=caf\xe9; Max-Age=60"[..],
        b"\xff\xfe=1; Max-Age=60",
        b"\x80; Max-Age=60",
        "u=\u{e9}; Max-Age=60".as_bytes(),
        b"s=\xe9",
    ] {
        headers.append("set-cookie", field).expect("the field is valid");
    }
    jar.store(request.target(), &headers);
    let lasting = b"n=caf\xe9; \xff\xfe=1; \x80; u=\xc3\xa9";
    let all = [&lasting[..], b"; s=\xe9"].concat();
    assert_eq!(jar.cookie_header(request.target()), Some(all));
    let mut file = Vec::new();
    let again = Jar::new();
    jar.save(&mut file).expect("memory can be written");
    again.load(&*file).expect("a jar has written it");
    assert_eq!(again.cookie_header(request.target()).as_deref(), Some(&lasting[..]));
    headers.set("set-cookie", b"n=; Max-Age=0").expect("the field is valid");
    again.store(request.target(), &headers);
    assert_eq!(again.len(), 3);
    for tampered in ["[256]", "[-1]", "[1.5]", "[\"a\"]", "[10]", "[59]", "7", "null", "[[1]]"] {
        let line = String::from_utf8_lossy(&file).lines().next().expect("a line").replacen(
            "[99,97,102,233]",
            tampered,
            1,
        );
        assert!(line.contains(tampered) && Jar::new().load(line.as_bytes()).is_err(), "{line}");
    }
}

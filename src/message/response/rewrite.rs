//! [`rewrite_below`]: URLs and cookies of a server become those of the gateway in front of it.

use crate::message::{FieldName, Headers, Method, Target, TargetBase, TargetError, trim};

/// Rewrites the fields of a response, as [`Response::rewrite_below`](super::Response::rewrite_below) says.
pub(super) fn rewrite_below(headers: &mut Headers, prefix: &str, base: &str) -> Result<(), TargetError> {
    let place = Place::new(prefix, base)?;
    for name in [LOCATION, CONTENT_LOCATION] {
        let reference = headers.single(name).ok().flatten();
        if let Some(moved) = reference.and_then(|reference| place.moved_reference(reference)) {
            headers.put(name, &moved);
        }
    }
    if let Some(moved) = headers.single(REFRESH).ok().flatten().and_then(|value| place.moved_refresh(value)) {
        headers.put(REFRESH, &moved);
    }
    place.move_cookies(headers);
    Ok(())
}

const LOCATION: FieldName<'static> = FieldName::new("location");
const CONTENT_LOCATION: FieldName<'static> = FieldName::new("content-location");
const REFRESH: FieldName<'static> = FieldName::new("refresh");

/// Where a server is, and where its gateway offers it.
struct Place {
    /// As it is sent, without a slash at its end.
    prefix: String,
    base: Target,
    /// Whether the origin of `base` is known.
    has_origin: bool,
}

impl Place {
    fn new(prefix: &str, base: &str) -> Result<Place, TargetError> {
        let prefix = normalized_prefix(prefix)?;
        let path = TargetBase::parse(base)?.target(["", "/"])?;
        let has_origin = path.authority().is_some();
        // References are resolved at a URL. No name ends in `.invalid` (RFC 2606 §2).
        let base = if has_origin {
            path
        } else {
            Target::from_origin(NOWHERE)?.resolve(path.as_str().as_bytes())?
        };
        Ok(Place { prefix, base, has_origin })
    }

    /// The path of the server, without a slash at its end.
    fn base_path(&self) -> &str {
        let path = self.base.path();
        path.strip_suffix('/').unwrap_or(path)
    }

    /// A reference as the gateway sends it; `None` if it stays as it is.
    fn moved_reference(&self, reference: &[u8]) -> Option<Vec<u8>> {
        let is_path = reference.first() == Some(&b'/');
        let has_scheme = |scheme: &[u8]| {
            reference.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        };
        if !is_path && !has_scheme(b"http://") && !has_scheme(b"https://") {
            return None;
        }
        let (url, fragment) = reference.split_at(memchr::memchr(b'#', reference).unwrap_or(reference.len()));
        let target = self.base.resolve(url).ok()?;
        if target.origin() != self.base.origin() || target.authorization().is_some() {
            return None;
        }
        let resource = target.path_and_query(Method::Get).concat();
        Some([self.moved_path(&resource)?.as_bytes(), fragment].concat())
    }

    /// The value of `refresh`, a time and `url=` with a reference (HTML §4.2.5.3), as the gateway sends it; `None` if it stays
    /// as it is.
    fn moved_refresh(&self, value: &[u8]) -> Option<Vec<u8>> {
        let is_blank = |octet: &u8| matches!(octet, b' ' | b'\t');
        let skip = |from: usize, is_skipped: &dyn Fn(&u8) -> bool| {
            from + value[from..].iter().take_while(|octet| is_skipped(octet)).count()
        };
        let time = skip(0, &|octet| octet.is_ascii_digit() || *octet == b'.' || is_blank(octet));
        value.get(time).filter(|octet| matches!(octet, b';' | b','))?;
        let mut start = skip(time + 1, &is_blank);
        if value.get(start..start + 3).is_some_and(|name| name.eq_ignore_ascii_case(b"url")) {
            let equals = skip(start + 3, &is_blank);
            start = if value.get(equals) == Some(&b'=') { skip(equals + 1, &is_blank) } else { start };
        }
        let quote = value.get(start).copied().filter(|octet| matches!(octet, b'"' | b'\''));
        start += usize::from(quote.is_some());
        let end = skip(start, &|octet| quote.map_or(!is_blank(octet), |quote| *octet != quote));
        let moved = self.moved_reference(&value[start..end])?;
        Some([&value[..start], &moved, &value[end..]].concat())
    }

    /// A path at or below that of the server, perhaps with a query, as the gateway offers it.
    fn moved_path(&self, path: &str) -> Option<String> {
        let rest = rest_below(self.base_path(), path)?;
        // Such a path is read as the name of a host (RFC 3986 §4.2).
        let names_host = self.prefix.is_empty() && rest.starts_with("//");
        let slash = if self.prefix.is_empty() && !rest.starts_with('/') { "/" } else { "" };
        (!names_host).then(|| [&self.prefix, slash, rest].concat())
    }

    fn move_cookies(&self, headers: &mut Headers) {
        let moved: Vec<_> = headers
            .named(FieldName::SET_COOKIE)
            .map(|line| (self.moved_cookie(line), line.to_vec()))
            .collect();
        if moved.iter().all(|(moved, _)| moved.is_none()) {
            return;
        }
        headers.remove_each(&[FieldName::SET_COOKIE]);
        for (moved, line) in moved {
            headers.push(FieldName::SET_COOKIE, &moved.unwrap_or(line));
        }
    }

    /// A cookie as the gateway sets it; `None` if it stays as it is (RFC 6265 §4.1).
    fn moved_cookie(&self, line: &[u8]) -> Option<Vec<u8>> {
        let mut parts = line.split(|octet| *octet == b';');
        let pair = parts.next()?;
        let is_host_bound =
            trim(pair).get(..HOST_PREFIX.len()).is_some_and(|name| name.eq_ignore_ascii_case(HOST_PREFIX));
        let mut moved = pair.to_vec();
        let mut is_moved = false;
        for attribute in parts {
            let split = memchr::memchr(b'=', attribute).unwrap_or(attribute.len());
            let (name, value) = attribute.split_at(split);
            let value = str::from_utf8(trim(value.get(1..).unwrap_or_default())).unwrap_or_default();
            let is_path = trim(name).eq_ignore_ascii_case(b"path") && !is_host_bound;
            if trim(name).eq_ignore_ascii_case(b"domain") && self.has_domain(value) {
                is_moved = true;
            } else if let Some(path) = is_path.then(|| self.moved_cookie_path(value)).flatten() {
                moved.extend_from_slice(b"; path=");
                moved.extend_from_slice(path.as_bytes());
                is_moved = true;
            } else {
                moved.push(b';');
                moved.extend_from_slice(attribute);
            }
        }
        is_moved.then_some(moved)
    }

    fn moved_cookie_path(&self, path: &str) -> Option<String> {
        // A browser makes a path of its own from the URL of the gateway.
        if !path.starts_with('/') {
            return None;
        }
        let above = path.strip_suffix('/').unwrap_or(path);
        match rest_below(above, self.base_path()) {
            Some(_) if self.prefix.is_empty() => Some("/".into()),
            Some(_) => Some(self.prefix.clone()),
            None => self.moved_path(path),
        }
    }

    /// Whether the host of the server is in this domain (RFC 6265 §5.1.3).
    fn has_domain(&self, domain: &str) -> bool {
        let host = self.base.host().filter(|_| self.has_origin).unwrap_or_default();
        let domain = domain.strip_prefix('.').unwrap_or(domain);
        let Some(rest) = host.len().checked_sub(domain.len()).filter(|_| !domain.is_empty()) else {
            return false;
        };
        let is_suffix = host.get(rest..).is_some_and(|end| end.eq_ignore_ascii_case(domain));
        is_suffix && (rest == 0 || host.as_bytes()[rest - 1] == b'.')
    }
}

/// A prefix as it is sent, without a slash at its end.
///
/// # Errors
///
/// Fails if it is no path, if browsers take it for the name of a host, or if it would end within the `path` of a cookie.
fn normalized_prefix(prefix: &str) -> Result<String, TargetError> {
    if prefix.is_empty() {
        return Ok(String::new());
    }
    let is_forbidden = |octet: char| matches!(octet, '\\' | ';') || octet.is_control();
    if !prefix.starts_with('/') || prefix.starts_with("//") || prefix.contains(is_forbidden) {
        return Err(TargetError::Form);
    }
    let path = TargetBase::parse(prefix)?.target(["", "/"])?;
    Ok(path.as_str().trim_end_matches('/').to_owned())
}

const NOWHERE: &str = "http://nowhere.invalid";

/// The beginning of the name of a cookie that is bound to one host and its whole path (RFC 6265bis §4.1.3.2).
const HOST_PREFIX: &[u8] = b"__host-";

/// The rest of `path` behind `above`, if it is `above` or begins with it, by whole segments.
fn rest_below<'p>(above: &str, path: &'p str) -> Option<&'p str> {
    path.strip_prefix(above).filter(|rest| rest.is_empty() || rest.starts_with(['/', '?']))
}

#[cfg(test)]
mod tests {
    use crate::message::Response;

    /// `value` of the field `name` is rewritten to `expected`.
    #[track_caller]
    fn check_field(name: &str, [prefix, base]: [&str; 2], value: &str, expected: &str) {
        let mut response = Response::new();
        response.headers.set(name, value).unwrap();
        response.rewrite_below(prefix, base).unwrap();
        let lines: Vec<_> = response.headers.all(name).collect();
        assert_eq!(lines, [expected.as_bytes()], "{value} below {prefix} from {base}");
    }

    const SHOP: [&str; 2] = ["/shop", "http://back:9002/v1"];
    const ROOT: [&str; 2] = ["/shop/", "http://back:9002"];
    const PATH: [&str; 2] = ["/shop", "/v1/"];
    const BARE: [&str; 2] = ["", "http://back:9002/v1"];

    #[test]
    fn references_to_the_server_lead_below_the_prefix_rfc9110_10_2_2() {
        for (place, reference, expected) in [
            (SHOP, "http://back:9002/v1/items?a=b#c", "/shop/items?a=b#c"),
            (SHOP, "HTTP://BACK:9002/v1", "/shop"),
            (SHOP, "http://back:9002/v1?x", "/shop?x"),
            (SHOP, "//back:9002/v1/", "/shop/"),
            (SHOP, "/v1/a/../b", "/shop/b"),
            (SHOP, "/v1/%2e%2e/admin", "/v1/%2e%2e/admin"),
            (ROOT, "http://back:9002", "/shop/"),
            (ROOT, "/items/7", "/shop/items/7"),
            (PATH, "/v1/items", "/shop/items"),
            (BARE, "/v1/items", "/items"),
            (BARE, "/v1", "/"),
            (BARE, "/v1?x", "/?x"),
            (["/shop", "http://back:80"], "http://back/a", "/shop/a"),
            (["/shop", "https://[::1]/v1"], "https://[::1]:443/v1/a", "/shop/a"),
        ] {
            check_field("location", place, reference, expected);
            check_field("content-location", place, reference, expected);
            check_field("refresh", place, &format!("0; url={reference}"), &format!("0; url={expected}"));
        }
    }

    #[test]
    fn a_refresh_is_a_reference_after_a_time_html_4_2_5_3() {
        for (value, expected) in [
            ("5;URL=/v1/a", "5;URL=/shop/a"),
            ("0, url = '/v1/a' ", "0, url = '/shop/a'"),
            ("1; url=\"http://back:9002/v1/a?b=c\"", "1; url=\"/shop/a?b=c\""),
            ("5", "5"),
            ("0; url=", "0; url="),
            ("0; url=http://other/v1/a", "0; url=http://other/v1/a"),
            ("0; /v1/a=b", "0; /shop/a=b"),
            ("0;http://back:9002/v1/a", "0;/shop/a"),
            ("0; /login?returnurl=/v1/a", "0; /login?returnurl=/v1/a"),
            ("0; url=\"/v1/a", "0; url=\"/shop/a"),
            ("url=/v1/a", "url=/v1/a"),
        ] {
            check_field("refresh", SHOP, value, expected);
        }
    }

    #[test]
    fn references_elsewhere_are_left() {
        for (place, reference) in [
            (SHOP, "http://other/v1/a"),
            (SHOP, "http://back/v1/a"),
            (SHOP, "https://back:9002/v1/a"),
            (SHOP, "http://user@back:9002/v1/a"),
            (SHOP, "/v1x"),
            (SHOP, "/v2/v1/a"),
            (SHOP, "/v1/../v2"),
            (SHOP, "items"),
            (SHOP, "?page=2"),
            (SHOP, "#top"),
            (SHOP, ""),
            (SHOP, "mailto:a@b"),
            (SHOP, "http:/v1/a"),
            (SHOP, "\\v1\\a"),
            (SHOP, "http://back:99999/v1/a"),
            (PATH, "http://back:9002/v1/a"),
            (PATH, "http://nowhere.invalid./v1/a"),
            (BARE, "/v1//other/a"),
            (["", "http://back"], "http://back//other/a"),
        ] {
            check_field("location", place, reference, reference);
        }
        check_field("location", ["/caf\u{e9} x", "/v1"], "/v1/a", "/caf%C3%A9%20x/a");
        check_field("set-cookie", ["/caf\u{e9}", "/v1"], "a=1; path=/v1", "a=1; path=/caf%C3%A9");
        let mut twice = Response::new();
        twice.headers.append("location", "/v1/a").unwrap();
        twice.headers.append("location", "/v1/b").unwrap();
        let before = twice.headers.clone();
        twice.rewrite_below("/shop", "/v1").unwrap();
        assert!(
            before.iter().eq(twice.headers.iter()),
            "two lines are an error that is not for this server to mend"
        );
    }

    #[test]
    fn cookies_stay_below_the_prefix_rfc6265_5_1() {
        for (place, cookie, expected) in [
            (SHOP, "a=/v1; Path=/v1/cart; Secure", "a=/v1; path=/shop/cart; Secure"),
            (SHOP, "a=1;PATH = /v1;HttpOnly", "a=1; path=/shop;HttpOnly"),
            (SHOP, "a=1; path=/", "a=1; path=/shop"),
            (SHOP, "a=1; domain=back; path=/v1", "a=1; path=/shop"),
            (ROOT, "a=1; path=/", "a=1; path=/shop"),
            (ROOT, "a=1; path=/a/", "a=1; path=/shop/a/"),
            (BARE, "a=1; path=/v1", "a=1; path=/"),
            (["/shop", "http://a.back.example"], "a=1; Domain=.Back.Example", "a=1"),
            (["/shop", "http://a.back.example"], "__Host-a=1; Path=/", "__Host-a=1; Path=/"),
            (SHOP, "a=1", "a=1"),
            (SHOP, "a=1; path=v1", "a=1; path=v1"),
            (SHOP, "a=1; path=/v10", "a=1; path=/v10"),
            (SHOP, "a=1; domain=ack", "a=1; domain=ack"),
            (SHOP, "a=1; domain=other.example", "a=1; domain=other.example"),
            (PATH, "a=1; domain=nowhere.invalid", "a=1; domain=nowhere.invalid"),
            (SHOP, "a=1; domain=; path=", "a=1; domain=; path="),
            (SHOP, "", ""),
        ] {
            check_field("set-cookie", place, cookie, expected);
        }
        let mut response = Response::new();
        for cookie in ["a=1; path=/v1", "b=2", "c=3; path=/v1/c"] {
            response.headers.append("set-cookie", cookie).unwrap();
        }
        response.rewrite_below("/shop", "/v1").unwrap();
        let expected = ["a=1; path=/shop", "b=2", "c=3; path=/shop/c"].map(str::as_bytes);
        assert!(response.headers.all("set-cookie").eq(expected));
    }

    #[test]
    fn a_place_is_two_paths() {
        for (prefix, base) in [
            ("shop", "/v1"),
            ("/shop", "v1"),
            ("/shop", "ftp://a"),
            ("/shop", "/v1?a"),
            ("/shop", "http://u@a"),
            ("//shop", "/v1"),
            ("/\\shop", "/v1"),
            ("/\t/shop", "/v1"),
            ("/shop\r\nx-more: 1", "/v1"),
            ("/shop;a", "/v1"),
            ("/shop?a", "/v1"),
            ("/shop#a", "/v1"),
            ("http://shop", "/v1"),
        ] {
            assert!(Response::new().rewrite_below(prefix, base).is_err(), "{prefix} {base}");
        }
    }
}

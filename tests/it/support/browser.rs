//! [`Browser`]: the requests of a page to other origins, by the algorithms of the Fetch standard in which CORS has a part.

use std::time::Duration;

use corehttp::BoxHandler;

use super::status;
use super::wired::{Then, Wired};

/// A browser that shows a page of one origin, and the servers that the page can name.
pub struct Browser {
    page: &'static str,
    servers: Vec<Site>,
    preflight_cache: Vec<CacheEntry>,
    now: Duration,
}

struct Site {
    origin: &'static str,
    server: Wired<BoxHandler>,
}

/// A request of the page's script, in the mode `cors`.
#[derive(Clone, Debug)]
pub struct PageRequest {
    method: String,
    origin: String,
    path: String,
    fields: Vec<(String, String)>,
    has_credentials: bool,
    to_private_network: bool,
}

impl PageRequest {
    /// A request for `https://host/path`, whose method is normalized (Fetch, "normalize a method").
    pub fn new(method: &str, url: &str) -> PageRequest {
        let normalized = ["DELETE", "GET", "HEAD", "OPTIONS", "POST", "PUT"];
        let known = normalized.iter().find(|known| known.eq_ignore_ascii_case(method));
        let host = url.find("://").unwrap() + 3;
        let end = url[host..].find('/').unwrap() + host;
        PageRequest {
            method: known.map_or(method, |known| known).to_owned(),
            origin: url[..end].to_owned(),
            path: url[end..].to_owned(),
            fields: Vec::new(),
            has_credentials: false,
            to_private_network: false,
        }
    }

    pub fn with(mut self, name: &str, value: &str) -> PageRequest {
        self.fields.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With the credentials mode `include`.
    pub fn with_credentials(mut self) -> PageRequest {
        self.has_credentials = true;
        self
    }

    /// From a public page to a private address, as Private Network Access sees it.
    pub fn into_private_network(mut self) -> PageRequest {
        self.to_private_network = true;
        self
    }

    /// Fetch, "CORS-unsafe request-header names".
    fn unsafe_names(&self) -> Vec<String> {
        let is_safelisted =
            |(name, value): &&(String, String)| is_safelisted(&name.to_ascii_lowercase(), value);
        let safe_size: usize = self.fields.iter().filter(is_safelisted).map(|(_, value)| value.len()).sum();
        let is_unsafe = |field: &&(String, String)| !is_safelisted(field) || safe_size > 1024;
        let mut names: Vec<_> =
            self.fields.iter().filter(is_unsafe).map(|(name, _)| name.to_ascii_lowercase()).collect();
        names.sort();
        names.dedup();
        names
    }
}

/// The end of a request, and how it came to it.
#[derive(Debug)]
pub struct Outcome {
    pub preflights: usize,
    /// The field `origin` of each request that was no preflight, in order.
    pub origins: Vec<String>,
    pub end: Result<Received, Blocked>,
}

/// Why a script sees a network error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// Neither the origin nor `*` is allowed, or the latter for a request with credentials.
    Origin,
    Credentials,
    PreflightStatus,
    /// A list that is none.
    PreflightList,
    Method,
    Fields,
    PrivateNetwork,
    Redirect,
}

/// A response.
#[derive(Clone, Debug)]
pub struct Received {
    pub status: u16,
    fields: Vec<(String, String)>,
}

impl Received {
    /// The names that the script may read (Fetch, "CORS filtered response").
    pub fn readable(&self, has_credentials: bool) -> Vec<&str> {
        const SAFE: [&str; 7] = [
            "cache-control",
            "content-language",
            "content-length",
            "content-type",
            "expires",
            "last-modified",
            "pragma",
        ];
        let exposed = self.list("access-control-expose-headers").unwrap_or_default().unwrap_or_default();
        let exposes_all = !has_credentials && exposed.iter().any(|name| name == "*");
        let is_readable = |name: &str| {
            let is_exposed = exposes_all || exposed.iter().any(|exposed| exposed.eq_ignore_ascii_case(name));
            name != "set-cookie" && (SAFE.contains(&name) || is_exposed)
        };
        self.fields.iter().map(|(name, _)| &**name).filter(|name| is_readable(name)).collect()
    }

    /// The value over all lines (Fetch, "get a header").
    fn get(&self, name: &str) -> Option<String> {
        let values: Vec<_> =
            self.fields.iter().filter(|(own, _)| own == name).map(|(_, value)| &**value).collect();
        (!values.is_empty()).then(|| values.join(", "))
    }

    /// Fetch, "extract header list values", for lists of tokens.
    fn list(&self, name: &str) -> Result<Option<Vec<String>>, Blocked> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let members = value.split(',').map(str::trim).filter(|member| !member.is_empty());
        let members: Vec<_> = members.map(str::to_owned).collect();
        match members.iter().all(|member| is_token(member)) {
            true => Ok(Some(members)),
            false => Err(Blocked::PreflightList),
        }
    }
}

/// A permission of a preflight, which holds for a while (Fetch, "CORS-preflight cache").
struct CacheEntry {
    url: String,
    has_credentials: bool,
    until: Duration,
    allowed: Allowed,
}

#[derive(PartialEq, Eq)]
enum Allowed {
    Method(String),
    Field(String),
}

impl Browser {
    pub fn new(page: &'static str) -> Browser {
        Browser { page, servers: Vec::new(), preflight_cache: Vec::new(), now: Duration::ZERO }
    }

    pub fn with_server(mut self, origin: &'static str, server: Wired<BoxHandler>) -> Browser {
        self.servers.push(Site { origin, server });
        self
    }

    pub fn wait(&mut self, time: Duration) {
        self.now += time;
    }

    /// Fetch, "main fetch", and "HTTP-redirect fetch" as long as there are redirects.
    pub fn fetch(&mut self, request: &PageRequest) -> Outcome {
        let mut outcome = Outcome { preflights: 0, origins: Vec::new(), end: Err(Blocked::Redirect) };
        let mut request = request.clone();
        let mut serialized = self.page.to_owned();
        let mut is_cors = false;
        for _ in 0..=20 {
            // Response tainting: once `cors`, always `cors`.
            is_cors |= request.origin != self.page;
            let received = match self.http_fetch(&request, &serialized, is_cors, &mut outcome) {
                Ok(received) => received,
                Err(blocked) => return Outcome { end: Err(blocked), ..outcome },
            };
            let location =
                received.get("location").filter(|_| matches!(received.status, 301..=303 | 307 | 308));
            let Some(location) = location else { return Outcome { end: Ok(received), ..outcome } };
            let next = match location.starts_with('/') {
                true => PageRequest::new(&request.method, &format!("{}{location}", request.origin)),
                false => PageRequest::new(&request.method, &location),
            };
            if next.origin.contains('@') {
                return outcome;
            }
            if next.origin != request.origin {
                if request.origin != self.page {
                    serialized = "null".to_owned();
                }
                request.fields.retain(|(name, _)| !name.eq_ignore_ascii_case("authorization"));
            }
            let becomes_get = match received.status {
                301 | 302 => request.method == "POST",
                303 => !["GET", "HEAD"].contains(&&*request.method),
                _ => false,
            };
            let method = if becomes_get { "GET".to_owned() } else { request.method };
            request = PageRequest { method, origin: next.origin, path: next.path, ..request };
        }
        outcome
    }

    /// Fetch, "HTTP fetch".
    fn http_fetch(
        &mut self,
        request: &PageRequest,
        origin: &str,
        is_cors: bool,
        outcome: &mut Outcome,
    ) -> Result<Received, Blocked> {
        if is_cors && self.needs_preflight(request) {
            outcome.preflights += 1;
            self.preflight(request, origin)?;
        }
        let sent = is_cors.then_some(origin);
        outcome.origins.push(sent.unwrap_or_default().to_owned());
        let cookie = request.has_credentials.then(|| ("cookie".to_owned(), "sid=7".to_owned()));
        let fields: Vec<_> = request.fields.iter().cloned().chain(cookie).collect();
        let received = self.ask(request, &request.method, sent, &fields);
        if is_cors {
            cors_check(request, origin, &received)?;
        }
        Ok(received)
    }

    fn needs_preflight(&self, request: &PageRequest) -> bool {
        let names = request.unsafe_names();
        let is_cached = |allowed: &Allowed| {
            self.preflight_cache.iter().any(|entry| {
                let is_entry = entry.url == url(request) && entry.until > self.now;
                let matches = match (&entry.allowed, allowed) {
                    (Allowed::Method(entry), Allowed::Method(own)) => entry == own || entry == "*",
                    (Allowed::Field(entry), Allowed::Field(own)) => {
                        entry.eq_ignore_ascii_case(own) || (entry == "*" && own != "authorization")
                    }
                    _ => false,
                };
                is_entry && matches && (entry.has_credentials || !request.has_credentials)
            })
        };
        let has_safe_method = is_safe_method(&request.method);
        request.to_private_network
            || (!has_safe_method && !is_cached(&Allowed::Method(request.method.clone())))
            || names.into_iter().any(|name| !is_cached(&Allowed::Field(name)))
    }

    /// Fetch, "CORS-preflight fetch".
    fn preflight(&mut self, request: &PageRequest, origin: &str) -> Result<(), Blocked> {
        let names = request.unsafe_names();
        let mut fields = vec![("access-control-request-method".to_owned(), request.method.clone())];
        if !names.is_empty() {
            fields.push(("access-control-request-headers".to_owned(), names.join(",")));
        }
        if request.to_private_network {
            fields.push(("access-control-request-private-network".to_owned(), "true".to_owned()));
        }
        let received = self.ask(request, "OPTIONS", Some(origin), &fields);
        cors_check(request, origin, &received)?;
        if !(200..300).contains(&received.status) {
            return Err(Blocked::PreflightStatus);
        }
        let methods = received.list("access-control-allow-methods")?.unwrap_or_default();
        let allowed = received.list("access-control-allow-headers")?.unwrap_or_default();
        let has_wildcard =
            |list: &[String]| !request.has_credentials && list.iter().any(|member| member == "*");
        if !methods.contains(&request.method) && !is_safe_method(&request.method) && !has_wildcard(&methods) {
            return Err(Blocked::Method);
        }
        let is_allowed = |name: &String| {
            let is_named = allowed.iter().any(|allowed| allowed.eq_ignore_ascii_case(name));
            is_named || (has_wildcard(&allowed) && name != "authorization")
        };
        if !names.iter().all(is_allowed) {
            return Err(Blocked::Fields);
        }
        let allows_private = received.get("access-control-allow-private-network").as_deref() == Some("true");
        if request.to_private_network && !allows_private {
            return Err(Blocked::PrivateNetwork);
        }
        let age = received.get("access-control-max-age").and_then(|age| age.parse().ok()).unwrap_or(5);
        let entries = methods.into_iter().map(Allowed::Method).chain(allowed.into_iter().map(Allowed::Field));
        let (url, until) = (url(request), self.now + Duration::from_secs(age));
        self.preflight_cache.extend(entries.map(|allowed| CacheEntry {
            url: url.clone(),
            has_credentials: request.has_credentials,
            until,
            allowed,
        }));
        Ok(())
    }

    /// Sends a request, and receives the head of its response.
    fn ask(
        &self,
        request: &PageRequest,
        method: &str,
        origin: Option<&str>,
        fields: &[(String, String)],
    ) -> Received {
        let site = self.servers.iter().find(|site| site.origin == request.origin);
        let server = &site.unwrap_or_else(|| panic!("{} has a server", request.origin)).server;
        let host = request.origin.split_once("://").unwrap().1;
        let mut wire = format!("{method} {} HTTP/1.1\r\nhost: {host}\r\n", request.path);
        if let Some(origin) = origin {
            wire.push_str(&format!("origin: {origin}\r\n"));
        }
        fields.iter().for_each(|(name, value)| wire.push_str(&format!("{name}: {value}\r\n")));
        let received = server.ask(&[format!("{wire}\r\n").as_bytes()], Then::Ends);
        let head = received.split("\r\n\r\n").next().unwrap();
        let fields = head.lines().skip(1).filter_map(|line| line.split_once(": "));
        let fields = fields.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
        Received { status: status(&received), fields }
    }
}

/// Fetch, "CORS check".
fn cors_check(request: &PageRequest, origin: &str, received: &Received) -> Result<(), Blocked> {
    let allowed = received.get("access-control-allow-origin").ok_or(Blocked::Origin)?;
    if !request.has_credentials && allowed == "*" {
        return Ok(());
    }
    if allowed != origin {
        return Err(Blocked::Origin);
    }
    let allows_credentials = received.get("access-control-allow-credentials").as_deref() == Some("true");
    match !request.has_credentials || allows_credentials {
        true => Ok(()),
        false => Err(Blocked::Credentials),
    }
}

/// Fetch, "CORS-safelisted method".
fn is_safe_method(method: &str) -> bool {
    ["GET", "HEAD", "POST"].contains(&method)
}

/// Fetch, "CORS-safelisted request-header".
fn is_safelisted(name: &str, value: &str) -> bool {
    let has_unsafe = value
        .bytes()
        .any(|octet| (octet < b' ' && octet != b'\t') || b"\"():<>?@[\\]{}\x7f".contains(&octet));
    let is_of_language = |octet: u8| octet.is_ascii_alphanumeric() || b" *,-.;=".contains(&octet);
    value.len() <= 128
        && match name {
            "accept" => !has_unsafe,
            "accept-language" | "content-language" => value.bytes().all(is_of_language),
            "content-type" => {
                let essence = value.split(';').next().unwrap().trim().to_ascii_lowercase();
                let simple = ["application/x-www-form-urlencoded", "multipart/form-data", "text/plain"];
                !has_unsafe && simple.contains(&&*essence)
            }
            "range" => is_simple_range(value),
            _ => false,
        }
}

/// Whether `value` has one range with a start (Fetch, "parse a single range header value").
fn is_simple_range(value: &str) -> bool {
    let range = value.strip_prefix("bytes=").and_then(|range| range.split_once('-'));
    let number = |digits: &str| match digits.bytes().all(|octet| octet.is_ascii_digit()) {
        true => digits.parse::<u64>().ok(),
        false => None,
    };
    range.is_some_and(|(start, end)| match (number(start), end) {
        (Some(_), "") => true,
        (Some(start), end) => number(end).is_some_and(|end| start <= end),
        (None, _) => false,
    })
}

fn is_token(text: &str) -> bool {
    text.bytes().all(|octet| octet.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&octet))
}

fn url(request: &PageRequest) -> String {
    format!("{}{}", request.origin, request.path)
}

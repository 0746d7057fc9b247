//! [`PathParams`]: the parts of a path that the pattern of its route names.

use std::any::type_name;
use std::borrow::Cow;
use std::error::Error;
use std::fmt;

use super::percent::{self, Plus};
use super::{FromText, MatchedRoute, Request, Status, Target, find_octet};
use crate::error::Excerpt;

impl Request {
    /// Returns the parameters of the route that a [`Router`](crate::Router) has matched; none if there is no such route.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::{Context, routes};
    ///
    /// fn show(ctx: &mut Context) -> corehttp::Result {
    ///     let id: u64 = ctx.request.params().get_as("id")?; // `/users/x` is answered with 404
    ///     ctx.response.set_text(format!("user {id}"));
    ///     Ok(())
    /// }
    ///
    /// let service = corehttp::Server::new().service(routes! { GET "/users/{id}" => show });
    /// # let respond = |path| corehttp::block_on(service.respond(corehttp::Request::get(path).unwrap())).unwrap();
    /// # assert_eq!(respond("/users/7").text(), Ok("user 7"));
    /// # assert_eq!(respond("/users/x").status, corehttp::Status::NOT_FOUND);
    /// ```
    #[inline]
    pub fn params(&self) -> PathParams<'_> {
        let pattern = self.matched_pattern().unwrap_or_default();
        let host = if pattern.starts_with('/') { None } else { self.host() };
        let is_nested = self.matched_route().is_nested();
        PathParams { pattern, host: host.unwrap_or_default(), path: self.path(), is_nested }
    }

    /// Returns the pattern of the route that a [`Router`](crate::Router) has matched, such as `/users/{id}`; with
    /// routers inside each other, the pattern of the whole path.
    ///
    /// It is a good name for what was asked, in logs and metrics: it has few values (low cardinality).
    #[doc(alias = "MatchedPath")]
    pub fn matched_pattern(&self) -> Option<&str> {
        self.matched_route().pattern()
    }

    /// Returns the part of the path below the prefix where the handler is [mounted](crate::Router::mount): it begins
    /// with a slash, or is empty if the path is the prefix. Without a mount, this is [`Request::path`].
    #[inline]
    pub fn mounted_path(&self) -> &str {
        let rest_at = self.matched_route().rest_at();
        // A handler may have replaced the target by one that is shorter.
        self.path().get(rest_at..).unwrap_or_default()
    }

    /// Replaces the target. A router is still mounted where it was, if the new path lies there.
    pub(crate) fn replace_target<T>(&mut self, replace: impl FnOnce(&mut Target) -> T) -> T {
        let mounted_at = self.path().get(..self.matched_route.rest_at()).unwrap_or_default().to_owned();
        let replaced = replace(self.line_mut().1);
        match self.path().strip_prefix(&*mounted_at) {
            Some("") => self.matched_route.clear_choices(),
            Some(below) if below.starts_with('/') => self.matched_route.clear_choices(),
            _ => self.matched_route.clear(),
        }
        replaced
    }

    /// The routes that routers have matched the request to.
    #[inline]
    pub(crate) fn matched_route(&self) -> &MatchedRoute {
        &self.matched_route
    }

    /// The routes that routers have matched the request to, for a router to note its own.
    #[inline]
    pub(crate) fn matched_route_mut(&mut self) -> &mut MatchedRoute {
        &mut self.matched_route
    }
}

/// The parameters of a matched route: views of the path, in the order of the pattern.
///
/// In the path `/users/Ada%20L/files/a/b`, the pattern `/users/{name}/files/{*path}` names `Ada%20L` and `a/b`. They are
/// found again at each look-up, which costs no memory and a few nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct PathParams<'a> {
    pattern: &'a str,
    host: &'a str,
    path: &'a str,
    /// Whether several routers have made the pattern, so that two parameters may have one name.
    is_nested: bool,
}

impl<'a> PathParams<'a> {
    /// Returns a parameter, with its percent-escapes decoded once.
    ///
    /// # Errors
    ///
    /// Fails if the value does not decode to UTF-8, which a handler's `?` turns into 404, or if the route has no such
    /// parameter, which is a mistake of the program: 500.
    pub fn get(self, name: &str) -> Result<Cow<'a, str>, InvalidPathParam> {
        let raw = self.raw(name).ok_or_else(|| InvalidPathParam::new(name, Reason::Missing))?;
        percent::decode(raw, Plus::Literal).map_err(|_| InvalidPathParam::new(name, Reason::Text))
    }

    /// Returns a parameter as a number or another type that can be parsed from text, strictly: see [`FromText`].
    ///
    /// # Errors
    ///
    /// As [`PathParams::get`], or if the value is not of that type, which a handler's `?` turns into 404.
    pub fn get_as<T: FromText>(self, name: &str) -> Result<T, InvalidPathParam> {
        T::from_text(&self.get(name)?)
            .ok_or_else(|| InvalidPathParam::new(name, Reason::Type(type_name::<T>())))
    }

    /// Returns a parameter as it was sent, not decoded. If routers inside each other name two alike, this is the inner
    /// one.
    pub fn raw(self, name: &str) -> Option<&'a str> {
        let is_named = |(own, _): &(&str, &str)| *own == name;
        let found = match self.is_nested || self.host_len() > 0 {
            false => self.segments().find(is_named),
            true => self.iter().filter(is_named).last(),
        };
        found.map(|(_, value)| value)
    }

    /// Returns all names and values, not decoded, in the order of the pattern.
    pub fn iter(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.labels().into_iter().flatten().chain(self.segments())
    }

    /// The parameters of the host, if the pattern has one.
    #[inline]
    fn labels(self) -> Option<impl Iterator<Item = (&'a str, &'a str)>> {
        let host = match self.host_len() {
            0 => return None,
            len => &self.pattern[..len],
        };
        let labels = host.split('.').zip(self.host.split('.'));
        Some(labels.filter_map(|(part, label)| Some((part.strip_prefix('{')?.strip_suffix('}')?, label))))
    }

    /// The parameters of the path.
    #[inline]
    fn segments(self) -> Segments<'a> {
        Segments { pattern: &self.pattern[self.host_len()..], path: self.path }
    }

    /// The length of the host in the pattern.
    #[inline]
    fn host_len(self) -> usize {
        if self.pattern.starts_with('/') { 0 } else { find_octet(self.pattern.as_bytes(), b'/') }
    }
}

/// The parameters of the path alone.
struct Segments<'a> {
    pattern: &'a str,
    path: &'a str,
}

impl<'a> Iterator for Segments<'a> {
    type Item = (&'a str, &'a str);

    #[inline]
    fn next(&mut self) -> Option<(&'a str, &'a str)> {
        // Pattern and path are equal up to the next parameter, unless the target was replaced.
        let at = find_octet(self.pattern.as_bytes(), b'{');
        let name = self.pattern.get(at + 1..)?;
        let (name, pattern) = name.split_at(find_octet(name.as_bytes(), b'}'));
        let path = self.path.get(at..).unwrap_or_default();
        let (name, len) = match name.strip_prefix('*') {
            Some(name) => (name, path.len()),
            None => (name, find_octet(path.as_bytes(), b'/')),
        };
        let (value, path) = path.split_at(len);
        (self.pattern, self.path) = (pattern.strip_prefix('}').unwrap_or_default(), path);
        Some((name, value))
    }
}

/// A parameter of a path that cannot be read as requested. In a handler, `?` turns it into the right status: see
/// [`InvalidPathParam::status`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidPathParam {
    name: Box<str>,
    reason: Reason,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    Missing,
    Text,
    Type(&'static str),
}

impl InvalidPathParam {
    #[cold]
    fn new(name: &str, reason: Reason) -> InvalidPathParam {
        InvalidPathParam { name: name.into(), reason }
    }

    /// Returns the name under which the parameter was looked up.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the status that the peer is answered with: 404, since a path with such a value leads nowhere (RFC 9110
    /// §15.5.5); 500 if the route has no parameter of that name.
    pub fn status(&self) -> Status {
        match self.reason {
            Reason::Missing => Status::INTERNAL_SERVER_ERROR,
            Reason::Text | Reason::Type(_) => Status::NOT_FOUND,
        }
    }
}

impl fmt::Display for InvalidPathParam {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Excerpt(&self.name);
        match self.reason {
            Reason::Missing => write!(f, "the route has no parameter {name}"),
            Reason::Text => write!(f, "the parameter {name} of the path is not UTF-8"),
            Reason::Type(expected) => write!(f, "the parameter {name} of the path is not of type {expected}"),
        }
    }
}

impl Error for InvalidPathParam {}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, host: &str, path: &str, expected: &[(&str, &str)]) {
        let params = PathParams { pattern, host, path, is_nested: false };
        assert_eq!(params.iter().collect::<Vec<_>>(), expected, "{pattern} {host}{path}");
        for (name, value) in expected {
            assert_eq!(params.raw(name), Some(*value));
        }
    }

    #[test]
    fn parameters_are_views_of_the_path() {
        check("", "", "/a", &[]);
        check("/", "", "/", &[]);
        check("/a/b", "", "/a/b", &[]);
        check("/{a}", "", "/x", &[("a", "x")]);
        check("/users/{id}/posts/{post}", "", "/users/7/posts/a%2Fb", &[("id", "7"), ("post", "a%2Fb")]);
        check("/{a}/", "", "/x/", &[("a", "x")]);
        check("/{*rest}", "", "/", &[("rest", "")]);
        check("/a/{*rest}", "", "/a/b//c/", &[("rest", "b//c/")]);
        check("/{a}/{*rest}", "", "/x/y", &[("a", "x"), ("rest", "y")]);
        check("{tenant}.example.com/{a}", "t.example.com", "/x", &[("tenant", "t"), ("a", "x")]);
    }

    #[test]
    fn a_target_that_was_replaced_by_another_one_is_no_panic() {
        check("/users/{id}/{*rest}", "", "/", &[("id", ""), ("rest", "")]);
        check("/{id}/x", "", "/\u{e9}\u{e9}", &[("id", "\u{e9}\u{e9}")]);
        check("/aa{id}/x", "", "/a\u{e9}", &[("id", "")]);
        check("/users/{id}", "", "", &[("id", "")]);
        check("{a}.b/{c}", "", "*", &[("a", ""), ("c", "")]);
    }

    /// Routers inside each other may give the same name twice.
    #[test]
    fn the_inner_one_of_two_names_is_read() {
        let params =
            PathParams { pattern: "/{id}/x/{id}", host: "", path: "/outer/x/inner", is_nested: true };
        assert_eq!((params.raw("id"), params.iter().count()), (Some("inner"), 2));
    }

    #[test]
    fn values_are_decoded_once_and_typed_strictly() {
        let params =
            PathParams { pattern: "/{a}/{b}/{c}", host: "", path: "/12/%2541%20%2f/%ff", is_nested: false };
        assert_eq!((params.get_as("a"), params.get("b").as_deref()), (Ok(12_u8), Ok("%41 /")));
        for (found, status, text) in [
            (params.get("c").map(drop), Status::NOT_FOUND, "the parameter `c` of the path is not UTF-8"),
            (
                params.get_as::<i8>("b").map(drop),
                Status::NOT_FOUND,
                "the parameter `b` of the path is not of type i8",
            ),
            (params.get("d").map(drop), Status::INTERNAL_SERVER_ERROR, "the route has no parameter `d`"),
        ] {
            let error = found.unwrap_err();
            assert_eq!((error.status(), &*error.to_string()), (status, text));
        }
        assert!(matches!(params.get("a"), Ok(Cow::Borrowed("12"))));
    }
}

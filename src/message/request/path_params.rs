//! [`PathParams`]: the parts of a path that the pattern of its route names.

use std::borrow::Cow;
use std::fmt;

use super::matched_route::MatchedRoute;
use super::request::Request;
use crate::memory::Span;
use crate::message::text::{Plus, percent};
use crate::message::{FromText, Method, Target, ValueError};

impl Request {
    /// Returns the parameters of the matched route of a [`Router`](crate::Router). Without one, there are none.
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
        PathParams { request: self, path: self.path() }
    }

    /// Returns the pattern of the route that a [`Router`](crate::Router) has matched, such as `/users/{id}`. With
    /// routers inside each other, this is the pattern of the whole path.
    ///
    /// Patterns are good names of requests in logs and metrics, because there are few of them (low cardinality).
    #[doc(alias = "MatchedPath")]
    pub fn matched_pattern(&self) -> Option<&str> {
        self.matched_route().pattern()
    }

    /// Returns the part of the path below the prefix of the [mount](crate::Router::mount). The part begins with a
    /// slash, or is empty for the prefix itself. Without a mount, this is [`Request::path`].
    #[inline]
    pub fn mounted_path(&self) -> &str {
        let rest_at = self.matched_route().rest_at();
        // A handler may have replaced the target by one that is shorter.
        self.path().get(rest_at..).unwrap_or_default()
    }

    /// Replaces the target. A router is still mounted where it was, if the new path lies there.
    pub(crate) fn replace_target<T>(&mut self, replace: impl FnOnce(&mut Target) -> T) -> T {
        let mounted_at = self.path().get(..self.matched_route.rest_at()).unwrap_or_default().to_owned();
        let replaced = replace(self.target_mut());
        match self.path().strip_prefix(&*mounted_at) {
            Some("") => self.matched_route.clear_below_mount(),
            Some(below) if below.starts_with('/') => self.matched_route.clear_below_mount(),
            _ => self.matched_route.clear(),
        }
        replaced
    }

    /// The method where it stands, for one that is only compared.
    #[inline]
    pub(crate) fn method_ref(&self) -> &Method {
        &self.method
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
/// In the path `/users/Ada%20L/files/a/b`, the pattern `/users/{name}/files/{*path}` names `Ada%20L` and `a/b`. Their
/// places are noted when the route is found. A new target removes the parameters below the
/// [mount](crate::Router::mount) of the handler, until a router matches it again.
#[derive(Clone, Copy)]
pub struct PathParams<'a> {
    request: &'a Request,
    path: &'a str,
}

impl<'a> PathParams<'a> {
    /// Returns a parameter, with its percent-escapes decoded once.
    ///
    /// # Errors
    ///
    /// Fails if:
    ///
    /// - The value does not decode to UTF-8. In a handler, `?` turns that into 404.
    /// - The route has no such parameter. In a handler, `?` turns that into 500, for a mistake of the program.
    pub fn get(self, name: &str) -> Result<Cow<'a, str>, ValueError> {
        let raw = self.get_raw(name).ok_or_else(|| ValueError::no_param(name))?;
        if self.request.target().has_plain_path() {
            return Ok(Cow::Borrowed(raw));
        }
        percent::decode(raw, Plus::Literal).map_err(|_| ValueError::param_text(name))
    }

    /// Returns a parameter as a number or another type that can be parsed from text, strictly ([`FromText`]).
    ///
    /// # Errors
    ///
    /// Fails as [`PathParams::get`] does, and for a value of another type. In a handler, `?` turns that into 404.
    pub fn get_as<T: FromText>(self, name: &str) -> Result<T, ValueError> {
        T::from_text(&self.get(name)?).ok_or_else(|| ValueError::param_type::<T>(name))
    }

    /// Returns a parameter as it was sent, not decoded. If routers inside each other give two parameters the same name,
    /// the inner one is returned.
    #[inline]
    pub fn get_raw(self, name: &str) -> Option<&'a str> {
        match self.request.matched_route().value(name) {
            Some(value) => Some(self.value(value)),
            None => self.label(name),
        }
    }

    /// Returns all names and values, not decoded, in the order of the pattern.
    pub fn iter(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let params = self.request.matched_route().params();
        self.labels().chain(params.map(move |(name, value)| (name, self.value(value))))
    }

    /// The parameters of the host, if the pattern has one.
    fn labels(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let pattern = self.request.matched_route().host_pattern();
        let host = if pattern.is_empty() { None } else { self.request.host() };
        let labels = pattern.split('.').zip(host.unwrap_or_default().split('.'));
        labels.filter_map(|(part, label)| Some((part.strip_prefix('{')?.strip_suffix('}')?, label)))
    }

    #[cold]
    fn label(self, name: &str) -> Option<&'a str> {
        self.labels().find(|(own, _)| *own == name).map(|(_, label)| label)
    }

    /// The value at a place in the path; empty, if it is the rest of a path that ends before it.
    #[inline]
    fn value(self, span: Span) -> &'a str {
        self.path.get(span.range()).unwrap_or_default()
    }
}

impl fmt::Debug for PathParams<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::message::{RoutePattern, Status};

    /// A request that a router has matched to a pattern, with these values.
    fn matched(pattern: &str, url: &str, values: &[&str]) -> Request {
        let mut request = Request::get(url).unwrap();
        let path = request.path().to_owned();
        let spans = values.iter().map(|value| Span::new(path.find(value).unwrap(), value.len()));
        let mut steps = request.matched_route_mut().take();
        steps.values.extend(spans);
        steps.note((1, 0), &RoutePattern::new(pattern.to_owned(), None), 0, path.len());
        request.matched_route_mut().give(steps);
        request
    }

    #[track_caller]
    fn check(request: &Request, expected: &[(&str, &str)]) {
        let params = request.params();
        assert_eq!(params.iter().collect::<Vec<_>>(), expected, "{request:?}");
        for (name, value) in expected {
            assert_eq!(params.get_raw(name), Some(*value));
        }
        assert_eq!(params.get_raw("other"), None);
    }

    #[test]
    fn parameters_are_views_of_the_path() {
        check(&Request::get("/a").unwrap(), &[]);
        check(&matched("/a/b", "/a/b", &[]), &[]);
        check(&matched("/{a}/", "/x/", &["x"]), &[("a", "x")]);
        let posts = matched("/users/{id}/posts/{post}", "/users/7/posts/a%2Fb", &["7", "a%2Fb"]);
        check(&posts, &[("id", "7"), ("post", "a%2Fb")]);
        check(&matched("/{a}/{*rest}", "/x/y//z/", &["x", "y//z/"]), &[("a", "x"), ("rest", "y//z/")]);
        check(&matched("/a/{*rest}", "/a", &[]), &[("rest", "")]);
        let tenant = matched("{tenant}.example.com/{a}", "http://t.example.com/x", &["x"]);
        check(&tenant, &[("tenant", "t"), ("a", "x")]);
        assert_eq!(format!("{:?}", tenant.params()), r#"{"tenant": "t", "a": "x"}"#);
    }

    /// The places in the old path would be wrong in another one.
    #[test]
    fn a_replaced_target_has_no_parameters_of_the_last_one() {
        let mut request = matched("/users/{id}", "/users/7", &["7"]);
        request.set_method(crate::message::Method::Put);
        check(&request, &[("id", "7")]);
        request.set_url("/\u{e9}").unwrap();
        check(&request, &[]);
        let mut request = matched("{a}.b/{c}", "http://a.b/c", &["c"]);
        request.set_url("/").unwrap();
        check(&request, &[("a", "")]);
    }

    /// Routers inside each other may give the same name twice.
    #[test]
    fn the_inner_one_of_two_names_is_read() {
        let mut request = Request::get("/outer/x/inner").unwrap();
        let mut steps = request.matched_route_mut().take();
        for (router, pattern, values, found) in
            [(1, "/{id}/{*rest}", [(1, 5), (7, 7)].as_slice(), 0), (2, "/x/{id}", &[(3, 5)], 2)]
        {
            steps.values.extend(values.iter().map(|(start, len)| Span::new(*start, *len)));
            let prefix_len = pattern.strip_suffix("/{*rest}").map(str::len);
            steps.note((router, 0), &RoutePattern::new(pattern.to_owned(), prefix_len), found, 14);
        }
        request.matched_route_mut().give(steps);
        let params = request.params();
        assert_eq!(params.iter().collect::<Vec<_>>(), [("id", "outer"), ("id", "inner")]);
        assert_eq!((params.get_raw("id"), request.matched_pattern()), (Some("inner"), Some("/{id}/x/{id}")));
    }

    #[test]
    fn values_are_decoded_once_and_typed_strictly() {
        let request = matched("/{a}/{b}/{c}", "/12/%2541%20%2f/%ff", &["12", "%2541%20%2f", "%ff"]);
        let params = request.params();
        assert_eq!((params.get_as("a"), params.get("b").as_deref()), (Ok(12_u8), Ok("%41 /")));
        for (found, status, text) in [
            (params.get("c").map(drop), Status::NOT_FOUND, "the parameter `c` of the path is not UTF-8"),
            (
                params.get_as::<i8>("b").map(drop),
                Status::NOT_FOUND,
                "the parameter `b` of the path is not a whole number from -128 to 127",
            ),
            (params.get("d").map(drop), Status::INTERNAL_SERVER_ERROR, "the route has no parameter `d`"),
        ] {
            let error = found.unwrap_err();
            assert_eq!((error.status(), &*error.to_string()), (status, text));
        }
        assert!(matches!(params.get("a"), Ok(Cow::Borrowed("12"))));
    }
}

//! [`RouteInfo`]: a route as lists of routes show it.

use super::pattern::params;
use crate::message::{Method, RoutePattern};

/// A route of a [`Router`](crate::Router), as [`Router::routes`](crate::Router::routes) lists it.
///
/// With it, a program makes an OpenAPI document, whose paths have the same parameters in braces. A test can check that each
/// route is documented.
///
/// # Examples
///
/// ```
/// use corehttp::{Context, routes};
///
/// # let (show, add) = (|_: &mut Context| {}, |_: &mut Context| {});
/// let router = routes! { GET "/users/{id}" => show, POST "/users" => add };
/// let documented = ["GET /users/{id}", "POST /users"];
/// for route in router.routes() {
///     let method = route.method().map(|method| method.to_string()).unwrap_or_default();
///     assert!(documented.contains(&format!("{method} {}", route.pattern()).as_str()));
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RouteInfo<'r> {
    method: Option<Method>,
    pattern: &'r str,
    is_mount: bool,
}

impl<'r> RouteInfo<'r> {
    pub(super) fn new(method: Option<Method>, pattern: &'r RoutePattern) -> RouteInfo<'r> {
        RouteInfo { method, pattern: pattern.text(), is_mount: pattern.prefix_len().is_some() }
    }

    /// Returns the method. `None` if the route takes all methods without a route of their own on the same path.
    pub fn method(&self) -> Option<Method> {
        self.method
    }

    /// Returns the [pattern](crate::Router#patterns), such as `/users/{id}`. That of a mounted handler ends in `/{*rest}`.
    pub fn pattern(&self) -> &'r str {
        self.pattern
    }

    /// Returns the names of the parameters, in their order.
    pub fn params(&self) -> impl Iterator<Item = &'r str> + use<'r> {
        params(self.pattern)
    }

    /// Returns whether a handler is mounted there. It gets all requests below its prefix.
    pub fn is_mount(&self) -> bool {
        self.is_mount
    }
}

#[cfg(test)]
mod tests {
    use crate::{Context, Router};

    #[test]
    fn routes_are_listed_with_the_prefixes_of_routers_that_are_nested() {
        let handler = |_: &mut Context| {};
        let inner = Router::new().get("/", handler).unwrap().any("/{id}", handler).unwrap();
        let router = Router::new().post("{tenant}.example.com/{*rest}", handler).unwrap();
        let router = router.nest("/a/{b}", inner).unwrap().mount("/files", handler).unwrap();
        let router = router.any("*", handler).unwrap();
        let listed: Vec<_> = router
            .routes()
            .map(|route| {
                let method = route.method().map(|method| method.to_string()).unwrap_or_default();
                let params = route.params().collect::<Vec<_>>().join(",");
                format!("{method} {} {params} {}", route.pattern(), route.is_mount())
            })
            .collect();
        assert_eq!(
            listed,
            [
                "POST {tenant}.example.com/{*rest} tenant,rest false",
                "GET /a/{b} b false",
                " /a/{b}/{id} b,id false",
                " /files/{*rest} rest true",
                " *  false",
            ]
        );
    }
}

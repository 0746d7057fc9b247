//! [`MatchedRoute`]: the routes that a request was matched to, one for each router on its way.

/// The routes that a request was matched to, and the pattern that they make together.
///
/// Routers may be nested, with any handlers between them, so each router notes its own step. A router that plans by the
/// head finds its step again when it handles the request, and looks its routes up once. A request whose target or method
/// is replaced has no step left, and is matched anew.
///
/// Boxed, since most requests of a client are never routed; the memory is kept for the next request.
#[derive(Clone, Debug, Default)]
pub(crate) struct MatchedRoute(Option<Box<Steps>>);

#[derive(Clone, Debug, Default)]
struct Steps {
    steps: Vec<Step>,
    pattern: String,
    /// Up to where the pattern of a router further in replaces this one.
    prefix_len: usize,
    /// Where the part of the path begins that a router further in matches.
    rest_at: usize,
}

/// A router's choice, and the state before it.
#[derive(Clone, Copy, Debug)]
struct Step {
    router: u32,
    route: u32,
    prefix_len: usize,
    rest_at: usize,
}

impl MatchedRoute {
    /// The route that `router` has chosen.
    #[inline]
    pub(crate) fn route_of(&self, router: u32) -> Option<u32> {
        self.0.as_ref()?.steps.iter().find(|step| step.router == router).map(|step| step.route)
    }

    /// Forgets the step of `router`, and those of the routers further in.
    #[inline]
    pub(crate) fn rewind(&mut self, router: u32) {
        let Some(matched) = &mut self.0 else { return };
        if let Some(at) = matched.steps.iter().position(|step| step.router == router) {
            Step { prefix_len: matched.prefix_len, rest_at: matched.rest_at, .. } = matched.steps[at];
            matched.pattern.truncate(matched.prefix_len);
            matched.steps.truncate(at);
        }
    }

    /// Notes that `router` has chosen `route`, with this pattern. If a handler is mounted there, `mount` is what belongs
    /// to its place.
    #[inline]
    pub(crate) fn note(&mut self, router: u32, route: u32, pattern: &str, mount: Option<Mount>) {
        let matched = self.0.get_or_insert_default();
        let Steps { prefix_len, rest_at, .. } = **matched;
        matched.steps.push(Step { router, route, prefix_len, rest_at });
        matched.pattern.truncate(prefix_len);
        matched.pattern.push_str(pattern);
        match mount {
            Some(mount) => {
                matched.prefix_len = prefix_len + mount.prefix_len;
                matched.rest_at = rest_at + mount.rest_at;
            }
            None => matched.prefix_len = matched.pattern.len(),
        }
    }

    /// Forgets all steps, and keeps the memory.
    #[inline]
    pub(crate) fn clear(&mut self) {
        if let Some(matched) = &mut self.0 {
            matched.steps.clear();
            matched.pattern.clear();
            (matched.prefix_len, matched.rest_at) = (0, 0);
        }
    }

    /// The pattern of the whole path, once a router has matched it.
    pub(super) fn pattern(&self) -> Option<&str> {
        self.0.as_ref().map(|matched| &*matched.pattern).filter(|pattern| !pattern.is_empty())
    }

    /// Where the part of the path begins that a mounted handler is given.
    #[inline]
    pub(crate) fn rest_at(&self) -> usize {
        self.0.as_ref().map_or(0, |matched| matched.rest_at)
    }
}

/// How much of the path, relative to the enclosing mount, and of its pattern belongs to the place where a handler is
/// mounted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mount {
    pub(crate) prefix_len: usize,
    pub(crate) rest_at: usize,
}

/// How a request was routed is no part of it.
impl PartialEq for MatchedRoute {
    fn eq(&self, _: &MatchedRoute) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_routers_make_one_pattern_and_can_be_matched_anew() {
        let mut matched = MatchedRoute::default();
        assert_eq!((matched.pattern(), matched.route_of(1)), (None, None));
        let mount = Mount { prefix_len: "/api".len(), rest_at: 4 };
        for _ in 0..2 {
            matched.rewind(1);
            matched.note(1, 7, "/api/{*rest}", Some(mount));
            assert_eq!((matched.pattern(), matched.rest_at()), (Some("/api/{*rest}"), 4));
            for pattern in ["/users/{id}", "/"] {
                matched.rewind(2);
                matched.note(2, 3, pattern, None);
                assert_eq!(matched.pattern(), Some(&*format!("/api{pattern}")));
                assert_eq!((matched.route_of(1), matched.route_of(2)), (Some(7), Some(3)));
            }
        }
        matched.clear();
        assert_eq!((matched.pattern(), matched.rest_at(), matched.route_of(2)), (None, 0, None));
    }
}

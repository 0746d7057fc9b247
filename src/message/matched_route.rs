//! [`MatchedRoute`]: the routes that a request was matched to, one for each router on its way.

/// The routes that a request was matched to, and the pattern that they make together.
///
/// Routers may be nested, with any handlers between them, so each router notes its own step. `Router::on_head`
/// records a step, and `Router::handle` finds it again, so routes are looked up once. A router sees the part of the
/// path below the routers whose handlers are running; those that have returned do not count, so that routers can also be
/// called one after the other. The pattern of the last match remains, for logs.
///
/// Boxed, since most requests of a client are never routed; the memory is kept for the next request.
#[derive(Clone, Debug, Default)]
pub(crate) struct MatchedRoute(Option<Box<Steps>>);

#[derive(Clone, Debug, Default)]
struct Steps {
    steps: Vec<Step>,
    /// How many of the steps belong to routers whose handlers are running.
    depth: usize,
    /// The host of the innermost route that has one, and the paths of all routes.
    pattern: String,
    host_len: usize,
    /// The step that the host belongs to.
    host_step: usize,
}

/// A router's choice, and the place where the handler is mounted.
#[derive(Clone, Copy, Debug)]
struct Step {
    router: u32,
    route: u32,
    mount: Mount,
}

impl MatchedRoute {
    /// How deep inside of other routers `router` is called.
    #[inline]
    pub(crate) fn depth_of(&self, router: u32) -> usize {
        let Some(matched) = &self.0 else { return 0 };
        // A handler may call the router anew that has called it.
        let running = &matched.steps[..matched.depth];
        running.iter().position(|step| step.router == router).unwrap_or(matched.depth)
    }

    /// The route that `router` has chosen at this depth.
    #[inline]
    pub(crate) fn route_at(&self, depth: usize, router: u32) -> Option<u32> {
        let step = self.0.as_ref()?.steps.get(depth)?;
        (step.router == router).then_some(step.route)
    }

    /// Notes that handlers at this depth are running: those of the step before it.
    #[inline]
    pub(crate) fn set_depth(&mut self, depth: usize) {
        if let Some(matched) = &mut self.0 {
            // A handler may have replaced the request.
            matched.depth = depth.min(matched.steps.len());
        }
    }

    /// Notes that `router`, at the current depth, has chosen `route`, with this pattern. If a handler is mounted there,
    /// `mount` is the part of path and pattern that belongs to its place.
    #[inline]
    pub(crate) fn note(&mut self, router: u32, route: u32, pattern: &str, mount: Option<Mount>) {
        let matched = self.0.get_or_insert_default();
        let outer = matched.mount();
        matched.steps.truncate(matched.depth);
        if matched.depth == 0 && matched.host_len == 0 && pattern.starts_with('/') {
            matched.pattern.clear();
            matched.pattern.push_str(pattern);
        } else {
            matched.set_pattern(outer.pattern_len, pattern);
        }
        let mount = mount.map_or(outer, |mount| Mount {
            pattern_len: outer.pattern_len + mount.pattern_len,
            rest_at: outer.rest_at + mount.rest_at,
        });
        matched.steps.push(Step { router, route, mount });
    }

    /// Forgets all steps, and keeps the memory.
    #[inline]
    pub(crate) fn clear(&mut self) {
        if let Some(matched) = &mut self.0 {
            matched.steps.clear();
            matched.pattern.clear();
            (matched.depth, matched.host_len) = (0, 0);
        }
    }

    /// Drops choices of `on_head` that no `handle` has used yet: the method has changed.
    pub(super) fn clear_choices(&mut self) {
        if let Some(matched) = &mut self.0 {
            matched.steps.truncate(matched.depth);
        }
    }

    /// The pattern of the whole path, once a router has matched it.
    pub(super) fn pattern(&self) -> Option<&str> {
        self.0.as_ref().map(|matched| &*matched.pattern).filter(|pattern| !pattern.is_empty())
    }

    /// Whether the pattern was made by several routers.
    #[inline]
    pub(super) fn is_nested(&self) -> bool {
        self.0.as_ref().is_some_and(|matched| matched.steps.len() > 1)
    }

    /// Where the part of the path begins that a mounted handler is given.
    #[inline]
    pub(crate) fn rest_at(&self) -> usize {
        self.0.as_ref().map_or(0, |matched| matched.mount().rest_at)
    }
}

impl Steps {
    /// The place where the handler that is running is mounted.
    #[inline]
    fn mount(&self) -> Mount {
        let step = self.depth.checked_sub(1).and_then(|at| self.steps.get(at));
        step.map_or(Mount::default(), |step| step.mount)
    }

    /// Puts the pattern of the step at the current depth behind the first octets of the paths, and its host in front.
    fn set_pattern(&mut self, pattern_len: usize, pattern: &str) {
        let (host, path) = pattern.split_at(pattern.find('/').unwrap_or(pattern.len()));
        if !host.is_empty() || self.host_step >= self.depth {
            self.pattern.replace_range(..self.host_len, host);
            (self.host_len, self.host_step) = (host.len(), self.depth);
        }
        self.pattern.truncate(self.host_len + pattern_len);
        self.pattern.push_str(path);
    }
}

/// The prefix at which a handler is mounted, in the pattern and in the path of a request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mount {
    /// Bytes of the prefix in the pattern, without a host.
    pub(crate) pattern_len: usize,
    /// Where the path below the prefix begins in the path of the request.
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

    fn step(
        matched: &mut MatchedRoute,
        (router, route): (u32, u32),
        pattern: &str,
        mount: Option<Mount>,
    ) -> usize {
        let depth = matched.depth_of(router);
        matched.set_depth(depth);
        matched.note(router, route, pattern, mount);
        matched.set_depth(depth + 1);
        depth
    }

    #[test]
    fn nested_routers_make_one_pattern_and_can_be_matched_anew() {
        let mut matched = MatchedRoute::default();
        assert_eq!((matched.pattern(), matched.depth_of(1), matched.route_at(0, 1)), (None, 0, None));
        let mount = Mount { pattern_len: "/api".len(), rest_at: 4 };
        for _ in 0..2 {
            // The second time, the handlers of the first one have been dropped.
            assert_eq!(step(&mut matched, (1, 7), "/api/{*rest}", Some(mount)), 0);
            assert_eq!((matched.pattern(), matched.rest_at()), (Some("/api/{*rest}"), 4));
            for pattern in ["/users/{id}", "/"] {
                assert_eq!(step(&mut matched, (2, 3), pattern, None), 1);
                assert_eq!(matched.pattern(), Some(&*format!("/api{pattern}")));
                assert_eq!((matched.route_at(0, 1), matched.route_at(1, 2)), (Some(7), Some(3)));
            }
        }
        // A router that has returned is none of those around the next one.
        matched.set_depth(0);
        assert_eq!((matched.pattern(), matched.rest_at()), (Some("/api/"), 0));
        assert_eq!(step(&mut matched, (3, 0), "/other", None), 0);
        assert_eq!((matched.pattern(), matched.route_at(1, 2)), (Some("/other"), None));
        matched.clear();
        assert_eq!((matched.pattern(), matched.rest_at(), matched.route_at(0, 3)), (None, 0, None));
    }

    #[test]
    fn a_host_stands_in_front_of_all_paths() {
        let mut matched = MatchedRoute::default();
        let mount = Mount { pattern_len: "/api".len(), rest_at: 4 };
        step(&mut matched, (1, 0), "/api/{*rest}", Some(mount));
        step(&mut matched, (2, 0), "{tenant}.example/users", None);
        assert_eq!(matched.pattern(), Some("{tenant}.example/api/users"));
        step(&mut matched, (2, 1), "/", None);
        assert_eq!(matched.pattern(), Some("/api/"));
        matched.set_depth(0);
        step(&mut matched, (1, 1), "a.example/api/{*rest}", Some(mount));
        step(&mut matched, (2, 1), "/", None);
        assert_eq!(matched.pattern(), Some("a.example/api/"));
        step(&mut matched, (2, 2), "", None);
        assert_eq!(matched.pattern(), Some("a.example/api"));
    }
}

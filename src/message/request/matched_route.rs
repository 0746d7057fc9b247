//! [`MatchedRoute`]: the routes that a request was matched to, one for each router on its way.

use crate::memory::Span;

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

/// The choices of routers, each at its depth: how many routers are around it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Steps {
    steps: Vec<Step>,
    /// How many of the steps belong to routers whose handlers are running.
    depth: usize,
    /// The host of the innermost route that has one, and the paths of all routes.
    pattern: String,
    host_len: usize,
    /// The step that the host belongs to.
    host_step: usize,
    /// Where the names of the parameters are in the paths of the pattern, and their values in the path of the request.
    /// The rest of a path has no value if the path ends before it.
    names: Vec<Span>,
    pub(crate) values: Vec<Span>,
}

/// A router's choice, and the place where the handler is mounted.
#[derive(Clone, Copy, Debug)]
struct Step {
    router: u32,
    route: u32,
    mount: Mount,
}

impl MatchedRoute {
    /// How deep inside of other routers `router` is called, and the route that it has chosen there before. Handlers of
    /// that route are running from now on.
    #[inline]
    pub(crate) fn enter(&mut self, router: u32) -> (usize, Option<u32>) {
        let Some(steps) = &mut self.0 else { return (0, None) };
        match steps.steps.get(steps.depth) {
            Some(step) if step.router == router => {
                steps.depth += 1;
                (steps.depth - 1, Some(step.route))
            }
            _ if steps.depth == 0 => (0, None),
            _ => steps.enter_again(router),
        }
    }

    /// Returns to `depth`: the handlers beyond it have returned.
    #[inline]
    pub(crate) fn leave(&mut self, depth: usize) {
        if let Some(steps) = &mut self.0 {
            // A handler may have replaced the request.
            steps.depth = depth.min(steps.steps.len());
        }
    }

    /// Takes the steps, for a router to note its own.
    #[inline]
    pub(crate) fn take(&mut self) -> Box<Steps> {
        self.0.take().unwrap_or_default()
    }

    /// Gives back the steps that were taken.
    #[inline]
    pub(crate) fn give(&mut self, steps: Box<Steps>) {
        self.0 = Some(steps);
    }

    /// Forgets all steps, and keeps the memory.
    #[inline]
    pub(crate) fn clear(&mut self) {
        if let Some(matched) = &mut self.0 {
            matched.steps.clear();
            matched.pattern.clear();
            matched.names.clear();
            matched.values.clear();
            (matched.depth, matched.host_len) = (0, 0);
        }
    }

    /// How many routers have chosen a route.
    pub(crate) fn choices(&self) -> usize {
        self.0.as_ref().map_or(0, |matched| matched.steps.len())
    }

    /// Drops the choices beyond the first so many. The pattern that they have made stays.
    pub(crate) fn forget_choices(&mut self, known: usize) {
        if let Some(matched) = &mut self.0 {
            matched.steps.truncate(known.max(matched.depth));
        }
    }

    /// Drops choices of `on_head` that no `handle` has used yet: the method has changed.
    pub(super) fn clear_choices(&mut self) {
        if let Some(matched) = &mut self.0 {
            matched.steps.truncate(matched.depth);
        }
    }

    /// Drops what depends on the path below the place where the handler that is running is mounted: it has changed.
    pub(super) fn clear_below_mount(&mut self) {
        self.clear_choices();
        if let Some(matched) = &mut self.0 {
            let params = matched.mount().params;
            matched.names.truncate(params);
            matched.values.truncate(params);
        }
    }

    /// The pattern of the whole path, once a router has matched it.
    pub(super) fn pattern(&self) -> Option<&str> {
        self.0.as_ref().map(|matched| &*matched.pattern).filter(|pattern| !pattern.is_empty())
    }

    /// The host of the pattern; empty, if it has none.
    #[inline]
    pub(super) fn host_pattern(&self) -> &str {
        self.0.as_ref().map_or("", |matched| &matched.pattern[..matched.host_len])
    }

    /// The parameters of the path, in the order of the pattern: their names, and where their values are in the path.
    pub(super) fn params(&self) -> impl Iterator<Item = (&str, Span)> {
        self.0.as_deref().into_iter().flat_map(Steps::params)
    }

    /// Where the value of a parameter is in the path, if there is one: of two with the same name, the inner one.
    #[inline]
    pub(super) fn value(&self, name: &str) -> Option<Span> {
        let steps = self.0.as_deref()?;
        let paths = &steps.pattern.as_bytes()[steps.host_len..];
        let at = steps.names.iter().rposition(|own| paths[own.range()] == *name.as_bytes())?;
        Some(steps.value(at))
    }

    /// Where the part of the path begins that a mounted handler is given.
    #[inline]
    pub(crate) fn rest_at(&self) -> usize {
        self.0.as_ref().map_or(0, |matched| matched.rest_at())
    }
}

impl Steps {
    /// Notes that `router`, at the current depth, has chosen `route`, with this pattern, and that handlers of it are
    /// running from now on. Its values are those from `found` on, in the path below its place, which has `path_len`
    /// octets.
    #[inline]
    pub(crate) fn note(
        &mut self,
        (router, route): (u32, u32),
        pattern: &RoutePattern,
        found: usize,
        path_len: usize,
    ) {
        // Most requests are matched once, by a path.
        if self.depth + found + self.host_len == 0 && pattern.is_path {
            self.pattern.clear();
            self.pattern.push_str(&pattern.text);
            self.names.clear();
            self.names.extend_from_slice(&pattern.names);
            self.steps.clear();
            self.steps.push(Step { router, route, mount: Mount::default() });
            self.depth = 1;
        } else {
            self.note_in_place((router, route), pattern, found, path_len);
        }
    }

    /// Notes a choice inside of other routers, instead of another one, or with a host or a prefix.
    #[inline(never)]
    fn note_in_place(
        &mut self,
        (router, route): (u32, u32),
        pattern: &RoutePattern,
        found: usize,
        path_len: usize,
    ) {
        let outer = self.mount();
        self.set_pattern(outer, pattern);
        self.set_values(outer, found);
        let mount = match pattern.prefix_len {
            None => outer,
            Some(prefix_len) => self.mount_at(outer, prefix_len - pattern.host_len, path_len),
        };
        self.steps.truncate(self.depth);
        self.steps.push(Step { router, route, mount });
        self.depth += 1;
    }

    /// Enters `router` where it has been entered before: a handler may call the router anew that has called it.
    fn enter_again(&mut self, router: u32) -> (usize, Option<u32>) {
        let running = &self.steps[..self.depth];
        match running.iter().position(|step| step.router == router) {
            Some(depth) => {
                self.depth = depth + 1;
                (depth, Some(running[depth].route))
            }
            None => (self.depth, None),
        }
    }

    /// Where the part of the path begins that the router sees.
    #[inline]
    pub(crate) fn rest_at(&self) -> usize {
        self.mount().rest_at
    }

    /// The place below `outer` whose prefix has `pattern_len` octets in the pattern.
    fn mount_at(&self, outer: Mount, pattern_len: usize, path_len: usize) -> Mount {
        // The rest of the path, which is the last parameter, is not part of the prefix.
        let params = self.names.len() - 1;
        let rest = self.values.get(params).map(|rest| rest.start() - "/".len());
        Mount {
            pattern_len: outer.pattern_len + pattern_len,
            params,
            rest_at: rest.unwrap_or(outer.rest_at + path_len),
        }
    }

    /// The place where the handler that is running is mounted.
    #[inline]
    fn mount(&self) -> Mount {
        let step = self.depth.checked_sub(1).and_then(|at| self.steps.get(at));
        step.map_or(Mount::default(), |step| step.mount)
    }

    /// Puts the pattern of the step at the current depth behind the prefixes of its place, and its host in front.
    #[inline]
    fn set_pattern(&mut self, outer: Mount, pattern: &RoutePattern) {
        let (host, path) = pattern.text.split_at(pattern.host_len);
        self.set_host(host);
        self.pattern.truncate(self.host_len + outer.pattern_len);
        self.pattern.push_str(path);
        self.names.truncate(outer.params);
        self.names.extend(pattern.names.iter().map(|name| name.shifted(outer.pattern_len)));
    }

    /// Puts a host in front. The one that is there stays, if it is that of a router on the way, and there is no other.
    fn set_host(&mut self, host: &str) {
        if !host.is_empty() || self.host_step >= self.depth {
            self.pattern.replace_range(..self.host_len, host);
            self.host_len = host.len();
            self.host_step = self.depth;
        }
    }

    /// Puts the values from `found` on behind those of the prefixes.
    #[inline]
    fn set_values(&mut self, outer: Mount, found: usize) {
        if found > outer.params {
            self.values.drain(outer.params..found);
        }
        if outer.rest_at > 0 {
            self.values[outer.params..].iter_mut().for_each(|value| *value = value.shifted(outer.rest_at));
        }
    }

    fn params(&self) -> impl Iterator<Item = (&str, Span)> {
        let paths = &self.pattern[self.host_len..];
        self.names.iter().enumerate().map(|(at, name)| (&paths[name.range()], self.value(at)))
    }

    /// Where the value of a parameter is.
    #[inline]
    fn value(&self, at: usize) -> Span {
        self.values.get(at).copied().unwrap_or_default()
    }
}

/// The place where a handler is mounted: the prefixes of the routers on its way.
#[derive(Clone, Copy, Debug, Default)]
struct Mount {
    /// Their bytes in the paths of the pattern, and how many parameters they have.
    pattern_len: usize,
    params: usize,
    /// Where the path below them begins in the path of the request.
    rest_at: usize,
}

/// The pattern of a route, as the steps need it.
#[derive(Debug, Default)]
pub(crate) struct RoutePattern {
    text: String,
    host_len: usize,
    /// Where the names of the parameters are in its path.
    names: Vec<Span>,
    /// The length of the prefix in the text, if a handler is mounted there. The rest of the path is a parameter, then.
    prefix_len: Option<usize>,
    /// Whether there is neither a host nor a prefix.
    is_path: bool,
}

/// The pattern of requests that match no other.
pub(crate) static NO_PATTERN: RoutePattern =
    RoutePattern { text: String::new(), host_len: 0, names: Vec::new(), prefix_len: None, is_path: true };

impl RoutePattern {
    pub(crate) fn new(text: String, prefix_len: Option<usize>) -> RoutePattern {
        debug_assert!(
            prefix_len.is_none_or(|len| text[len..].starts_with("/{*")),
            "the rest of the path follows the prefix of a mounted handler"
        );
        let host_len = text.find('/').unwrap_or_default();
        let path = &text[host_len..];
        let params = path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'));
        let names = params.map(|name| name.trim_start_matches('*').as_bytes());
        let names = names.map(|name| Span::from_slices(name, path.as_bytes())).collect();
        let is_path = host_len == 0 && prefix_len.is_none();
        RoutePattern { text, host_len, names, prefix_len, is_path }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The length of the prefix in the text, if a handler is mounted there.
    pub(crate) fn prefix_len(&self) -> Option<usize> {
        self.prefix_len
    }
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
        route: (u32, u32),
        pattern: &str,
        values: &[(usize, usize)],
    ) -> usize {
        let (depth, _) = matched.enter(route.0);
        matched.leave(depth);
        let mut steps = matched.take();
        let prefix_len = pattern.strip_suffix("/{*rest}").map(str::len);
        let found = steps.values.len();
        steps.values.extend(values.iter().map(|(start, len)| Span::new(*start, *len)));
        steps.note(route, &RoutePattern::new(pattern.to_owned(), prefix_len), found, "/api/users/7".len());
        matched.give(steps);
        depth
    }

    /// The rest of the path behind `/api/`.
    const REST: [(usize, usize); 1] = [("/api/".len(), "users/7".len())];

    #[test]
    fn nested_routers_make_one_pattern_and_can_be_matched_anew() {
        let mut matched = MatchedRoute::default();
        assert_eq!((matched.enter(1), matched.pattern()), ((0, None), None));
        for _ in 0..2 {
            // The second time, the handlers of the first one have been dropped.
            assert_eq!(step(&mut matched, (1, 7), "/api/{*rest}", &REST), 0);
            assert_eq!((matched.pattern(), matched.rest_at()), (Some("/api/{*rest}"), 4));
            for pattern in ["/users/{id}", "/"] {
                assert_eq!(step(&mut matched, (2, 3), pattern, &[]), 1);
                assert_eq!(matched.pattern(), Some(&*format!("/api{pattern}")));
                assert_eq!((matched.enter(1), matched.enter(2)), ((0, Some(7)), (1, Some(3))));
            }
        }
        // A router that has returned is none of those around the next one.
        matched.leave(0);
        assert_eq!((matched.pattern(), matched.rest_at()), (Some("/api/"), 0));
        assert_eq!(step(&mut matched, (3, 0), "/other", &[]), 0);
        assert_eq!((matched.enter(2), matched.pattern()), ((1, None), Some("/other")));
        matched.clear();
        assert_eq!((matched.enter(3), matched.pattern(), matched.rest_at()), ((0, None), None, 0));
    }

    #[test]
    fn a_host_stands_in_front_of_all_paths() {
        let mut matched = MatchedRoute::default();
        step(&mut matched, (1, 0), "/api/{*rest}", &REST);
        step(&mut matched, (2, 0), "{tenant}.example/users", &[]);
        assert_eq!(matched.pattern(), Some("{tenant}.example/api/users"));
        step(&mut matched, (2, 1), "/", &[]);
        assert_eq!(matched.pattern(), Some("/api/"));
        matched.leave(0);
        step(&mut matched, (1, 1), "a.example/api/{*rest}", &REST);
        step(&mut matched, (2, 1), "/", &[]);
        assert_eq!(matched.pattern(), Some("a.example/api/"));
        step(&mut matched, (2, 2), "", &[]);
        assert_eq!(matched.pattern(), Some("a.example/api"));
    }
}

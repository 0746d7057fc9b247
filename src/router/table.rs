//! [`RouteTable`]: the routes of a router, as a tree of path segments.

use std::borrow::Cow;
use std::fmt;

use super::edges::{Edges, NodeIndex, Segment};
use super::pattern::{FALLBACK, Fault, RouteError, fault};
use super::route_info::RouteInfo;
use crate::memory::Span;
use crate::message::{Method, RoutePattern};

/// The routes of a router, as a tree of path segments for each host.
///
/// The path decides before the method. Where several patterns match, each segment from the left prefers an equal text to
/// a parameter, and both to the rest of a path. A look-up enters each node of the tree at most once, however many
/// segments a path has.
#[derive(Debug, Default)]
pub(super) struct RouteTable {
    routes: Vec<Route>,
    nodes: Vec<Node>,
    /// The segments that stand for themselves, and from a root also the paths that do.
    edges: Edges,
    /// The hosts, each with a tree of its own.
    hosts: Hosts,
    /// The tree for all hosts, which is tried last.
    any_host: Option<NodeIndex>,
    /// The route of requests whose path matches no other pattern.
    fallback: Option<RouteIndex>,
}

pub(super) type RouteIndex = usize;

#[derive(Debug)]
struct Route {
    methods: Methods,
    pattern: RoutePattern,
    /// The patterns in the tree: of a mount, also the prefix; of the `/` below a prefix, with a slash and without.
    paths: Vec<String>,
}

/// The methods of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Methods {
    One(Method),
    /// All that have no route of their own on the same path.
    Any,
}

/// A place in the tree, behind the segments that lead to it.
#[derive(Debug, Default)]
struct Node {
    /// Whether edges lead on from here: segments that stand for themselves.
    has_edges: bool,
    /// The node behind a parameter.
    param: Option<NodeIndex>,
    /// The routes whose pattern ends here.
    end: Option<Box<Endpoint>>,
    /// The routes that match any rest.
    rest: Option<Box<Endpoint>>,
}

/// The routes of one path.
#[derive(Debug, Default)]
pub(super) struct Endpoint {
    routes: Vec<(Method, RouteIndex)>,
    any: Option<RouteIndex>,
    /// The value of `allow`: also HEAD and OPTIONS, which need no routes of their own.
    pub(super) allow: String,
}

impl RouteTable {
    /// Adds a route. Routes are counted from 0.
    pub(super) fn add(&mut self, methods: Methods, pattern: &str) -> Result<(), RouteError> {
        if pattern == FALLBACK && methods != Methods::Any {
            return Err(RouteError::from_fault(pattern, Fault::Fallback));
        }
        let paths = vec![pattern.to_owned()];
        self.add_route(Route { methods, pattern: RoutePattern::new(pattern.to_owned(), None), paths })
    }

    /// Adds the route of a handler that gets all requests for `prefix` and for what is below it. An empty prefix, or
    /// a host alone, stands for all paths.
    pub(super) fn add_mount(&mut self, prefix: &str) -> Result<(), RouteError> {
        check_prefix(prefix)?;
        let pattern = format!("{prefix}/{{*rest}}");
        let mut paths = vec![pattern.clone()];
        if prefix.contains('/') {
            paths.push(prefix.to_owned());
        }
        let pattern = RoutePattern::new(pattern, Some(prefix.len()));
        self.add_route(Route { methods: Methods::Any, pattern, paths })
    }

    /// Adds all routes of `inner`, in their order, below a prefix. Its `/` is the prefix, with a slash and without, and
    /// its fallback takes what is left below the prefix.
    pub(super) fn nest(&mut self, prefix: &str, inner: RouteTable) -> Result<(), RouteError> {
        check_prefix(prefix)?;
        for Route { methods, pattern, paths } in inner.routes {
            let below = |path: &str| match path {
                FALLBACK if !prefix.is_empty() => join(prefix, "/{*rest}"),
                path => join(prefix, path),
            };
            let prefix_len = pattern.prefix_len().map(|len| len + prefix.len());
            let whole = below(pattern.text())?;
            let has_path = prefix.contains('/');
            let is_root = has_path && path_of(pattern.text()) == "/";
            let pattern = if is_root { whole.trim_end_matches('/').to_owned() } else { whole };
            let mut joined = paths.iter().map(|path| below(path)).collect::<Result<Vec<_>, _>>()?;
            // A handler that is mounted at the inner root also gets the prefix.
            let mounted = prefix_len.map(|len| pattern[..len].to_owned()).filter(|_| has_path);
            joined.extend(mounted.or_else(|| is_root.then(|| pattern.clone())));
            joined.sort_unstable();
            joined.dedup();
            self.add_route(Route {
                methods,
                pattern: RoutePattern::new(pattern, prefix_len),
                paths: joined,
            })?;
        }
        Ok(())
    }

    /// Adds a route at the end of each of its paths.
    fn add_route(&mut self, route: Route) -> Result<(), RouteError> {
        for path in &route.paths {
            if let Some(fault) = fault(path).filter(|_| path != FALLBACK) {
                return Err(RouteError::from_fault(path, fault));
            }
            if let Err(other) = self.insert(route.methods, path) {
                return Err(RouteError::from_conflict(route.to_string(), self.routes[other].to_string()));
            }
        }
        self.routes.push(route);
        Ok(())
    }

    /// Inserts the next route into the tree. Fails with the route that is already there.
    fn insert(&mut self, methods: Methods, pattern: &str) -> Result<(), RouteIndex> {
        let index = self.routes.len();
        if pattern == FALLBACK {
            return self.fallback.replace(index).map_or(Ok(()), Err);
        }
        let (host, path) = pattern.split_at(pattern.find('/').unwrap_or_default());
        let root = self.root(host);
        let mut node = root;
        for segment in path.split('/').skip(1) {
            let next = self.nodes.len() as NodeIndex;
            let known = &mut self.nodes[node as usize];
            let child = match segment.as_bytes() {
                [b'{', b'*', ..] => return known.rest.get_or_insert_default().add(methods, index),
                [b'{', ..] => *known.param.get_or_insert(next),
                text => {
                    known.has_edges = true;
                    self.edges.insert(node, Segment::first_of(text), next)
                }
            };
            if child == next {
                self.nodes.push(Node::default());
            }
            node = child;
        }
        if !path.contains('{') {
            let whole = Segment::whole(&path.as_bytes()["/".len()..]);
            self.edges.insert(root, whole, node);
        }
        self.nodes[node as usize].end.get_or_insert_default().add(methods, index)
    }

    /// The tree of a host, which is made if there is none yet.
    fn root(&mut self, host: &str) -> NodeIndex {
        let next = self.nodes.len() as NodeIndex;
        let root = match host {
            "" => *self.any_host.get_or_insert(next),
            host => self.hosts.insert(host, next),
        };
        if root == next {
            self.nodes.push(Node::default());
        }
        root
    }

    /// Finds the routes of a path, and appends the values of its parameters to `values`.
    #[inline]
    pub(super) fn find<'h>(
        &self,
        host: impl Fn() -> Option<&'h str>,
        path: &str,
        values: &mut Vec<Span>,
    ) -> Option<Found<'_>> {
        let path = path.as_bytes().strip_prefix(b"/")?;
        let host = if self.hosts.is_empty() { None } else { host() };
        let of_host = host.and_then(|host| self.find_by_host(host, path, values));
        of_host.or_else(|| self.find_below(self.any_host?, path, values))
    }

    #[inline(never)]
    fn find_by_host(&self, host: &str, path: &[u8], values: &mut Vec<Span>) -> Option<Found<'_>> {
        self.hosts.find(host, |root| self.find_below(root, path, values))
    }

    /// Finds the routes of a path without its `/`, which lies below a root.
    #[inline(always)]
    fn find_below(&self, root: NodeIndex, path: &[u8], values: &mut Vec<Span>) -> Option<Found<'_>> {
        let node = self.edges.get(root, Segment::whole(path));
        if let Some(endpoint) = node.and_then(|node| self.nodes[node as usize].end.as_deref()) {
            return Some(Found { endpoint, is_exact: true });
        }
        let mut search = Search { nodes: &self.nodes, edges: &self.edges, path, values, is_exact: true };
        let endpoint = search.below(root, 0)?;
        Some(Found { endpoint, is_exact: search.is_exact })
    }

    /// The route of requests whose path matches no other pattern.
    pub(super) fn fallback(&self) -> Option<RouteIndex> {
        self.fallback
    }

    /// The routes, in the order in which they were added.
    pub(super) fn routes(&self) -> impl Iterator<Item = RouteInfo<'_>> {
        self.routes.iter().map(|route| {
            let method = match route.methods {
                Methods::One(method) => Some(method),
                Methods::Any => None,
            };
            RouteInfo::new(method, &route.pattern)
        })
    }

    /// The pattern of a route; none of the fallback.
    #[inline]
    pub(super) fn pattern(&self, route: RouteIndex) -> Option<&RoutePattern> {
        (self.fallback != Some(route)).then(|| &self.routes[route].pattern)
    }
}

/// The hosts that routes name, as a tree of labels from the left. Each leads to the root of a tree of paths.
#[derive(Debug, Default)]
struct Hosts {
    /// The first one is before all labels.
    nodes: Vec<HostNode>,
    edges: Edges,
}

/// A place in the tree, after the labels that lead to it.
#[derive(Debug, Default)]
struct HostNode {
    /// The node after a parameter.
    param: Option<NodeIndex>,
    /// The root of the paths of the host that ends here.
    root: Option<NodeIndex>,
}

impl Hosts {
    /// Adds a host whose paths begin at `root`, if there is none yet with the same labels. Returns the root of its paths.
    fn insert(&mut self, pattern: &str, root: NodeIndex) -> NodeIndex {
        if self.nodes.is_empty() {
            self.nodes.push(HostNode::default());
        }
        let mut at = 0;
        for label in pattern.split('.') {
            let next = self.nodes.len() as NodeIndex;
            let known = match label.starts_with('{') {
                true => *self.nodes[at as usize].param.get_or_insert(next),
                false => self.edges.insert(at, Segment::whole(label.as_bytes()), next),
            };
            if known == next {
                self.nodes.push(HostNode::default());
            }
            at = known;
        }
        *self.nodes[at as usize].root.get_or_insert(root)
    }

    fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Calls `look_up` with the root of each host that matches, until it finds something. A host matches in any case, and
    /// may end with a dot (RFC 3986 §3.2.2). An equal label comes before a parameter.
    fn find<T>(&self, host: &str, mut look_up: impl FnMut(NodeIndex) -> Option<T>) -> Option<T> {
        let host = host.strip_suffix('.').unwrap_or(host);
        let host = match host.bytes().any(|octet| octet.is_ascii_uppercase()) {
            true => Cow::Owned(host.to_ascii_lowercase()),
            false => Cow::Borrowed(host),
        };
        self.find_below(0, &host, &mut look_up)
    }

    /// Looks up the hosts whose other labels match `labels`. The depth of the tree bounds that of the calls.
    fn find_below<T>(
        &self,
        at: NodeIndex,
        labels: &str,
        look_up: &mut impl FnMut(NodeIndex) -> Option<T>,
    ) -> Option<T> {
        let (label, rest) = match labels.split_once('.') {
            Some((label, rest)) => (label, Some(rest)),
            None => (labels, None),
        };
        let text = self.edges.get(at, Segment::whole(label.as_bytes()));
        let param = self.nodes.get(at as usize)?.param.filter(|_| !label.is_empty());
        [text, param].into_iter().flatten().find_map(|next| match rest {
            Some(rest) => self.find_below(next, rest, look_up),
            None => self.nodes[next as usize].root.and_then(&mut *look_up),
        })
    }
}

/// The outcome of a look-up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found<'t> {
    pub(super) endpoint: &'t Endpoint,
    /// Whether the path is in normal form if there are no escapes in it: each segment equals the pattern's, or is a
    /// parameter that does not begin with a dot.
    pub(super) is_exact: bool,
}

/// The search for the routes of a path.
struct Search<'t, 's> {
    nodes: &'t [Node],
    edges: &'t Edges,
    /// The path without its `/`.
    path: &'s [u8],
    values: &'s mut Vec<Span>,
    /// As in [`Found`].
    is_exact: bool,
}

impl<'t> Search<'t, '_> {
    /// Finds the routes of the rest of the path, which begins at `at` and lies below a node. If there are none, no
    /// values are appended.
    fn below(&mut self, mut index: NodeIndex, mut at: usize) -> Option<&'t Endpoint> {
        let mut catch_all = None;
        let known = self.values.len();
        loop {
            let node = &self.nodes[index as usize];
            let segment = Segment::first_of(&self.path[at..]);
            let end = at + segment.text.len();
            if let Some(rest) = &node.rest {
                // The innermost catch-all so far, for a dead end below.
                catch_all = Some((rest, at, self.values.len()));
            }
            let text = if node.has_edges { self.edges.get(index, segment) } else { None };
            let param = node.param.filter(|_| !segment.text.is_empty());
            // The equal text first; the parameter only if nothing below the text matches.
            if let (Some(text), Some(_)) = (text, param)
                && let Some(endpoint) = self.behind(text, end)
            {
                return Some(endpoint);
            }
            index = match (text, param) {
                (Some(text), None) => text,
                (_, Some(param)) => {
                    self.is_exact &= !segment.text.starts_with(b".");
                    self.push(at, segment.text.len());
                    param
                }
                (None, None) => break,
            };
            if end == self.path.len() {
                match &self.nodes[index as usize].end {
                    Some(endpoint) => return Some(endpoint),
                    None => break,
                }
            }
            at = end + "/".len();
        }
        let Some((endpoint, at, values)) = catch_all else {
            self.values.truncate(known);
            return None;
        };
        self.is_exact = false;
        self.values.truncate(values);
        self.push(at, self.path.len() - at);
        Some(endpoint)
    }

    /// Notes a value, which is counted from the `/` before the path.
    #[inline]
    fn push(&mut self, at: usize, len: usize) {
        self.values.push(Span::new("/".len() + at, len));
    }

    /// Finds the routes of the path, whose front, up to `end`, leads to a node.
    fn behind(&mut self, node: NodeIndex, end: usize) -> Option<&'t Endpoint> {
        match end == self.path.len() {
            true => self.nodes[node as usize].end.as_deref(),
            false => self.below(node, end + "/".len()),
        }
    }
}

impl Endpoint {
    /// The route of a method. HEAD is answered by GET, whose content the server leaves out (RFC 9110 §9.3.2).
    #[inline]
    pub(super) fn route(&self, method: &Method) -> Option<RouteIndex> {
        let route = |method| self.routes.iter().find(|(own, _)| own == method).map(|(_, route)| *route);
        let head = || if *method == Method::Head { route(&Method::Get) } else { None };
        route(method).or_else(head).or(self.any)
    }

    /// Adds a route. Fails with the route that is already there.
    fn add(&mut self, methods: Methods, index: RouteIndex) -> Result<(), RouteIndex> {
        let Methods::One(method) = methods else { return self.any.replace(index).map_or(Ok(()), Err) };
        if let Some((_, other)) = self.routes.iter().find(|(own, _)| *own == method) {
            return Err(*other);
        }
        self.routes.push((method, index));
        self.allow = self.allowed();
        Ok(())
    }

    fn allowed(&self) -> String {
        let has = |method| self.routes.iter().any(|(own, _)| *own == method);
        let head = (has(Method::Get) && !has(Method::Head)).then_some(Method::Head);
        let options = (!has(Method::Options)).then_some(Method::Options);
        let own = self.routes.iter().map(|(method, _)| *method);
        let all: Vec<String> = own.chain(head).chain(options).map(|method| method.to_string()).collect();
        all.join(", ")
    }
}

fn check_prefix(prefix: &str) -> Result<(), RouteError> {
    if prefix.ends_with('/') { Err(RouteError::from_fault(prefix, Fault::Prefix)) } else { Ok(()) }
}

/// The path of a pattern or a prefix, without its host.
fn path_of(pattern: &str) -> &str {
    &pattern[pattern.find('/').unwrap_or(pattern.len())..]
}

/// A pattern below a prefix. Either may have a host.
fn join(prefix: &str, pattern: &str) -> Result<String, RouteError> {
    if pattern == FALLBACK {
        return Ok(pattern.to_owned());
    }
    let (host, path) = pattern.split_at(pattern.find('/').unwrap_or_default());
    match (host, prefix.starts_with('/') || prefix.is_empty()) {
        ("", _) | (_, true) => Ok([host, prefix, path].concat()),
        _ => Err(RouteError::from_fault(&[prefix, pattern].concat(), Fault::Hosts)),
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.methods {
            Methods::One(method) => write!(f, "{method} {}", self.pattern.text()),
            Methods::Any => write!(f, "any {}", self.pattern.text()),
        }
    }
}

/// A line for each route, in the order in which they were added.
impl fmt::Display for RouteTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.routes.iter().try_for_each(|route| writeln!(f, "{route}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTS: [&str; 9] = [
        "{a}.{b}.com",
        "{a}.example.com",
        "api.{b}.com",
        "api.example.com",
        "{a}",
        "localhost",
        "[::1]",
        "{a}.{b}.{c}.example.com",
        "{tenant}.eu.example.com",
    ];

    /// A host matches these patterns, in this order.
    #[track_caller]
    fn check(host: &str, expected: &[&str]) {
        let mut hosts = Hosts::default();
        for (root, pattern) in (0..).zip(HOSTS) {
            assert_eq!(hosts.insert(pattern, root), root);
            assert_eq!(hosts.insert(&pattern.replace("{b}", "{x}"), 99), root, "{pattern}");
        }
        let mut found = Vec::new();
        let none = hosts.find(host, |root| {
            found.push(HOSTS[root as usize]);
            None::<()>
        });
        assert_eq!((none, &*found), (None, expected), "{host}");
        assert_eq!(hosts.find(host, |root| Some(HOSTS[root as usize])), expected.first().copied(), "{host}");
    }

    #[test]
    fn each_label_prefers_an_equal_text_to_a_parameter() {
        check("api.example.com", &["api.example.com", "api.{b}.com", "{a}.example.com", "{a}.{b}.com"]);
        check("www.example.com", &["{a}.example.com", "{a}.{b}.com"]);
        check("api.example.org", &[]);
        check("api.other.com", &["api.{b}.com", "{a}.{b}.com"]);
        check("localhost", &["localhost", "{a}"]);
        check("x", &["{a}"]);
        check("[::1]", &["[::1]", "{a}"]);
        check("t.eu.example.com", &["{tenant}.eu.example.com"]);
        check("t.us.x.example.com", &["{a}.{b}.{c}.example.com"]);
    }

    #[test]
    fn a_host_matches_in_any_case_and_with_a_dot_at_its_end() {
        check("API.Other.COM.", &["api.{b}.com", "{a}.{b}.com"]);
        check("LocalHost.", &["localhost", "{a}"]);
    }

    #[test]
    fn no_label_is_empty() {
        for host in ["", ".", "..", ".com", "a..com", "api.example.com..", ".example.com", "a.b.c.d.e.f"] {
            check(host, &[]);
        }
        assert_eq!(Hosts::default().find("a", Some), None);
    }
}

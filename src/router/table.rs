//! [`RouteTable`]: the routes of a router, as a tree of path segments.

use std::cmp::Ordering;
use std::fmt;

use super::pattern::{FALLBACK, Fault, InvalidRoute, fault, have_one_shape};
use super::spelling::is_plain_segment;
use crate::message::{Method, Mount, find_octet, first_in_eight};

/// The routes of a router, as a tree of path segments for each host.
///
/// The path decides before the method. Where several patterns match, each segment from the left prefers an equal text to
/// a parameter, and both to the rest of a path. A look-up enters each node of the tree at most once, however many
/// segments a path has.
#[derive(Debug, Default)]
pub(super) struct RouteTable {
    routes: Vec<Route>,
    nodes: Vec<Node>,
    /// The hosts and their trees. A host without parameters comes before those with some.
    hosts: Vec<(Box<str>, NodeIndex)>,
    /// The tree for all hosts, which is tried last.
    any_host: Option<NodeIndex>,
    /// The route of requests whose path matches no other pattern.
    fallback: Option<RouteIndex>,
}

pub(super) type RouteIndex = usize;

type NodeIndex = usize;

#[derive(Debug)]
struct Route {
    methods: Methods,
    pattern: String,
    /// The length of the prefix in the pattern, if a handler is mounted there.
    prefix_len: Option<usize>,
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
    /// The segments that may follow, in ascending order.
    texts: Vec<(TextSegment, NodeIndex)>,
    /// The node behind a parameter.
    param: Option<NodeIndex>,
    /// The routes whose pattern ends here.
    end: Option<Endpoint>,
    /// The routes that match any rest.
    rest: Option<Endpoint>,
}

/// A segment that stands for itself.
#[derive(Debug)]
struct TextSegment {
    /// Its first eight octets, by which most segments are told apart without a look at their texts.
    front: u64,
    text: Box<[u8]>,
}

/// A segment of a path that is looked up.
#[derive(Clone, Copy)]
struct Segment<'p> {
    front: u64,
    text: &'p [u8],
}

/// The routes of a path, and how it led to them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found<'t> {
    pub(super) endpoint: &'t Endpoint,
    /// Whether the path is known to be in normal form: its segments are those of the pattern, or plain.
    pub(super) is_normal: bool,
}

/// The routes of one path.
#[derive(Debug, Default)]
pub(super) struct Endpoint {
    routes: Vec<(Method, RouteIndex)>,
    any: Option<RouteIndex>,
    /// The value of `allow`: also HEAD and OPTIONS, which need no routes of their own.
    allow: String,
}

/// The route of a method, or the reason that there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice<'t> {
    Route(RouteIndex),
    /// The router itself lists the methods in `allow`.
    Options(&'t str),
    NotAllowed(&'t str),
}

impl RouteTable {
    /// Adds a route. Routes are counted from 0.
    pub(super) fn add(&mut self, methods: Methods, pattern: &str) -> Result<(), InvalidRoute> {
        if pattern == FALLBACK && methods != Methods::Any {
            return Err(InvalidRoute::from_fault(pattern, Fault::Fallback));
        }
        let paths = vec![pattern.to_owned()];
        self.add_route(Route { methods, pattern: pattern.to_owned(), prefix_len: None, paths })
    }

    /// Adds the route of a handler that gets all requests for `prefix` and for what is below it. An empty prefix, or
    /// a host alone, stands for all paths.
    pub(super) fn add_mount(&mut self, prefix: &str) -> Result<(), InvalidRoute> {
        check_prefix(prefix)?;
        let pattern = format!("{prefix}/{{*rest}}");
        let mut paths = vec![pattern.clone()];
        if prefix.contains('/') {
            paths.push(prefix.to_owned());
        }
        self.add_route(Route { methods: Methods::Any, pattern, prefix_len: Some(prefix.len()), paths })
    }

    /// Adds all routes of `inner`, in their order, below a prefix. Its `/` is the prefix, with a slash and without, and
    /// its fallback takes what is left below the prefix.
    pub(super) fn nest(&mut self, prefix: &str, inner: RouteTable) -> Result<(), InvalidRoute> {
        check_prefix(prefix)?;
        for Route { methods, pattern, prefix_len, paths } in inner.routes {
            let below = |path: &str| match path {
                FALLBACK if !prefix.is_empty() => join(prefix, "/{*rest}"),
                path => join(prefix, path),
            };
            let prefix_len = prefix_len.map(|len| len + prefix.len());
            let (whole, has_path) = (below(&pattern)?, prefix.contains('/'));
            let is_root = has_path && path_of(&pattern) == "/";
            let pattern = if is_root { whole.trim_end_matches('/').to_owned() } else { whole };
            let mut joined = paths.iter().map(|path| below(path)).collect::<Result<Vec<_>, _>>()?;
            // A handler that is mounted at the inner root also gets the prefix.
            let mounted = prefix_len.map(|len| pattern[..len].to_owned()).filter(|_| has_path);
            joined.extend(mounted.or_else(|| is_root.then(|| pattern.clone())));
            joined.sort_unstable();
            joined.dedup();
            self.add_route(Route { methods, pattern, prefix_len, paths: joined })?;
        }
        Ok(())
    }

    /// Adds a route at the end of each of its paths.
    fn add_route(&mut self, route: Route) -> Result<(), InvalidRoute> {
        for path in &route.paths {
            if let Some(fault) = fault(path).filter(|_| path != FALLBACK) {
                return Err(InvalidRoute::from_fault(path, fault));
            }
            if let Some(other) = self.insert(route.methods, path) {
                return Err(InvalidRoute::from_conflict(route.to_string(), self.routes[other].to_string()));
            }
        }
        self.routes.push(route);
        Ok(())
    }

    /// Inserts the next route into the tree. Fails with the route that is already there.
    fn insert(&mut self, methods: Methods, pattern: &str) -> Option<RouteIndex> {
        let index = self.routes.len();
        if pattern == FALLBACK {
            return self.fallback.replace(index);
        }
        let (host, path) = pattern.split_at(pattern.find('/').unwrap_or_default());
        let mut node = self.root(host);
        for segment in path.split('/').skip(1) {
            let next = self.nodes.len();
            node = match segment.as_bytes() {
                [b'{', b'*', ..] => return self.nodes[node].rest.get_or_insert_default().add(methods, index),
                [b'{', ..] => match self.nodes[node].param {
                    Some(param) => param,
                    None => *self.nodes[node].param.insert(next),
                },
                _ => self.text_child(node, segment),
            };
            if node == next {
                self.nodes.push(Node::default());
            }
        }
        self.nodes[node].end.get_or_insert_default().add(methods, index)
    }

    /// The tree of a host, which is made if there is none yet.
    fn root(&mut self, host: &str) -> NodeIndex {
        let next = self.nodes.len();
        let known = match host {
            "" => self.any_host,
            host => self.hosts.iter().find(|(known, _)| have_one_shape(known, host)).map(|(_, root)| *root),
        };
        if let Some(root) = known {
            return root;
        }
        self.nodes.push(Node::default());
        match host {
            "" => self.any_host = Some(next),
            host => {
                self.hosts.push((host.into(), next));
                self.hosts.sort_by_key(|(host, _)| host.contains('{'));
            }
        }
        next
    }

    /// The node behind a segment that stands for itself; the index of the next node, if there is none yet.
    fn text_child(&mut self, node: NodeIndex, segment: &str) -> NodeIndex {
        let next = self.nodes.len();
        let texts = &mut self.nodes[node].texts;
        let segment = Segment::first_of(segment.as_bytes());
        match texts.binary_search_by(|(text, _)| text.compare(segment)) {
            Ok(at) => texts[at].1,
            Err(at) => {
                texts.insert(at, (TextSegment { front: segment.front, text: segment.text.into() }, next));
                next
            }
        }
    }

    /// Finds the routes of a path.
    #[inline]
    pub(super) fn find<'h>(&self, host: impl Fn() -> Option<&'h str>, path: &str) -> Option<Found<'_>> {
        let path = path.as_bytes().strip_prefix(b"/")?;
        let host = if self.hosts.is_empty() { None } else { host() };
        let of_host = host.and_then(|host| self.find_by_host(host, path));
        of_host.or_else(|| self.find_below(&self.nodes[self.any_host?], path))
    }

    fn find_by_host(&self, host: &str, path: &[u8]) -> Option<Found<'_>> {
        let trees = self.hosts.iter().filter(|(pattern, _)| host_matches(pattern, host));
        trees.map(|(_, root)| &self.nodes[*root]).find_map(|root| self.find_below(root, path))
    }

    /// Finds the routes of the rest of a path, which lies below `node`.
    fn find_below<'t>(&'t self, mut node: &'t Node, mut path: &[u8]) -> Option<Found<'t>> {
        let (mut catch_all, mut is_normal) = (None, true);
        loop {
            let segment = Segment::first_of(path);
            let behind = path.get(segment.text.len() + 1..);
            // The innermost catch-all so far, for a dead end below.
            catch_all = node.rest.as_ref().or(catch_all);
            let text = node.text(segment);
            let param = node.param.filter(|_| !segment.text.is_empty()).map(|param| &self.nodes[param]);
            // The equal text first; the parameter only if nothing below the text matches.
            node = match (text.map(|text| &self.nodes[text]), param) {
                (Some(text), None) => text,
                (Some(text), Some(_)) if let Some(found) = self.find_behind(text, behind) => {
                    return Some(Found { is_normal: is_normal && found.is_normal, ..found });
                }
                (_, Some(param)) => {
                    is_normal &= is_plain_segment(segment.text);
                    param
                }
                (None, None) => break,
            };
            match (behind, &node.end) {
                (Some(behind), _) => path = behind,
                (None, Some(endpoint)) => return Some(Found { endpoint, is_normal }),
                (None, None) => break,
            }
        }
        catch_all.map(|endpoint| Found { endpoint, is_normal: false })
    }

    /// Finds the routes of the rest of a path behind the slash that follows `node`, or of its end.
    fn find_behind<'t>(&'t self, node: &'t Node, path: Option<&[u8]>) -> Option<Found<'t>> {
        match path {
            Some(path) => self.find_below(node, path),
            None => node.end.as_ref().map(|endpoint| Found { endpoint, is_normal: true }),
        }
    }

    /// The route of requests whose path matches no other pattern.
    pub(super) fn fallback(&self) -> Option<RouteIndex> {
        self.fallback
    }

    /// The pattern of a route; none of the fallback.
    pub(super) fn pattern(&self, route: RouteIndex) -> &str {
        if self.fallback == Some(route) { "" } else { &self.routes[route].pattern }
    }

    /// How much of `path`, which the route has matched, belongs to the place where the handler is mounted.
    #[inline]
    pub(super) fn mount(&self, route: RouteIndex, path: &str) -> Option<Mount> {
        let Route { pattern, prefix_len, .. } = &self.routes[route];
        let prefix = path_of(&pattern[..(*prefix_len)?]);
        let segments = prefix.bytes().filter(|octet| *octet == b'/').count();
        let rest_at = path.match_indices('/').nth(segments).map_or(path.len(), |(at, _)| at);
        Some(Mount { pattern_len: prefix.len(), rest_at })
    }
}

impl Node {
    /// The node behind a segment that stands for itself.
    #[inline]
    fn text(&self, segment: Segment<'_>) -> Option<NodeIndex> {
        let at = self.texts.binary_search_by(|(text, _)| text.compare(segment)).ok()?;
        Some(self.texts[at].1)
    }
}

impl TextSegment {
    #[inline]
    fn compare(&self, segment: Segment<'_>) -> Ordering {
        match self.front.cmp(&segment.front) {
            Ordering::Equal if segment.text.len() <= 8 => self.text.len().cmp(&segment.text.len()),
            Ordering::Equal => (*self.text).cmp(segment.text),
            order => order,
        }
    }
}

impl<'p> Segment<'p> {
    /// The first segment of a path without its `/`.
    #[inline]
    fn first_of(path: &'p [u8]) -> Segment<'p> {
        let front = match path.first_chunk::<8>() {
            Some(eight) => u64::from_le_bytes(*eight),
            None => path.iter().rev().fold(0, |front, octet| front << 8 | u64::from(*octet)),
        };
        let (front, len) = match first_in_eight(front, b'/') {
            8 if path.len() <= 8 => (front, path.len()),
            8 => (front, 8 + find_octet(&path[8..], b'/')),
            at => (front & ((1 << (8 * at)) - 1), at),
        };
        Segment { front, text: &path[..len] }
    }
}

impl Endpoint {
    /// The route of a method. HEAD is answered by GET, whose content the server leaves out (RFC 9110 §9.3.2).
    #[inline]
    pub(super) fn choose(&self, method: Method) -> Choice<'_> {
        let route = |method| self.routes.iter().find(|(own, _)| *own == method).map(|(_, route)| *route);
        let head = || if method == Method::Head { route(Method::Get) } else { None };
        match route(method).or_else(head).or(self.any) {
            Some(route) => Choice::Route(route),
            None if method == Method::Options => Choice::Options(&self.allow),
            None => Choice::NotAllowed(&self.allow),
        }
    }

    /// Adds a route. Fails with the route that is already there.
    fn add(&mut self, methods: Methods, index: RouteIndex) -> Option<RouteIndex> {
        match methods {
            Methods::Any => self.any.replace(index),
            Methods::One(method) => {
                let other = self.routes.iter().find(|(own, _)| *own == method).map(|(_, other)| *other);
                self.routes.push((method, index));
                self.allow = self.allowed();
                other
            }
        }
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

/// Whether a host has the labels of a pattern, in any case. It may end with a dot (RFC 3986 §3.2.2).
fn host_matches(pattern: &str, host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    let (mut labels, mut parts) = (host.split('.'), pattern.split('.'));
    loop {
        match (parts.next(), labels.next()) {
            (None, None) => return true,
            (Some(part), Some(label)) if part.starts_with('{') && !label.is_empty() => {}
            (Some(part), Some(label)) if part.eq_ignore_ascii_case(label) => {}
            _ => return false,
        }
    }
}

fn check_prefix(prefix: &str) -> Result<(), InvalidRoute> {
    if prefix.ends_with('/') { Err(InvalidRoute::from_fault(prefix, Fault::Prefix)) } else { Ok(()) }
}

/// The path of a pattern or a prefix, without its host.
fn path_of(pattern: &str) -> &str {
    &pattern[pattern.find('/').unwrap_or(pattern.len())..]
}

/// A pattern below a prefix. Either may have a host.
fn join(prefix: &str, pattern: &str) -> Result<String, InvalidRoute> {
    if pattern == FALLBACK {
        return Ok(pattern.to_owned());
    }
    let (host, path) = pattern.split_at(pattern.find('/').unwrap_or_default());
    match (host, prefix.starts_with('/') || prefix.is_empty()) {
        ("", _) | (_, true) => Ok([host, prefix, path].concat()),
        _ => Err(InvalidRoute::from_fault(&[prefix, pattern].concat(), Fault::Hosts)),
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.methods {
            Methods::One(method) => write!(f, "{method} {}", self.pattern),
            Methods::Any => write!(f, "any {}", self.pattern),
        }
    }
}

/// A line for each route, in the order in which they were added.
impl fmt::Display for RouteTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.routes.iter().try_for_each(|route| writeln!(f, "{route}"))
    }
}

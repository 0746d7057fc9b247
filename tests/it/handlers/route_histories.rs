//! Random tables of routes and random paths, compared with a matcher that is written from the documented rules alone.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use corehttp::{Method, Router, Server, routes};

use super::router::{named, outcome};
use crate::support::chance::{Chance, check_histories};

#[derive(Clone, Debug)]
enum Step {
    Route(&'static str, String),
    Ask(&'static str, String),
}

#[test]
fn histories_of_routes_match_as_documented() {
    check_histories("it route_histories::", (150, 24), draw, play);
}

fn draw(chance: &mut Chance) -> Step {
    let method = chance.one_of(&["GET", "GET", "GET", "POST"]);
    if chance.once_in(2) {
        let depth = chance.below(4);
        let mut pattern: String = (0..depth).map(|at| format!("/{}", segment(chance, at))).collect();
        match chance.below(4) {
            0 => pattern.push_str("/{*rest}"),
            1 => pattern.push('/'),
            _ if pattern.is_empty() => pattern.push('/'),
            _ => {}
        }
        return Step::Route(method, pattern);
    }
    let sent = [
        "a",
        "a",
        "abcdefgh",
        "abcdefghi",
        "a%7Cb",
        "",
        "%61",
        ".",
        "..",
        "%2e",
        "a|b",
        "a%7cb",
        "x%2Fy",
        ".",
    ];
    let path: String = (0..=chance.below(5)).map(|_| format!("/{}", chance.one_of(&sent))).collect();
    Step::Ask(method, path)
}

/// A segment of a pattern; parameters are named after their places.
fn segment(chance: &mut Chance, at: usize) -> String {
    match chance.below(6) {
        0 | 1 => format!("{{p{at}}}"),
        2 => "abcdefgh".to_owned(),
        3 => "abcdefghi".to_owned(),
        4 => "a%7Cb".to_owned(),
        _ => "a".to_owned(),
    }
}

fn play(steps: &[Step]) {
    let mut table: Vec<(&str, &str)> = Vec::new();
    for step in steps {
        if let Step::Route(method, pattern) = step {
            let is_known = |known: &(&str, &str)| known.0 == *method && known.1 == pattern;
            if !table.iter().any(is_known) {
                table.push((method, pattern));
            }
        }
    }
    let router = || {
        table.iter().fold(Router::new(), |router, (method, pattern)| {
            router.route(Method::parse(method.as_bytes()).unwrap(), pattern, named("route")).unwrap()
        })
    };
    let nested = Router::new().nest("/m/{n}", router()).unwrap();
    let services = [
        ("", Server::new().service(Router::new().merge(router()).unwrap())),
        ("/m/{n}", Server::new().service(nested)),
        ("/m/{n}", Server::new().service(Router::new().mount("/m/{n}", router()).unwrap())),
        ("", Server::new().service(Router::new().mount("", routes! { mount "" => router() }).unwrap())),
    ];
    for step in steps {
        let Step::Ask(method, path) = step else { continue };
        for (at, (prefix, service)) in services.iter().enumerate() {
            // A path that may leave a prefix is none of it, and a mount redirects it without a look at its routes.
            let is_mounted = at > 0;
            if is_mounted && has_dots(path) || !prefix.is_empty() && (path == "/" || path.starts_with("//")) {
                continue;
            }
            let sent = format!("{}{path}", prefix.replace("{n}", "7"));
            let found = outcome(service, method, "a", &sent);
            let expected = expected(&table, method, path, prefix);
            assert_eq!(found, expected, "{method} {sent} of router {at} with {table:?}");
        }
    }
}

/// The outcome for a path below a prefix.
fn expected(table: &[(&str, &str)], method: &str, path: &str, prefix: &str) -> String {
    let normal = normal_form(path);
    let (raw, by_normal) = (best(table, path), best(table, &normal));
    let pattern = match (raw, by_normal) {
        (_, None) => return "404".to_owned(),
        (Some(raw), Some(same)) if raw == same && (path == normal || !has_dots(path)) => raw,
        _ => return format!("308 {}{normal}", prefix.replace("{n}", "7")),
    };
    let methods: Vec<&str> = table.iter().filter(|route| route.1 == pattern).map(|route| route.0).collect();
    if !methods.contains(&method) {
        let head = if methods.contains(&"GET") { ", HEAD" } else { "" };
        return format!("405 {}{head}, OPTIONS", methods.join(", "));
    }
    let mut values: Vec<String> = if prefix.is_empty() { Vec::new() } else { vec![" n=7".to_owned()] };
    let mut rest = &path[1..];
    for segment in pattern[1..].split('/') {
        let value = rest.split('/').next().unwrap();
        match segment.strip_prefix('{') {
            Some("*rest}") => values.push(format!(" rest={rest}")),
            Some(name) => values.push(format!(" {}={value}", name.trim_end_matches('}'))),
            None => {}
        }
        rest = rest.get(value.len() + 1..).unwrap_or_default();
    }
    format!("route {prefix}{pattern}{}", values.concat())
}

/// The pattern that precedes all others that match: each segment from the left decides.
fn best<'t>(table: &[(&str, &'t str)], path: &str) -> Option<&'t str> {
    let matching = table.iter().filter_map(|(_, pattern)| Some((ranks(pattern, path)?, *pattern)));
    matching.min().map(|(_, pattern)| pattern)
}

/// How close each segment of a pattern is to that of a path: 0 for an equal text, 1 for a parameter, 2 for the rest.
fn ranks(pattern: &str, path: &str) -> Option<Vec<u8>> {
    let segments: Vec<&str> = path[1..].split('/').collect();
    let parts: Vec<&str> = pattern[1..].split('/').collect();
    let mut ranks = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        match (*part, segments.get(at)) {
            (_, None) => return None,
            ("{*rest}", Some(_)) => {
                ranks.push(2);
                return Some(ranks);
            }
            (part, Some(segment)) if part.starts_with('{') && !segment.is_empty() => ranks.push(1),
            (part, Some(segment)) if part == *segment => ranks.push(0),
            _ => return None,
        }
    }
    (parts.len() == segments.len()).then_some(ranks)
}

fn has_dots(path: &str) -> bool {
    path.split('/').any(|segment| dots(segment) > 0)
}

/// How many dots a segment consists of, if that is one or two.
fn dots(segment: &str) -> usize {
    let plain = segment.replace("%2e", ".");
    if plain == "." || plain == ".." { plain.len() } else { 0 }
}

/// The normal form of the paths that are drawn above (RFC 3986 §6.2.2).
fn normal_form(path: &str) -> String {
    let plain = path.replace("%61", "a").replace("%2e", ".").replace('|', "%7C").replace("%7c", "%7C");
    let mut kept: Vec<&str> = Vec::new();
    let mut is_folder = false;
    for segment in plain[1..].split('/') {
        is_folder = true;
        match segment {
            "" | "." => {}
            ".." => drop(kept.pop()),
            segment => {
                kept.push(segment);
                is_folder = false;
            }
        }
    }
    let path: String = kept.iter().map(|segment| format!("/{segment}")).collect();
    if is_folder { path + "/" } else { path }
}

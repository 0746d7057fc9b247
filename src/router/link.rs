//! [`Link`]: a pattern and the values of its parameters make a path.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

use super::pattern::{fault, param, params};
use crate::message::Target;

/// Makes paths of a [pattern](crate::Router#patterns), for links and redirects to the route that has it.
///
/// The pattern is checked while the program is compiled. The values are checked when a path is made. Each parameter has one,
/// which is escaped (RFC 3986 §2.1). Compare the pattern with those of [`Router::routes`](crate::Router::routes), best in a
/// test.
///
/// # Examples
///
/// ```
/// use corehttp::routing::Link;
/// use corehttp::{Context, Status, routes};
///
/// const ITEM: Link = Link::new("/shops/{shop}/items/{id}");
///
/// # let show = |_: &mut Context| {};
/// fn add(ctx: &mut Context) -> corehttp::Result {
///     let path = ITEM.with("shop", "Fish & Chips").with("id", 7).path()?;
///     ctx.response.set_redirect(Status::SEE_OTHER, &path)?;
///     Ok(())
/// }
///
/// let router = routes! {
///     GET "/shops/{shop}/items/{id}" => show,
///     POST "/shops" => add,
/// };
/// assert!(router.routes().any(|route| route.pattern() == ITEM.pattern()));
/// assert_eq!(ITEM.with("shop", "Fish & Chips").with("id", 7).path()?, "/shops/Fish%20%26%20Chips/items/7");
/// assert!(ITEM.with("shop", "a").path().is_err(), "there is no id");
/// # Ok::<(), corehttp::routing::LinkError>(())
/// ```
///
/// A malformed pattern does not compile:
///
/// ```compile_fail
/// # use corehttp::routing::Link;
/// const ITEM: Link = Link::new("/items/:id");
/// ```
#[doc(alias("url_for", "TypedPath", "reverse"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link(&'static str);

impl Link {
    /// Takes a pattern without a host.
    ///
    /// # Panics
    ///
    /// Panics if the pattern is malformed or has a host. In a constant, this is an error of the compiler.
    pub const fn new(pattern: &'static str) -> Link {
        if let Some(fault) = fault(pattern) {
            panic!("{}", fault.text());
        }
        assert!(matches!(pattern.as_bytes(), [b'/', ..]), "a link has no host");
        Link(pattern)
    }

    /// Returns the pattern.
    pub const fn pattern(self) -> &'static str {
        self.0
    }

    /// Sets the value of a parameter. Others are set by [`LinkValues::with`].
    pub fn with(self, name: &'static str, value: impl fmt::Display) -> LinkValues {
        self.without_values().with(name, value)
    }

    /// Returns the path of a pattern without parameters.
    ///
    /// # Errors
    ///
    /// As [`LinkValues::path`].
    pub fn path(self) -> Result<String, LinkError> {
        self.without_values().path()
    }

    fn without_values(self) -> LinkValues {
        LinkValues { link: self, values: Vec::new() }
    }
}

/// A [`Link`] with values for its parameters.
#[derive(Clone, Debug)]
pub struct LinkValues {
    link: Link,
    values: Vec<(&'static str, String)>,
}

impl LinkValues {
    /// Sets the value of another parameter. The last one counts.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl fmt::Display) -> LinkValues {
        self.values.retain(|(known, _)| *known != name);
        self.values.push((name, value.to_string()));
        self
    }

    /// Returns the path. The value of `{name}` becomes one segment, whatever is in it. That of `{*name}` may have several, with
    /// `/` between them, or none.
    ///
    /// # Errors
    ///
    /// Fails, with 500 by `?` in a handler, if:
    /// - a parameter has no value
    /// - a value has no parameter
    /// - the value for a `{name}` is empty
    /// - a segment is `.` or `..`
    /// - a segment of a `{*name}` is empty, except for the last
    ///
    /// Such a segment leads elsewhere in spite of escapes: `//` at the front of a path is followed by a host.
    pub fn path(&self) -> Result<String, LinkError> {
        let pattern = self.link.pattern();
        let fails = |name, fault| Err(LinkError { pattern, name, fault });
        if let Some((unknown, _)) =
            self.values.iter().find(|(name, _)| params(pattern).all(|own| own != *name))
        {
            return fails(*unknown, LinkFault::Unknown);
        }
        let mut path = String::with_capacity(pattern.len());
        for segment in pattern.split('/').skip(1) {
            path.push('/');
            let Some(name) = param(segment) else {
                path.push_str(segment);
                continue;
            };
            let Some((_, value)) = self.values.iter().find(|(known, _)| *known == name) else {
                return fails(name, LinkFault::Missing);
            };
            let escaped = match segment.starts_with("{*") {
                true => escape_rest(value),
                false if value.is_empty() => return fails(name, LinkFault::Empty),
                false => Target::escape_segment(value).ok(),
            };
            match escaped {
                Some(escaped) => path.push_str(&escaped),
                None => return fails(name, LinkFault::Segment),
            }
        }
        Ok(path)
    }
}

/// Escapes the segments of the rest of a path. `None` if one is `.` or `..`, or is empty before another.
fn escape_rest(value: &str) -> Option<Cow<'_, str>> {
    if value.starts_with('/') || value.contains("//") {
        return None;
    }
    let segments = value.split('/').map(Target::escape_segment).collect::<Result<Vec<_>, _>>().ok()?;
    Some(segments.join("/").into())
}

/// Why the values of a [`Link`] make no path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkError {
    pattern: &'static str,
    name: &'static str,
    fault: LinkFault,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkFault {
    Missing,
    Unknown,
    Empty,
    Segment,
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LinkError { pattern, name, fault } = self;
        match fault {
            LinkFault::Missing => write!(f, "the link `{pattern}` needs a value for `{name}`"),
            LinkFault::Unknown => write!(f, "the link `{pattern}` has no parameter `{name}`"),
            LinkFault::Empty => {
                write!(f, "the link `{pattern}` needs a value for `{name}` that is not empty")
            }
            LinkFault::Segment => {
                write!(
                    f,
                    "the link `{pattern}` would lead elsewhere by `.`, `..` or an empty segment in the value for `{name}`"
                )
            }
        }
    }
}

impl Error for LinkError {}

#[cfg(test)]
mod tests {
    use super::*;

    /// The path of a pattern with these values, or the beginning of its error.
    #[track_caller]
    fn check(pattern: &'static str, values: &[(&'static str, &str)], expected: Result<&str, &str>) {
        let values = values
            .iter()
            .fold(Link::new(pattern).without_values(), |values, (name, value)| values.with(name, value));
        let path = values.path().map_err(|error| error.to_string());
        match (&path, expected) {
            (Err(error), Err(end)) => assert!(error.ends_with(end), "{pattern} {values:?}: {error}"),
            (path, expected) => {
                assert_eq!(path.as_deref(), expected.map_err(str::to_owned).as_deref(), "{values:?}")
            }
        }
    }

    #[test]
    fn a_value_is_one_segment_whatever_is_in_it_rfc3986_2_1() {
        check("/", &[], Ok("/"));
        check("/a/b/", &[], Ok("/a/b/"));
        check("/a/{id}", &[("id", "7")], Ok("/a/7"));
        check("/a/{id}", &[("id", "1"), ("id", "2")], Ok("/a/2"));
        check("/{a}/{b}/", &[("b", "x/y"), ("a", "ä ?#%")], Ok("/%C3%A4%20%3F%23%25/x%2Fy/"));
        check("/a/{id}", &[("id", "...")], Ok("/a/..."));
        check("/a/{id}", &[("id", "a\r\nb: c")], Ok("/a/a%0D%0Ab%3A%20c"));
    }

    #[test]
    fn the_rest_of_a_path_keeps_its_slashes() {
        check("/f/{*rest}", &[("rest", "")], Ok("/f/"));
        check("/f/{*rest}", &[("rest", "a b/c")], Ok("/f/a%20b/c"));
        check("/f/{*rest}", &[("rest", "a/")], Ok("/f/a/"));
        check("/{*rest}", &[("rest", "a/b")], Ok("/a/b"));
        // `//evil.example` in a `location` is another host (RFC 3986 §4.2).
        for rest in ["..", "a/../b", "a/.", "./a", "/", "/evil.example/x", "//evil.example", "a//b", "a//"] {
            check("/f/{*rest}", &[("rest", rest)], Err("in the value for `rest`"));
            check("/{*rest}", &[("rest", rest)], Err("in the value for `rest`"));
        }
    }

    #[test]
    fn values_and_parameters_belong_together() {
        check("/a/{id}", &[], Err("needs a value for `id`"));
        check("/a/{id}", &[("id", "")], Err("that is not empty"));
        check("/a/{id}", &[("id", "7"), ("x", "8")], Err("has no parameter `x`"));
        check("/a", &[("id", "7")], Err("has no parameter `id`"));
        check("/a/{id}", &[("id", "..")], Err("in the value for `id`"));
        check("/a/{id}", &[("id", ".")], Err("in the value for `id`"));
    }

    #[test]
    fn a_link_without_a_path_is_none() {
        for pattern in ["", "a", "*", "/a/:id", "/{a}/{a}", "a.example/b", "/{*rest}/a"] {
            assert!(std::panic::catch_unwind(|| Link::new(pattern)).is_err(), "{pattern}");
        }
    }
}

//! [`ByPattern`]: settings that depend on the path of a file.

/// Values for the paths that match their patterns.
#[derive(Clone, Debug)]
pub(super) struct ByPattern<T>(Vec<(Pattern, T)>);

impl<T> ByPattern<T> {
    pub(super) fn add(&mut self, pattern: &str, value: T) {
        self.0.push((Pattern::new(pattern), value));
    }

    /// The value of the first pattern that matches. `path` begins with `/`.
    pub(super) fn find(&self, path: &str) -> Option<&T> {
        self.0.iter().find(|(pattern, _)| pattern.matches(path)).map(|(_, value)| value)
    }
}

impl<T> Default for ByPattern<T> {
    fn default() -> ByPattern<T> {
        ByPattern(Vec::new())
    }
}

/// A path in which each `*` stands for any number of any characters, including `/`.
#[derive(Clone, Debug)]
struct Pattern(String);

impl Pattern {
    fn new(pattern: &str) -> Pattern {
        Pattern(pattern.to_owned())
    }

    /// Whether the pattern matches the whole of `path`.
    fn matches(&self, path: &str) -> bool {
        let mut pieces = self.0.split('*');
        let first = pieces.next().unwrap_or_default();
        let Some(mut rest) = path.strip_prefix(first) else { return false };
        let Some(last) = pieces.next_back() else { return rest.is_empty() };
        // The first place where a piece fits leaves the most room for those after it, so no backtracking is needed.
        for piece in pieces {
            match rest.find(piece) {
                Some(at) => rest = &rest[at + piece.len()..],
                None => return false,
            }
        }
        rest.ends_with(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, matching: &[&str], others: &[&str]) {
        for (paths, expected) in [(matching, true), (others, false)] {
            for path in paths {
                assert_eq!(Pattern::new(pattern).matches(path), expected, "{pattern} and {path}");
            }
        }
    }

    #[test]
    fn a_star_stands_for_anything() {
        check("*", &["", "/", "/a/b"], &[]);
        check("/a", &["/a"], &["", "/", "/ab", "a", "/A", "/a/"]);
        check("/a/*", &["/a/", "/a/b", "/a/b/c"], &["/a", "/ab", "/b/a/"]);
        check("*.js", &[".js", "/a.js", "/a/b.js"], &["/a.js.map", "/ajs", "/a.jsx"]);
        check("/a*b*c", &["/abc", "/axbxc", "/abbcc", "/abcbc"], &["/ab", "/ac", "/acb", "/abcd"]);
        check("/a*a", &["/aa", "/aba"], &["/a", "/ab"]);
        check("**", &["", "/x"], &[]);
        check("", &[""], &["/"]);
    }
}

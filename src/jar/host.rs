//! Hosts and paths: which of them share cookies (RFC 6265bis §5.1.3, §5.1.4).

use std::net::{Ipv4Addr, Ipv6Addr};

/// Whether `host` is `domain` or below it. Both are in lower case.
pub(super) fn domain_matches(host: &str, domain: &str) -> bool {
    let below = host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'));
    host == domain || (below && !is_address(host))
}

/// Whether it is a public suffix, such as `co.uk`: the hosts below it have different owners, so no cookie may be set
/// for it.
pub(super) fn is_public_suffix(domain: &str) -> bool {
    let domain = domain.trim_end_matches('.');
    // What the list cannot parse is treated like a public suffix.
    psl::suffix_str(domain).is_none_or(|suffix| suffix == domain)
}

/// The site of a host, which hosts of one owner share: the label below the public suffix, and all after it.
///
/// A cookie never leaves its site. This is stricter than the standard where one public suffix is below a domain of
/// somebody else, as `s3.amazonaws.com` is, but it is what browsers do.
pub(super) fn site(host: &str) -> &str {
    match is_address(host) {
        true => host,
        false => psl::domain_str(host).unwrap_or(host),
    }
}

/// Whether it is an IP address in any spelling. No top-level domain begins with a digit.
fn is_address(host: &str) -> bool {
    let last = host.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
    host.starts_with('[') || last.starts_with(|first: char| first.is_ascii_digit())
}

/// Whether it is this machine, so that nobody can listen on the way. Names below `localhost` do not count, since a
/// resolver may have other addresses for them (Secure Contexts §3.1).
pub(super) fn is_loopback(host: &str) -> bool {
    let ipv6 = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    match ipv6 {
        Some(ipv6) => ipv6.parse().is_ok_and(|address: Ipv6Addr| address.is_loopback()),
        None => host == "localhost" || host.parse().is_ok_and(|address: Ipv4Addr| address.is_loopback()),
    }
}

/// Whether `path` is `folder` or below it (§5.1.4).
pub(super) fn path_matches(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder)
        .is_some_and(|rest| rest.is_empty() || folder.ends_with('/') || rest.starts_with('/'))
}

/// The path of a cookie without one: that of the request, up to its last `/`.
pub(super) fn default_path(path: &str) -> &str {
    match path.rsplit_once('/') {
        None | Some(("", _)) => "/",
        Some((folder, _)) => folder,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_within_domains_5_1_3() {
        for (host, domain) in
            [("a.com", "a.com"), ("b.a.com", "a.com"), ("c.b.a.com", "a.com"), ("[::1]", "[::1]")]
        {
            assert!(domain_matches(host, domain), "{host} {domain}");
        }
        for (host, domain) in [
            ("a.com", "b.a.com"),
            ("ba.com", "a.com"),
            ("a.com.evil.com", "a.com"),
            ("a.com.", "a.com"),
            ("a.com", ""),
            ("127.0.0.1", "0.0.1"),
            ("127.0.0.1", "1"),
            ("0x7f.0x1", "0x1"),
            ("127.0.0.1.", "1."),
            ("a.127.0.0.1", "127.0.0.1"),
        ] {
            assert!(!domain_matches(host, domain), "{host} {domain}");
        }
    }

    #[test]
    fn public_suffixes_are_known_and_sites_are_below_them() {
        for suffix in [
            "com",
            "co.uk",
            "github.io",
            "s3.amazonaws.com",
            "com.",
            "local",
            "",
            ".",
            "xn--p1ai",
            "xn--55qx5d.cn",
            "anything.ck",
        ] {
            assert!(is_public_suffix(suffix), "{suffix}");
        }
        for domain in ["a.com", "a.co.uk", "a.github.io", "amazonaws.com", "a.local", "www.ck", "a.com."] {
            assert!(!is_public_suffix(domain), "{domain}");
        }
        for (host, expected) in [
            ("a.b.com", "b.com"),
            ("b.com", "b.com"),
            ("a.b.co.uk", "b.co.uk"),
            ("a.b.github.io", "b.github.io"),
            ("github.io", "github.io"),
            ("localhost", "localhost"),
            ("127.0.0.1", "127.0.0.1"),
            ("[::1]", "[::1]"),
        ] {
            assert_eq!(site(host), expected);
        }
    }

    #[test]
    fn only_the_usual_spellings_of_loopback_are_this_machine() {
        for host in ["localhost", "127.0.0.1", "127.255.255.254", "[::1]", "[0:0:0:0:0:0:0:1]"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "",
            "a.localhost",
            "localhost.",
            "localhost.com",
            "127.0.0.1.com",
            "127.1",
            "0x7f.0.0.1",
            "127.0.0.1.",
            "127.0.0.256",
            "128.0.0.1",
            "0.0.0.0",
            "10.0.0.1",
            "::1",
            "[::]",
            "[::2]",
            "[::ffff:127.0.0.1]",
            "[v1.localhost]",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn paths_are_within_folders_5_1_4() {
        for (path, folder) in
            [("/", "/"), ("/a", "/"), ("/a", "/a"), ("/a/", "/a"), ("/a/b", "/a/"), ("/a/b/c", "/a")]
        {
            assert!(path_matches(path, folder), "{path} {folder}");
        }
        for (path, folder) in
            [("/", "/a"), ("/ab", "/a"), ("/a", "/a/"), ("/A", "/a"), ("/b/a", "/a"), ("/a?b", "/a")]
        {
            assert!(!path_matches(path, folder), "{path} {folder}");
        }
        for (path, expected) in
            [("/", "/"), ("/a", "/"), ("/a/", "/a"), ("/a/b", "/a"), ("/a//b", "/a/"), ("*", "/")]
        {
            assert_eq!(default_path(path), expected, "{path}");
        }
    }
}

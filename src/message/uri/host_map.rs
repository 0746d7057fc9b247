//! [`HostMap`]: values by the names of hosts (RFC 9110 §4.2.3).

use std::cmp::Ordering;

/// Values by host. Case does not count (RFC 9110 §4.2.3), nor does the dot that ends an absolute name (RFC 1034 §3.1). A
/// look-up takes time in proportion to the logarithm of their number, and allocates nothing.
#[derive(Clone, Debug)]
pub(crate) struct HostMap<T> {
    /// In the order of [`order`].
    hosts: Vec<(Box<str>, T)>,
    /// The length of the longest host.
    longest: usize,
}

impl<T> HostMap<T> {
    /// Adds a host, unless it is there already. Returns its name without the dot at the end.
    pub(crate) fn add<'h>(&mut self, host: &'h str, value: T) -> &'h str {
        let host = without_end_dot(host);
        self.longest = self.longest.max(host.len());
        if let Err(place) = self.place(host) {
            self.hosts.insert(place, (host.into(), value));
        }
        host
    }

    pub(crate) fn get(&self, host: &str) -> Option<&T> {
        self.place(without_end_dot(host)).ok().map(|place| &self.hosts[place].1)
    }

    /// Whether `host` is a name below one of the hosts, and not that itself.
    pub(crate) fn has_above(&self, host: &str) -> bool {
        let host = without_end_dot(host);
        // A dot at the front ends no label, and of a long host with many dots, only the end is looked up.
        let first = host.len().saturating_sub(self.longest + 1);
        let mut dots = host.match_indices('.').filter(|(at, _)| *at > 0 && *at >= first);
        dots.any(|(at, _)| self.place(&host[at + 1..]).is_ok())
    }

    /// Where a host is, or where it would be.
    fn place(&self, host: &str) -> Result<usize, usize> {
        self.hosts.binary_search_by(|(other, _)| order(other, host))
    }
}

impl<T> Default for HostMap<T> {
    fn default() -> HostMap<T> {
        HostMap { hosts: Vec::new(), longest: 0 }
    }
}

/// The order of two hosts in small letters.
fn order(one: &str, other: &str) -> Ordering {
    let one = one.bytes().map(|octet| octet.to_ascii_lowercase());
    one.cmp(other.bytes().map(|octet| octet.to_ascii_lowercase()))
}

/// The same name without the dot that ends an absolute one.
pub(crate) fn without_end_dot(host: &str) -> &str {
    host.strip_suffix('.').unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_found_as_a_whole_in_any_case_rfc9110_4_2_3() {
        let mut map = HostMap::default();
        for (number, host) in ["b.example", "A.example.", "[::1]", "a.EXAMPLE", "example"].iter().enumerate()
        {
            map.add(host, number);
        }
        for (host, expected) in [
            ("b.example", Some(0)),
            ("B.Example.", Some(0)),
            ("a.example", Some(1)),
            ("[::1]", Some(2)),
            ("EXAMPLE", Some(4)),
            ("", None),
            (".", None),
            ("a.example..", None),
            ("c.a.example", None),
            ("a.exampl", None),
        ] {
            assert_eq!(map.get(host).copied(), expected, "{host}");
        }
    }

    #[test]
    fn a_name_is_below_each_domain_of_its_own() {
        let mut map = HostMap::default();
        for host in ["a.example", "Com"] {
            map.add(host, ());
        }
        for host in ["b.a.example", "c.B.A.example.", "x.com", "a.b.com", "\u{e9}.com"] {
            assert!(map.has_above(host), "{host}");
        }
        for host in
            ["", ".", "a.example", ".a.example", "ba.example", "com", ".com", "x.com..", "a.example.evil"]
        {
            assert!(!map.has_above(host), "{host}");
        }
    }
}

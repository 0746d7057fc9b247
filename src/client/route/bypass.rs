//! [`Bypass`]: which hosts are reached without a proxy, by the rules of curl's `NO_PROXY`.

use std::net::IpAddr;

use crate::message::{Authority, decimal, split_port, uri_host};
use crate::net::UriHost;

/// Hosts that are reached without a proxy.
#[derive(Clone, Debug, Default)]
pub(super) struct Bypass {
    rules: Vec<Rule>,
}

impl Bypass {
    /// Adds the rules of a list, separated by commas or white space. What is not a rule matches no host.
    pub(super) fn add(&mut self, list: &str) {
        let rules = list.split(|c: char| c == ',' || c.is_ascii_whitespace()).filter_map(Rule::parse);
        self.rules.extend(rules);
    }

    /// Whether no host is reached through a proxy.
    pub(super) fn covers_all(&self) -> bool {
        self.rules.iter().any(|rule| matches!(rule, Rule { hosts: Hosts::All, port: None }))
    }

    /// Whether `host` is reached without a proxy.
    pub(super) fn covers(&self, host: &str, port: u16) -> bool {
        let host = UriHost::parse(host).ok();
        self.rules.iter().any(|rule| rule.covers(host, port))
    }
}

#[derive(Clone, Debug)]
struct Rule {
    hosts: Hosts,
    /// `None` stands for all ports.
    port: Option<u16>,
}

#[derive(Clone, Debug)]
enum Hosts {
    All,
    /// A domain and all below it, in lower case and without a dot at either end.
    Domain(Box<str>),
    /// The addresses that share this many leading bits with this one.
    Network(IpAddr, u32),
}

impl Rule {
    fn parse(text: &str) -> Option<Rule> {
        if !text.is_ascii() {
            // The hosts of URLs are in ASCII.
            let (host, port) = split_port(text);
            return Rule::parse(&format!("{}:{}", uri_host(host).ok()?, port.unwrap_or_default()));
        }
        if let Some((address, bits)) = text.split_once('/') {
            let address: IpAddr = address.parse().ok()?;
            let bits = decimal(bits.as_bytes()).filter(|bits| *bits <= width(address).into())?;
            return Some(Rule { hosts: Hosts::network(address, bits.try_into().ok()?), port: None });
        }
        if let Ok(address) = text.parse() {
            return Some(Rule { hosts: Hosts::address(address), port: None });
        }
        let Authority { host, port } = Authority::parse(text.as_bytes())?;
        let hosts = match host {
            "*" => Hosts::All,
            host => Hosts::parse(host)?,
        };
        Some(Rule { hosts, port })
    }

    fn covers(&self, host: Option<UriHost<'_>>, port: u16) -> bool {
        let covers = match (&self.hosts, host) {
            (Hosts::All, _) => true,
            (Hosts::Domain(domain), Some(UriHost::Name(name))) => is_below(name, domain),
            (Hosts::Network(network, bits), Some(UriHost::Address(address))) => {
                prefix(*network, *bits) == prefix(address.to_canonical(), *bits)
            }
            (Hosts::Domain(_) | Hosts::Network(..), _) => false,
        };
        covers && self.port.is_none_or(|covered| covered == port)
    }
}

impl Hosts {
    fn parse(text: &str) -> Option<Hosts> {
        // `.example.com` and `*.example.com` mean the same as `example.com`.
        let domain = text.strip_prefix("*.").unwrap_or(text).trim_start_matches('.');
        match UriHost::parse(domain).ok()? {
            UriHost::Address(address) => Some(Hosts::address(address)),
            UriHost::Name(name) => {
                Some(Hosts::Domain(name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase().into()))
            }
        }
    }

    fn address(address: IpAddr) -> Hosts {
        Hosts::network(address, width(address))
    }

    /// A network of IPv4 addresses that are written as IPv6 is one of IPv4, as the addresses in it are.
    fn network(address: IpAddr, bits: u32) -> Hosts {
        match (address.to_canonical(), bits.checked_sub(width(address) - u32::BITS)) {
            (v4 @ IpAddr::V4(_), Some(bits)) => Hosts::Network(v4, bits),
            _ => Hosts::Network(address, bits),
        }
    }
}

fn width(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(_) => u32::BITS,
        IpAddr::V6(_) => u128::BITS,
    }
}

/// The first `bits` of an address, and its width, so that addresses of two families are never equal.
fn prefix(address: IpAddr, bits: u32) -> (u32, Option<u128>) {
    let width = width(address);
    let value = match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    };
    (width, value.checked_shr(width.saturating_sub(bits)))
}

fn is_below(name: &str, domain: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let Some(start) = name.len().checked_sub(domain.len()) else { return false };
    // A host name is ASCII, so it can be split anywhere.
    let (below, end) = name.split_at(start);
    end.eq_ignore_ascii_case(domain) && (below.is_empty() || below.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(list: &str, host: &str, port: u16, covered: bool) {
        let mut bypass = Bypass::default();
        bypass.add(list);
        assert_eq!(bypass.covers(host, port), covered, "{list:?} and {host}:{port}");
    }

    fn check_all(list: &str, covered: &[&str], others: &[&str]) {
        covered.iter().for_each(|host| check(list, host, 80, true));
        others.iter().for_each(|host| check(list, host, 80, false));
    }

    #[test]
    fn a_domain_covers_what_is_below_it() {
        let below = ["example.com", "EXAMPLE.com", "www.example.com", "a.b.example.com", "example.com."];
        let others = ["nonexample.com", "example.com.org", "example.org", "com", "xample.com", "127.0.0.1"];
        for list in
            ["example.com", ".example.com", "*.example.com", "Example.COM", "example.com.", "..example.com"]
        {
            check_all(list, &below, &others);
        }
        check_all("localhost", &["localhost"], &["127.0.0.1", "[::1]", "notlocalhost"]);
    }

    /// Without the feature `idna`, such a rule covers nothing, since no URL with such a host can be requested either.
    #[test]
    fn a_domain_beyond_ascii_covers_its_form_in_ascii() {
        let is_read = cfg!(feature = "idna");
        for list in [
            "b\u{fc}cher.example",
            "*.B\u{dc}CHER.example",
            ".b\u{fc}cher.example:80",
            "b\u{fc}cher\u{3002}example.",
        ] {
            check(list, "xn--bcher-kva.example", 80, is_read);
            check(list, "www.xn--bcher-kva.example", 80, is_read);
            check(list, "bcher.example", 80, false);
        }
        check("b\u{fc}cher.example:81", "xn--bcher-kva.example", 80, false);
        check_all("b\u{fc}cher.example:x,b\u{fc}:99999", &[], &["xn--b-eha", "xn--bcher-kva.example"]);
    }

    #[test]
    fn lists_are_separated_by_commas_and_spaces() {
        for list in ["a,b", "a b", "a, b", " a ,\tb, ", ",,a,,b", "x y,a\nb"] {
            check_all(list, &["a", "b", "c.b"], &["c", "ab"]);
        }
        check_all("", &[], &["a", "127.0.0.1"]);
        check_all(" , ", &[], &["a"]);
    }

    #[test]
    fn a_star_covers_all() {
        for list in ["*", "a,*", " * ", "*:80"] {
            check_all(list, &["a", "127.0.0.1", "[::1]"], &[]);
        }
        check("*:80", "a", 81, false);
        check_all("a*", &[], &["a", "ab"]);
        check_all("**", &[], &["a"]);
    }

    #[test]
    fn addresses_and_networks_are_compared_as_numbers() {
        check_all("192.0.2.1", &["192.0.2.1", "[::ffff:192.0.2.1]"], &["192.0.2.10", "a.192.0.2.1", "[::1]"]);
        check_all("::ffff:192.0.2.1", &["192.0.2.1", "[::ffff:192.0.2.1]"], &["[::c000:201]"]);
        for list in ["::1", "[::1]", "0:0::1", "::1/128"] {
            check_all(list, &["[::1]", "::1"], &["[::2]", "0.0.0.1", "127.0.0.1"]);
        }
        let private = ["10.0.0.0", "10.255.255.255", "[::ffff:10.1.2.3]"];
        check_all("10.0.0.0/8", &private, &["11.0.0.0", "9.255.255.255", "[a00::]"]);
        check_all("10.1.2.3/8", &private, &["11.0.0.0"]);
        check_all("::ffff:10.0.0.0/104", &private, &["11.0.0.0", "[a00::]"]);
        check_all("::/95", &["[::1]"], &["10.0.0.0", "[::2:0:0]"]);
        check_all("192.0.2.128/25", &["192.0.2.128", "192.0.2.255"], &["192.0.2.127"]);
        check_all("192.0.2.1/32", &["192.0.2.1"], &["192.0.2.0", "192.0.2.2"]);
        check_all("0.0.0.0/0", &["0.0.0.0", "255.255.255.255"], &["[::1]", "a"]);
        check_all("2001:db8::/32", &["[2001:db8:ffff::]"], &["[2001:db9::]", "32.1.13.184"]);
        check_all("::/0", &["[::1]", "[ffff::]"], &["127.0.0.1", "a"]);
    }

    #[test]
    fn a_rule_may_be_for_one_port() {
        for (list, host) in [("a:81", "b.a"), ("192.0.2.1:81", "192.0.2.1"), ("[::1]:81", "[::1]")] {
            check(list, host, 81, true);
            check(list, host, 80, false);
        }
        check("a:", "a", 81, true);
    }

    #[test]
    fn an_invalid_rule_covers_nothing() {
        let hosts = ["a", "192.0.2.1", "[::1]", "10.0.0.1", "10.0.0.0"];
        let networks =
            ["10.0.0.0/33", "::/129", "10.0.0.0/+8", "10.0.0.0/", "10.0.0.0/8/8", "10/8", "10.0/8", "a/8"];
        let addresses = ["192.0.2", "192.0.2.01", "[::1", "::1]", "[192.0.2.1]", "3221225985", "0xc0000201"];
        let names = [".", "..", "http://a", "a/", "a:81x", "a:+80", "a:99999", "u@a", "a;", "*a", "é"];
        for list in [&networks[..], &addresses, &names].concat() {
            check_all(list, &[], &hosts);
        }
        check_all("a", &[], &["", "a b", "[a]", "a:80"]);
    }
}

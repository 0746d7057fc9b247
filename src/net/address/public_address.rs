//! [`is_public`]: whether an address is one of the public internet, by the registries of special-purpose addresses (RFC
//! 6890).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns whether `address` belongs to the public internet. Such an address is assigned for unicast, and is in none of
/// the blocks of IANA for special purposes (RFC 6890).
///
/// Addresses for loopback, for the link and for private networks are not public. Among these are the services of clouds
/// for the credentials of a machine (169.254.169.254, 100.100.100.200, 192.0.0.192, fd00:ec2::254). An IPv6 address is
/// as public as an IPv4 address in it: mapped (`::ffff:10.0.0.1`), compatible, translated, 6to4 (RFC 3056) and NAT64 at
/// `64:ff9b::/96` (RFC 6052). The few anycast addresses within the blocks for protocols are not public. No web server
/// is there.
///
/// No address shows its place in the network. A network may have machines of its own at public addresses, as Azure has
/// 168.63.129.16, and a NAT64 at a prefix of its own. A client can refuse them, too: see
/// [`ClientBuilder::allow_addresses`](crate::ClientBuilder::allow_addresses).
///
/// # Examples
///
/// ```
/// use std::net::IpAddr;
/// use corehttp::net::is_public;
///
/// let is_public = |text: &str| text.parse::<IpAddr>().is_ok_and(is_public);
/// assert!(is_public("192.0.66.2") && is_public("2606:4700::6810:84e5"));
/// assert!(!is_public("10.0.0.1") && !is_public("169.254.169.254") && !is_public("::1"));
/// assert!(!is_public("::ffff:127.0.0.1") && !is_public("64:ff9b::a00:1") && is_public("64:ff9b::808:808"));
/// ```
#[doc(alias("ssrf", "is_global", "private", "bogon"))]
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => match embedded(address) {
            Some(embedded) => is_public_v4(embedded),
            None => !SPECIAL_V6.iter().any(|block| block.holds(address)),
        },
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    !SPECIAL_V4.iter().any(|block| block.holds(address))
}

/// The IPv4 address in an IPv6 address of a kind that leads there.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let EmbeddingBlock { shift, .. } =
        EMBEDDING_V6.iter().find(|embedding| embedding.block.holds(address))?;
    // The cast keeps the 32 bits that are the IPv4 address.
    Some(Ipv4Addr::from_bits((address.to_bits() >> shift) as u32))
}

/// The blocks of IPv4 that are not public: those of the registry, and multicast.
const SPECIAL_V4: &[V4Block] = &[
    // This network (RFC 791 §3.2). Linux takes 0.0.0.0 for this machine.
    v4([0, 0, 0, 0], 8),
    // Private use (RFC 1918 §3).
    v4([10, 0, 0, 0], 8),
    // Shared, between a provider and its customers (RFC 6598).
    v4([100, 64, 0, 0], 10),
    // Loopback (RFC 1122 §3.2.1.3).
    v4([127, 0, 0, 0], 8),
    // Link-local (RFC 3927), and the metadata of clouds.
    v4([169, 254, 0, 0], 16),
    // Private use (RFC 1918 §3).
    v4([172, 16, 0, 0], 12),
    // IETF protocol assignments (RFC 6890 §2.1).
    v4([192, 0, 0, 0], 24),
    // Documentation: TEST-NET-1 (RFC 5737).
    v4([192, 0, 2, 0], 24),
    // Relays of 6to4, which is gone (RFC 7526).
    v4([192, 88, 99, 0], 24),
    // Private use (RFC 1918 §3).
    v4([192, 168, 0, 0], 16),
    // Benchmarking (RFC 2544).
    v4([198, 18, 0, 0], 15),
    // Documentation: TEST-NET-2 (RFC 5737).
    v4([198, 51, 100, 0], 24),
    // Documentation: TEST-NET-3 (RFC 5737).
    v4([203, 0, 113, 0], 24),
    // Multicast (RFC 5771).
    v4([224, 0, 0, 0], 4),
    // Reserved (RFC 1112 §4), and limited broadcast at its end (RFC 8190).
    v4([240, 0, 0, 0], 4),
];

/// The blocks of IPv6 that are not public. IANA assigns unicast addresses from `2000::/3` alone (RFC 3587 §3).
const SPECIAL_V6: &[V6Block] = &[
    // Below: unspecified, loopback (RFC 4291 §2.5), local-use translation at 64:ff9b:1::/48 (RFC 8215), discard-only at
    // 100::/64 (RFC 6666), and blocks that are not assigned.
    v6([0, 0, 0], 3),
    // IETF protocol assignments (RFC 2928): Teredo (RFC 4380), benchmarking at 2001:2::/48 (RFC 5180), ORCHID at
    // 2001:10::/28 and 2001:20::/28 (RFC 4843, RFC 7343), remote identifiers of drones at 2001:30::/28 (RFC 9374).
    v6([0x2001, 0, 0], 23),
    // Documentation (RFC 3849).
    v6([0x2001, 0xdb8, 0], 32),
    // Documentation (RFC 9637).
    v6([0x3fff, 0, 0], 20),
    // Above, up to 7fff: segment identifiers of SRv6 at 5f00::/16 (RFC 9602), and blocks that are not assigned.
    v6([0x4000, 0, 0], 2),
    // Unique local at fc00::/7 (RFC 4193), link-local at fe80::/10 (RFC 4291 §2.5.6), site-local at fec0::/10, which is gone
    // (RFC 3879), multicast at ff00::/8 (RFC 4291 §2.7), and blocks that are not assigned.
    v6([0x8000, 0, 0], 1),
];

/// The blocks of IPv6 whose addresses lead to IPv4 addresses.
const EMBEDDING_V6: &[EmbeddingBlock] = &[
    // IPv4-compatible, which is gone (RFC 4291 §2.5.5.1). Its first addresses are unspecified and loopback, and embed
    // addresses of this network.
    EmbeddingBlock { block: v6_low([0, 0, 0], 96), shift: 0 },
    // IPv4-mapped (RFC 4291 §2.5.5.2).
    EmbeddingBlock { block: v6_low([0, 0, 0xffff], 96), shift: 0 },
    // IPv4-translated (RFC 2765 §2.1).
    EmbeddingBlock { block: v6_low([0, 0xffff, 0], 96), shift: 0 },
    // NAT64 (RFC 6052 §2.1).
    EmbeddingBlock { block: v6([0x64, 0xff9b, 0], 96), shift: 0 },
    // 6to4, whose address follows the prefix (RFC 3056 §2).
    EmbeddingBlock { block: v6([0x2002, 0, 0], 16), shift: 80 },
];

/// The addresses that have the first bits of `first`.
struct V4Block {
    first: u32,
    prefix_len: u32,
}

impl V4Block {
    fn holds(&self, address: Ipv4Addr) -> bool {
        (self.first ^ address.to_bits()).leading_zeros() >= self.prefix_len
    }
}

/// As [`V4Block`].
struct V6Block {
    first: u128,
    prefix_len: u32,
}

impl V6Block {
    fn holds(&self, address: Ipv6Addr) -> bool {
        (self.first ^ address.to_bits()).leading_zeros() >= self.prefix_len
    }
}

/// Addresses that embed IPv4 addresses, above this many bits.
struct EmbeddingBlock {
    block: V6Block,
    shift: u32,
}

const fn v4([a, b, c, d]: [u8; 4], prefix_len: u32) -> V4Block {
    V4Block { first: Ipv4Addr::new(a, b, c, d).to_bits(), prefix_len }
}

/// A block with these first segments, and zeros after them.
const fn v6([a, b, c]: [u16; 3], prefix_len: u32) -> V6Block {
    V6Block { first: Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0).to_bits(), prefix_len }
}

/// A block with these segments before the last two, and zeros elsewhere.
const fn v6_low([a, b, c]: [u16; 3], prefix_len: u32) -> V6Block {
    V6Block { first: Ipv6Addr::new(0, 0, 0, a, b, c, 0, 0).to_bits(), prefix_len }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(address: &str, expected: bool) {
        assert_eq!(is_public(address.parse().unwrap()), expected, "{address}");
    }

    /// The addresses before and after each block are public, and its first and its last one are not.
    #[track_caller]
    fn check_edges([before, first, last, after]: [&str; 4]) {
        check(before, true);
        check(first, false);
        check(last, false);
        check(after, true);
    }

    #[test]
    fn special_blocks_of_ipv4_are_not_public_rfc6890_2_2_2() {
        check("0.0.0.0", false);
        check("0.255.255.255", false);
        check("1.0.0.0", true);
        check_edges(["9.255.255.255", "10.0.0.0", "10.255.255.255", "11.0.0.0"]);
        check_edges(["100.63.255.255", "100.64.0.0", "100.127.255.255", "100.128.0.0"]);
        check_edges(["126.255.255.255", "127.0.0.0", "127.255.255.255", "128.0.0.0"]);
        check_edges(["169.253.255.255", "169.254.0.0", "169.254.255.255", "169.255.0.0"]);
        check_edges(["172.15.255.255", "172.16.0.0", "172.31.255.255", "172.32.0.0"]);
        check_edges(["191.255.255.255", "192.0.0.0", "192.0.0.255", "192.0.1.0"]);
        check_edges(["192.0.1.255", "192.0.2.0", "192.0.2.255", "192.0.3.0"]);
        check_edges(["192.88.98.255", "192.88.99.0", "192.88.99.255", "192.88.100.0"]);
        check_edges(["192.167.255.255", "192.168.0.0", "192.168.255.255", "192.169.0.0"]);
        check_edges(["198.17.255.255", "198.18.0.0", "198.19.255.255", "198.20.0.0"]);
        check_edges(["198.51.99.255", "198.51.100.0", "198.51.100.255", "198.51.101.0"]);
        check_edges(["203.0.112.255", "203.0.113.0", "203.0.113.255", "203.0.114.0"]);
        check("223.255.255.255", true);
        for special in ["224.0.0.0", "239.255.255.255", "240.0.0.0", "255.255.255.255"] {
            check(special, false);
        }
        for service in ["169.254.169.254", "100.100.100.200", "192.0.0.192", "127.0.0.53"] {
            check(service, false);
        }
        // The sinks of AS112 are for all of the internet (RFC 7534, RFC 7535).
        for global in ["192.31.196.1", "192.175.48.1", "8.8.8.8", "93.184.215.14"] {
            check(global, true);
        }
    }

    #[test]
    fn special_blocks_of_ipv6_are_not_public_rfc6890_2_2_3() {
        let ends = |first, last| [first, last].map(|address| check(address, false));
        ends("::", "::1");
        ends("64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff");
        ends("100::", "100::ffff:ffff:ffff:ffff");
        ends("64:ff9b:0:0:0:1::", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
        check("2000::", true);
        check_edges([
            "2000:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            "2001::",
            "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff",
            "2001:200::",
        ]);
        for assigned in ["2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:2::1", "2001:10::1", "2001:20::1"] {
            check(assigned, false);
        }
        check_edges([
            "2001:db7:ffff:ffff:ffff:ffff:ffff:ffff",
            "2001:db8::",
            "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff",
            "2001:db9::",
        ]);
        check("3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff", true);
        ends("3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff");
        check("3fff:1000::", true);
        check("3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", true);
        ends("4000::", "7fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
        ends("5f00::", "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
        ends("8000::", "fbff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
        ends("fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
        ends("fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
        ends("fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
        ends("ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
        check("fd00:ec2::254", false);
        for global in ["2606:4700::1111", "2620:4f:8000::1", "2a00:1450:4001:80b::200e"] {
            check(global, true);
        }
    }

    #[test]
    fn an_address_that_embeds_another_is_as_public_as_that_rfc6052_3_1() {
        for (special, public) in [("10.0.0.1", "8.8.8.8"), ("169.254.169.254", "192.31.196.1")] {
            for prefix in ["::ffff:", "::ffff:0:", "::", "64:ff9b::"] {
                check(&format!("{prefix}{special}"), false);
                check(&format!("{prefix}{public}"), true);
            }
        }
        for (v6, expected) in [
            ("2002:7f00:1::1", false),
            ("2002:a9fe:a9fe::1", false),
            ("2002:c0a8:1::", false),
            ("2002:808:808::1", true),
            ("2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", false),
            // Within no block that embeds an address, and outside of 2000::/3.
            ("::1:0:808:808", false),
            ("64:ff9b:0:0:0:1:808:808", false),
            ("64:ff9b:1::808:808", false),
        ] {
            check(v6, expected);
        }
        // The blocks beside 6to4.
        check("2001:ffff:ffff:ffff:ffff:ffff:ffff:ffff", true);
        check("2003::", true);
    }
}

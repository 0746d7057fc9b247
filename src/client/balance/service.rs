//! [`FoundHost`]: a host that a look-up has found, by an address of a name or by a target of a service (RFC 2782).

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::client::host::Host;
use crate::client::route::Origin;
use crate::client::route::origin::key_of_url;
use crate::message::Scheme;
use crate::net::{SrvRecord, UriHost};

/// A host that a look-up has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FoundHost {
    /// Its origin, unless it is that of the name.
    origin: Option<Box<str>>,
    /// Its address, unless that is looked up with each connection.
    address: Option<IpAddr>,
    pub(super) tier: u16,
    /// Its weight, unless that is the one of the name.
    pub(super) weight: Option<u32>,
}

impl FoundHost {
    /// A host at an address of the name.
    pub(super) fn at(address: IpAddr) -> FoundHost {
        FoundHost { origin: None, address: Some(address), tier: 0, weight: None }
    }

    /// The host, which `name` has led to.
    pub(super) fn host(&self, name: &Host) -> Host {
        match (&self.origin, self.address) {
            (Some(origin), _) => name.at_origin(origin),
            (None, Some(address)) => name.at(address),
            (None, None) => name.clone(),
        }
    }

    /// Whether `host`, which `name` has led to, is this one.
    pub(super) fn is(&self, host: &Host, name: &Host) -> bool {
        host.origin() == self.origin.as_deref().unwrap_or(name.origin()) && host.address() == self.address
    }
}

/// The hosts of a service, the first ones first: their tiers are in the order of the priorities, and their weights in
/// proportion to those of the records. Records that name no host or no port are left out, and so are those after the 64th.
///
/// With TLS, the name of a target decides which certificate is expected. An answer that is forged must not decide that, so
/// targets are left out that are not in the domain of the service (RFC 6125 §6.2.1).
pub(super) fn targets(service: &Origin, records: &[SrvRecord]) -> Vec<FoundHost> {
    let mut records: Vec<&SrvRecord> = records.iter().collect();
    records.sort_by_key(|record| record.priority);
    let mut found = Vec::<(u16, u16, Box<str>)>::new();
    for record in records {
        if found.len() == TARGETS_MAX {
            break;
        }
        if let Some(origin) = origin_of(service, record)
            && found.iter().all(|(.., known)| *known != origin)
        {
            found.push((record.priority, record.weight, origin));
        }
    }
    let priorities: BTreeSet<u16> = found.iter().map(|(priority, ..)| *priority).collect();
    let tier = |priority| priorities.range(..priority).count() as u16;
    let weights =
        |priority| found.iter().filter(move |(of, ..)| *of == priority).map(|(_, weight, _)| *weight);
    let target = |(priority, weight, origin): &(u16, u16, Box<str>)| FoundHost {
        origin: Some(origin.clone()),
        address: None,
        tier: tier(*priority),
        weight: Some(weight_among(*weight, weights(*priority))),
    };
    found.iter().map(target).collect()
}

/// As many as there are addresses of a name, at most.
const TARGETS_MAX: usize = 64;

/// The origin of a target, if that names a host and a port.
fn origin_of(service: &Origin, record: &SrvRecord) -> Option<Box<str>> {
    let name = record.target.strip_suffix('.').unwrap_or(&record.target);
    let is_plain = name.bytes().all(|octet| octet.is_ascii_alphanumeric() || b"-_.".contains(&octet));
    let is_name = is_plain && matches!(UriHost::parse(name), Ok(UriHost::Name(_)));
    let is_usable = is_name && record.port > 0;
    let is_trusted =
        service.scheme == Scheme::Http || is_within(&name.to_ascii_lowercase(), domain(service.host()));
    let url =
        (is_usable && is_trusted).then(|| format!("{}://{name}:{}", service.scheme.as_str(), record.port))?;
    key_of_url(&url).ok()
}

/// The domain of a service: its name without the labels that begin with `_`, and without a final dot.
fn domain(service: &str) -> &str {
    let mut domain = service.strip_suffix('.').unwrap_or(service);
    while domain.starts_with('_') {
        domain = domain.split_once('.').map_or("", |(_, rest)| rest);
    }
    domain
}

fn is_within(name: &str, domain: &str) -> bool {
    let before = name.strip_suffix(domain);
    !domain.is_empty() && before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

/// The weight of a host, among those of its priority. A record of weight 0 must have a very small share, if others have more,
/// and not none.
fn weight_among(weight: u16, all: impl Iterator<Item = u16> + Clone) -> u32 {
    let most = u32::from(all.clone().max().unwrap_or(0));
    let is_scaled = most > WEIGHT_SCALE || most > 0 && all.clone().any(|weight| weight == 0);
    let scaled = if is_scaled { u32::from(weight) * WEIGHT_SCALE / most } else { weight.into() };
    scaled.max(1)
}

/// The weight of the heaviest, where weights are scaled: the most that a host may have.
const WEIGHT_SCALE: u32 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn record(priority: u16, weight: u16, port: u16, target: &str) -> SrvRecord {
        SrvRecord { priority, weight, port, target: target.into() }
    }

    /// The origins, tiers and weights of the targets of these records.
    fn targets_of(service: &str, records: &[SrvRecord]) -> Vec<(String, u16, u32)> {
        let found = targets(&Origin::from_key(service).unwrap(), records);
        found.iter().map(|it| (it.origin.clone().unwrap().into(), it.tier, it.weight.unwrap())).collect()
    }

    const SERVICE: &str = "http://_http._tcp.api.internal";

    #[track_caller]
    fn check(records: &[(u16, u16)], expected: &[(u16, u32)]) {
        let records = records.iter().enumerate();
        let records: Vec<_> = records
            .map(|(at, (priority, weight))| record(*priority, *weight, 80, &format!("h{at}")))
            .collect();
        let found = targets_of(SERVICE, &records);
        assert_eq!(found.iter().map(|(_, tier, weight)| (*tier, *weight)).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn priorities_are_tiers_and_weights_are_in_proportion_rfc2782() {
        check(&[(10, 5), (10, 15)], &[(0, 5), (0, 15)]);
        check(&[(10, 0), (10, 0)], &[(0, 1), (0, 1)]);
        check(&[(10, 0), (10, 1), (10, 4)], &[(0, 1), (0, 250), (0, 1000)]);
        check(&[(10, 65_535), (10, 13_107), (10, 1)], &[(0, 1000), (0, 200), (0, 1)]);
        check(&[(65_535, 1), (0, 1), (7, 0), (7, 0)], &[(0, 1), (1, 1), (1, 1), (2, 1)]);
        check(&[], &[]);
    }

    #[test]
    fn records_that_name_no_host_or_port_are_left_out() {
        for target in [
            ".",
            "",
            "..",
            "a b",
            "a/b",
            "a@b",
            "a:1",
            "[::1]",
            "::1",
            "127.0.0.1",
            "0x7f000001",
            "a\0",
            "a\r\n",
            "é",
            "%61",
            "a?b",
            "*",
        ] {
            assert_eq!(targets_of(SERVICE, &[record(0, 0, 80, target)]), [], "{target:?}");
        }
        assert_eq!(targets_of(SERVICE, &[record(0, 0, 0, "a")]), []);
        assert_eq!(targets_of(SERVICE, &[record(0, 0, 80, &"a.".repeat(200))]), []);
        let one = [record(0, 0, 80, "."), record(0, 0, 8080, "A_1.x."), record(0, 9, 8080, "a_1.X")];
        assert_eq!(targets_of(SERVICE, &one), [("http://a_1.x:8080".to_owned(), 0, 1)]);
    }

    #[test]
    fn of_ten_thousand_targets_the_first_64_by_priority_are_used() {
        let records: Vec<_> = (0..10_000).rev().map(|at| record(at, 1, 80, &format!("h{at}"))).collect();
        let found = targets_of(SERVICE, &records);
        assert_eq!((found.len(), &*found[0].0, &*found[63].0), (64, "http://h0", "http://h63"));
        assert_eq!(found[63].1, 63);
    }

    /// An answer that is forged must not choose the name on the certificate.
    #[test]
    fn targets_with_tls_are_in_the_domain_of_the_service_rfc6125_6_2_1() {
        for (target, is_used) in [
            ("api.example", true),
            ("ONE.api.example.", true),
            ("example", false),
            ("evilapi.example", false),
            ("api.example.evil", false),
            ("evil", false),
        ] {
            let of = |scheme| {
                targets_of(&format!("{scheme}://_https._tcp.api.example"), &[record(0, 0, 443, target)])
            };
            assert_eq!((of("https").len(), of("http").len()), (usize::from(is_used), 1), "{target}");
        }
        assert_eq!(targets_of("https://_https._tcp", &[record(0, 0, 443, "evil")]), []);
    }
}

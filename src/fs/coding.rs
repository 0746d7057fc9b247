//! [`Coding`]: the content codings a file may be kept in, and which one a peer wants (RFC 9110 §8.4.1, §12.5.3).

use crate::message::Headers;

/// A content coding that a file may be kept in beside itself. The first is liked best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Coding {
    Brotli,
    Zstd,
    Gzip,
}

impl Coding {
    pub(super) const ALL: [Coding; 3] = [Coding::Brotli, Coding::Zstd, Coding::Gzip];

    /// As Content-Encoding says it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Coding::Brotli => "br",
            Coding::Zstd => "zstd",
            Coding::Gzip => "gzip",
        }
    }

    /// What the name of the file so encoded ends with.
    pub(super) fn suffix(self) -> &'static str {
        match self {
            Coding::Brotli => ".br",
            Coding::Zstd => ".zst",
            Coding::Gzip => ".gz",
        }
    }
}

/// Which of the codings that are there the peer likes best; none for the file as it is.
///
/// A peer that refuses that too gets it all the same: it is better than nothing (§12.5.3).
pub(super) fn choose(fields: &Headers, is_there: impl Fn(Coding) -> bool) -> Option<Coding> {
    if !fields.contains("accept-encoding") {
        return None;
    }
    let identity = weight(fields, &["identity"]).unwrap_or(0);
    let mut best = None;
    for coding in Coding::ALL.into_iter().filter(|coding| is_there(*coding)) {
        let names: &[&str] = if coding == Coding::Gzip { &["gzip", "x-gzip"] } else { &[coding.name()] };
        let weight = weight(fields, names).or_else(|| weight(fields, &["*"])).unwrap_or(0);
        if weight > best.map_or(0, |(_, best)| best) && weight >= identity {
            best = Some((coding, weight));
        }
    }
    best.map(|(coding, _)| coding)
}

/// The weight, in thousandths, that the field gives to the first of these names; malformed members do not count.
fn weight(fields: &Headers, names: &[&str]) -> Option<u16> {
    let members = fields.all("accept-encoding").flat_map(|line| line.split(|octet| *octet == b','));
    members
        .filter_map(member)
        .find(|(name, _)| names.iter().any(|it| name.eq_ignore_ascii_case(it.as_bytes())))
        .map(|(_, weight)| weight)
}

/// A coding with its weight.
fn member(member: &[u8]) -> Option<(&[u8], u16)> {
    let mut parts = member.split(|octet| *octet == b';').map(<[u8]>::trim_ascii);
    let name = parts.next()?;
    match (parts.next(), parts.next()) {
        (None, _) => Some((name, 1000)),
        (Some([b'q' | b'Q', b'=', value @ ..]), None) => Some((name, qvalue(value)?)),
        _ => None,
    }
}

/// `qvalue`, in thousandths (RFC 9110 §12.4.2).
fn qvalue(text: &[u8]) -> Option<u16> {
    let (whole, decimals) = match text {
        [whole @ (b'0' | b'1')] => (*whole, &[][..]),
        [whole @ (b'0' | b'1'), b'.', decimals @ ..] if decimals.len() <= 3 => (*whole, decimals),
        _ => return None,
    };
    let mut value = u16::from(whole - b'0') * 1000;
    for (digit, worth) in decimals.iter().zip([100, 10, 1]) {
        value += u16::from(digit.is_ascii_digit().then(|| digit - b'0')?) * worth;
    }
    (value <= 1000).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(field: &str, there: &[Coding], expected: Option<Coding>) {
        let mut fields = Headers::new();
        fields.set("accept-encoding", field).unwrap();
        assert_eq!(choose(&fields, |coding| there.contains(&coding)), expected, "{field}");
    }

    #[test]
    fn the_peer_chooses_among_what_is_there_12_5_3() {
        let (br, zstd, gzip) = (Some(Coding::Brotli), Some(Coding::Zstd), Some(Coding::Gzip));
        check("gzip, deflate, br, zstd", &Coding::ALL, br);
        check("gzip;q=1, br;q=0.9", &Coding::ALL, gzip);
        check("gzip, zstd", &Coding::ALL, zstd);
        check("x-gzip", &Coding::ALL, gzip);
        check("GZIP ; Q=0.5", &Coding::ALL, gzip);
        check("*", &Coding::ALL, br);
        check("br;q=0, *", &Coding::ALL, zstd);
        check("*;q=0, gzip;q=0.001", &Coding::ALL, gzip);
        check("identity;q=0.5, gzip;q=0.5", &Coding::ALL, gzip);
        check("br, gzip", &[Coding::Gzip], gzip);
        check("identity;q=0, gzip", &[Coding::Gzip], gzip);
    }

    #[test]
    fn the_file_as_it_is_stays_what_nobody_else_wants_12_5_3() {
        let fields = [
            "",
            "identity",
            "gzip;q=0",
            "gzip;q=0.000",
            "*;q=0",
            "deflate",
            "gzipped",
            "gz",
            "gzip;q=1.001",
            "gzip;q=2",
            "gzip;q=",
            "gzip;q=.5",
            "gzip;q=0.1234",
            "gzip;q=-1",
            "gzip;q=+1",
            "gzip;q=0.5x",
            "gzip;level=1",
            "gzip;q=1;x=1",
            "identity, gzip;q=0.9",
            "identity;q=0",
            "br",
            "zstd",
        ];
        fields.iter().for_each(|field| check(field, &[Coding::Gzip], None));
        assert_eq!(choose(&Headers::new(), |_| true), None);
        check("gzip, br", &[], None);
    }
}

//! [`stable_hash`]: a hash that is the same in each process and each release.

/// Hashes texts for places that processes share, where the standard library's hash, which may change, will not do. Each text
/// counts with its end. It is no secret, and peers can find texts with the same hash.
///
/// The octets go through FNV-1a, and its result through the last steps of MurmurHash3, which spread the bits.
pub(crate) fn stable_hash(texts: &[&[u8]]) -> u64 {
    let octets = texts.iter().flat_map(|text| {
        let len = (text.len() as u64).to_le_bytes();
        text.iter().copied().chain(len)
    });
    mixed(fnv(octets))
}

fn fnv(octets: impl Iterator<Item = u8>) -> u64 {
    octets.fold(0xcbf2_9ce4_8422_2325, |hash, octet| {
        (hash ^ u64::from(octet)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn mixed(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn both_parts_are_those_of_their_authors() {
        assert_eq!(fnv(b"".iter().copied()), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv(b"a".iter().copied()), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv(b"foobar".iter().copied()), 0x8594_4171_f739_67e8);
        assert_eq!(mixed(0), 0);
        assert_eq!(mixed(1), 0xb456_bcfc_34c2_cb2c);
    }

    /// Processes of several releases share what is stored under it.
    #[test]
    fn a_text_is_not_confused_with_its_parts() {
        let texts: [&[&[u8]]; 7] =
            [&[], &[b""], &[b"", b""], &[b"ab"], &[b"a", b"b"], &[b"", b"ab"], &[b"ab", b""]];
        let hashes: BTreeSet<_> = texts.iter().map(|texts| stable_hash(texts)).collect();
        assert_eq!(hashes.len(), texts.len());
        let low: BTreeSet<_> = (0..100_u8).map(|octet| stable_hash(&[&[octet]]) >> 32).collect();
        assert_eq!(low.len(), 100);
    }
}

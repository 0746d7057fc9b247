//! [`describes_client`]: the fields in which proxies describe their client (RFC 7239), and those that take their place.

use std::iter::zip;

/// Whether a server may take a field of this name for one in which proxies describe their client. Servers that make
/// variables of names read `_` as `-` (RFC 3875 §4.1.18).
pub(crate) fn describes_client(name: &[u8]) -> bool {
    begins_with(name, b"x-forwarded")
        || CLIENT_FIELDS.iter().any(|known| known.len() == name.len() && begins_with(name, known))
}

fn begins_with(name: &[u8], known: &[u8]) -> bool {
    name.len() >= known.len()
        && zip(name, known).all(|(octet, known)| match known {
            b'-' => !octet.is_ascii_alphanumeric(),
            known => octet.eq_ignore_ascii_case(known),
        })
}

/// The fields from which frameworks and their libraries take the address or the scheme of a client, beside those that begin
/// with `x-forwarded`.
const CLIENT_FIELDS: [&[u8]; 23] = [
    b"forwarded",
    b"forwarded-for",
    b"x-real-ip",
    b"x-client-ip",
    b"client-ip",
    b"x-cluster-client-ip",
    b"x-original-forwarded-for",
    b"x-scheme",
    b"front-end-https",
    b"true-client-ip",
    b"cf-connecting-ip",
    b"cf-connecting-ipv6",
    b"cf-pseudo-ipv4",
    b"fastly-client-ip",
    b"x-appengine-user-ip",
    b"x-proxyuser-ip",
    b"x-azure-clientip",
    b"x-azure-socketip",
    b"x-envoy-external-address",
    b"fly-client-ip",
    b"do-connecting-ip",
    b"proxy-client-ip",
    b"wl-proxy-client-ip",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_servers_of_cgi_read_it_rfc3875_4_1_18() {
        for name in
            ["X-Forwarded-For", "x_forwarded_for", "x-forwarded", "X-ForwardedY", "FORWARDED", "x.real|ip"]
        {
            assert!(describes_client(name.as_bytes()), "{name}");
        }
        for known in CLIENT_FIELDS {
            let spelled = String::from_utf8(known.to_ascii_uppercase()).unwrap().replace('-', "_");
            assert!(describes_client(known) && describes_client(spelled.as_bytes()), "{spelled}");
        }
        for name in [
            "",
            "x",
            "x-forward",
            "forwarde",
            "forwarded-",
            "forwardedx",
            "x-real-ip-",
            "xrealip",
            "via",
            "host",
        ] {
            assert!(!describes_client(name.as_bytes()), "{name}");
        }
    }
}

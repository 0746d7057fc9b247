//! Internationalized names, by the crate `idna`.

use idna::AsciiDenyList;

use crate::message::TargetError;

/// `name`, which is percent-decoded, in lower case and in ASCII (WHATWG URL §3.3).
///
/// # Errors
///
/// Fails if it is no internationalized name: not UTF-8, a character that no name has, or a label in Punycode that
/// stands for none.
pub(in crate::message::uri) fn to_ascii(name: Vec<u8>) -> Result<String, TargetError> {
    // Which octets of ASCII a host may have is checked for all names alike.
    let ascii = idna::domain_to_ascii_cow(&name, AsciiDenyList::EMPTY);
    ascii.map(|name| name.into_owned()).map_err(|_| TargetError::Authority)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{MessageError, Request};

    #[test]
    fn a_name_is_looked_up_in_ascii_uts46() {
        for (host, expected) in [
            ("bücher.example", "xn--bcher-kva.example"),
            ("BÜCHER.Example", "xn--bcher-kva.example"),
            ("b%C3%BCcher.example", "xn--bcher-kva.example"),
            ("bu\u{308}cher.example", "xn--bcher-kva.example"),
            ("faß.example", "xn--fa-hia.example"),
            ("你好你好", "xn--6qqa088eba"),
            ("☃", "xn--n3h"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
            ("XN--BCHER-KVA.example", "xn--bcher-kva.example"),
            ("a\u{ad}\u{200b}\u{2060}\u{feff}b", "ab"),
            ("a。b", "a.b"),
            ("Ｇｏ.com", "go.com"),
            ("０Ｘｃ０．０２５０．０１", "192.168.0.1"),
            ("a-b--c", "a-b--c"),
        ] {
            let request = Request::get(&format!("http://{host}:81/é")).unwrap();
            assert_eq!(request.target().as_str(), format!("http://{expected}:81/%C3%A9"));
            let request = Request::get("https://a/").unwrap();
            let joined = request.target().join(format!("//{host}/b")).unwrap();
            assert_eq!(joined.as_str(), format!("https://{expected}/b"));
        }
    }

    #[test]
    fn a_host_that_is_no_name_is_refused_uts46() {
        for host in [
            "\u{ad}",
            "%C2%AD",
            "\u{fffd}",
            "\u{ffff}y",
            "\u{fdd0}a.com",
            "a\u{a0}\u{3000}b",
            "％４１.com",
            "％００.com",
            "a%80",
            "a%A0",
            "💩.123",
            "xn--",
            "xn--a",
            "a.XN--pokxncvks",
            "１.２.３.４.５",
            "ａ／b",
            "ａ＠b",
        ] {
            let refused = Request::get(&format!("http://{host}/")).unwrap_err();
            assert!(matches!(refused, MessageError::Target(TargetError::Authority, _)), "{host}: {refused}");
        }
    }
}

//! ASCII names only.

use crate::message::TargetError;

/// `name` in lower case.
///
/// # Errors
///
/// Fails if it is not ASCII.
pub(in crate::message::uri) fn to_ascii(name: Vec<u8>) -> Result<String, TargetError> {
    let mut name = String::from_utf8(name).map_err(|_| TargetError::Idna)?;
    match name.is_ascii() {
        true => {
            name.make_ascii_lowercase();
            Ok(name)
        }
        false => Err(TargetError::Idna),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{MessageError, Request};

    #[test]
    fn a_host_beyond_ascii_needs_the_feature() {
        for host in ["bücher.example", "b%C3%BCcher.example", "a%80", "a。b"] {
            let refused = Request::get(&format!("http://{host}/")).unwrap_err();
            assert!(matches!(refused, MessageError::Target(TargetError::Idna, _)), "{host}: {refused}");
        }
        assert!(TargetError::Idna.to_string().contains("feature `idna`"));
        let request = Request::get("http://XN--bcher-kva.example/").unwrap();
        assert_eq!(request.target().as_str(), "http://xn--bcher-kva.example/");
    }
}

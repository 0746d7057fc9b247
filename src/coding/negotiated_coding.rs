//! [`NegotiatedCoding`]: the coding that a peer prefers (RFC 9110 §12.4.2, §12.5.3).

use super::Coding;
use crate::message::{Headers, Request};

impl Request {
    /// Returns the content coding that the client prefers of those `offered`, by its `accept-encoding` (RFC 9110
    /// §12.5.3). Among equals, the one that is offered first wins. `None` if the content should not be coded.
    ///
    /// `Compress` does this for all responses, and `Files` for files. A response that depends on this has a field `vary:
    /// accept-encoding`, for caches.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Request;
    /// use corehttp::coding::Coding;
    ///
    /// let mut request = Request::get("/")?;
    /// assert_eq!(request.preferred_coding([Coding::Br, Coding::Gzip]), None);
    /// request.headers.set("accept-encoding", "gzip, deflate, br;q=0.9")?;
    /// assert_eq!(request.preferred_coding([Coding::Br, Coding::Gzip]), Some(Coding::Gzip));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("accept-encoding", "negotiate"))]
    pub fn preferred_coding(&self, offered: impl IntoIterator<Item = Coding>) -> Option<Coding> {
        NegotiatedCoding::from_headers(&self.headers, offered).coding
    }
}

/// The coding that a peer prefers of those that are offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NegotiatedCoding {
    /// `None` if the content should not be coded.
    pub(crate) coding: Option<Coding>,
    /// Whether the peer refuses content that is not coded. Content is then coded even if it hardly shrinks.
    pub(crate) is_identity_refused: bool,
}

impl NegotiatedCoding {
    /// Chooses by the `accept-encoding` of a request. Among equals, the coding that was `offered` first wins.
    pub(crate) fn from_headers(
        headers: &Headers,
        offered: impl IntoIterator<Item = Coding>,
    ) -> NegotiatedCoding {
        // If `identity` is not mentioned, it is acceptable, but any coding that is mentioned is preferred.
        let identity = weight(headers, |name| name.eq_ignore_ascii_case("identity"));
        let mut best = (identity.unwrap_or(0).max(1), None);
        for coding in offered {
            let weight = weight(headers, |name| Coding::parse(name.as_bytes()) == Some(coding)).unwrap_or(0);
            let is_better = weight > best.0 || weight == best.0 && best.1.is_none();
            best = if is_better { (weight, Some(coding)) } else { best };
        }
        NegotiatedCoding { coding: best.1, is_identity_refused: identity == Some(0) }
    }
}

/// The weight of the coding whose name `is` accepts, in thousandths: its own, or else that of `*`. `None` if there is
/// neither. A malformed member is ignored, and a repeated member has its lowest weight.
fn weight(headers: &Headers, is: impl Fn(&str) -> bool) -> Option<u16> {
    let (mut own, mut others) = (None, None);
    for (name, weight) in headers.weighted("accept-encoding") {
        let place = match name {
            "*" => &mut others,
            name if is(name) => &mut own,
            _ => continue,
        };
        *place = Some(place.map_or(weight, |lesser: u16| lesser.min(weight)));
    }
    own.or(others)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFERED: [Coding; 3] = [Coding::Br, Coding::Gzip, Coding::Deflate];

    #[track_caller]
    fn check(accepted: &str, coding: Option<Coding>) {
        check_refused(accepted, coding, false);
    }

    #[track_caller]
    fn check_refused(accepted: &str, coding: Option<Coding>, is_identity_refused: bool) {
        let mut headers = Headers::new();
        // A `|` begins another line, over which a list may be spread (§5.3).
        for line in accepted.split('|') {
            headers.append("accept-encoding", line).unwrap();
        }
        assert_eq!(
            NegotiatedCoding::from_headers(&headers, OFFERED),
            NegotiatedCoding { coding, is_identity_refused },
            "{accepted:?}"
        );
    }

    #[test]
    fn the_highest_weight_is_chosen_and_among_equals_the_first_offered_rfc9110_12_5_3() {
        assert_eq!(NegotiatedCoding::from_headers(&Headers::new(), OFFERED), NegotiatedCoding::default());
        check("gzip, deflate, br, zstd", Some(Coding::Br));
        check("gzip|br;q=0.9", Some(Coding::Gzip));
        check("br;q=0.5, gzip;q=0.8, deflate;q=0.799", Some(Coding::Gzip));
        check("X-GZip", Some(Coding::Gzip));
        check("*", Some(Coding::Br));
        check("br;q=0, *", Some(Coding::Gzip));
        check("br;q=0.1, *;q=0.2", Some(Coding::Gzip));
        check("gzip ; q=0.001", Some(Coding::Gzip));
        check("gzip;Q=1.000", Some(Coding::Gzip));
        check("gzip;q=0., deflate;q=1.", Some(Coding::Deflate));
        check("identity;q=0.5, gzip;q=0.5", Some(Coding::Gzip));
        check(", ,gzip,", Some(Coding::Gzip));
    }

    #[test]
    fn content_stays_as_it_is_where_identity_is_preferred() {
        check("", None);
        check("identity", None);
        check("zstd, compress", None);
        check("gzip;q=0", None);
        check("gzip;q=0.000", None);
        check("gzip, gzip;q=0", None);
        check("gzip;q=0.5, identity", None);
        check("gzip;q=0.5, identity;q=0.501", None);
        check("*;q=0.5, gzip;q=0.2, br;q=0.4, deflate;q=0", None);
        check("gzip2, xgzip, gzipped, x-br, gz", None);
    }

    #[test]
    fn a_malformed_member_is_ignored_rfc9110_12_4_2() {
        let malformed = [
            "q",
            "q=",
            "q=2",
            "q=1.001",
            "q=0.0001",
            "q=.5",
            "q=+1",
            "q=0x1",
            "q=0.5;x=1",
            "q=0.5x",
            "q=0.1234",
            "level=1",
            "x=1",
            "q =1",
            "q= 1",
            "q=\"1\"",
            "q=1e0",
            "q=-0",
            "q=0.a",
            "q=00.1",
        ];
        malformed.into_iter().for_each(|weight| check(&format!("gzip;{weight}"), None));
        check("gzip q=1", None);
        check("\"gzip, br\"", None);
        check("gzip;, br;q=0.1", Some(Coding::Br));
    }

    #[test]
    fn a_peer_may_refuse_identity() {
        check_refused("identity;q=0, gzip", Some(Coding::Gzip), true);
        check_refused("gzip, *;q=0", Some(Coding::Gzip), true);
        check_refused("*;q=0", None, true);
        check_refused("identity;q=0", None, true);
        check("identity;q=0.1, gzip, *;q=0", Some(Coding::Gzip));
    }
}

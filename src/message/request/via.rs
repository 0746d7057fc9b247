//! [`Request::add_via`]: the gateways that a request has passed (RFC 9110 §7.6.3).

use super::request::Request;
use crate::message::{FieldName, Headers, MessageError, OctetSet, TargetError, Version};

impl Request {
    /// Adds this gateway to `via`, under a `name` of its own, such as `front`, or under its host and port. `received`
    /// is the version of the request that the peer has sent (RFC 9110 §7.6.3). Servers behind see the way of a request,
    /// and no request goes in circles.
    ///
    /// Instances that may forward to each other need different names.
    ///
    /// # Errors
    ///
    /// Fails with [`TargetError::Loop`] if `via` has this name already. In a handler, `?` turns that into 508. Also
    /// fails if `name` is empty or has octets other than those of tokens and `:[]`.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::{Client, Context};
    ///
    /// async fn pass(client: &Client, ctx: &mut Context) -> corehttp::Result {
    ///     let mut onward = ctx.request.forwarded_to("http://127.0.0.1:9000")?;
    ///     onward.add_via(ctx.request.version(), "front")?;
    ///     ctx.forward(client.open_call(&onward)).await
    /// }
    /// # use corehttp::{Request, Version};
    /// # let mut onward = Request::get("/")?;
    /// # onward.add_via(Version::Http11, "front")?;
    /// # assert_eq!(onward.headers.get("via"), Some("1.1 front"));
    /// # assert!(onward.add_via(Version::Http11, "front").is_err());
    /// # Ok::<(), corehttp::error::MessageError>(())
    /// ```
    pub fn add_via(&mut self, received: Version, name: &str) -> Result<(), MessageError> {
        if name.is_empty() || !RECEIVED_BY.contains_all(name.as_bytes()) {
            return Err(MessageError::Value("the name of a gateway is a token, or a host and a port".into()));
        }
        if has_passed(&self.headers, name) {
            return Err(TargetError::Loop.into());
        }
        let number = match received {
            Version::Http10 => "1.0",
            Version::Http11 => "1.1",
        };
        self.headers.push(VIA, format!("{number} {name}").as_bytes());
        Ok(())
    }
}

const VIA: FieldName<'static> = FieldName::new("via");

static RECEIVED_BY: OctetSet = OctetSet::ALPHANUMERIC.with(b"!#$%&'*+-.^_`|~:[]");

/// Whether a gateway with this name has forwarded the request. Each member is a protocol, a name and perhaps a comment.
/// Each comma ends a member, also within a comment or behind a quote: a peer that opens one hides no name, and one that
/// writes a name there harms its own request.
fn has_passed(headers: &Headers, name: &str) -> bool {
    let is_comma = |octet: &u8| *octet == b',';
    headers.named(VIA).flat_map(|line| line.split(is_comma)).any(|member| {
        let mut words = member.split(|octet| matches!(octet, b' ' | b'\t')).filter(|word| !word.is_empty());
        words.nth(1).is_some_and(|word| word.eq_ignore_ascii_case(name.as_bytes()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request with these lines of `via` goes on past a gateway called `front`, or not.
    #[track_caller]
    fn check(lines: &[&str], goes_on: bool) {
        let mut request = Request::get("/").unwrap();
        lines.iter().for_each(|line| request.headers.append("via", *line).unwrap());
        let added = request.add_via(Version::Http10, "front");
        assert_eq!(added, if goes_on { Ok(()) } else { Err(TargetError::Loop.into()) }, "{lines:?}");
        let expected = lines.iter().copied().chain(goes_on.then_some("1.0 front"));
        assert!(request.headers.all("via").eq(expected.map(str::as_bytes)), "{:?}", request.headers);
    }

    #[test]
    fn a_request_that_comes_back_goes_no_further_rfc9110_7_6_3() {
        for lines in [&[][..], &["1.1 other"], &["1.1 front.example", "1.0 a, 1.1 b"], &["front"], &["", ","]]
        {
            check(lines, true);
        }
        for lines in [
            &["1.1 front"][..],
            &["1.0 FRONT"],
            &["HTTP/1.1 front (nginx)"],
            &["1.1 a, 1.1  front ,1.1 b"],
            &["1.1 a", "2\tfront"],
            &["1.1 a \"b, 1.1 front"],
            &["1.1 a (b, 1.1 front c)"],
        ] {
            check(lines, false);
        }
    }

    #[test]
    fn a_name_is_one_word_rfc9110_7_6_3() {
        let mut request = Request::get("/").unwrap();
        for name in ["", "a b", "a,b", "a\r\nb: c", "(a)", "ä", "a/b"] {
            assert!(
                matches!(request.add_via(Version::Http11, name), Err(MessageError::Value(_))),
                "{name:?}"
            );
        }
        for name in ["a", "a.example:8080", "[::1]:80", "_a"] {
            request.add_via(Version::Http11, name).unwrap();
        }
        assert_eq!(request.headers.all("via").count(), 4);
    }
}

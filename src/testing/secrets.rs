//! [`Secrets`]: what a recording hides of the messages that it keeps.

use std::cmp::Reverse;

use crate::message::{Headers, MessageError, Request, Response};

/// The fields and the texts that stand in no file of a recording.
#[derive(Clone, Debug)]
pub(super) struct Secrets {
    /// In lower case.
    fields: Vec<String>,
    texts: Vec<String>,
}

impl Secrets {
    pub(super) fn add_field(&mut self, name: &str) {
        self.fields.push(name.to_ascii_lowercase());
    }

    pub(super) fn remove_field(&mut self, name: &str) {
        self.fields.retain(|hidden| !hidden.eq_ignore_ascii_case(name));
    }

    /// Adds a text. An empty one is in every text, and hides nothing.
    pub(super) fn add_text(&mut self, text: &str) {
        self.texts.extend((!text.is_empty()).then(|| text.to_owned()));
        // One that contains another goes first, or its rest would stay.
        self.texts.sort_by_key(|text| Reverse(text.len()));
    }

    /// A copy of `request` without secrets.
    ///
    /// # Errors
    ///
    /// Fails if it would not be a request.
    pub(super) fn hide_in_request(&self, request: &Request) -> Result<Request, MessageError> {
        let mut hidden = Request::new(request.method(), &self.without_texts(request.target().as_str()))?;
        hidden.headers = self.hide_in_fields(&request.headers)?;
        hidden.body.set_bytes(self.hide_in_content(request.body.bytes()));
        Ok(hidden)
    }

    /// A copy of `response` without secrets.
    ///
    /// # Errors
    ///
    /// Fails if it would not be a response.
    pub(super) fn hide_in_response(&self, response: &Response) -> Result<Response, MessageError> {
        let headers = self.hide_in_fields(&response.headers)?;
        let mut hidden = Response { status: response.status, headers, ..Response::new() };
        hidden.body.set_bytes(self.hide_in_content(response.body.bytes()));
        Ok(hidden)
    }

    fn hide_in_fields(&self, headers: &Headers) -> Result<Headers, MessageError> {
        let mut hidden = Headers::new();
        for (name, value) in headers {
            let is_secret = self.fields.iter().any(|secret| secret.eq_ignore_ascii_case(name));
            let value = if is_secret { hide_octets(name, value) } else { self.hide_in_value(value) };
            hidden.append(name, value)?;
        }
        Ok(hidden)
    }

    /// Octets that are not UTF-8 stay as they are.
    fn hide_in_value(&self, value: &[u8]) -> Vec<u8> {
        let mut hidden = Vec::with_capacity(value.len());
        for chunk in value.utf8_chunks() {
            hidden.extend_from_slice(self.without_texts(chunk.valid()).as_bytes());
            hidden.extend_from_slice(chunk.invalid());
        }
        hidden
    }

    /// Content that is not UTF-8 stays as it is.
    fn hide_in_content(&self, content: &[u8]) -> Vec<u8> {
        str::from_utf8(content).map_or(content.to_vec(), |text| self.without_texts(text).into_bytes())
    }

    fn without_texts(&self, text: &str) -> String {
        self.texts.iter().fold(text.to_owned(), |text, secret| text.replace(secret, HIDDEN))
    }
}

impl Default for Secrets {
    /// Credentials (RFC 9110 §11) and cookies (RFC 6265).
    fn default() -> Secrets {
        let names = ["authorization", "proxy-authorization", "cookie", "set-cookie"];
        Secrets { fields: names.map(str::to_owned).into(), texts: Vec::new() }
    }
}

/// The value of a secret field, whose octets may be no text.
fn hide_octets(name: &str, value: &[u8]) -> Vec<u8> {
    let latin1: String = value.iter().copied().map(char::from).collect();
    let octets = |c: char| u8::try_from(c).expect("each character was one octet");
    hide_value(name, &latin1).chars().map(octets).collect()
}

/// The value of a secret field. The names and the attributes of cookies are none, and neither is the scheme of credentials.
fn hide_value(name: &str, value: &str) -> String {
    match &*name.to_ascii_lowercase() {
        "authorization" | "proxy-authorization" => {
            value.split_once(' ').map_or(HIDDEN.to_owned(), |(scheme, _)| format!("{scheme} {HIDDEN}"))
        }
        "cookie" => value.split(';').map(hide_pair).collect::<Vec<_>>().join(";"),
        "set-cookie" => match value.split_once(';') {
            Some((pair, attributes)) => format!("{};{attributes}", hide_pair(pair)),
            None => hide_pair(value),
        },
        _ => HIDDEN.to_owned(),
    }
}

fn hide_pair(pair: &str) -> String {
    pair.split_once('=').map_or(HIDDEN.to_owned(), |(name, _)| format!("{name}={HIDDEN}"))
}

const HIDDEN: &str = "hidden";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_field_keeps_what_is_none() {
        for (name, value, expected) in [
            ("Authorization", "Bearer abc", "Bearer hidden"),
            ("authorization", "Basic YTpi", "Basic hidden"),
            ("authorization", "abc", "hidden"),
            ("cookie", "a=1; b=2", "a=hidden; b=hidden"),
            ("cookie", "abc", "hidden"),
            ("Set-Cookie", "sid=abc=; Path=/; HttpOnly", "sid=hidden; Path=/; HttpOnly"),
            ("set-cookie", "sid=abc", "sid=hidden"),
            ("x-api-key", "abc", "hidden"),
        ] {
            assert_eq!(hide_value(name, value), expected, "{name}: {value}");
        }
    }

    #[test]
    fn octets_of_fields_that_are_no_text_stay() {
        let mut secrets = Secrets::default();
        secrets.add_text("s3cret");
        let mut response = Response::new();
        for (name, value, expected) in [
            ("x-a", &b"\xffs3cret\xc3\xbc\xfe"[..], &b"\xffhidden\xc3\xbc\xfe"[..]),
            ("set-cookie", b"n\xffame=s\xff; Path=/\xfe", b"n\xffame=hidden; Path=/\xfe"),
            ("set-cookie", b"n\xc3\xbc=s", b"n\xc3\xbc=hidden"),
        ] {
            response.headers.set(name, value).unwrap();
            let hidden = secrets.hide_in_response(&response).unwrap();
            assert_eq!(hidden.headers.iter().last(), Some((name, expected)));
        }
    }

    #[test]
    fn a_secret_text_is_hidden_wherever_it_stands() {
        let mut secrets = Secrets::default();
        secrets.add_text("");
        secrets.add_text("s3");
        secrets.add_text("s3cret");
        secrets.add_field("X-Key");
        secrets.remove_field("Cookie");
        let mut request = Request::post("http://a/?key=s3cret").unwrap();
        request.headers.set("x-key", "abc").unwrap();
        request.headers.set("cookie", "a=1").unwrap();
        request.headers.set("referer", "http://b/s3cret").unwrap();
        request.body.set_bytes("{\"password\": \"s3cret\"}");
        let hidden = secrets.hide_in_request(&request).unwrap();
        assert_eq!(hidden.target().as_str(), "http://a/?key=hidden");
        let fields = ["x-key", "cookie", "referer"].map(|name| hidden.headers.get(name).unwrap());
        assert_eq!(fields, ["hidden", "a=1", "http://b/hidden"]);
        assert_eq!(hidden.body.bytes(), b"{\"password\": \"hidden\"}");
        let mut response = Response::new();
        response.body.set_bytes(b"\xffs3cret");
        assert_eq!(secrets.hide_in_response(&response).unwrap().body.bytes(), b"\xffs3cret");
    }
}

//! JSON as the content of messages.

use serde_core::{Deserialize, Serialize};
use serde_json::Deserializer;

use crate::client::request_builder::RequestBuilder;
use crate::error_text::{Excerpt, reason_for_peers};
use crate::message::content::{ContentFault, ValueFault};
use crate::message::{Body, ContentError, FieldName, Headers, MessageError, Problem, Request, Response};

impl Request {
    /// Reads the content as JSON. Fields of `T` may borrow from the content.
    ///
    /// A text with escapes (`\"`, `\n`, `\u00e9`) cannot be borrowed. So a `&str` fails with 422 for some texts of peers. A
    /// `Cow` with `#[serde(borrow)]` and a `String` read them all.
    ///
    /// The body must have been received, as for [`Request::form`].
    ///
    /// # Errors
    ///
    /// Fails if the content is of another type, with a content coding, not JSON, or not the JSON of a `T`. In a handler, `?`
    /// turns that into 415, 400 or 422. The response names the fault and its place, as text or with
    /// [`problem_details`](crate::server::problem_details). Also fails, with 500, if the content has not been received.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::borrow::Cow;
    ///
    /// use corehttp::Context;
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Search<'a> {
    ///     #[serde(borrow)]
    ///     term: Cow<'a, str>,
    ///     page: u32,
    /// }
    ///
    /// #[derive(serde::Serialize)]
    /// struct Found<'a> {
    ///     term: Cow<'a, str>,
    ///     next: u32,
    /// }
    ///
    /// fn search(ctx: &mut Context) -> corehttp::Result {
    ///     let Context { request, response, .. } = ctx;
    ///     let Search { term, page } = request.json()?;
    ///     Ok(response.set_json(&Found { term, next: page + 1 })?)
    /// }
    /// # let service = corehttp::Server::new().service(search);
    /// # let mut request = corehttp::Request::post("/")?;
    /// # request.set_json(&serde_json::json!({"page": 1, "term": "milk"}))?;
    /// # let response = corehttp::block_on(service.respond(request))?;
    /// # assert_eq!(response.body.text()?, r#"{"term":"milk","next":2}"#);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "serde")]
    pub fn json<'a, T: Deserialize<'a>>(&'a self) -> Result<T, ContentError> {
        read(self.content_of("of JSON", is_json)?).map_err(ContentError::of_request)
    }

    /// Makes `value`, written as JSON, the content, and sets the content type.
    ///
    /// # Errors
    ///
    /// Fails if `value` cannot be written, such as a map with tuples as keys. The request then has no content.
    ///
    /// # Examples
    ///
    /// ```
    /// # use corehttp::{Context, Server};
    /// # use corehttp::net::MemoryListener;
    /// use corehttp::{Client, Request, Response};
    ///
    /// #[derive(serde::Deserialize, serde::Serialize)]
    /// struct Note {
    ///     text: String,
    /// }
    ///
    /// # let listener = MemoryListener::new();
    /// # let client = Client::builder().connect_to(&listener).build();
    /// # let server = Server::bind(listener).cores(1).start(|ctx: &mut Context| {
    /// #     std::mem::swap(&mut ctx.response.body, &mut ctx.request.body);
    /// # })?;
    /// # corehttp::block_on(async {
    /// let mut request = Request::post("http://example.com/notes")?;
    /// request.set_json(&Note { text: "milk".into() })?;
    /// let mut response = Response::new();
    /// client.send(&request, &mut response).await?;
    /// let note: Note = response.json()?;
    /// assert_eq!(note.text, "milk");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })??;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "serde")]
    pub fn set_json(&mut self, value: &(impl Serialize + ?Sized)) -> Result<(), serde_json::Error> {
        write(&mut self.body, &mut self.headers, value)
    }
}

impl Response {
    /// Reads the content as JSON, whatever its content type. Fields of `T` that borrow, such as a `Cow`, borrow from
    /// the content.
    ///
    /// # Errors
    ///
    /// Fails if the content is a stream or not the JSON of a `T`. In a handler, `?` turns that into 500.
    ///
    /// # Examples
    ///
    /// ```
    /// # use corehttp::{Context, Server};
    /// # use corehttp::net::MemoryListener;
    /// use corehttp::Client;
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Note {
    ///     text: String,
    /// }
    ///
    /// # let listener = MemoryListener::new();
    /// # let client = Client::builder().connect_to(&listener).build();
    /// # let server = Server::bind(listener).cores(1).start(|ctx: &mut Context| {
    /// #     ctx.response.set_json(&serde_json::json!({"text": "milk"})).unwrap();
    /// # })?;
    /// # corehttp::block_on(async {
    /// let response = client.get("http://example.com/notes/1").await?;
    /// let note = response.json::<Note>()?;
    /// assert_eq!(note.text, "milk");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })??;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "serde")]
    pub fn json<'a, T: Deserialize<'a>>(&'a self) -> Result<T, ContentError> {
        self.body.json()
    }

    /// Makes `value`, written as JSON, the content, and sets the content type. The JSON is written straight into the
    /// memory of the body. See [`Request::json`].
    ///
    /// # Errors
    ///
    /// Fails if `value` cannot be written, such as a map with tuples as keys. The response then has no content.
    #[doc(alias = "serde")]
    pub fn set_json(&mut self, value: &(impl Serialize + ?Sized)) -> Result<(), serde_json::Error> {
        write(&mut self.body, &mut self.headers, value)
    }
}

impl<S> RequestBuilder<S> {
    /// Makes `value`, written as JSON, the content: see [`Request::set_json`].
    ///
    /// The `.await` fails if `value` cannot be written, such as a map with tuples as keys.
    ///
    /// # Examples
    ///
    /// ```
    /// # use corehttp::{Context, Server};
    /// # use corehttp::net::MemoryListener;
    /// use corehttp::Client;
    ///
    /// #[derive(serde::Deserialize, serde::Serialize)]
    /// struct Note {
    ///     text: String,
    /// }
    ///
    /// # let listener = MemoryListener::new();
    /// # let client = Client::builder().connect_to(&listener).build();
    /// # let server = Server::bind(listener).cores(1).start(|ctx: &mut Context| {
    /// #     std::mem::swap(&mut ctx.response.body, &mut ctx.request.body);
    /// # })?;
    /// # corehttp::block_on(async {
    /// let note = Note { text: "milk".into() };
    /// let response = client.post("http://example.com/notes").json(&note).await?.error_for_status()?;
    /// assert_eq!(response.json::<Note>()?.text, "milk");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })??;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn json(self, value: &(impl Serialize + ?Sized)) -> Self {
        self.change(|request| {
            let written = request.set_json(value);
            written.map_err(|error| {
                MessageError::Value(format!("the value cannot be written as JSON: {error}").into())
            })
        })
    }
}

impl Body {
    /// Reads the content as JSON, whatever its content type. See [`Response::json`].
    ///
    /// # Errors
    ///
    /// Fails if the content is a stream or not the JSON of a `T`.
    #[doc(alias = "serde")]
    pub fn json<'a, T: Deserialize<'a>>(&'a self) -> Result<T, ContentError> {
        if self.is_stream() {
            return Err(ContentFault::Unread.into());
        }
        read(self.bytes())
    }
}

impl Problem {
    /// Sets the extension member `name` to `value`, written as JSON (RFC 9457 §3.2).
    ///
    /// # Errors
    ///
    /// Fails if `value` cannot be written. Also fails for the `name` of a standard member, such as `detail`.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::{Context, Problem, Status};
    ///
    /// fn pay(_: &mut Context) -> corehttp::Result {
    ///     let problem = Problem::new(Status::FORBIDDEN).with_detail("Not enough credit.");
    ///     Err(problem.with_member("balance", &30)?.with_member("accounts", &["/account/12345"])?.into())
    /// }
    /// # let service = corehttp::Server::new().service(pay);
    /// # let response = corehttp::block_on(service.respond(corehttp::Request::post("/pay")?))?;
    /// # let problem = r#"{"title":"Forbidden","detail":"Not enough credit.","status":403,"balance":30,"accounts":["/account/12345"]}"#;
    /// # assert_eq!(response.text()?, problem);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("extension", "serde"))]
    pub fn with_member(
        mut self,
        name: &str,
        value: &(impl Serialize + ?Sized),
    ) -> Result<Problem, serde_json::Error> {
        if STANDARD_MEMBERS.contains(&name) {
            let reason = format!("the member {name} of a problem is no extension");
            return Err(serde_core::ser::Error::custom(reason));
        }
        let value = serde_json::to_string(value)?;
        self.members.retain(|(other, _)| **other != *name);
        self.members.push((name.into(), value));
        Ok(self)
    }
}

/// The names that are not free for extension members (RFC 9457 §3.1).
const STANDARD_MEMBERS: [&str; 5] = ["type", "title", "status", "detail", "instance"];

pub(super) fn read<'a, T: Deserialize<'a>>(content: &'a [u8]) -> Result<T, ContentError> {
    serde_json::from_slice(content).map_err(|error| json_error::<T>(&error, content))
}

/// The error of reading `content` as a `T`.
fn json_error<'a, T: Deserialize<'a>>(error: &serde_json::Error, content: &'a [u8]) -> ContentError {
    // Tracking the path takes time and memory, so only content that is known to be wrong is read again with it.
    let path = || {
        let read = serde_path_to_error::deserialize::<_, T>(&mut Deserializer::from_slice(content));
        let path = read.err()?.path().to_string();
        (path != ROOT).then(|| Excerpt(&path).to_string().into())
    };
    let text = error.to_string();
    let (line, column) = (error.line(), error.column());
    let reason = text.strip_suffix(&*format!(" at line {line} column {column}")).unwrap_or(&text);
    let fault = ValueFault {
        whole: "the JSON",
        path: if error.is_data() { path() } else { None },
        reason: reason_for_peers(reason).into(),
        place: (line > 0).then_some((line, column)),
    };
    ContentError::new(if error.is_data() { ContentFault::Value(fault) } else { ContentFault::Syntax(fault) })
}

/// How serde_path_to_error writes the path of the whole.
const ROOT: &str = ".";

fn write(
    body: &mut Body,
    headers: &mut Headers,
    value: &(impl Serialize + ?Sized),
) -> Result<(), serde_json::Error> {
    body.clear();
    serde_json::to_writer(&mut *body, value).inspect_err(|_| body.clear())?;
    headers.put(FieldName::CONTENT_TYPE, b"application/json");
    Ok(())
}

/// Whether a media type without its parameters is JSON, or is written as JSON (RFC 8259 §11, RFC 6839 §3.1).
fn is_json(essence: &[u8]) -> bool {
    let is_suffixed = || {
        let (kind, suffix) = essence.split_at_checked(essence.len().checked_sub(SUFFIX.len())?)?;
        Some(kind.contains(&b'/') && suffix.eq_ignore_ascii_case(SUFFIX))
    };
    essence.eq_ignore_ascii_case(b"application/json") || is_suffixed().unwrap_or_default()
}

const SUFFIX: &[u8] = b"+json";

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::fmt;

    use super::*;

    #[test]
    fn types_that_are_written_as_json_are_json_rfc6839_3_1() {
        for essence in ["application/json", "APPLICATION/Json", "application/problem+json", "a/b+JSON"] {
            assert!(is_json(essence.as_bytes()), "{essence}");
        }
        for essence in [
            "",
            "json",
            "+json",
            "application/",
            "application/jsonl",
            "application/json-seq",
            "application+json",
            "text/json",
            "text/plain",
            "application/json+xml",
            "application/problem+jso",
        ] {
            assert!(!is_json(essence.as_bytes()), "{essence}");
        }
    }

    /// `content` is not a `T`, as `expected` states.
    #[track_caller]
    fn check<'a, T: Deserialize<'a> + fmt::Debug>(content: &'a str, expected: &str) {
        let error = serde_json::from_str::<T>(content).unwrap_err();
        assert_eq!(format!("{:#}", json_error::<T>(&error, content.as_bytes())), expected, "{content}");
    }

    #[test]
    fn the_path_is_named_and_the_value_is_not() {
        type Prices = HashMap<String, Vec<HashMap<String, f64>>>;
        let at = "the JSON at `items[1].price` is wrong: invalid type: string, expected a number at line 1 column 46";
        check::<Prices>(r#"{"items": [{"price": 1}, {"price": "secret, :"}]}"#, at);
        check::<Vec<u8>>(
            "[1, 300]",
            "the JSON at `[1]` is wrong: invalid value: integer, expected a whole number from 0 to 255 at line 1 column 7",
        );
        check::<f32>(
            "\"5\"",
            "the JSON is wrong: invalid type: string, expected a number at line 1 column 3",
        );
        check::<f32>("[", "the JSON is wrong: invalid type: sequence, expected a number at line 1 column 0");
        check::<Vec<u8>>("[1", "the JSON is wrong: EOF while parsing a list at line 1 column 2");
        let long = format!("{{\"{}\": 0}}", "a\\n".repeat(100));
        let shown = format!("the JSON at `{}…` is wrong", r"a\n".repeat(32));
        let error = serde_json::from_str::<HashMap<String, bool>>(&long).unwrap_err();
        let text = json_error::<HashMap<String, bool>>(&error, long.as_bytes()).to_string();
        assert!(text.starts_with(&shown), "{text}");
    }
}

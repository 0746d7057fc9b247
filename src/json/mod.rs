//! Floor 5: JSON, by serde (RFC 8259).
//!
//! A handler calls [`Request::json`] and [`Response::set_json`]; a client calls [`Request::set_json`] and
//! [`Response::set_json`].

mod invalid_json;
mod json_error;

use serde_core::{Deserialize, Serialize};
use serde_json::Error;

pub use invalid_json::InvalidJson;
pub use json_error::JsonError;

use crate::message::{Body, Headers, Name, Request, Response};

impl Request {
    /// Reads the content as JSON. What borrows, such as a `&str` in a struct, borrows from the content.
    ///
    /// The body must have been received, as for [`Request::form`].
    ///
    /// # Errors
    ///
    /// Fails if the content is of another type, has a content coding, is not JSON, or is not the JSON of a `T`. In a
    /// handler, `?` turns that into 415, 400 or 422. Also fails, with 500, if the content has not been received.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Context;
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Search<'a> {
    ///     term: &'a str,
    ///     page: u32,
    /// }
    ///
    /// #[derive(serde::Serialize)]
    /// struct Found<'a> {
    ///     term: &'a str,
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
    pub fn json<'a, T: Deserialize<'a>>(&'a self) -> Result<T, InvalidJson> {
        Ok(read(self.content_of(is_json)?)?)
    }

    /// Makes `value`, written as JSON, the content, and sets the content type.
    ///
    /// # Errors
    ///
    /// Fails if `value` cannot be written, for instance because the keys of a map are not texts. The request is then
    /// without content.
    ///
    /// # Examples
    ///
    /// ```
    /// # use corehttp::{Context, Server, MemoryListener};
    /// use corehttp::{Client, Request, Response};
    ///
    /// #[derive(serde::Deserialize, serde::Serialize)]
    /// struct Note {
    ///     text: String,
    /// }
    ///
    /// # let listener = MemoryListener::new();
    /// # let client = Client::builder().memory(listener.connector()).build();
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
    pub fn set_json(&mut self, value: &(impl Serialize + ?Sized)) -> Result<(), Error> {
        write(&mut self.body, &mut self.headers, value)
    }
}

impl Response {
    /// Reads the content as JSON, whatever its type is called. What borrows, such as a `&str` in a struct, borrows from
    /// the content.
    ///
    /// # Errors
    ///
    /// Fails if the content is not the JSON of a `T`; also if it is a stream, which has not been received. In a handler,
    /// `?` turns that into 500, because it is not the peer's fault.
    ///
    /// # Examples
    ///
    /// ```
    /// # use corehttp::{Context, Server, MemoryListener};
    /// use corehttp::Client;
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Note {
    ///     text: String,
    /// }
    ///
    /// # let listener = MemoryListener::new();
    /// # let client = Client::builder().memory(listener.connector()).build();
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
    pub fn json<'a, T: Deserialize<'a>>(&'a self) -> Result<T, JsonError> {
        self.body.json()
    }

    /// Makes `value`, written as JSON, the content, and sets the content type. It is written straight into the memory of
    /// the body. See [`Request::json`].
    ///
    /// # Errors
    ///
    /// Fails if `value` cannot be written, for instance because the keys of a map are not texts. The response is then
    /// without content.
    #[doc(alias = "serde")]
    pub fn set_json(&mut self, value: &(impl Serialize + ?Sized)) -> Result<(), Error> {
        write(&mut self.body, &mut self.headers, value)
    }
}

impl Body {
    /// Reads the content as JSON, whatever its type is called. See [`Response::set_json`].
    ///
    /// # Errors
    ///
    /// Fails if the content is not the JSON of a `T`; also if it is a stream, which has not been received.
    #[doc(alias = "serde")]
    pub fn json<'a, T: Deserialize<'a>>(&'a self) -> Result<T, JsonError> {
        read(self.bytes())
    }
}

fn read<'a, T: Deserialize<'a>>(content: &'a [u8]) -> Result<T, JsonError> {
    serde_json::from_slice(content).map_err(|error| JsonError::new::<T>(error, content))
}

fn write(body: &mut Body, headers: &mut Headers, value: &(impl Serialize + ?Sized)) -> Result<(), Error> {
    body.clear();
    serde_json::to_writer(&mut *body, value).inspect_err(|_| body.clear())?;
    headers.put(Name::CONTENT_TYPE, b"application/json");
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
    use super::*;

    #[test]
    fn types_that_are_written_as_json_are_json_6839_3_1() {
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
}

//! Conversions between [`Request`] and [`http::Request`], [`Response`] and [`http::Response`].

use std::error::Error;

use http::{HeaderMap, HeaderValue, Uri};

use super::body::HttpBody;
use super::conversion_error::ConversionError;
use super::frame_reader::downcast;
use super::header_map::append_header_map;
use crate::message::{Body, Headers, Method, Request, Response, Status, Target, Version};

impl TryFrom<Request> for http::Request<HttpBody> {
    type Error = ConversionError;

    /// Converts a request. Its body is not copied, and its trailers follow that. A user and a password in its URL
    /// become the field `authorization`, unless it has that field.
    ///
    /// # Errors
    ///
    /// Fails for a target of more than 65,534 bytes, for a field name of more than 65,535, or for more than 24,576
    /// fields.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Request;
    /// use corehttp::http_types::HttpBody;
    ///
    /// let mut request = Request::post("http://example.com/notes")?;
    /// request.set_text("milk");
    /// let request: http::Request<HttpBody> = request.try_into()?;
    /// assert_eq!(request.uri().path(), "/notes");
    /// assert_eq!(request.headers()["content-type"], "text/plain; charset=utf-8");
    /// let request = Request::try_from(request)?;
    /// assert_eq!(request.text()?, "milk");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn try_from(mut request: Request) -> Result<http::Request<HttpBody>, ConversionError> {
        let body = http_body(&mut request.body, &request.trailers)?;
        let mut converted = to_http_request(&request, body)?;
        if let (Some(value), false) =
            (request.target().authorization(), converted.headers().contains_key("authorization"))
        {
            let mut value = HeaderValue::from_str(value).expect("credentials are a valid value");
            value.set_sensitive(true);
            converted.headers_mut().insert("authorization", value);
        }
        Ok(converted)
    }
}

impl<B> TryFrom<http::Request<B>> for Request
where
    B: http_body::Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    type Error = ConversionError;

    /// Converts a request, its body as by [`Body::set_http_body`](crate::Body::set_http_body). The trailers of an
    /// [`HttpBody`](crate::http_types::HttpBody) are kept, and those of other bodies left out. The extensions are left
    /// out, too, and so is a version beyond 1.1. This crate sends requests with its own version.
    ///
    /// # Errors
    ///
    /// Fails for a URI that [`Request::new`](crate::Request::new) refuses, or for a method of more than 23 bytes.
    fn try_from(request: http::Request<B>) -> Result<Request, ConversionError> {
        let (head, body) = request.into_parts();
        let target = Target::try_from(&head.uri)?;
        let mut request = Request::with_target(Method::try_from(&head.method)?, target);
        request.set_version(Version::try_from(head.version).unwrap_or_default());
        append_header_map(&mut request.headers, &head.headers)?;
        (request.body, request.trailers) = own_body(body)?;
        Ok(request)
    }
}

impl TryFrom<Response> for http::Response<HttpBody> {
    type Error = ConversionError;

    /// Converts a response. Its body is not copied, and its trailers follow that. Its URL and its timings are left out.
    ///
    /// # Errors
    ///
    /// Fails for a field name of more than 65,535 bytes, or for more than 24,576 fields.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::{Response, Status};
    /// use corehttp::http_types::HttpBody;
    ///
    /// let mut response = Response { status: Status::CREATED, ..Response::new() };
    /// response.headers.set("location", "/notes/1")?;
    /// let response: http::Response<HttpBody> = response.try_into()?;
    /// assert_eq!(response.status(), http::StatusCode::CREATED);
    /// assert_eq!(response.headers()["location"], "/notes/1");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn try_from(mut response: Response) -> Result<http::Response<HttpBody>, ConversionError> {
        take_http_response(&mut response)
    }
}

impl<B> TryFrom<http::Response<B>> for Response
where
    B: http_body::Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    type Error = ConversionError;

    /// Converts a response, its body as by [`Body::set_http_body`](crate::Body::set_http_body). The trailers of an
    /// [`HttpBody`](crate::http_types::HttpBody) are kept, and those of other bodies left out. The extensions and the
    /// version are left out, too.
    ///
    /// # Errors
    ///
    /// Fails if the status is beyond 599.
    fn try_from(response: http::Response<B>) -> Result<Response, ConversionError> {
        let (head, body) = response.into_parts();
        let status = Status::try_from(head.status).map_err(|_| ConversionError::Status(head.status))?;
        let headers = Headers::try_from(&head.headers)?;
        let (body, trailers) = own_body(body)?;
        Ok(Response { status, headers, body, trailers, ..Response::new() })
    }
}

/// Converts the head of `request`, for a request with this body.
pub(crate) fn to_http_request<B>(request: &Request, body: B) -> Result<http::Request<B>, ConversionError> {
    let mut converted = http::Request::new(body);
    *converted.method_mut() = request.method().into();
    *converted.uri_mut() = Uri::try_from(request.target())?;
    *converted.version_mut() = request.version().into();
    *converted.headers_mut() = HeaderMap::try_from(&request.headers)?;
    Ok(converted)
}

/// Converts the head of `response`, for a response with this body.
pub(crate) fn to_http_response<B>(
    response: &Response,
    body: B,
) -> Result<http::Response<B>, ConversionError> {
    let mut converted = http::Response::new(body);
    *converted.status_mut() = response.status.into();
    *converted.headers_mut() = HeaderMap::try_from(&response.headers)?;
    Ok(converted)
}

/// Converts `response`, and takes its content.
pub(crate) fn take_http_response(
    response: &mut Response,
) -> Result<http::Response<HttpBody>, ConversionError> {
    let body = http_body(&mut response.body, &response.trailers)?;
    to_http_response(response, body)
}

/// Takes the content of a message, for a body with these trailers.
fn http_body(content: &mut Body, trailers: &Headers) -> Result<HttpBody, ConversionError> {
    Ok(HttpBody::with_trailers(std::mem::take(content), HeaderMap::try_from(trailers)?))
}

/// Converts a body, with its trailers if it is one of this crate.
fn own_body<B>(body: B) -> Result<(Body, Headers), ConversionError>
where
    B: http_body::Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    let mut content = Body::new();
    let mut trailers = Headers::new();
    match downcast::<B, HttpBody>(body) {
        Ok(own) => {
            let (body, fields) = own.into_parts();
            content = body;
            fields.map_or(Ok(()), |fields| append_header_map(&mut trailers, &fields))?;
        }
        Err(body) => content.set_http_body(body),
    }
    Ok((content, trailers))
}

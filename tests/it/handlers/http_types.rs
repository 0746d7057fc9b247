//! Conversions of whole messages and bodies to the types of the crates `http` and `http-body`, and back.

use std::collections::VecDeque;
use std::error::Error;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use corehttp::error::MessageError;
use corehttp::http_types::{ConversionError, HttpBody};
use corehttp::{Body, Headers, Request, Response, Status, Version, block_on};
use http::{HeaderMap, HeaderValue};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::{BodyExt, Empty, Full};

/// All of the frames of `body`: its data, and its trailers.
fn collect(body: HttpBody) -> io::Result<(Bytes, Option<HeaderMap>)> {
    let collected = block_on(body.collect()).unwrap()?;
    let trailers = collected.trailers().cloned();
    Ok((collected.to_bytes(), trailers))
}

/// A body of these frames, each of which follows a pause, with this length.
struct Frames(VecDeque<Result<Frame<Bytes>, &'static str>>, Option<u64>, bool);

fn frames<const N: usize>(
    length: impl Into<Option<u64>>,
    frames: [Result<&'static str, &'static str>; N],
) -> Frames {
    Frames(frames.map(|frame| frame.map(|data| Frame::data(data.into()))).into(), length.into(), false)
}

impl http_body::Body for Frames {
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.2 = !self.2;
        if self.2 {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(self.0.pop_front().map(|frame| frame.map_err(Into::into)))
    }

    fn size_hint(&self) -> SizeHint {
        self.1.map_or_else(SizeHint::new, SizeHint::with_exact)
    }
}

/// The data that a native body yields.
fn read(body: Body) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&collect(HttpBody::from(body))?.0).into_owned())
}

mod requests {
    use super::*;

    /// A request of this method and URL becomes one of this URI, and the same request again.
    #[track_caller]
    fn check(method: &str, url: &str, uri: &str) {
        let mut request = Request::new(method, url).unwrap();
        request.headers.append("x-a", "1").unwrap();
        request.headers.append("x-a", "2").unwrap();
        request.trailers.set("x-sum", 7).unwrap();
        request.body.set_bytes("hello");
        let http: http::Request<HttpBody> = request.clone().try_into().unwrap();
        assert_eq!((http.method().as_str(), http.uri()), (method, &uri.parse().unwrap()));
        assert_eq!(http.version(), http::Version::HTTP_11);
        assert!(http.headers().get_all("x-a").iter().eq(["1", "2"]));
        assert_eq!(http.body().size_hint().exact(), Some(5));
        let mut back = Request::try_from(http).unwrap();
        if request.basic_auth().is_some() {
            assert!(back.basic_auth() == request.basic_auth() && back.headers.remove("authorization"));
            request.set_url(uri).unwrap();
        }
        assert_eq!(back, request);
    }

    #[test]
    fn a_request_comes_back_as_it_was() {
        check("GET", "/", "/");
        check("OPTIONS", "/a?b=c&d", "/a?b=c&d");
        check("POST", "http://example.com/a%20b?c", "http://example.com/a%20b?c");
        check("PROPFIND", "https://example.com:8443/", "https://example.com:8443/");
        check("PUT", "http://Ada:secret@example.com/", "http://example.com/");
    }

    #[test]
    fn credentials_of_a_url_are_a_sensitive_field_rfc7617() {
        let request = Request::get("http://Ada:secret@example.com/").unwrap();
        let http: http::Request<HttpBody> = request.try_into().unwrap();
        assert!(http.headers()["authorization"].is_sensitive());
        let http = http::Request::get("http://Ada:secret@example.com/").body(Empty::<Bytes>::new()).unwrap();
        let request = Request::try_from(http).unwrap();
        assert_eq!(request.basic_auth().unwrap().user_id, "Ada");
        assert_eq!(request.target().as_str(), "http://example.com/");
        let mut request = request;
        request.set_bearer_auth("token").unwrap();
        let http: http::Request<HttpBody> = request.try_into().unwrap();
        assert_eq!(http.headers()["authorization"], "Bearer token");
    }

    #[test]
    fn a_version_beyond_1_1_is_that_of_another_connection() {
        for (version, expected) in [
            (http::Version::HTTP_10, Version::Http10),
            (http::Version::HTTP_11, Version::Http11),
            (http::Version::HTTP_2, Version::Http11),
            (http::Version::HTTP_3, Version::Http11),
        ] {
            let http = http::Request::get("/").version(version).body(Empty::<Bytes>::new()).unwrap();
            assert_eq!(Request::try_from(http).unwrap().version(), expected);
        }
    }

    #[test]
    fn a_request_that_cannot_be_sent_names_what_is_wrong() {
        let error = |method: &str, uri: &str| {
            let http = http::Request::builder().method(method).uri(uri).body(Empty::<Bytes>::new()).unwrap();
            format!("{:#}", Request::try_from(http).unwrap_err())
        };
        let long = "A".repeat(24);
        for (method, uri, expected) in [
            (&*long, "/", format!("the method `{long}` is too long")),
            (
                "GET",
                "ftp://a/b?secret",
                "the url `ftp://a/b` is invalid: the scheme is neither http nor https".into(),
            ),
        ] {
            assert_eq!(error(method, uri), format!("the message has no counterpart: {expected}"));
        }
        let mut request = Request::get(&format!("/{}", "a".repeat(65_534))).unwrap();
        let error = http::Request::<HttpBody>::try_from(request.clone()).unwrap_err();
        assert!(matches!(error, ConversionError::Target(..)), "{error}");
        request.set_url("/").unwrap();
        request.headers.set(&"a".repeat(65_536), "").unwrap();
        let error = http::Request::<HttpBody>::try_from(request).unwrap_err();
        assert!(matches!(error, ConversionError::FieldName(_)), "{error}");
        let invalid = ConversionError::from(MessageError::Content);
        assert!(matches!(invalid, ConversionError::Message(MessageError::Content)));
    }
}

mod responses {
    use super::*;

    #[test]
    fn a_response_comes_back_as_it_was() {
        for status in [200, 204, 404, 599] {
            let mut response = Response { status: Status::new(status).unwrap(), ..Response::new() };
            response.set_html("<p>hello");
            response.headers.append("set-cookie", "a=b").unwrap();
            response.headers.append("set-cookie", "c=d").unwrap();
            response.trailers.set("x-sum", 7).unwrap();
            let http: http::Response<HttpBody> = response.clone().try_into().unwrap();
            assert_eq!(http.status().as_u16(), status);
            assert!(http.headers().get_all("set-cookie").iter().eq(["a=b", "c=d"]));
            assert_eq!(Response::try_from(http).unwrap(), response);
        }
    }

    #[test]
    fn a_status_beyond_599_is_refused_rfc9110_15() {
        for (status, is_status) in [(100, true), (599, true), (600, false), (999, false)] {
            let http = http::Response::builder().status(status).body(Empty::<Bytes>::new()).unwrap();
            match Response::try_from(http) {
                Ok(response) => assert!(is_status && response.status == status),
                Err(error) => {
                    assert!(!is_status && matches!(error, ConversionError::Status(code) if code == status));
                    assert_eq!(error.to_string(), format!("the status {status} is not from 100 to 599"));
                }
            }
        }
    }

    #[test]
    fn more_fields_than_a_map_holds_are_refused_in_heads_and_in_trailers() {
        let mut many = Headers::new();
        (0..24_577).for_each(|_| many.append("a", "").unwrap());
        for response in [
            Response { headers: many.clone(), ..Response::new() },
            Response { trailers: many, ..Response::new() },
        ] {
            let error = http::Response::<HttpBody>::try_from(response).unwrap_err();
            assert!(matches!(error, ConversionError::TooManyFields(24_577)), "{error}");
        }
    }
}

mod bodies {
    use super::*;

    /// A copy would be elsewhere.
    #[test]
    fn bytes_are_not_copied_in_either_direction() {
        let text = Bytes::from(vec![b'a'; 1000]);
        let mut copied = Body::new();
        copied.set_bytes(&text);
        let buffered = copied.bytes().as_ptr();
        for (body, expected) in [(Body::from(text.clone()), text.as_ptr()), (copied, buffered)] {
            let mut response = Response { body, ..Response::new() };
            let http: http::Response<HttpBody> = response.try_into().unwrap();
            let (head, body) = http.into_parts();
            let frame = block_on(body.collect()).unwrap().unwrap().to_bytes();
            assert_eq!(frame.as_ptr(), expected);
            response = http::Response::from_parts(head, Full::new(frame)).try_into().unwrap();
            assert_eq!((response.body.bytes().as_ptr(), response.body.len()), (expected, 1000));
        }
        let request = http::Request::post("/").body(Full::new(text.clone())).unwrap();
        assert_eq!(Request::try_from(request).unwrap().bytes().as_ptr(), text.as_ptr());
        let buffered = Body::from(text.clone()).into_bytes().unwrap();
        assert_eq!(buffered.as_ptr(), text.as_ptr());
    }

    #[test]
    fn content_and_trailers_are_frames() {
        let mut response = Response::new();
        for (content, trailers, is_end, length) in
            [("", 0, true, 0), ("hello", 0, false, 5), ("", 1, false, 0), ("hello", 1, false, 5)]
        {
            response.clear();
            response.body.set_bytes(content);
            (0..trailers).for_each(|_| response.trailers.set("x-sum", 7).unwrap());
            let http: http::Response<HttpBody> = response.clone().try_into().unwrap();
            assert_eq!(
                (http.body().is_end_stream(), http.body().size_hint().exact()),
                (is_end, Some(length))
            );
            let (data, found) = collect(http.into_body()).unwrap();
            assert_eq!((&*data, found.map_or(0, |map| map.len())), (content.as_bytes(), trailers));
        }
    }

    #[test]
    fn a_stream_is_read_piece_by_piece_and_in_its_length() {
        let stream = |source: &'static [u8], len| {
            let mut body = Body::new();
            body.set_stream(source, len);
            body
        };
        let large = vec![b'a'; 100_000].leak();
        for (source, len, expected) in [
            (&b"hello"[..], None, Some("hello")),
            (b"hello", Some(5), Some("hello")),
            (b"", None, Some("")),
            (b"", Some(0), Some("")),
            (large, Some(100_000), Some(str::from_utf8(large).unwrap())),
            (b"hello", Some(4), None),
            (b"hello", Some(6), None),
        ] {
            let body = HttpBody::from(stream(source, len));
            assert_eq!((body.size_hint().exact(), body.is_end_stream()), (len, false));
            assert_eq!(read(stream(source, len)).ok().as_deref(), expected, "{len:?}");
        }
        let twin = stream(b"hello", None);
        assert_eq!(read(twin.clone()).unwrap(), "hello");
        let error = read(twin).unwrap_err().to_string();
        assert_eq!(error, "the body was a stream, which can be sent only once");
    }

    #[test]
    fn a_body_that_was_not_polled_is_the_same_again() {
        let mut file = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut file, b"a file").unwrap();
        let mut body = Body::new();
        body.set_file(file, 2..6);
        let request = http::Request::post("/").body(HttpBody::from(body)).unwrap();
        let body = Request::try_from(request).unwrap().body;
        assert_eq!(format!("{body:?}"), "a stream of 4 bytes");
        assert_eq!(read(body).unwrap(), "file");
    }

    #[test]
    fn the_rest_of_a_stream_that_was_polled_comes_back() {
        let (mut body, source) = (Body::new(), vec![b'a'; 20_000].leak() as &[u8]);
        body.set_stream(source, Some(20_000));
        let mut body = HttpBody::from(body);
        let first = block_on(body.frame()).unwrap().unwrap().unwrap().into_data().unwrap();
        let rest = Body::from(body);
        assert_eq!(rest.known_len(), Some(20_000 - first.len() as u64));
        assert_eq!(first.len() + read(rest).unwrap().len(), 20_000);
    }

    /// A body of the crate `http-body` becomes a native one of this length, and yields `expected`.
    #[track_caller]
    fn check(body: Frames, length: Option<u64>, expected: Result<&str, &str>) {
        let mut native = Body::from("gone");
        native.set_http_body(body);
        assert_eq!((native.known_len(), native.is_stream()), (length, true));
        let read = read(native).map_err(|error| error.to_string());
        assert_eq!(read.as_deref().map_err(|error| &**error), expected);
    }

    #[test]
    fn frames_are_a_stream() {
        check(frames(None, []), None, Ok(""));
        check(frames(None, [Ok("he"), Ok(""), Ok("llo")]), None, Ok("hello"));
        check(frames(5, [Ok("he"), Ok("llo")]), Some(5), Ok("hello"));
        check(frames(5, [Ok("hello")]), Some(5), Ok("hello"));
        check(frames(None, [Ok("he"), Err("the source is gone")]), None, Err("the source is gone"));
        check(frames(5, [Err("the source is gone")]), Some(5), Err("the source is gone"));
        check(frames(6, [Ok("hello")]), Some(6), Err("unexpected end of file"));
        check(frames(4, [Ok("hello")]), Some(4), Err("the source yields more than its length"));
    }

    #[test]
    fn trailers_of_other_bodies_are_left_out() {
        let fields = HeaderMap::from_iter([("x-sum".parse().unwrap(), HeaderValue::from_static("7"))]);
        let body = Full::new(Bytes::from("hello")).with_trailers(std::future::ready(Some(Ok(fields))));
        let response = Response::try_from(http::Response::new(body)).unwrap();
        assert!(response.trailers.is_empty() && response.body.is_stream());
        assert_eq!(read(response.body).unwrap(), "hello");
    }

    /// A buffer of two pieces, which does not share its memory.
    #[test]
    fn data_in_pieces_is_read_whole() {
        let body = Full::new(Bytes::from("he").chain(Bytes::from("llo")));
        let mut native = Body::new();
        native.set_http_body(body);
        assert_eq!(native.bytes(), b"hello");
        native.set_http_body(Empty::<Bytes>::new());
        assert!(native.is_empty() && !native.is_stream());
    }

    #[test]
    fn bodies_are_send_and_sync() {
        const fn is_send_and_sync<T: Send + Sync + 'static>() {}
        is_send_and_sync::<HttpBody>();
        is_send_and_sync::<ConversionError>();
    }
}

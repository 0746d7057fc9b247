//! [`OutgoingFraming`]: how an outgoing message is framed (RFC 9112 §6.1, §6.2, RFC 9110 §8.6).

use super::{Framing, RequestInfo};
use crate::message::{BodyLength, Method, Response, Version};

/// How an outgoing message is framed: what its head announces, and what follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutgoingFraming {
    pub(super) field: FramingField,
    body: Framing,
    content: BodyLength,
    expects: bool,
}

/// The field of a head that frames the body after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FramingField {
    Absent,
    Length(u64),
    Chunked,
}

impl OutgoingFraming {
    /// Frames a response with content of this length. A Content-Length that was set by hand counts where no content is
    /// sent that could be measured (RFC 9110 §8.6).
    #[inline]
    pub(crate) fn from_response(
        request: RequestInfo,
        response: &Response,
        content: BodyLength,
    ) -> OutgoingFraming {
        use FramingField::{Absent, Chunked};
        let given = || response.headers.content_length().map_or(Absent, FramingField::Length);
        let chunks = request.version == Version::Http11;
        let trailers = !response.trailers.is_empty();
        let (field, body) = match (response.status.as_u16(), content) {
            (100..200 | 204, _) => (Absent, Framing::Empty),
            // Reset Content has no content, but is framed like any other response (RFC 9110 §15.3.6).
            (205, _) if !request.is_connect => (FramingField::Length(0), Framing::Empty),
            // The peer takes everything that follows for bytes of its tunnel (RFC 9112 §6.3).
            (200..300, _) if request.is_connect => (Absent, Framing::UntilClose),
            (304, BodyLength::NoContent) => (given(), Framing::Empty),
            (304, BodyLength::Known(_) | BodyLength::Unknown) => (Absent, Framing::Empty),
            (_, BodyLength::NoContent) if request.is_head => (given(), Framing::Empty),
            (_, BodyLength::Known(_) | BodyLength::NoContent) if chunks && trailers => {
                (Chunked, Framing::Chunked)
            }
            (_, BodyLength::NoContent) => (FramingField::Length(0), Framing::Empty),
            (_, BodyLength::Known(length)) => (FramingField::Length(length), Framing::Length(length)),
            (_, BodyLength::Unknown) if chunks => (Chunked, Framing::Chunked),
            (_, BodyLength::Unknown) => (Absent, Framing::UntilClose),
        };
        let body = if request.is_head { Framing::Empty } else { body };
        OutgoingFraming { field, body, content, expects: false }
    }

    /// Frames a request. A request without content announces that only where content is usual (RFC 9110 §8.6).
    pub(crate) fn from_request(method: Method, content: BodyLength, trailers: bool) -> OutgoingFraming {
        use FramingField::{Absent, Chunked};
        let (field, body) = match (method, content) {
            (Method::Post | Method::Put | Method::Patch | Method::Query, BodyLength::NoContent) => {
                (FramingField::Length(0), Framing::Empty)
            }
            (_, BodyLength::NoContent) => (Absent, Framing::Empty),
            (_, BodyLength::Known(_)) if trailers => (Chunked, Framing::Chunked),
            (_, BodyLength::Known(length)) => (FramingField::Length(length), Framing::Length(length)),
            (_, BodyLength::Unknown) => (Chunked, Framing::Chunked),
        };
        debug_assert!(body != Framing::UntilClose, "only responses end with the connection");
        // Without a body, there is nothing that could wait for 100 (RFC 9110 §10.1.1).
        OutgoingFraming { field, body, content, expects: !body.is_empty() }
    }

    /// The framing of the same request when it is sent again because its expectation was refused (RFC 9110 §10.1.1).
    pub(crate) fn without_expectation(self) -> OutgoingFraming {
        OutgoingFraming { expects: false, ..self }
    }

    /// Whether a request is sent with the expectation that was set.
    pub(crate) fn expects(self) -> bool {
        self.expects
    }

    /// How the body that is sent is framed.
    pub(crate) fn body(self) -> Framing {
        self.body
    }

    /// The length of the content, even if the framing does not announce it, as with chunks.
    pub(crate) fn content_length(self) -> Option<u64> {
        match self.content {
            BodyLength::Known(length) => Some(length),
            BodyLength::NoContent | BodyLength::Unknown => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use BodyLength::{Known, NoContent, Unknown};
    use FramingField::{Absent, Chunked};

    use super::*;
    use crate::message::Status;

    const HEAD: RequestInfo = RequestInfo { is_head: true, is_connect: false, version: Version::Http11 };
    const GET: RequestInfo = RequestInfo { is_head: false, ..HEAD };
    const OLD: RequestInfo = RequestInfo { version: Version::Http10, ..GET };
    const CONNECT: RequestInfo = RequestInfo { is_connect: true, ..GET };

    /// A response with this status and content is announced and framed as `expected`, though the handler `set` a length
    /// or a trailer.
    #[track_caller]
    fn check(
        request: RequestInfo,
        status: u16,
        set: &str,
        content: BodyLength,
        expected: (FramingField, Framing),
    ) {
        let mut response = Response { status: Status::new(status).unwrap(), ..Response::default() };
        match set {
            "" => {}
            "trailer" => response.trailers.set("a", "b").unwrap(),
            length => response.headers.set("content-length", length).unwrap(),
        }
        let OutgoingFraming { field, body, .. } = OutgoingFraming::from_response(request, &response, content);
        assert_eq!((field, body), expected, "{request:?} {status} {set:?} {content:?}");
    }

    #[test]
    fn a_response_announces_the_framing_of_what_is_sent_rfc9110_8_6() {
        check(GET, 200, "", Known(5), (FramingField::Length(5), Framing::Length(5)));
        check(GET, 200, "7", Known(5), (FramingField::Length(5), Framing::Length(5)));
        check(GET, 404, "", NoContent, (FramingField::Length(0), Framing::Empty));
        check(GET, 200, "7", NoContent, (FramingField::Length(0), Framing::Empty));
        check(GET, 200, "", Unknown, (Chunked, Framing::Chunked));
        check(OLD, 200, "", Unknown, (Absent, Framing::UntilClose));
        check(GET, 200, "trailer", Known(5), (Chunked, Framing::Chunked));
        check(GET, 200, "trailer", NoContent, (Chunked, Framing::Chunked));
        check(OLD, 200, "trailer", Known(5), (FramingField::Length(5), Framing::Length(5)));
    }

    #[test]
    fn a_response_without_a_body_announces_none_whatever_was_set_rfc9112_6_3() {
        for status in [101, 103, 204] {
            for content in [NoContent, Known(5), Unknown] {
                check(GET, status, "7", content, (Absent, Framing::Empty));
            }
        }
        for (request, content) in
            [(GET, NoContent), (GET, Known(5)), (GET, Unknown), (OLD, Unknown), (HEAD, Known(5))]
        {
            for set in ["", "7", "trailer"] {
                check(request, 205, set, content, (FramingField::Length(0), Framing::Empty));
            }
        }
        check(GET, 304, "7", NoContent, (FramingField::Length(7), Framing::Empty));
        check(GET, 304, "", NoContent, (Absent, Framing::Empty));
        check(GET, 304, "7", Known(5), (Absent, Framing::Empty));
        check(HEAD, 200, "7", NoContent, (FramingField::Length(7), Framing::Empty));
        check(HEAD, 200, "", NoContent, (Absent, Framing::Empty));
        check(HEAD, 200, "7", Known(5), (FramingField::Length(5), Framing::Empty));
        check(HEAD, 200, "", Unknown, (Chunked, Framing::Empty));
    }

    /// The peer takes the connection for a tunnel, although the handler opened none.
    #[test]
    fn a_successful_response_to_connect_announces_nothing_rfc9110_9_3_6() {
        for content in [NoContent, Known(5), Unknown] {
            check(CONNECT, 200, "7", content, (Absent, Framing::UntilClose));
            check(CONNECT, 205, "7", content, (Absent, Framing::UntilClose));
            check(CONNECT, 299, "trailer", content, (Absent, Framing::UntilClose));
            check(CONNECT, 204, "", content, (Absent, Framing::Empty));
        }
        check(CONNECT, 502, "", Known(5), (FramingField::Length(5), Framing::Length(5)));
        check(CONNECT, 302, "", NoContent, (FramingField::Length(0), Framing::Empty));
    }

    #[test]
    fn a_request_announces_no_content_only_where_some_is_usual_rfc9110_8_6() {
        for (method, content, trailers, expected) in [
            (Method::Get, NoContent, false, (Absent, Framing::Empty)),
            (Method::Delete, NoContent, true, (Absent, Framing::Empty)),
            (Method::Post, NoContent, false, (FramingField::Length(0), Framing::Empty)),
            (Method::Query, NoContent, false, (FramingField::Length(0), Framing::Empty)),
            (Method::Query, Unknown, false, (Chunked, Framing::Chunked)),
            (Method::Get, Known(5), false, (FramingField::Length(5), Framing::Length(5))),
            (Method::Put, Known(5), true, (Chunked, Framing::Chunked)),
            (Method::Put, Unknown, false, (Chunked, Framing::Chunked)),
        ] {
            let OutgoingFraming { field, body, .. } =
                OutgoingFraming::from_request(method, content, trailers);
            assert_eq!((field, body), expected, "{content:?} {trailers}");
        }
    }
}

//! [`Status`]: the result of a request, in three digits (RFC 9110 §15).

use std::error::Error;
use std::fmt;

use crate::message::MessageError;

/// A status code: a number from 100 to 599.
///
/// A client also accepts the numbers from 600 to 999, because some servers send them. Such a status counts as a server
/// error (RFC 9110 §15), is kept and can be forwarded, but cannot be made with [`Status::new`]. A response with a number
/// below 100 is malformed.
///
/// # Examples
///
/// ```
/// use corehttp::Status;
///
/// assert_eq!(Status::NOT_FOUND.to_string(), "404 Not Found");
/// assert_eq!(Status::new(404), Some(Status::NOT_FOUND));
/// assert!(Status::NOT_FOUND == 404);
/// assert!(Status::new(299).is_some_and(Status::is_success));
/// assert_eq!(Status::new(600), None);
/// ```
#[doc(alias = "StatusCode")]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Status(u16);

impl Status {
    /// Returns the status with this number, if it is from 100 to 599.
    #[inline]
    pub const fn new(code: u16) -> Option<Status> {
        match code {
            100..=599 => Some(Status(code)),
            _ => None,
        }
    }

    /// The status of a response that was received: three digits of which the first is not zero.
    #[inline]
    pub(crate) const fn from_received(code: u16) -> Option<Status> {
        match code {
            100..=999 => Some(Status(code)),
            _ => None,
        }
    }

    /// Returns the number.
    #[inline]
    pub const fn as_u16(self) -> u16 {
        self.0
    }

    /// Returns whether the response is an interim one (1xx, RFC 9110 §15.2).
    #[inline]
    pub const fn is_informational(self) -> bool {
        self.0 / 100 == 1
    }

    /// Returns whether the request was received, understood and accepted (2xx, RFC 9110 §15.3).
    pub const fn is_success(self) -> bool {
        self.0 / 100 == 2
    }

    /// Returns whether the client has to do more (3xx, RFC 9110 §15.4).
    pub const fn is_redirection(self) -> bool {
        self.0 / 100 == 3
    }

    /// Returns whether the client made an error (4xx, RFC 9110 §15.5).
    pub const fn is_client_error(self) -> bool {
        self.0 / 100 == 4
    }

    /// Returns whether the server failed (5xx, RFC 9110 §15.6), or sent an invalid status code (§15).
    pub const fn is_server_error(self) -> bool {
        !matches!(self.0, 100..=499)
    }
}

impl Default for Status {
    fn default() -> Status {
        Status::OK
    }
}

impl TryFrom<u16> for Status {
    type Error = MessageError;

    fn try_from(code: u16) -> Result<Status, MessageError> {
        Status::new(code).ok_or(MessageError::Status)
    }
}

impl From<Status> for u16 {
    fn from(status: Status) -> u16 {
        status.as_u16()
    }
}

// Not the other way round, or `port == text.parse()?` would no longer compile in any crate that depends on this one.
impl PartialEq<u16> for Status {
    fn eq(&self, code: &u16) -> bool {
        self.0 == *code
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reason() {
            "" => write!(f, "{}", self.0),
            reason => write!(f, "{} {reason}", self.0),
        }
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// As the source of another error, it is the status with which that error is answered.
impl Error for Status {}

/// The status of an error that says what is wrong with a request, as the source of that error: the peer is told its text.
#[allow(dead_code, reason = "unused without the feature `multipart`")]
#[derive(Debug)]
pub(crate) struct Explained(pub(crate) Status);

impl fmt::Display for Explained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for Explained {}

/// The source of the error of an upgraded connection whose peer is at fault. Once the server has switched protocols,
/// that is the peer of the exchange; until then, it can only be the peer of another connection, such as a client's.
#[allow(dead_code, reason = "unused without the feature `websocket`")]
#[derive(Debug)]
pub(crate) struct PeerFault;

impl fmt::Display for PeerFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the peer is at fault")
    }
}

impl Error for PeerFault {}

macro_rules! registered {
    ($($code:literal $name:ident $reason:literal)*) => {
        impl Status {
            $(
                #[doc = concat!("`", $code, " ", $reason, "`")]
                pub const $name: Status = Status($code);
            )*

            /// Returns the reason phrase of a registered status, otherwise `""`.
            #[inline]
            pub const fn reason(self) -> &'static str {
                match self.0 {
                    $($code => $reason,)*
                    _ => "",
                }
            }
        }

        #[cfg(test)]
        const REGISTERED: &[Status] = &[$(Status::$name),*];
    };
}

// The IANA registry of HTTP status codes. RFC 9110 defines those without a comment.
registered! {
    100 CONTINUE "Continue"
    101 SWITCHING_PROTOCOLS "Switching Protocols"
    102 PROCESSING "Processing" // RFC 2518
    103 EARLY_HINTS "Early Hints" // RFC 8297

    200 OK "OK"
    201 CREATED "Created"
    202 ACCEPTED "Accepted"
    203 NON_AUTHORITATIVE_INFORMATION "Non-Authoritative Information"
    204 NO_CONTENT "No Content"
    205 RESET_CONTENT "Reset Content"
    206 PARTIAL_CONTENT "Partial Content"
    207 MULTI_STATUS "Multi-Status" // RFC 4918
    208 ALREADY_REPORTED "Already Reported" // RFC 5842
    226 IM_USED "IM Used" // RFC 3229

    300 MULTIPLE_CHOICES "Multiple Choices"
    301 MOVED_PERMANENTLY "Moved Permanently"
    302 FOUND "Found"
    303 SEE_OTHER "See Other"
    304 NOT_MODIFIED "Not Modified"
    305 USE_PROXY "Use Proxy"
    307 TEMPORARY_REDIRECT "Temporary Redirect"
    308 PERMANENT_REDIRECT "Permanent Redirect"

    400 BAD_REQUEST "Bad Request"
    401 UNAUTHORIZED "Unauthorized"
    402 PAYMENT_REQUIRED "Payment Required"
    403 FORBIDDEN "Forbidden"
    404 NOT_FOUND "Not Found"
    405 METHOD_NOT_ALLOWED "Method Not Allowed"
    406 NOT_ACCEPTABLE "Not Acceptable"
    407 PROXY_AUTHENTICATION_REQUIRED "Proxy Authentication Required"
    408 REQUEST_TIMEOUT "Request Timeout"
    409 CONFLICT "Conflict"
    410 GONE "Gone"
    411 LENGTH_REQUIRED "Length Required"
    412 PRECONDITION_FAILED "Precondition Failed"
    413 CONTENT_TOO_LARGE "Content Too Large"
    414 URI_TOO_LONG "URI Too Long"
    415 UNSUPPORTED_MEDIA_TYPE "Unsupported Media Type"
    416 RANGE_NOT_SATISFIABLE "Range Not Satisfiable"
    417 EXPECTATION_FAILED "Expectation Failed"
    421 MISDIRECTED_REQUEST "Misdirected Request"
    422 UNPROCESSABLE_CONTENT "Unprocessable Content"
    423 LOCKED "Locked" // RFC 4918
    424 FAILED_DEPENDENCY "Failed Dependency" // RFC 4918
    425 TOO_EARLY "Too Early" // RFC 8470
    426 UPGRADE_REQUIRED "Upgrade Required"
    428 PRECONDITION_REQUIRED "Precondition Required" // RFC 6585
    429 TOO_MANY_REQUESTS "Too Many Requests" // RFC 6585
    431 REQUEST_HEADER_FIELDS_TOO_LARGE "Request Header Fields Too Large" // RFC 6585
    451 UNAVAILABLE_FOR_LEGAL_REASONS "Unavailable For Legal Reasons" // RFC 7725

    500 INTERNAL_SERVER_ERROR "Internal Server Error"
    501 NOT_IMPLEMENTED "Not Implemented"
    502 BAD_GATEWAY "Bad Gateway"
    503 SERVICE_UNAVAILABLE "Service Unavailable"
    504 GATEWAY_TIMEOUT "Gateway Timeout"
    505 HTTP_VERSION_NOT_SUPPORTED "HTTP Version Not Supported"
    506 VARIANT_ALSO_NEGOTIATES "Variant Also Negotiates" // RFC 2295
    507 INSUFFICIENT_STORAGE "Insufficient Storage" // RFC 4918
    508 LOOP_DETECTED "Loop Detected" // RFC 5842
    510 NOT_EXTENDED "Not Extended" // RFC 2774
    511 NETWORK_AUTHENTICATION_REQUIRED "Network Authentication Required" // RFC 6585
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_100_to_599_are_status_codes_rfc9110_15() {
        for code in 0..=u16::MAX {
            let expected = (100..=599).contains(&code).then_some(code);
            assert_eq!(Status::new(code).map(Status::as_u16), expected);
            assert_eq!(Status::try_from(code).ok().map(u16::from), expected);
        }
    }

    #[test]
    fn a_number_from_600_on_is_received_as_a_server_error_rfc9110_15() {
        assert!((0..100).chain([1000]).all(|code| Status::from_received(code).is_none()));
        for code in 600..=999 {
            let status = Status::from_received(code).unwrap();
            assert!(status.is_server_error() && status != Status::INTERNAL_SERVER_ERROR);
            assert!(!status.is_informational() && !status.is_success() && !status.is_redirection());
            assert!(!status.is_client_error() && status.as_u16() == code);
            assert_eq!((status.reason(), status.to_string()), ("", code.to_string()));
        }
    }

    #[test]
    fn every_status_belongs_to_one_class() {
        for status in (100..=599).filter_map(Status::new) {
            assert_eq!(Status::from_received(status.as_u16()), Some(status));
            let classes = [
                status.is_informational(),
                status.is_success(),
                status.is_redirection(),
                status.is_client_error(),
                status.is_server_error(),
            ];
            let class = usize::from(status.as_u16() / 100 - 1);
            assert_eq!(classes.iter().position(|&is| is), Some(class));
            assert_eq!(classes.iter().rposition(|&is| is), Some(class));
        }
    }

    #[test]
    fn registered_statuses_have_reasons_and_are_sorted() {
        assert!(REGISTERED.is_sorted());
        assert!(REGISTERED.iter().all(|status| Status::new(status.as_u16()) == Some(*status)));
        assert!(REGISTERED.iter().all(|status| !status.reason().is_empty()));
        assert_eq!(format!("{} {:?}", Status::OK, Status::URI_TOO_LONG), "200 OK 414 URI Too Long");
        assert_eq!(Status(299).to_string(), "299");
        assert_eq!(Status::default(), Status::OK);
    }
}

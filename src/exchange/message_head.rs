//! [`MessageHead`]: what the bytes of a head become: a request, or a response to some request. [`Expectation`]: whether
//! its sender waits for `100 Continue`.

use super::ExchangeError;
use crate::message::{FieldName, Headers, Request, Response, Version, members};
use crate::wire::parse::{self, ForbiddenTrailers, Leniency};
use crate::wire::{Framing, Limits, RequestInfo, WireDetail, WireError, framing};

/// Whether these bytes begin a head. The empty line that some clients send after a body does not count (§2.2): if nothing
/// follows it, the connection is idle, and the peer gets no error.
pub(super) fn has_head_begun(input: &[u8]) -> bool {
    !input.iter().all(|byte| matches!(byte, b'\r' | b'\n'))
}

/// The result of waiting for a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadOutcome {
    /// The head has been received.
    Complete,
    /// The peer closed between two messages.
    Closed,
    /// The peer sent nothing of a head in time.
    Idle,
}

/// A message whose head can be received.
pub(crate) trait MessageHead {
    /// The treatment of forbidden fields after the body.
    const FORBIDDEN_TRAILERS: ForbiddenTrailers;

    /// Makes the head at the front of `input` that of the message, and returns its length, if it is complete.
    fn parse(&mut self, input: &[u8], limits: &Limits) -> Result<Option<usize>, WireError>;

    /// The error of [`MessageHead::parse`] in `text`, with its detail.
    fn parse_error(error: WireError, text: &[u8], limits: &Limits) -> ExchangeError {
        ExchangeError::with_detail(error, text, limits)
    }

    /// Takes as much of a head that does not end as a report may show.
    fn parse_front(&mut self, input: &[u8], limits: &Limits);

    /// The error if no more of a head comes of which `text` is here: that of text that was not parsed yet, or else `error`.
    fn unfinished_error(&mut self, error: ExchangeError, text: &[u8], limits: &Limits) -> ExchangeError {
        let (ExchangeError::Incomplete | ExchangeError::TimedOut(..)) = error else { return error };
        match self.parse(text, limits) {
            Err(wire_error) => Self::parse_error(wire_error, text, limits),
            Ok(_) => {
                self.parse_front(text, limits);
                error
            }
        }
    }

    /// The head as it was received.
    fn text(&self) -> &[u8];

    /// Checks the fields, and returns where the body ends.
    fn framing(&mut self) -> Result<Framing, WireError>;

    /// Whether faults of the message are overlooked, and one of its head was.
    fn leniency(&self) -> Leniency {
        Leniency::None
    }
}

impl MessageHead for Request {
    const FORBIDDEN_TRAILERS: ForbiddenTrailers = ForbiddenTrailers::Refused;

    #[inline]
    fn parse(&mut self, input: &[u8], limits: &Limits) -> Result<Option<usize>, WireError> {
        parse::request(input, limits, self)
    }

    fn parse_error(error: WireError, text: &[u8], limits: &Limits) -> ExchangeError {
        match parse::is_proxy_header(text) {
            true => ExchangeError::Wire(WireError::ProxyHeader, None),
            false => ExchangeError::with_detail(error, text, limits),
        }
    }

    fn parse_front(&mut self, input: &[u8], limits: &Limits) {
        parse::request_front(input, limits, self);
    }

    fn text(&self) -> &[u8] {
        self.headers.text_received()
    }

    #[inline]
    fn framing(&mut self) -> Result<Framing, WireError> {
        parse::check_fields(self)?;
        let framing = Framing::from_request(self.version(), &self.headers)?;
        self.replace_host();
        Ok(framing)
    }
}

/// A response that is being received.
pub(crate) struct IncomingResponse<'a> {
    response: &'a mut Response,
    /// The facts of its request.
    request: RequestInfo,
    version: Version,
    leniency: Leniency,
}

impl<'a> IncomingResponse<'a> {
    pub(crate) fn new(
        response: &'a mut Response,
        request: RequestInfo,
        leniency: Leniency,
    ) -> IncomingResponse<'a> {
        IncomingResponse { response, request, version: Version::default(), leniency }
    }

    /// Parses a head that is refused for `error`, without its faults if they are overlooked.
    #[cold]
    fn parse_mended(
        &mut self,
        input: &[u8],
        limits: &Limits,
        error: WireError,
    ) -> Result<Option<parse::ResponseHead>, WireError> {
        if self.leniency == Leniency::None {
            return Err(error);
        }
        self.leniency = Leniency::Used;
        parse::mended_response(input, limits, self.response, error)
    }

    /// The version that the peer speaks.
    pub(crate) fn version(&self) -> Version {
        self.version
    }
}

impl MessageHead for IncomingResponse<'_> {
    const FORBIDDEN_TRAILERS: ForbiddenTrailers = ForbiddenTrailers::Discarded;

    #[inline]
    fn parse(&mut self, input: &[u8], limits: &Limits) -> Result<Option<usize>, WireError> {
        let head = match parse::response(input, limits, self.response) {
            Ok(head) => head,
            Err(error) => self.parse_mended(input, limits, error)?,
        };
        let Some(head) = head else { return Ok(None) };
        self.version = head.version;
        Ok(Some(head.len))
    }

    /// The port of another protocol is recognized by how its peer begins.
    fn parse_error(error: WireError, text: &[u8], limits: &Limits) -> ExchangeError {
        match error {
            WireError::Version | WireError::StatusLine => {
                ExchangeError::Wire(error, Some(WireDetail::start(text)))
            }
            error => ExchangeError::with_detail(error, text, limits),
        }
    }

    /// A call that fails has no response.
    fn parse_front(&mut self, _: &[u8], _: &Limits) {}

    fn text(&self) -> &[u8] {
        self.response.headers.text_received()
    }

    fn framing(&mut self) -> Result<Framing, WireError> {
        let IncomingResponse { response, request, version, leniency } = self;
        let framing =
            |headers: &Headers| Framing::from_response(*request, response.status, *version, headers);
        let framing = match framing(&response.headers) {
            Err(WireError::ContentLength) if *leniency != Leniency::None => {
                *leniency = Leniency::Used;
                framing::merge_lengths(&mut response.headers);
                framing(&response.headers)
            }
            framing => framing,
        }?;
        if framing == Framing::Empty {
            framing::drop_ambiguous(*version, &mut response.headers);
        }
        Ok(framing)
    }

    fn leniency(&self) -> Leniency {
        self.leniency
    }
}

/// The expectation that the peer has before it sends its body (RFC 9110 §10.1.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Expectation {
    /// Nothing.
    #[default]
    None,
    /// `100 Continue`, to be sent when the body is first read and has not arrived.
    Continue,
}

impl Expectation {
    /// Reads the expectation of the sender of these fields. The field is a list: empty elements are ignored, and an
    /// expectation that is listed twice counts once (§5.6.1.2).
    ///
    /// # Errors
    ///
    /// Fails for an expectation other than `100-continue`.
    pub(crate) fn from_headers(headers: &Headers) -> Result<Expectation, WireError> {
        let mut expected = headers.named(FieldName::EXPECT).flat_map(members);
        expected.try_fold(Expectation::None, |_, expected| match expected {
            value if value.eq_ignore_ascii_case(b"100-continue") => Ok(Expectation::Continue),
            _ => Err(WireError::Expectation),
        })
    }
}

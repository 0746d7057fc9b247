//! [`Error`]: how a handler fails.

use std::error::Error as StdError;
use std::fmt;
use std::io;

use super::invalid_response::InvalidResponse;
use crate::coding::CodingError;
use crate::error::write_causes;
use crate::exchange::ExchangeError;
use crate::message::{
    InvalidCharset, InvalidForm, InvalidPathParam, InvalidTarget, InvalidText, Problem, Status,
};
use crate::wire::WireError;

/// The result of handlers and servers: by default nothing, or an [`Error`].
pub type Result<T = (), E = Error> = std::result::Result<T, E>;

/// An error of a handler: the status to answer with, and a cause that the peer does not see.
///
/// Any [`std::error::Error`] converts into one with `?` (see [`IntoError`]), and is answered with 500. Many errors of
/// this crate choose a better status:
///
/// - 400 for a body that was cut short, a path or a body that is not UTF-8, a malformed form, or a path that leads out
///   of its directory;
/// - 408 for a body that is too slow, and 413 for one that is too large;
/// - 499 for a peer that is gone, which gets no response: middleware that logs the status logs what nginx does;
/// - 415 for a body in an unknown coding, or of a type other than the form that the handler asks for.
///
/// A [`Status`] converts too. An error of your own can choose its status: it returns a [`Status`] as its
/// [`source`](StdError::source), which with the crate thiserror is a field `#[source] Status`; or a [`Problem`], which
/// explains it to the peer. Other causes, such as a
/// `Box<dyn Error + Send + Sync>`, an `anyhow::Error` or a string, convert with [`Error::other`] or [`Error::new`]. A
/// failed request to another server is answered with 500 like any other error; a gateway answers with what
/// [`ClientError::status`](crate::ClientError::status) returns.
///
/// `Error` does not implement [`std::error::Error`] itself, because that would rule out the conversion from all other
/// errors. An `Error` converts into a `Box<dyn Error>`, which a `main` function may return, and through that into an
/// anyhow error: `anyhow::Error::from_boxed(error.into())`.
///
/// # Examples
///
/// ```
/// use corehttp::{Error, Result, Status};
///
/// fn page(text: &str) -> Result<u32> {
///     if text.is_empty() {
///         return Err(Status::NOT_FOUND.into());
///     }
///     text.parse().map_err(|error| Error::new(Status::BAD_REQUEST, error))
/// }
///
/// assert_eq!(page("").unwrap_err().status(), Status::NOT_FOUND);
/// assert_eq!(page("x").unwrap_err().status(), Status::BAD_REQUEST);
/// ```
///
/// An error type of your own that is not a [`std::error::Error`] can implement the conversion:
///
/// ```
/// use corehttp::{Error, Status};
///
/// enum Denied {
///     Nobody,
///     Database(std::io::Error),
/// }
///
/// impl From<Denied> for Error {
///     fn from(denied: Denied) -> Error {
///         match denied {
///             Denied::Nobody => Status::FORBIDDEN.into(),
///             Denied::Database(error) => Error::new(Status::SERVICE_UNAVAILABLE, error),
///         }
///     }
/// }
///
/// fn enter(name: &str) -> corehttp::Result {
///     if name.is_empty() { Err(Denied::Nobody)? }
///     Err(Denied::Database(std::io::Error::other("gone")).into())
/// }
///
/// assert_eq!(enter("").unwrap_err().status(), Status::FORBIDDEN);
/// assert_eq!(enter("Ada").unwrap_err().status(), Status::SERVICE_UNAVAILABLE);
/// ```
pub struct Error(Kind);

/// Two words in all, since a handler's result is moved for every request. The discriminant takes a whole word, because
/// the result would be moved in pieces otherwise.
#[repr(usize)]
enum Kind {
    Plain(Status),
    Caused(Box<Caused>),
}

struct Caused {
    status: Status,
    cause: Box<dyn StdError + Send + Sync>,
}

const _: () =
    assert!(size_of::<Result>() == 2 * size_of::<usize>(), "a handler's result is returned in registers");

impl Error {
    /// Creates an error with the `status` to answer with, and its `cause`.
    pub fn new(status: Status, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Error {
        Error(Kind::Caused(Box::new(Caused { status, cause: cause.into() })))
    }

    /// Creates an error from a `cause` that `?` does not convert, because it is no [`std::error::Error`]: a string, a
    /// `Box<dyn Error + Send + Sync>`, or an `anyhow::Error`. A boxed cause may choose the status, as one that `?`
    /// converts; otherwise the peer is answered with 500.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::error::Error as StdError;
    /// use corehttp::{Context, Error};
    ///
    /// fn stock() -> Result<u32, Box<dyn StdError + Send + Sync>> {
    ///     Ok("7".parse()?)
    /// }
    ///
    /// fn on_one_thread() -> Result<u32, Box<dyn StdError>> {
    ///     Ok("7".parse()?)
    /// }
    ///
    /// fn handler(ctx: &mut Context) -> corehttp::Result {
    ///     let left = stock().map_err(Error::other)?;
    ///     let on_shelf = on_one_thread().map_err(|error| Error::other(error.to_string()))?; // not `Send`
    ///     let rest = left.checked_sub(on_shelf).ok_or("more on the shelf than in stock").map_err(Error::other)?;
    ///     ctx.response.set_text(rest.to_string());
    ///     Ok(())
    /// }
    /// # let response = corehttp::block_on(corehttp::Server::new().service(handler).respond(Default::default()))?;
    /// # assert_eq!(response.body.text()?, "0");
    /// # Ok::<(), Box<dyn StdError>>(())
    /// ```
    pub fn other(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Error {
        let cause = cause.into();
        match cause.downcast_ref::<Status>() {
            Some(status) => Error(Kind::Plain(*status)),
            None => Error::new(status(&*cause).unwrap_or(Status::INTERNAL_SERVER_ERROR), cause),
        }
    }

    /// Returns the status that the peer is answered with.
    pub fn status(&self) -> Status {
        match &self.0 {
            Kind::Plain(status) => *status,
            Kind::Caused(caused) => caused.status,
        }
    }

    /// Whether the content of the request has a coding that is not supported.
    pub(super) fn is_unknown_coding(&self) -> bool {
        matches!(self.downcast_cause(), Some(CodingError::Unknown | CodingError::TooMany))
    }

    /// Whether the peer could not be read from or written to, so that it cannot be answered either.
    pub(crate) fn is_connection_lost(&self) -> bool {
        self.downcast_cause().is_some_and(|error: &ExchangeError| error.status().is_none())
    }

    /// Whether the error is a response like any other, which is not reported: a bare status, or a [`Problem`] alone.
    pub(super) fn is_response(&self) -> bool {
        self.cause().is_none_or(|cause| cause.is::<Problem>())
    }

    /// Whether the request is at fault, or its peer, and not the handler.
    pub(super) fn is_peer_fault(&self) -> bool {
        self.cause().is_some() && self.status().is_client_error() || self.is_connection_lost()
    }

    /// The details that the handler has failed with: the cause itself, or its immediate source.
    pub(super) fn problem(&self) -> Option<&Problem> {
        let source = || self.cause()?.source()?.downcast_ref();
        self.downcast_cause().or_else(source)
    }

    /// The cause, if it is an `E`, also inside an [`io::Error`]: the error of a read or a write that the handler passes
    /// on.
    pub(super) fn downcast_cause<E: StdError + 'static>(&self) -> Option<&E> {
        let cause = self.cause()?;
        let inner = || cause.downcast_ref::<io::Error>()?.get_ref()?.downcast_ref();
        cause.downcast_ref().or_else(inner)
    }

    /// The cause, if it is an `E`, or else the error as it is.
    pub(super) fn into_cause<E: StdError + 'static>(self) -> Result<E, Error> {
        let Kind::Caused(caused) = self.0 else { return Err(self) };
        let Caused { status, cause } = *caused;
        cause.downcast().map_or_else(|cause| Err(Error::new(status, cause)), |cause| Ok(*cause))
    }

    /// Returns the cause; `None` if the error is a bare [`Status`].
    pub fn cause(&self) -> Option<&(dyn StdError + Send + Sync + 'static)> {
        match &self.0 {
            Kind::Plain(_) => None,
            Kind::Caused(caused) => Some(&*caused.cause),
        }
    }
}

impl<E: IntoError> From<E> for Error {
    #[inline]
    fn from(error: E) -> Error {
        match (&error as &dyn StdError).downcast_ref::<Status>() {
            Some(status) => Error(Kind::Plain(*status)),
            None => Error::other(error),
        }
    }
}

/// A cause that `?` converts into an [`Error`]: each [`std::error::Error`] that is [`Send`], [`Sync`] and `'static`.
///
/// The trait exists for its diagnostic: for any other type, the compiler prints which conversion to write.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a `std::error::Error` that `?` converts into a `corehttp::Error`",
    label = "not a `std::error::Error + Send + Sync + 'static`: write `.map_err(corehttp::Error::other)?`",
    note = "`corehttp::Error::other(cause)` takes a string, an `anyhow::Error` or a `Box<dyn Error + Send + Sync>`, and \
            answers with 500; `corehttp::Error::new(status, cause)` answers with `status`",
    note = "what is not `Send`, such as a `Box<dyn Error>`, can be passed on as text: \
            `.map_err(|error| corehttp::Error::other(error.to_string()))?`"
)]
pub trait IntoError: StdError + Send + Sync + 'static {}

// Without this attribute, the compiler would print that `std::error::Error` is missing, which cannot be implemented for
// a string.
#[diagnostic::do_not_recommend]
impl<E: StdError + Send + Sync + 'static> IntoError for E {}

/// The status that an error itself chooses, also inside an [`io::Error`].
fn status(error: &(dyn StdError + 'static)) -> Option<Status> {
    let choices: [fn(&(dyn StdError + 'static)) -> Option<Status>; 12] = [
        |error| status(error.downcast_ref::<io::Error>()?.get_ref()?),
        |error| Some(error.downcast_ref::<ExchangeError>()?.status().unwrap_or(CLIENT_CLOSED_REQUEST)),
        |error| error.downcast_ref::<InvalidTarget>()?.status(),
        |error| Some(error.downcast_ref::<InvalidResponse>()?.status()),
        |error| Some(error.downcast_ref::<WireError>()?.status()),
        |error| Some(error.downcast_ref::<CodingError>()?.status()),
        |error| Some(error.downcast_ref::<InvalidForm>()?.status()),
        |error| Some(error.downcast_ref::<InvalidPathParam>()?.status()),
        |error| Some(error.downcast_ref::<InvalidText>()?.status()),
        |error| error.downcast_ref::<InvalidCharset>()?.status(),
        // Only the immediate source: deeper ones may be about another message than the request that is answered.
        |error| error.source()?.downcast_ref::<Status>().copied(),
        |error| Some(error.source()?.downcast_ref::<Problem>()?.status()),
    ];
    choices.iter().find_map(|choice| choice(error))
}

/// The status that nginx logs for a peer that is gone. No response has it.
const CLIENT_CLOSED_REQUEST: Status = Status::new(499).expect("a status has three digits");

impl fmt::Display for Error {
    /// The cause, or else the status. `{:#}` also writes the causes of the cause, but not the status that one of them
    /// has chosen, since that is the response.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(cause) = self.cause() else { return write!(f, "{}", self.status()) };
        write!(f, "{cause}")?;
        match cause.source() {
            Some(source) if f.alternate() && !source.is::<Status>() => write_causes(f, Some(source)),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    /// The same as `{:#}`, since a `main` function prints its error by `{:?}`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:#}")
    }
}

/// An [`Error`] as a [`std::error::Error`], which it cannot be itself.
struct Opaque(Error);

impl fmt::Display for Opaque {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Opaque {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl StdError for Opaque {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.cause().and_then(|cause| cause.source())
    }
}

impl From<Error> for Box<dyn StdError + Send + Sync> {
    fn from(error: Error) -> Box<dyn StdError + Send + Sync> {
        Box::new(Opaque(error))
    }
}

impl From<Error> for Box<dyn StdError> {
    fn from(error: Error) -> Box<dyn StdError> {
        Box::new(Opaque(error))
    }
}

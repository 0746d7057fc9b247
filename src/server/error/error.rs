//! [`Error`]: how a handler fails.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::iter;
use std::sync::Arc;

use super::respond_error::RespondError;
use crate::coding::CodingError;
use crate::error_text::{SharedError, write_causes};
use crate::exchange::ExchangeError;
use crate::message::{
    ContentError, Explained, MessageError, ParametersError, PeerFault, Problem, Status, TargetError,
    ValueError,
};
use crate::wire::WireError;

/// The result of handlers and servers: by default nothing, or an [`Error`].
pub type Result<T = (), E = Error> = std::result::Result<T, E>;

/// An error of a handler, with the status of the response and a cause. The peer does not see the cause, unless the peer
/// is at fault. The causes of this crate are in the module [`corehttp::error`](mod@crate::error).
///
/// Any [`std::error::Error`] converts into one with `?` (see [`IntoError`]), and is answered with 500. Many errors of
/// this crate choose a better status:
///
/// - 400 for a truncated body, a path or a body in another encoding than UTF-8, a malformed form, malformed parameters
///   of a field, or a path out of its directory;
/// - 408 for too slow a body, and 413 for too large a body;
/// - 499 for a peer that is gone, as in the logs of nginx, without a response;
/// - 415 for a body in an unknown coding, or of a type other than the form that the handler asks for;
/// - 501 for a request at the end of its `max-forwards`, and 508 for a loop back to its gateway.
///
/// The peer gets the text of an error of this crate about its path, query, form, JSON, upload or text, such as "the
/// JSON is wrong: missing field `name` at line 1 column 12". The text of another error, such as one of your own, never
/// reaches the peer.
///
/// A [`Status`] converts too, as does a [`Problem`], with its explanation for the peer. Other causes, such as a
/// `Box<dyn Error + Send + Sync>`, an `anyhow::Error` or a string, convert with [`Error::other`] or [`Error::new`].
///
/// # Errors of your own
///
/// An error of your own is a [`std::error::Error`] like any other, by hand or by the crate thiserror. `?` converts it,
/// and [`Server::error_status`](crate::Server::error_status) chooses the status, in one place for all handlers. By
/// default the status is 500, unless the error's [`source`](StdError::source) is a [`Status`], a [`Problem`], or an `Error` in a
/// box.
///
/// ```
/// use std::fmt;
/// use corehttp::{Context, Server, Status, routes};
///
/// #[derive(Debug)] // `#[derive(thiserror::Error)]` writes the two impls
/// enum ShopError {
///     SoldOut,
///     Stock(std::num::ParseIntError),
/// }
///
/// impl fmt::Display for ShopError {
///     fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
///         f.write_str(match self {
///             ShopError::SoldOut => "nothing is left",
///             ShopError::Stock(_) => "the stock is unknown",
///         })
///     }
/// }
///
/// impl std::error::Error for ShopError {}
///
/// impl ShopError {
///     fn status(&self) -> Status {
///         match self {
///             ShopError::SoldOut => Status::CONFLICT,
///             ShopError::Stock(_) => Status::SERVICE_UNAVAILABLE,
///         }
///     }
/// }
///
/// fn take_one(stock: &str) -> Result<u32, ShopError> {
///     let left: u32 = stock.parse().map_err(ShopError::Stock)?;
///     left.checked_sub(1).ok_or(ShopError::SoldOut)
/// }
///
/// fn order(ctx: &mut Context) -> corehttp::Result {
///     let left = take_one(ctx.request.text()?)?; // each error has its status: 400, 409 or 503
///     ctx.response.set_text(left.to_string());
///     Ok(())
/// }
///
/// let server = Server::new().error_status(ShopError::status);
/// let service = server.service(routes! { POST "/orders" => order }); // or `Server::run`
/// # for (stock, status) in [("2", Status::OK), ("0", Status::CONFLICT), ("x", Status::SERVICE_UNAVAILABLE)] {
/// #     let mut request = corehttp::Request::post("/orders")?;
/// #     request.set_text(stock);
/// #     assert_eq!(corehttp::block_on(service.respond(request))?.status, status);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// All handlers fail with this type. So the error type of a closure that ends with `Ok(())` can be inferred. A failed
/// request to another server is answered with 500 like any other error. For a gateway,
/// `error_status(ClientError::status)` sets the statuses of [`ClientError::status`](crate::ClientError::status) in all
/// handlers.
///
/// `Error` does not implement [`std::error::Error`] itself, which would rule out the conversion from all other errors.
/// An `Error` converts into a `Box<dyn Error>`, which a `main` function may return. The box converts into an anyhow
/// error: `anyhow::Error::from_boxed(error.into())`.
///
/// # A status for one place
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
/// An error type of your own that is not a [`std::error::Error`] can implement the conversion. (For one that is, the
/// compiler refuses it, with E0119 or E0117.)
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
    /// Whether the status was given, in place of one that was derived from the type of the cause.
    is_given: bool,
    cause: Box<dyn StdError + Send + Sync>,
}

const _: () =
    assert!(size_of::<Result>() == 2 * size_of::<usize>(), "a handler's result is returned in registers");

impl Error {
    /// Creates an error with the `status` to answer with, and its `cause`.
    pub fn new(status: Status, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Error {
        Error(Kind::Caused(Box::new(Caused { status, is_given: true, cause: cause.into() })))
    }

    /// Creates an error from a `cause` that is no [`std::error::Error`]: a string, a `Box<dyn Error + Send + Sync>`, or
    /// an `anyhow::Error`. A boxed cause may choose the status, as with `?`. The default is 500.
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
        let cause = match unwrap_passed_on(cause.into()) {
            Ok(error) => return error,
            Err(cause) => cause,
        };
        match cause.downcast_ref::<Status>() {
            Some(status) => Error(Kind::Plain(*status)),
            None => {
                let status = status(&*cause).unwrap_or(Status::INTERNAL_SERVER_ERROR);
                Error(Kind::Caused(Box::new(Caused { status, is_given: false, cause })))
            }
        }
    }

    /// Has `choose` choose the status, unless that was given with the cause. It is called with the cause and then with
    /// each cause of that, until it chooses one, or until an error has the status that was given to it.
    pub(super) fn with_chosen_status(
        mut self,
        choose: impl Fn(&(dyn StdError + 'static)) -> Option<Status>,
    ) -> Error {
        if let Kind::Caused(caused) = &mut self.0
            && !caused.is_given
        {
            let is_kept = has_given_status(&*caused.cause);
            let mut asked = causes(&*caused.cause).take_while(|cause| !is_kept || !cause.is::<Opaque>());
            if let Some(status) = asked.find_map(choose) {
                (caused.status, caused.is_given) = (status, true);
            }
        }
        self
    }

    /// The error of an exchange whose response has not begun: a [`PeerFault`] is then that of another connection.
    pub(crate) fn before_response(mut self) -> Error {
        if let Kind::Caused(caused) = &mut self.0
            && !caused.is_given
            && caused.cause.source().is_some_and(|source| source.is::<PeerFault>())
        {
            caused.status = Status::INTERNAL_SERVER_ERROR;
        }
        self
    }

    /// Returns the status that the peer is answered with.
    pub fn status(&self) -> Status {
        match &self.0 {
            Kind::Plain(status) => *status,
            Kind::Caused(caused) => caused.status,
        }
    }

    /// Whether the content of the request has a coding that is not supported.
    pub(crate) fn is_unknown_coding(&self) -> bool {
        matches!(self.downcast_cause(), Some(CodingError::Unknown | CodingError::TooMany))
    }

    /// Whether the peer could not be read from or written to, so that it cannot be answered either.
    pub(crate) fn is_connection_lost(&self) -> bool {
        self.downcast_cause().is_some_and(|error: &ExchangeError| error.status().is_none())
    }

    /// Whether the error is a response like any other, which is not reported: a bare status, or a [`Problem`] alone.
    pub(crate) fn is_unreported(&self) -> bool {
        self.cause().is_none_or(|cause| cause.is::<Problem>())
    }

    /// Whether the request is at fault, or its peer, and not the handler.
    pub(crate) fn is_peer_fault(&self) -> bool {
        let is_refused = self.status().is_client_error() || self.is_unforwardable();
        self.cause().is_some() && is_refused || self.is_connection_lost()
    }

    /// Whether the request cannot be forwarded, as in a loop through this gateway.
    fn is_unforwardable(&self) -> bool {
        self.cause().and_then(|cause| target_error(cause)).and_then(status_of_target).is_some()
    }

    /// Whether the handler has refused with a bare status, such as 404, which is not the fault of the server.
    pub(super) fn is_bare_refusal(&self) -> bool {
        self.cause().is_none() && !self.status().is_server_error()
    }

    /// Whether the application or the machine is at fault, and neither the request nor its peer.
    pub(super) fn is_fault(&self) -> bool {
        self.downcast_cause().map_or(!self.is_peer_fault(), ExchangeError::is_fault)
    }

    /// Whether the application has chosen the status, of an error that is not that of a lost connection.
    pub(super) fn has_chosen_status(&self) -> bool {
        self.cause().is_some() && self.is_status_given() && !self.is_connection_lost()
    }

    /// Whether the status was given, and is no guess by the type of the cause.
    fn is_status_given(&self) -> bool {
        match &self.0 {
            Kind::Plain(_) => true,
            Kind::Caused(caused) => caused.is_given || has_given_status(&*caused.cause),
        }
    }

    /// The details that the handler has failed with: the cause itself, or its immediate source.
    pub(super) fn problem(&self) -> Option<&Problem> {
        let source = || self.cause()?.source()?.downcast_ref();
        self.downcast_cause().or_else(source)
    }

    /// The text of an error of this crate that says what is wrong with the content, the form, the query or the path of the
    /// request, for its peer. The text of any other error may be meant for logs alone.
    pub(super) fn explanation(&self) -> Option<String> {
        let cause = self.cause().filter(|_| self.status().is_client_error())?;
        let is_explained = self.downcast_cause::<ContentError>().is_some()
            || self.downcast_cause::<ValueError>().is_some()
            || self.downcast_cause::<ParametersError>().is_some()
            || self.downcast_cause::<CodingError>().is_some()
            // That of an `io::Error` is the source of the error inside of it.
            || cause.source().is_some_and(|source| source.is::<Explained>());
        is_explained.then(|| cause.to_string())
    }

    /// The cause, if it is an `E`, also inside an [`io::Error`]: the error of a read or a write that the handler passes
    /// on.
    pub(crate) fn downcast_cause<E: StdError + 'static>(&self) -> Option<&E> {
        let cause = self.cause()?;
        let inner = || cause.downcast_ref::<io::Error>()?.get_ref()?.downcast_ref();
        cause.downcast_ref().or_else(inner)
    }

    /// The cause, if it is an `E`, or else the error as it is.
    pub(crate) fn into_cause<E: StdError + 'static>(self) -> Result<E, Error> {
        let Kind::Caused(caused) = self.0 else { return Err(self) };
        let Caused { status, is_given, cause } = *caused;
        match cause.downcast() {
            Ok(cause) => Ok(*cause),
            Err(cause) => Err(Error(Kind::Caused(Box::new(Caused { status, is_given, cause })))),
        }
    }

    /// Returns the cause. `None` if the error is a bare [`Status`].
    pub fn cause(&self) -> Option<&(dyn StdError + Send + Sync + 'static)> {
        match &self.0 {
            Kind::Plain(_) => None,
            Kind::Caused(caused) => Some(&*caused.cause),
        }
    }
}

impl<E: IntoError> From<E> for Error {
    fn from(error: E) -> Error {
        match (&error as &dyn StdError).downcast_ref::<Status>() {
            Some(status) => Error(Kind::Plain(*status)),
            None => Error::other(error),
        }
    }
}

/// A cause that `?` converts into an [`Error`]: any [`Send`], [`Sync`] and `'static` [`std::error::Error`].
///
/// The trait exists for its diagnostic. For any other type, the compiler prints the conversion to write.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a `std::error::Error` that `?` converts into a `corehttp::Error`",
    label = "not a `std::error::Error + Send + Sync + 'static`: write \
             `.map_err(|error| corehttp::Error::other(error.to_string()))?`",
    note = "a string, an `anyhow::Error` or a `Box<dyn Error + Send + Sync>` stays the cause as it is: \
            `.map_err(corehttp::Error::other)?`",
    note = "`corehttp::Error::other(cause)` answers with 500, `corehttp::Error::new(status, cause)` with `status`; a \
            status alone is an error, too: `Status::NOT_FOUND.into()`",
    note = "an error type of your own implements `std::error::Error`, and `Server::error_status` chooses its status; or it \
            implements `From<..> for corehttp::Error`",
    note = "the error of `Mutex::lock` borrows the mutex: after a panic under the lock, \
            `.unwrap_or_else(PoisonError::into_inner)` goes on with the value as it is"
)]
pub trait IntoError: StdError + Send + Sync + 'static {}

// Without this attribute, the compiler would print that `std::error::Error` is missing, which cannot be implemented for
// a string.
#[diagnostic::do_not_recommend]
impl<E: StdError + Send + Sync + 'static> IntoError for E {}

/// The statuses that the application has chosen for types of errors: the functions of
/// [`Server::error_status`](crate::Server::error_status), in the order in which they were set.
#[derive(Clone, Default)]
pub(crate) struct ErrorStatuses(Vec<ChooseStatus>);

/// Chooses the status of an error, if that is of the function's type.
type ChooseStatus = Arc<dyn Fn(&(dyn StdError + 'static)) -> Option<Status> + Send + Sync>;

impl ErrorStatuses {
    pub(crate) fn add<E: StdError + 'static>(
        &mut self,
        choose: impl Fn(&E) -> Status + Send + Sync + 'static,
    ) {
        self.0.push(Arc::new(move |cause| cause.downcast_ref().map(&choose)));
    }

    /// Chooses the status of a handler's error, unless the handler has given it one.
    pub(crate) fn choose_for(&self, error: Error) -> Error {
        error.with_chosen_status(|cause| self.0.iter().find_map(|choose| choose(cause)))
    }
}

/// An error and the chain of its causes, in which the error inside of another one is a link as well.
fn causes<'e>(error: &'e (dyn StdError + 'static)) -> impl Iterator<Item = &'e (dyn StdError + 'static)> {
    iter::successors(Some(error), |&error| inside(error).or_else(|| error.source()))
}

/// The error inside of one that shows the text of that as its own, and returns the causes of that as its own.
fn inside<'e>(error: &'e (dyn StdError + 'static)) -> Option<&'e (dyn StdError + 'static)> {
    if let Some(error) = error.downcast_ref::<io::Error>() {
        return error.get_ref().map(|inner| inner as _);
    }
    if let Some(Opaque(error)) = error.downcast_ref() {
        return error.cause().map(|cause| cause as _);
    }
    error.downcast_ref().map(|shared: &SharedError| shared.inner() as _)
}

/// Whether an error has the status that was given to its immediate source.
fn has_given_status(error: &(dyn StdError + 'static)) -> bool {
    source_of_own(error).is_some_and(Error::is_status_given)
}

/// The [`Error`] that is the immediate source of another one, also inside an [`io::Error`].
fn source_of_own<'e>(error: &'e (dyn StdError + 'static)) -> Option<&'e Error> {
    let source = error.source()?;
    let source = if source.is::<io::Error>() { inside(source)? } else { source };
    Some(&source.downcast_ref::<Opaque>()?.0)
}

/// The [`Error`] that was passed on in a box, or by a read or a write inside an [`io::Error`], or else the cause as it is.
fn unwrap_passed_on(
    cause: Box<dyn StdError + Send + Sync>,
) -> Result<Error, Box<dyn StdError + Send + Sync>> {
    let cause = match cause.downcast::<Opaque>() {
        Ok(opaque) => return Ok(opaque.0),
        Err(cause) => cause,
    };
    match *cause.downcast::<io::Error>()? {
        error if error.get_ref().is_some_and(|inner| inner.is::<Opaque>()) => {
            Ok(error.downcast::<Opaque>().expect("it was just seen").0)
        }
        error => Err(error.into()),
    }
}

/// The status that an error itself chooses, also inside an [`io::Error`].
fn status(error: &(dyn StdError + 'static)) -> Option<Status> {
    let choices: [fn(&(dyn StdError + 'static)) -> Option<Status>; 15] = [
        |error| status(error.downcast_ref::<io::Error>()?.get_ref()?),
        |error| Some(error.downcast_ref::<ExchangeError>()?.status().unwrap_or(CLIENT_CLOSED_REQUEST)),
        |error| Some(error.downcast_ref::<Opaque>()?.0.status()),
        |error| status_of_target(target_error(error)?),
        |error| Some(error.downcast_ref::<RespondError>()?.status()),
        |error| Some(error.downcast_ref::<WireError>()?.status()),
        |error| Some(error.downcast_ref::<CodingError>()?.status()),
        |error| Some(error.downcast_ref::<ContentError>()?.status()),
        |error| Some(error.downcast_ref::<ValueError>()?.status()),
        |error| error.is::<ParametersError>().then_some(Status::BAD_REQUEST),
        // Only the immediate source: deeper ones may be about another message than the request that is answered.
        |error| error.source()?.downcast_ref::<Status>().copied(),
        |error| source_of_own(error).map(Error::status),
        |error| Some(error.source()?.downcast_ref::<Explained>()?.0),
        |error| error.source()?.is::<PeerFault>().then_some(Status::BAD_REQUEST),
        |error| Some(error.source()?.downcast_ref::<Problem>()?.status()),
    ];
    choices.iter().find_map(|choice| choice(error))
}

/// The fault of a target, also of a message that was to have it.
fn target_error(error: &(dyn StdError + 'static)) -> Option<TargetError> {
    match error.downcast_ref::<MessageError>() {
        Some(MessageError::Target(fault, _)) => Some(*fault),
        Some(_) => None,
        None => error.downcast_ref().copied(),
    }
}

/// The status of a request whose target cannot be forwarded, if its peer is to blame.
fn status_of_target(error: TargetError) -> Option<Status> {
    match error {
        TargetError::Outside => Some(Status::BAD_REQUEST),
        TargetError::Prefix => Some(Status::NOT_FOUND),
        // So this server is the final recipient, and has no response of its own.
        TargetError::MaxForwards => Some(Status::NOT_IMPLEMENTED),
        TargetError::Loop => Some(Status::LOOP_DETECTED),
        TargetError::Form
        | TargetError::Byte
        | TargetError::Scheme
        | TargetError::Authority
        | TargetError::Idna
        | TargetError::Userinfo
        | TargetError::Base
        | TargetError::Path => None,
    }
}

/// The status that nginx logs for a peer that is gone. No response has it.
const CLIENT_CLOSED_REQUEST: Status = Status::new(499).expect("a status has three digits");

impl fmt::Display for Error {
    /// The cause, or else the status. `{:#}` adds the causes of the cause, without the status that one of them has
    /// chosen.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(cause) = self.cause() else { return write!(f, "{}", self.status()) };
        write!(f, "{cause}")?;
        if f.alternate() { write_causes(f, shown_source(cause)) } else { Ok(()) }
    }
}

/// The cause of a cause, unless that only chooses its status.
fn shown_source<'e>(cause: &'e (dyn StdError + 'static)) -> Option<&'e (dyn StdError + 'static)> {
    cause
        .source()
        .filter(|source| !(source.is::<Status>() || source.is::<Explained>() || source.is::<PeerFault>()))
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
        self.0.cause().and_then(|cause| shown_source(cause))
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

//! [`Refusal`]: a request that is refused without its handler, on its way through the middleware of its route.

use crate::exchange::ExchangeError;
use crate::message::Status;
use crate::net::Peer;
use crate::server::context::Context;
use crate::server::counts::GuardKind;
use crate::server::error::{Error, ErrorCause, ErrorReport};
use crate::server::exchange::BodyPlan;

/// The error in place of a handler, after a refusal by the head or a failure of the body.
#[derive(Debug)]
pub struct Refusal {
    pub(crate) error: Error,
    pub(crate) origin: RefusalOrigin,
    /// Layers that the refusal still passes inward; `MAX` is all of them.
    layers_left: usize,
}

/// Why a request is refused, on which its report depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefusalOrigin {
    /// A [`BodyPlan`] with a status alone.
    Plan,
    /// An error, such as that of [`Context::refuse`].
    Error,
    Body,
}

impl Refusal {
    /// A request that no handler takes.
    pub(crate) fn unplanned(status: Status) -> Refusal {
        Refusal { error: status.into(), origin: RefusalOrigin::Plan, layers_left: usize::MAX }
    }

    /// A request whose body cannot be received, for this reason.
    pub(crate) fn of_body(error: Error) -> Refusal {
        Refusal { error, origin: RefusalOrigin::Body, layers_left: usize::MAX }
    }

    /// A request that has waited too long for its core. The next one on its connection may be served.
    pub(crate) fn of_queue(error: ExchangeError) -> Refusal {
        Refusal { error: error.into(), origin: RefusalOrigin::Error, layers_left: usize::MAX }
    }

    /// Takes the refusal to which `on_head` has led, with this status.
    pub(crate) fn take(ctx: &mut Context, status: Status) -> Refusal {
        let noted = ctx.extensions.remove::<Refusal>().filter(|noted| noted.error.status() == status);
        noted.unwrap_or_else(|| Refusal { error: status.into(), origin: RefusalOrigin::Plan, layers_left: 0 })
    }

    /// Notes that middleware has got the refusal from what is beneath it.
    #[cold]
    pub(crate) fn note_passed(ctx: &mut Context, status: Status) {
        let mut refusal = Refusal::take(ctx, status);
        refusal.layers_left = refusal.layers_left.saturating_add(1);
        refusal.note(ctx);
    }

    /// Notes the refusal, to be taken by its status.
    pub(crate) fn note(self, ctx: &mut Context) -> Status {
        let status = self.error.status();
        ctx.extensions.insert(self);
        status
    }

    pub(crate) fn into_error(self) -> Error {
        self.error
    }

    /// Passes the refusal through a layer. Fails with the error if this layer has refused the request itself, of which the
    /// layers within must not see anything.
    pub(crate) fn pass_inward(self) -> Result<Refusal, Error> {
        match self.layers_left.checked_sub(1) {
            Some(layers_left) => Ok(Refusal { layers_left, ..self }),
            None => Err(self.error),
        }
    }
}

impl From<ExchangeError> for Refusal {
    fn from(error: ExchangeError) -> Refusal {
        Refusal::of_body(error.into())
    }
}

impl Context {
    /// Refuses the request by its head. Returns the plan for [`Handler::on_head`](crate::Handler::on_head) or
    /// [`Middleware::on_head`](crate::middleware::Middleware::on_head) to return. The request is answered as if its
    /// handler had failed with `error`. The body of the request is not received. Middleware around the one that refuses
    /// gets the error. Handlers and middleware beneath it see nothing of the request.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::middleware::{Middleware, wrap};
    /// use corehttp::{BodyPlan, Context, Error, Handler, Request, Status};
    ///
    /// #[derive(Clone)]
    /// struct Uploads;
    ///
    /// impl Middleware for Uploads {
    ///     fn on_head(&self, ctx: &mut Context, next: &impl Handler) -> BodyPlan {
    ///         if ctx.request.headers.content_type() != Some("image/png") {
    ///             return ctx.refuse(Error::new(Status::UNSUPPORTED_MEDIA_TYPE, "an image is expected"));
    ///         }
    ///         next.on_head(ctx)
    ///     }
    /// }
    ///
    /// let service = corehttp::Server::new().service(wrap(Uploads, |ctx: &mut Context| ctx.response.set_text("saved")));
    /// # let response = corehttp::block_on(service.respond(Request::post("/")?))?;
    /// # assert_eq!(response.status, Status::UNSUPPORTED_MEDIA_TYPE);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use = "it refuses only as the plan that `on_head` returns; a handler or a guard returns the error"]
    pub fn refuse(&mut self, error: impl Into<Error>) -> BodyPlan {
        let refusal = Refusal { error: error.into(), origin: RefusalOrigin::Error, layers_left: 0 };
        BodyPlan::Refuse(refusal.note(self))
    }

    /// Counts a refusal of this guard.
    #[cold]
    pub(crate) fn count_refusal(&self, guard: GuardKind) {
        self.exchange.conn.core().counters.count_refusal(guard);
    }

    /// Reports a failure of middleware that changes nothing of the response, which has this status.
    pub(crate) fn report_beside(&mut self, status: Status, error: Error) {
        self.exchange.report_error(&self.request, Some(status), ErrorCause::Handler(error));
    }

    /// Reports that the request could not be counted by a guard.
    #[cold]
    pub(crate) fn report_uncounted(&self, error: Error) {
        let report = ErrorReport::from_connection(Peer::default(), ErrorCause::Rates(error));
        self.exchange.conn.core().report_error(report);
    }
}

//! [`Server::error_status`]: the statuses that the application chooses for types of errors.

use std::error::Error as StdError;

use super::server::Server;
use crate::message::Status;

impl Server {
    /// Chooses the status for a handler's error of the type `E`, such as an error of the application or of its
    /// database. Each call adds a type. Default: the statuses of [`Error`](crate::Error).
    ///
    /// The search begins with the handler's error, and goes on with its [`source`](StdError::source), that of the
    /// source, and so on. The first error of one of the types decides. A status that the handler has given itself, as
    /// with [`Error::new`](crate::Error::new), stays. The error remains the cause, for [`Server::on_error`] and
    /// [`Server::error_response`].
    ///
    /// Middleware sees the chosen status in the error of a function or closure that is a handler. The error of a type
    /// that implements [`Handler`](crate::Handler), or of other middleware, gets its status later, with the response. A
    /// panic of `choose` counts as one of the handler.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io;
    /// use corehttp::{Context, Request, Server, Status};
    /// use corehttp::server::ErrorCause;
    ///
    /// let server = Server::new().error_status(|error: &io::Error| match error.kind() {
    ///     io::ErrorKind::NotFound => Status::NOT_FOUND,
    ///     io::ErrorKind::TimedOut => Status::SERVICE_UNAVAILABLE,
    ///     _ => Status::INTERNAL_SERVER_ERROR,
    /// });
    /// // The text of an error is sent only by an application that wants it so.
    /// let server = server.error_response(|report, response| {
    ///     if let ErrorCause::Handler(error) = &report.cause
    ///         && error.status().is_client_error()
    ///     {
    ///         response.set_text(error.to_string());
    ///     }
    /// });
    /// let service = server.service(|ctx: &mut Context| {
    ///     ctx.response.set_text(std::fs::read_to_string("/none")?);
    ///     Ok(())
    /// });
    /// let response = corehttp::block_on(service.respond(Request::get("/")?))?;
    /// assert_eq!(response.status, Status::NOT_FOUND);
    /// # assert!(response.text()?.contains("No such file") || cfg!(windows));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A gateway answers with [`ClientError::status`](crate::ClientError::status), which is 502 or 504:
    ///
    /// ```
    /// use corehttp::{ClientError, Server};
    ///
    /// let server = Server::new().error_status(ClientError::status);
    /// # let _ = server.service(|_: &mut corehttp::Context| ());
    /// ```
    #[doc(alias("IntoResponse", "ResponseError", "error_handler"))]
    pub fn error_status<E: StdError + 'static>(
        mut self,
        choose: impl Fn(&E) -> Status + Send + Sync + 'static,
    ) -> Server {
        self.settings.error_responses.statuses.add(choose);
        self
    }
}

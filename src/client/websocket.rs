//! How a WebSocket takes a connection over (RFC 6455 §4.1).

use std::io;

use super::request_builder::RequestBuilder;
use super::send::switch;
use crate::client::error::{ClientCause, ClientError, ClientPhase};
use crate::message::Response;
use crate::net::{Conn, ReadBuffer, Sendable};

/// Sends the request, which has an `upgrade` field, and hands the connection over, with what the server has already
/// sent, if `check` finds nothing wrong with the response, which was reset.
pub(crate) async fn switch_protocols(
    builder: RequestBuilder,
    response: &mut Response,
    check: impl FnOnce(&Response) -> Result<(), &'static str>,
) -> Result<(Box<Conn<Sendable>>, ReadBuffer), ClientError> {
    let (sender, request) = builder.into_parts()?;
    let mut pooled = switch(&sender, None, &request, response).await?;
    check(response).map_err(|reason| {
        let error = pooled.error(ClientPhase::Wait, ClientCause::Upgrade);
        error.with_detail(reason).with_url(request.target().as_str())
    })?;
    Ok(pooled.into_parts())
}

/// The error of a request that could not be made.
pub(crate) fn not_prepared(error: io::Error) -> ClientError {
    ClientError::new(ClientPhase::Prepare, ClientCause::Io(error))
}

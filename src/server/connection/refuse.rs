//! Answers that say no (RFC 9110 §15.5, §15.6).

use std::io;

use super::close::close;
use super::lease::Lease;
use crate::coding::ACCEPTED;
use crate::memory::Reset;
use crate::message::{Name, Status};
use crate::net::Conn;
use crate::server::context::{Manner, Unread};
use crate::server::error::Refused;
use crate::server::worker::Worker;
use crate::server::{Context, Error, Handler, RefusalCause};

/// Writes what the peer is told, if nothing else was told it. Says how to close, and how the connection ended.
pub(super) fn refuse(ctx: &mut Context, refused: Refused) -> (Manner, io::Result<()>) {
    let Refused { status, cause } = refused;
    let served = match &cause {
        RefusalCause::Exchange(error) => Err(error.as_io()),
        _ => Ok(()),
    };
    ctx.drop_each_value();
    let told = status.filter(|_| ctx.outgoing.is_unsent()).map(final_status);
    if let Some(status) = told {
        // Many a refusal is told after a wait that nothing has ended.
        ctx.shared.clock.refresh();
        ctx.response.reset();
        ctx.stop_persisting();
        explain(ctx, status);
        if matches!(cause, RefusalCause::Connections) {
            ctx.response.headers.put(Name::RETRY_AFTER, RETRY_AFTER);
        }
        ctx.write_head(ctx.response.body.announced(), Unread::Dropped);
    }
    ctx.report(told, cause);
    (told.map_or(Manner::Abort, |_| Manner::Lingering), served)
}

/// Seconds until one of so many connections is likely to have closed.
const RETRY_AFTER: &[u8] = b"1";

/// Refuses a connection on which nothing was asked yet, and ends it.
pub(in crate::server) async fn turn_away<H: Handler>(worker: &Worker<H>, conn: Conn, refused: Box<Refused>) {
    let mut lease = Lease::new(worker, worker.take_context());
    lease.adopt(Some(conn), 0);
    let (manner, _) = refuse(&mut lease, *refused);
    close(&mut lease, manner).await;
}

/// Makes the response the answer to a handler's error. The fields that middleware has set stay, but for those
/// that described a content that is not sent.
pub(super) fn answer_error(ctx: &mut Context, error: Error) {
    ctx.response.headers.remove_each(&CONTENT_FIELDS);
    let status = final_status(error.owed());
    explain(ctx, status);
    if error.is_of_coding() {
        // Whoever hears of 415 is to know what would have done (RFC 9110 §15.5.16).
        ctx.response.headers.put(Name::new("accept-encoding"), ACCEPTED.as_bytes());
    }
    // An error without a cause is an answer like any other: nobody needs to be told.
    if error.cause().is_some() {
        ctx.report(Some(status), RefusalCause::Handler(error));
    }
}

/// The representation metadata of RFC 9110 §8, and what depends on it.
const CONTENT_FIELDS: [&str; 8] = [
    "content-encoding",
    "content-language",
    "content-length",
    "content-location",
    "content-range",
    "content-type",
    "etag",
    "last-modified",
];

/// An answer of 1xx is no answer (RFC 9110 §15.2): the handler has made a mistake.
pub(super) fn check_status(ctx: &mut Context) {
    if ctx.response.status.is_informational() {
        answer_error(ctx, Error::new(Status::INTERNAL_SERVER_ERROR, "a final status of 1xx"));
    }
}

fn final_status(owed: Status) -> Status {
    if owed.is_informational() { Status::INTERNAL_SERVER_ERROR } else { owed }
}

/// Says no more than the status does: nothing of what the peer sent is sent back to it.
fn explain(ctx: &mut Context, status: Status) {
    ctx.response.status = status;
    ctx.response.text(status.reason());
    ctx.response.trailers.reset();
}

//! Asks an HTTP proxy for a tunnel (RFC 9110 §9.3.6).

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use super::proxy::Proxy;
use crate::client::exchange::INTERIM_MAX;
use crate::client::origin::Origin;
use crate::client::proxy_refusal::ProxyRefusal;
use crate::client::{ClientCause, ClientError, ClientPhase};
use crate::exchange::{Bounds, ExchangeError, Head, Incoming, Reply, Timeouts};
use crate::message::{Response, Status};
use crate::net::{BoxedStream, Conn, Sendable, TimerSlot, TokioTimer, Transport};
use crate::runtime::timeout;
use crate::wire::Asked;

/// Asks `proxy`, at the other end of `transport`, to connect to `origin`, within `limit`.
///
/// # Errors
///
/// Fails if the proxy refuses, does not answer, or says too much: bytes after its answer would pass for the origin's.
pub(super) async fn open_tunnel(
    transport: Transport<BoxedStream>,
    proxy: &Proxy,
    origin: &Origin,
    limit: Duration,
    bounds: &Bounds,
) -> Result<Transport<BoxedStream>, ClientError> {
    let mut conn = Conn::<Sendable>::new(transport, TokioTimer::new());
    // The timeouts of an exchange do not apply while its tunnel is being opened.
    let timeouts = Timeouts { head: Duration::MAX, write: Duration::MAX, ..bounds.timeouts };
    let bounds = &Bounds { timeouts, ..bounds.clone() };
    write_connect(conn.write_buffer().bytes(), proxy, origin);
    let (mut incoming, mut response) = (Incoming::default(), Response::new());
    let asked = Asked { connect: true, ..Asked::default() };
    for _ in 0..=INTERIM_MAX {
        let head = poll_fn(|cx| {
            let mut reply = Reply::new(&mut response, asked);
            match incoming.poll_head(cx, &mut conn, &mut reply, bounds, || {}) {
                Poll::Ready(head) => Poll::Ready(head),
                Poll::Pending => conn.poll_expired(cx, TimerSlot::Total, limit).map(|_| Ok(Head::Silence)),
            }
        });
        match head.await {
            Ok(Head::Whole) => {}
            Ok(Head::End) => return Err(failed(ClientCause::Closed)),
            Ok(Head::Silence) | Err(ExchangeError::TimedOut(..)) => {
                return Err(failed(ClientCause::TimedOut));
            }
            Err(error) => return Err(failed(ClientCause::Exchange(error))),
        }
        // A 101 was not asked for, and no other answer follows it.
        if !response.status.is_informational() || response.status == Status::SWITCHING_PROTOCOLS {
            break;
        }
    }
    match (response.status.is_success(), incoming.input.is_empty()) {
        (true, true) => Ok(conn.into_parts().0),
        (true, false) => Err(failed(ClientCause::Proxy("the proxy sent more than its answer".into()))),
        (false, _) => {
            receive_refusal_body(&mut conn, &mut incoming, &mut response, bounds).await;
            Err(failed(ClientCause::Proxy(ProxyRefusal(response).into())))
        }
    }
}

fn write_connect(out: &mut Vec<u8>, proxy: &Proxy, origin: &Origin) {
    let authority = origin.host_and_port();
    out.extend_from_slice(format!("CONNECT {authority} HTTP/1.1\r\nhost: {authority}\r\n").as_bytes());
    out.extend_from_slice(proxy.fields());
    if let Some(authorization) = proxy.authorization() {
        out.extend_from_slice(format!("proxy-authorization: {authorization}\r\n").as_bytes());
    }
    out.extend_from_slice(b"\r\n");
}

/// Receives the content of the proxy's refusal: as much as comes within [`REFUSAL_BODY_WAIT`], and no more than [`REFUSAL_BODY_MAX`].
async fn receive_refusal_body(
    conn: &mut Conn<Sendable>,
    incoming: &mut Incoming,
    response: &mut Response,
    bounds: &Bounds,
) {
    let content = response.body.receive();
    let received = async {
        while let Ok(1..) = poll_fn(|cx| incoming.poll_chunk(cx, conn, bounds)).await {
            let room = REFUSAL_BODY_MAX - content.len();
            let chunk = incoming.chunk();
            content.extend(&chunk[..chunk.len().min(room)]);
            if content.len() == REFUSAL_BODY_MAX {
                break;
            }
        }
    };
    // A reason that has not come whole is better than none.
    let _ = timeout(REFUSAL_BODY_WAIT, received).await;
}

/// How much of a reason is kept.
const REFUSAL_BODY_MAX: usize = 64 << 10;

/// How long a refusal may be delayed by its reason.
const REFUSAL_BODY_WAIT: Duration = Duration::from_secs(1);

fn failed(cause: ClientCause) -> ClientError {
    ClientError::new(ClientPhase::Connect, cause)
}

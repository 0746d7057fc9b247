//! [`RequestId`]: gives each request an id that the client, handlers, logs and spans share.

use std::hash::{BuildHasher, RandomState};
use std::io::Write;

use crate::message::FieldName;
use crate::server::{Context, Handler, Middleware, Result};

/// Gives each request an id, in the field `x-request-id` of the request and of its response.
///
/// Handlers and [error reports](crate::server::ErrorReport::request) find it among the fields of the request. A request that is
/// [forwarded](crate::Request::forwarded_to) takes it along. The JSON lines of the access log and the spans of `Tracing` have
/// it as `request_id`. The field of the response is set before the handler runs. It stays after an error or a panic, unless the
/// handler replaces `ctx.response`.
///
/// The id of a request from a [trusted proxy](crate::Server::trusted_proxies) is kept if it has 1 to 128 characters, each a
/// letter, a digit or one of `+`, `-`, `.`, `/`, `:`, `=`, `@`, `_`. All other requests get a new one, such as
/// `9b1c7f6de2a04538-12-1`. Its parts are a random one that clones of this value share, [`Context::connection_id`] and
/// [`Context::exchange_number`].
///
/// Put it outermost, for the spans of `Tracing` and the refusals of other middleware to have the id. A request whose head is
/// refused reaches no middleware. It has no id. Its connection and its number are in the reports.
///
/// # Examples
///
/// ```
/// use corehttp::middleware::{RequestId, wrap};
/// use corehttp::{Context, Request, Server};
///
/// let app = wrap(RequestId::new(), |ctx: &mut Context| {
///     let id = ctx.request.headers.get("x-request-id").unwrap_or_default();
///     ctx.response.set_text(format!("This is request {id}."));
/// });
/// let service = Server::new().service(app); // or `Server::run`
/// # let response = corehttp::block_on(service.respond(Request::get("/")?))?;
/// # let id = response.headers.get("x-request-id").unwrap();
/// # assert_eq!(response.text()?, format!("This is request {id}."));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("SetRequestIdLayer", "PropagateRequestIdLayer", "correlation id"))]
#[derive(Clone, Debug)]
#[must_use]
pub struct RequestId {
    /// The random part of the ids.
    seed: u64,
}

impl RequestId {
    /// Creates ids with a random part of their own.
    pub fn new() -> RequestId {
        RequestId { seed: RandomState::new().hash_one(0) }
    }

    fn set(&self, ctx: &mut Context) {
        if !(ctx.trusted_proxies().trusts(ctx.peer_addr()) && has_id(ctx)) {
            let mut buffer = [0; MADE_MAX];
            let mut rest = &mut buffer[..];
            // There is room for the largest numbers.
            let _ = write!(rest, "{:016x}-{}-{}", self.seed, ctx.connection_id(), ctx.exchange_number());
            let len = MADE_MAX - rest.len();
            ctx.request.headers.put(NAME, &buffer[..len]);
        }
        ctx.request.pass_on(NAME.as_str());
        let Context { request, response, .. } = ctx;
        if let Some(id) = request.headers.named(NAME).next() {
            response.headers.put(NAME, id);
        }
    }
}

impl Default for RequestId {
    /// [`RequestId::new`].
    fn default() -> RequestId {
        RequestId::new()
    }
}

const NAME: FieldName<'static> = FieldName::new("x-request-id");

/// Sixteen digits, two numbers of up to twenty, and what is between them.
const MADE_MAX: usize = 16 + 1 + 20 + 1 + 20;

/// Whether the request has one id that can be passed on.
fn has_id(ctx: &Context) -> bool {
    let mut ids = ctx.request.headers.named(NAME);
    let is_plain = |octet: &u8| octet.is_ascii_alphanumeric() || b"+-./:=@_".contains(octet);
    let is_id = |id: &[u8]| (1..=128).contains(&id.len()) && id.iter().all(is_plain);
    ids.next().is_some_and(is_id) && ids.next().is_none()
}

impl Middleware for RequestId {
    async fn call(&self, ctx: &mut Context, next: &impl Handler) -> Result {
        self.set(ctx);
        next.handle(ctx).await
    }

    fn call_now(&self, ctx: &mut Context, next: &impl Handler) -> Option<Result> {
        self.set(ctx);
        next.handle_now(ctx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Request, Server, Status, TrustedProxies};

    /// The ids that a request with these has in the handler and in the response.
    fn ids(proxy: &str, sent: &[&[u8]]) -> [String; 2] {
        use crate::message::Response;
        use crate::middleware::wrap;

        let seen = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
        let handler = {
            let seen = seen.clone();
            move |ctx: &mut Context| -> Result {
                let ids: Vec<_> = ctx.request.headers.named(NAME).map(String::from_utf8_lossy).collect();
                *seen.lock().unwrap() = ids.join(", ");
                Err(Status::CONFLICT.into())
            }
        };
        let proxies = TrustedProxies::new(["192.0.2.1"]).unwrap();
        let service = Server::new().trusted_proxies(proxies).service(wrap(RequestId { seed: 0xab }, handler));
        let mut request = Request::get("/").unwrap();
        sent.iter().for_each(|id| request.headers.push(NAME, id));
        let peer: std::net::SocketAddr = format!("{proxy}:80").parse().unwrap();
        let response: Response = crate::block_on(service.respond_from(peer.into(), request)).unwrap();
        assert_eq!(response.status, Status::CONFLICT);
        let answered: Vec<_> = response.headers.named(NAME).map(String::from_utf8_lossy).collect();
        let seen = seen.lock().unwrap().clone();
        [seen, answered.join(", ")]
    }

    #[test]
    fn the_id_of_a_trusted_proxy_is_kept_if_it_is_one() {
        let kept = |id: &str| assert_eq!(ids("192.0.2.1", &[id.as_bytes()]), [id, id]);
        kept("7f3a");
        kept("Root=1-67891233-abcdef012345678912345678");
        kept(&"a".repeat(128));
        let made = |proxy, sent: &[&[u8]]| {
            let [seen, answered] = ids(proxy, sent);
            assert!(seen.starts_with("00000000000000ab-") && seen == answered, "{seen} and {answered}");
        };
        made("192.0.2.1", &[]);
        made("192.0.2.1", &[b""]);
        made("192.0.2.1", &["a".repeat(129).as_bytes()]);
        made("192.0.2.1", &[b"a b"]);
        made("192.0.2.1", &[b"\xff"]);
        made("192.0.2.1", &[b"\"a\",\"status\":\"forged"]);
        made("192.0.2.1", &[b"one", b"two"]);
        made("192.0.2.2", &[b"7f3a"]);
    }

    /// A peer names it as a field of its connection, which gateways remove (RFC 9110 §7.6.1).
    #[test]
    fn no_peer_has_a_gateway_remove_the_id() {
        let onward = |ctx: &mut Context| -> Result {
            let onward = ctx.request.forwarded_to("/")?;
            let passed = ["x-request-id", "x-a"].map(|name| onward.headers.contains(name));
            ctx.response.set_text(format!("{passed:?}"));
            Ok(())
        };
        let service = Server::new().service(crate::middleware::wrap(RequestId::new(), onward));
        for (connection, expected) in [
            ("close", "[true, true]"),
            ("x-request-id", "[true, true]"),
            ("keep-alive, X-Request-Id", "[true, true]"),
            ("upgrade,x-request-id,x-a", "[true, false]"),
        ] {
            let mut request = Request::get("/").unwrap();
            request.headers.set("connection", connection).unwrap();
            request.headers.set("x-a", 1).unwrap();
            let response = crate::block_on(service.respond(request)).unwrap();
            assert_eq!(response.text(), Ok(expected), "{connection}");
        }
    }
}

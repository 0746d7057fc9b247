//! [`Idempotency`]: handles each request with a key once, and answers those that are sent again as the first one.

use std::borrow::Cow;
use std::fmt;
use std::mem;
use std::sync::Arc;

use super::key::idempotency_key;
use super::store::{Claim, IdempotencyStore, StoredResponse, store_key};
use crate::memory::stable_hash;
use crate::message::{Authority, FieldName, Problem, Scheme, Status, without_end_dot};
use crate::runtime::{run_apart, run_beside};
use crate::server::{BodyPlan, Context, Error, Forwarded, Handler, Middleware, Result};

/// Handles each request with an `idempotency-key` once. Another request with the same key gets the same response, with
/// `idempotency-replayed: true`. See the [module](crate::idempotency).
///
/// | a request that is not [safe](crate::Method::is_safe) | is answered |
/// |---|---|
/// | with a new key | by the handler |
/// | with a key whose request is still being handled | with 409 |
/// | with a key whose request was handled | with the same response if kept, or with 409 |
/// | with a key of another request: another method, target, content or, by default, `cookie` | with 422 |
/// | with a malformed key, with several, or without one that is [required](Idempotency::required) | with 400 |
///
/// Safe requests, and those without a key, pass. A key belongs to the scheme and host of the request, as its target does, and
/// to its client. By default, the client is known by its `authorization`: see [`Idempotency::scope`].
///
/// A handler runs to its end even without its peer, as with [`uncancelled`](crate::middleware::uncancelled). Its key stays
/// claimed until then. A request that waits for the store, or beneath this for a guard or a
/// [`ConcurrencyLimit`](crate::middleware::ConcurrencyLimit), has no handler yet. If its peer leaves, no handler is
/// called. The key is then free again.
///
/// A response is kept as the handler and the middleware beneath this have made it. Middleware around this sets its fields
/// for each request anew. Cookies, links and other lines that add up stand beside those of the handler.
///
/// A response is kept if the handler succeeds with a status below 500. The key is free again if the handler, or middleware
/// beneath this, fails, panics or exceeds its time, and if the request is dropped by a time limit around this. The client
/// learns of that from the response. A handler that may have done half of its work answers by itself instead. A streamed
/// response, or one larger than [`Idempotency::response_max`], is not kept, but the key is. The content of a request counts
/// only if the plan is to buffer it. That of a request with a key is then received before all that waits beneath this. Middleware
/// that changes the path stands around this, or the plan may be that of another route.
///
/// In a [`Service`](crate::Service) on a runtime that is not the crate's, a key of a request that is dropped is freed only by a
/// store whose [`release`](IdempotencyStore::release) does not wait. Otherwise it stays claimed, for as long as the store
/// keeps it.
///
/// An error of the store before the call of the handler is the response. After a later error, which is
/// [reported](crate::Server::on_error), the response of the handler is sent, and the key stays claimed.
#[must_use]
pub struct Idempotency<S> {
    store: Arc<S>,
    /// `None` is the default.
    scope: Option<Arc<Scope>>,
    is_required: bool,
    response_max: usize,
}

/// The name of the client to which a key belongs.
type Scope = dyn Fn(&Context) -> String + Send + Sync;

impl<S: IdempotencyStore> Idempotency<S> {
    /// Keeps the outcomes in `store`.
    pub fn new(store: S) -> Idempotency<S> {
        Idempotency { store: Arc::new(store), scope: None, is_required: false, response_max: 64 << 10 }
    }

    /// Sets a function that returns the name of the client of a key, such as the id of a user. The same key of two clients is
    /// two keys.
    ///
    /// Default: a hash of `authorization`. A key whose `cookie` has changed meanwhile is refused with 422. So users with a
    /// session in a cookie do not get the responses of each other. Nor is a request handled twice because of another cookie.
    ///
    /// Set the function for a service whose users have sessions. Otherwise they share the room of one client in a
    /// [`MemoryStore`](super::MemoryStore). A service that knows its clients by a certificate, or by a field of its own, must
    /// set it.
    pub fn scope(mut self, scope: impl Fn(&Context) -> String + Send + Sync + 'static) -> Idempotency<S> {
        self.scope = Some(Arc::new(scope));
        self
    }

    /// Refuses requests that are not safe and have no key, with 400. Default: they pass.
    pub fn required(mut self) -> Idempotency<S> {
        self.is_required = true;
        self
    }

    /// Sets how many bytes of fields and content of a response are kept. Default: 64 KiB.
    pub fn response_max(mut self, bytes: usize) -> Idempotency<S> {
        self.response_max = bytes;
        self
    }

    /// The key of a request that is to be handled once, as its client has sent it.
    fn sent_key<'c>(&self, ctx: &'c Context) -> Result<Option<Cow<'c, str>>> {
        if ctx.request.method().is_safe() {
            return Ok(None);
        }
        match idempotency_key(&ctx.request.headers) {
            Ok(Some(key)) => Ok(Some(key)),
            Ok(None) if !self.is_required => Ok(None),
            Ok(None) => Err(problem(Status::BAD_REQUEST, "an idempotency-key is required").into()),
            Err(_) => Err(problem(Status::BAD_REQUEST, "the idempotency-key is malformed").into()),
        }
    }

    fn scope_of(&self, ctx: &Context) -> String {
        match &self.scope {
            Some(scope) => scope(ctx),
            None => format!("{:016x}", stable_hash(&lines(ctx, FieldName::AUTHORIZATION))),
        }
    }

    /// A hash of the request that has a key: another request with this key is refused.
    fn fingerprint(&self, ctx: &Context) -> u64 {
        let request = &ctx.request;
        let method = request.method();
        // The host is a part of the key, however the target is written.
        let resource = request.target().path_and_query(method).concat();
        let mut parts = vec![method.as_str().as_bytes(), resource.as_bytes(), request.body.bytes()];
        if self.scope.is_none() {
            parts.extend(lines(ctx, FieldName::COOKIE));
        }
        stable_hash(&parts)
    }

    /// Claims the key of a request. If the request is dropped meanwhile, the claim goes on by itself, and is given up then.
    async fn claim(&self, ctx: &Context, key: String) -> Result<(Claim, ClaimedKey<S>)> {
        let store = self.store.clone();
        let fingerprint = self.fingerprint(ctx);
        run_beside(async move {
            let claim = store.claim(&key, fingerprint).await?;
            let is_settled = !matches!(claim, Claim::New);
            Ok((claim, ClaimedKey { store, key, is_settled }))
        })
        .await
    }

    /// Handles a request that has claimed its key, unless its peer has left meanwhile.
    async fn handle(&self, ctx: &mut Context, next: &impl Handler, mut claimed: ClaimedKey<S>) -> Result {
        let before = ctx.response.headers.clone();
        let outcome = match ctx.check_peer().await {
            Ok(()) => next.handle(ctx).await,
            Err(gone) => Err(gone),
        };
        let is_done = ctx.has_responded() || outcome.is_ok() && !ctx.response.status.is_server_error();
        let kept = match is_done && !ctx.has_responded() {
            true => StoredResponse::of(&ctx.response, &before, self.response_max),
            false => None,
        };
        // The key is settled once: a second release could free the claim of a request that was sent again.
        claimed.is_settled = true;
        let store = self.store.clone();
        let key = mem::take(&mut claimed.key);
        let settled = run_beside(async move {
            match is_done {
                true => store.complete(&key, kept).await,
                false => store.release(&key).await,
            }
        })
        .await;
        if let Err(error) = settled {
            let status = outcome.as_ref().map_or_else(Error::status, |()| ctx.response.status);
            let why = format!("the outcome of its idempotency-key was not stored: {error:#}");
            ctx.report_beside(status, Error::new(Status::INTERNAL_SERVER_ERROR, why));
        }
        outcome
    }
}

/// A key that a request has claimed. It is released if the request is dropped before its end, such as by a time limit around
/// this middleware.
struct ClaimedKey<S: IdempotencyStore> {
    store: Arc<S>,
    key: String,
    /// Whether the key stays as it is: it is another request's, or that of a request whose end was stored.
    is_settled: bool,
}

impl<S: IdempotencyStore> Drop for ClaimedKey<S> {
    fn drop(&mut self) {
        if self.is_settled {
            return;
        }
        let store = self.store.clone();
        let key = mem::take(&mut self.key);
        run_apart(async move { drop(store.release(&key).await) });
    }
}

impl<S: IdempotencyStore> Middleware for Idempotency<S> {
    fn on_head(&self, ctx: &mut Context, next: &impl Handler) -> BodyPlan {
        // The scope may depend on a guard around this that has not let the request pass yet.
        match self.sent_key(ctx).map(|key| key.is_some()) {
            // The content tells whether the key belongs to this request, so nothing beneath leaves it for later.
            Ok(true) => {
                let plan = next.on_head(ctx);
                ctx.undefer(plan)
            }
            Ok(false) => next.on_head(ctx),
            Err(error) => ctx.refuse(error),
        }
    }

    async fn call(&self, ctx: &mut Context, next: &impl Handler) -> Result {
        // A request that is refused is not handled, and its content is not here.
        if next.is_refusing() {
            return next.handle(ctx).await;
        }
        let Some(key) = self.sent_key(ctx)? else { return next.handle(ctx).await };
        let key = store_key(&self.scope_of(ctx), &key, &origin(ctx));
        ctx.set_uncancelled();
        let (claim, claimed) = self.claim(ctx, key).await?;
        let (status, detail) = match claim {
            Claim::New => return self.handle(ctx, next, claimed).await,
            Claim::Done(Some(response)) => return response.write_to(&mut ctx.response),
            Claim::Done(None) => (Status::CONFLICT, "the request was handled, and its response was not kept"),
            Claim::Running => {
                (Status::CONFLICT, "the request with this idempotency-key is still being handled")
            }
            Claim::Mismatched => {
                (Status::UNPROCESSABLE_CONTENT, "the idempotency-key belongs to another request")
            }
        };
        Err(problem(status, detail).into())
    }
}

/// The scheme, the host and the port that the client has used, in one spelling (RFC 9110 §4.2.3): the same target at another
/// host is another resource.
fn origin(ctx: &Context) -> String {
    let Forwarded { scheme, authority, .. } = ctx.forwarded();
    let scheme = scheme.unwrap_or_default();
    let authority = authority.unwrap_or_default();
    let Some(Authority { host, port }) = Authority::parse(authority.as_bytes()) else {
        return format!("{scheme}://{authority}");
    };
    let port = port.or_else(|| Scheme::parse(scheme.as_bytes()).map(Scheme::port)).unwrap_or_default();
    format!("{scheme}://{}:{port}", without_end_dot(host).to_ascii_lowercase())
}

fn lines<'c>(ctx: &'c Context, name: FieldName<'_>) -> Vec<&'c [u8]> {
    ctx.request.headers.named(name).collect()
}

fn problem(status: Status, detail: &'static str) -> Problem {
    Problem::new(status).with_detail(detail)
}

impl<S> Clone for Idempotency<S> {
    fn clone(&self) -> Idempotency<S> {
        Idempotency { store: self.store.clone(), scope: self.scope.clone(), ..*self }
    }
}

impl<S> fmt::Debug for Idempotency<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Idempotency")
            .field("is_required", &self.is_required)
            .field("response_max", &self.response_max)
            .finish_non_exhaustive()
    }
}

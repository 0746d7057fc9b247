//! How a client gets an answer: a place in the pool, a connection, an exchange, and perhaps all of these again.

use std::borrow::Cow;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use super::connect::connect;
use super::cookie_exchange::CookieExchange;
use super::exchange::{Facts, Progress};
use super::link::Link;
use super::pool::{Missing, Place, Pool};
use super::redirect::{self, Goal};
use super::{Answer, Call, Client, ClientCause, ClientError, ClientPhase, Tunnel};
use crate::exchange::Expectation;
use crate::memory::Reset;
use crate::message::{
    Headers, InvalidRequest, InvalidTarget, Length, Method, Name, Request, Response, Status, Timings, members,
};
use crate::runtime::{self, Instant, rare};
use crate::wire::Announcement;

impl Client {
    /// Sends `request`, follows redirects, and receives the head of the last answer. `pool` is the pool of the first
    /// request's origin, if it is known.
    pub(super) async fn exchange(
        &self,
        pool: Option<Arc<Pool>>,
        request: &Request,
        response: &mut Response,
    ) -> Result<Link, ClientError> {
        let deadline = self.deadline();
        let answered = self.attempt(pool, (request, Goal::Own), Attempt::First, response, deadline).await;
        let mut link = answered.map_err(|error| self.describe(error, request, deadline))?;
        if self.redirects.concern(response.status) {
            // The server that redirected has received the request, and perhaps acted on it.
            let followed = rare(|| self.follow(link, request, response)).await;
            link = followed.map_err(|error| error.sent_before(true))?;
        }
        link.decode(response).map_err(|error| error.with_url(request.target().as_str()))?;
        Ok(link)
    }

    /// As [`Client::exchange`], and receives the body of the answer.
    pub(super) async fn exchange_whole(
        &self,
        pool: Option<Arc<Pool>>,
        request: &Request,
        response: &mut Response,
    ) -> Result<(), ClientError> {
        let link = self.exchange(pool, request, response).await?;
        link.receive_body(response).await.map_err(|error| error.with_url(final_target(request, response)))
    }

    /// As [`Client::exchange`], for a caller that reads the body piece by piece.
    pub(super) async fn exchange_head(
        &self,
        pool: Option<Arc<Pool>>,
        request: &Request,
        response: &mut Response,
    ) -> Result<Answer, ClientError> {
        let mut link = self.exchange(pool, request, response).await?;
        link.note_target(final_target(request, response));
        Ok(Answer::new(link))
    }

    /// Adds to `error` what `request` was for, and the time limit that was exceeded.
    #[cold]
    pub(super) fn describe(
        &self,
        error: ClientError,
        request: &Request,
        deadline: Option<Instant>,
    ) -> ClientError {
        let error = error.with_url(request.target().as_str());
        match deadline.is_some_and(|deadline| deadline <= runtime::now()) {
            true => error.with_total_limit(self.total),
            false => error.with_phase_limit(|phase| self.shared.settings.timeouts.of_phase(phase)),
        }
    }

    /// Follows the redirect that `response` may be, and those after it.
    async fn follow(
        &self,
        mut link: Link,
        request: &Request,
        response: &mut Response,
    ) -> Result<Link, ClientError> {
        let (mut request, mut goal) = (Cow::Borrowed(request), Goal::Own);
        for followed in 0.. {
            let next = redirect::next(self.redirects, followed, &request, &link.place.pool.origin, response);
            match next.map_err(|error| {
                error.on_connection(link.is_reused(), true).with_url(request.target().as_str())
            })? {
                None if followed == 0 => return Ok(link),
                None => {
                    response.url = Some(request.target().as_str().into());
                    return Ok(link);
                }
                Some((next, Goal::Own)) => request = Cow::Owned(next),
                Some((next, Goal::Other)) => (request, goal) = (Cow::Owned(next), Goal::Other),
            }
            let deadline = link.exchange.facts.deadline;
            link.discard().await;
            let answered = self.attempt(None, (&request, goal), Attempt::First, response, deadline).await;
            link = answered.map_err(|error| self.describe(error, &request, deadline))?;
        }
        Err(ClientError::new(ClientPhase::Redirect, ClientCause::TooManyRedirects))
    }

    /// Sends one request, and receives one final answer. A connection that turns out to be stale is replaced by a new
    /// one, and an expectation that is refused is dropped.
    async fn attempt(
        &self,
        pool: Option<Arc<Pool>>,
        (request, goal): (&Request, Goal),
        attempt: Attempt,
        response: &mut Response,
        deadline: Option<Instant>,
    ) -> Result<Link, ClientError> {
        response.reset();
        if request.body.is_spent() {
            return Err(ClientError::new(ClientPhase::Prepare, ClientCause::Spent));
        }
        let content = request.body.announced();
        check(request.method(), content)?;
        let pool = self.pool_for(pool, request)?;
        let announcement = match (attempt, pool.announce(request, content)?) {
            (Attempt::First, announcement) => announcement,
            (Attempt::WithoutExpectation, announcement) => announcement.without_expectation(),
        };
        let mut link = match Link::rested(pool, runtime::now()) {
            Ok(link) => link,
            Err(missing) => rare(|| self.link(missing, deadline)).await?,
        };
        let cookies = CookieExchange::begin(&link.place.pool, (request, goal));
        link.begin((request, goal), announcement, cookies.cookie(), deadline);
        link.exchange.facts.total = self.total;
        if let Err(error) = poll_fn(|cx| link.poll_answer(cx, Some(request), response)).await {
            let again = || self.again(link, error, (request, goal), announcement, response, cookies.cookie());
            link = rare(again).await?;
        }
        cookies.end(response);
        if response.status == Status::EXPECTATION_FAILED && may_drop_expectation(request, announcement) {
            return rare(|| self.resend_without_expectation(link, (request, goal), response)).await;
        }
        *response.timings_mut() = link.exchange.progress.timings;
        Ok(link)
    }

    /// Sends a request once more, without the expectation that the server at `link` has refused (RFC 9110 §10.1.1). The
    /// refusal says nothing else about the request.
    async fn resend_without_expectation(
        &self,
        link: Link,
        (request, goal): (&Request, Goal),
        response: &mut Response,
    ) -> Result<Link, ClientError> {
        let (pool, deadline) = (link.place.pool.clone(), link.exchange.facts.deadline);
        link.discard().await;
        let asked =
            self.attempt(Some(pool), (request, goal), Attempt::WithoutExpectation, response, deadline).await;
        asked.map_err(|error| error.sent_before(true))
    }

    /// Sends a request that failed with `error` once more, over a new connection, if the one it failed on was stale.
    async fn again(
        &self,
        mut stale: Link,
        error: ClientError,
        (request, goal): (&Request, Goal),
        announcement: Announcement,
        response: &mut Response,
        cookie: Option<&[u8]>,
    ) -> Result<Link, ClientError> {
        if !stale.may_retry(request, &error) {
            return Err(error);
        }
        // Its place is for the new one.
        stale.close();
        let Facts { deadline, .. } = stale.exchange.facts;
        let Progress { timings, wants_interim, .. } = stale.exchange.progress;
        let renewed = async {
            let mut link = self.fresh(stale.place, timings.queue, deadline).await?;
            link.begin((request, goal), announcement, cookie, deadline);
            link.exchange.facts.total = self.total;
            link.exchange.progress.wants_interim = wants_interim;
            poll_fn(|cx| link.poll_answer(cx, Some(request), response)).await?;
            Ok(link)
        };
        renewed.await.map_err(|failed: ClientError| failed.sent_before(error.is_sent()))
    }

    /// Sends the head of `request` only. If it has no body, also receives the head of the first answer, so that it can be
    /// sent once more if its connection turns out to be stale.
    pub(super) async fn call(&self, pool: Option<Arc<Pool>>, request: &Request) -> Result<Call, ClientError> {
        let deadline = self.deadline();
        let opened = self.begin_call(pool, request, deadline).await;
        opened.map_err(|error| self.describe(error, request, deadline))
    }

    async fn begin_call(
        &self,
        pool: Option<Arc<Pool>>,
        request: &Request,
        deadline: Option<Instant>,
    ) -> Result<Call, ClientError> {
        let content = announced(request);
        check(request.method(), content)?;
        let is_whole = matches!(content, Length::NoContent | Length::Known(0))
            && request.body.is_empty()
            && request.trailers.is_empty();
        let pool = self.pool_for(pool, request)?;
        let announcement = pool.announce(request, content)?;
        let mut link = match Link::rested(pool, runtime::now()) {
            Ok(link) => link,
            Err(missing) => rare(|| self.link(missing, deadline)).await?,
        };
        let cookies = CookieExchange::begin(&link.place.pool, (request, Goal::Own));
        link.begin((request, Goal::Own), announcement, cookies.cookie(), deadline);
        link.exchange.facts.total = self.total;
        link.note_target(request.target().as_str());
        let mut early = link.exchange.early.take().unwrap_or_default();
        if !is_whole {
            poll_fn(|cx| link.poll_flush(cx)).await?;
            return Ok(Call::new(link, early, request.trailers.clone(), cookies.into_owned()));
        }
        link.exchange.progress.wants_interim = true;
        if let Err(error) = poll_fn(|cx| link.poll_answer(cx, Some(request), &mut early)).await {
            let again =
                || self.again(link, error, (request, Goal::Own), announcement, &mut early, cookies.cookie());
            link = rare(again).await?;
            link.note_target(request.target().as_str());
        }
        Ok(Call::new(link, early, Headers::new(), cookies.into_owned()))
    }

    /// Sends `request`, which asks for an upgrade. An answer that refuses it is received whole, since it says why.
    pub(super) async fn switch(
        &self,
        pool: Option<Arc<Pool>>,
        request: &Request,
        response: &mut Response,
    ) -> Result<Tunnel, ClientError> {
        let deadline = self.deadline();
        let answered = self.attempt(pool, (request, Goal::Own), Attempt::First, response, deadline).await;
        let mut link = answered.map_err(|error| self.describe(error, request, deadline))?;
        if response.status == Status::SWITCHING_PROTOCOLS && is_asked_for(&response.headers, &request.headers)
        {
            return Ok(Tunnel::new(link));
        }
        let refused = link.error(ClientPhase::Wait, ClientCause::Upgrade).with_url(request.target().as_str());
        let refused = refused.with_detail(format!("it answered {}", response.status));
        let received = match link.decode(response) {
            Ok(()) => link.receive_body(response).await,
            failed => failed,
        };
        if received.is_err() {
            // A part would pass for the whole. That the upgrade was refused matters more than why its body did not
            // arrive.
            response.body.clear();
        }
        Err(refused)
    }

    /// The pool of the request's origin: the known one, or else one that is looked up.
    fn pool_for(&self, known: Option<Arc<Pool>>, request: &Request) -> Result<Arc<Pool>, ClientError> {
        known.map_or_else(|| self.pool_of(request.target()), Ok)
    }

    /// A link over a new connection, or over one that became idle while waiting for a place.
    pub(super) async fn link(
        &self,
        missing: Missing,
        deadline: Option<Instant>,
    ) -> Result<Link, ClientError> {
        let (pool, since) = match missing {
            Missing::Connection(place) => {
                return rare(|| self.fresh(place, Duration::ZERO, deadline)).await;
            }
            Missing::Place(pool, since) => (pool, since),
        };
        let place = pool.enter(since, deadline).await?;
        let now = runtime::now();
        let queue = now.saturating_duration_since(since);
        // A request may wait in one runtime, and go on in another.
        let rested = match place.pool.is_here() {
            true => Link::over_rested(place, queue, now),
            false => Err(place),
        };
        match rested {
            Ok(link) => Ok(link),
            Err(place) => rare(|| self.fresh(place, queue, deadline)).await,
        }
    }

    /// A link over a new connection. It is not used again if its runtime may be another than that of its pool.
    async fn fresh(
        &self,
        place: Place,
        queue: Duration,
        deadline: Option<Instant>,
    ) -> Result<Link, ClientError> {
        let mut timings = Timings { queue, ..Timings::default() };
        let settings = &self.shared.settings;
        let Pool { origin, proxy, .. } = &*place.pool;
        let was_here = place.pool.is_here();
        let conn = connect(settings, origin, proxy.as_ref(), deadline, &mut timings).await?;
        let is_its_own = was_here && place.pool.is_here();
        let mut link = Link::new(conn, place, timings);
        link.exchange.persistence.persists = is_its_own;
        Ok(link)
    }

    /// When an exchange that begins now must be over.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.total.map(|total| runtime::later(runtime::now(), total))
    }
}

/// The target of the request that `response` answers, which is the last one of a chain of redirects.
fn final_target<'a>(request: &'a Request, response: &'a Response) -> &'a str {
    response.url.as_deref().unwrap_or(request.target().as_str())
}

/// Which attempt to send a request this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attempt {
    /// The request is sent as it is.
    First,
    /// The server has refused the expectation, so the request is sent again without it.
    WithoutExpectation,
}

/// Whether a request that was announced so, and refused with 417, may be sent without its expectation. A body that is a
/// stream has not been touched if the server has answered instead of 100.
fn may_drop_expectation(request: &Request, announcement: Announcement) -> bool {
    announcement.expects()
        && Expectation::of(&request.headers) == Ok(Expectation::Continue)
        && !request.body.is_spent()
}

/// Checks that a request with this method and content may be sent.
///
/// # Errors
///
/// Fails for a CONNECT, and for a TRACE with content.
pub(super) fn check(method: Method, content: Length) -> Result<(), InvalidRequest> {
    match (method, content) {
        // It asks for a tunnel, and its target is not a URL (RFC 9112 §3.2.3).
        (Method::Connect, _) => Err(InvalidTarget::Form.into()),
        // It would be sent back (RFC 9110 §9.3.8).
        (Method::Trace, Length::Known(1..) | Length::Unknown) => Err(InvalidRequest::Content),
        _ => Ok(()),
    }
}

/// Whether `answer` names the protocols that it switches to, and `request` asks for all of them (RFC 9110 §7.8).
fn is_asked_for(answer: &Headers, request: &Headers) -> bool {
    let mut protocols = answer.named(Name::UPGRADE).flat_map(members).peekable();
    let is_asked = |name| str::from_utf8(name).is_ok_and(|name| request.contains_token("upgrade", name));
    protocols.peek().is_some() && protocols.all(is_asked)
}

/// The length of the body that will be written after the head.
fn announced(request: &Request) -> Length {
    match request.headers.content_length() {
        Some(length) => Length::Known(length),
        None if request.method().suggests_content() || request.headers.contains("transfer-encoding") => {
            Length::Unknown
        }
        None => Length::NoContent,
    }
}

//! [`Context::filter_body`]: has the content of a request pass through a filter.

use std::future::poll_fn;
use std::io;

use super::body_filter::{BodyFilter, FilteredBody, PIECE};
use super::context::Context;
use crate::coding::Flush;
use crate::exchange::ExchangeError;
use crate::message::{Body, FieldName, Request, Status};
use crate::runtime::{Budget, CancelMemoryWaitOnDrop, MemoryShare, boxed};
use crate::server::exchange::{Exchange, SharedConn};
use crate::server::{Error, Result};

impl Context {
    /// Has the content of the request pass through `filter`, whoever reads it from here on. Content that was received
    /// already passes at once. Middleware that must come before that uses
    /// [`defer_body`](crate::middleware::defer_body). Of several filters, the first one gets the content as it was
    /// sent, in its content codings.
    ///
    /// A filter that does not [keep the length](BodyFilter::keeps_length) changes the framing fields of the request.
    /// Set it before [`Request::forwarded_to`](crate::Request::forwarded_to) copies them. A digest of the content
    /// (`content-digest`, `content-md5`) is yours to remove. A request without content, or with content of the length
    /// 0, passes no filter. Filters are among the [extensions](Context::extensions). A handler that replaces all of
    /// these removes the filters.
    ///
    /// # Errors
    ///
    /// Fails with 500 if a part of the content was read or replaced before. Content that was received already can fail
    /// with an error of the filter, or with 413 beyond [`Limits::body_max`](crate::Limits::body_max). The body is empty
    /// then, and reading it fails.
    ///
    /// # Examples
    ///
    /// See [`BodyFilter`].
    pub async fn filter_body(&mut self, filter: impl BodyFilter) -> Result {
        let is_received = self.exchange.incoming.get_mut().is_end_stream();
        let body = &self.request.body;
        if body.is_stream() || (!is_received && !body.is_empty()) || self.body_reader().has_begun() {
            let cause = "a part of the body was read before, or replaced";
            return Err(Error::new(Status::INTERNAL_SERVER_ERROR, cause));
        }
        if self.body_reader().is_at_end() {
            return Ok(());
        }
        let changes_length = !filter.keeps_length();
        if is_received {
            self.filter_received(Box::new(filter)).await?;
            if changes_length {
                self.request.announce_length();
            }
            return Ok(());
        }
        if changes_length && self.request.headers.remove(FieldName::CONTENT_LENGTH.as_str()) {
            // Without a length, only this field has a gateway forward content.
            self.request.headers.put(FieldName::TRANSFER_ENCODING, b"chunked");
        }
        match self.extensions.get_mut::<FilteredBody>() {
            Some(filtered) => filtered.push(Box::new(filter)),
            None => drop(self.extensions.insert(FilteredBody::new(Box::new(filter)))),
        }
        Ok(())
    }

    /// Receives the rest of a body into `ctx.request.body`, up to `most` bytes.
    pub(super) async fn receive_body(&mut self, most: usize) -> io::Result<()> {
        if self.extensions.get::<FilteredBody>().is_some() {
            return boxed(|| self.receive_filtered(most)).await;
        }
        let Context { request, exchange, .. } = self;
        let wait = CancelMemoryWaitOnDrop(exchange);
        Ok(poll_fn(|cx| wait.0.poll_body(cx, request, most)).await?)
    }

    async fn receive_filtered(&mut self, most: usize) -> io::Result<()> {
        let left = self.exchange.incoming.get_mut().length_left();
        if let Some(left) = left.filter(|left| *left > most as u64) {
            return Err(ExchangeError::body_too_large(most, Some(left)).into());
        }
        if let Some(filtered) = self.extensions.get_mut::<FilteredBody>() {
            filtered.left_max = Some(most);
        }
        loop {
            let mut body = self.body_reader().skip_buffered();
            let Some(piece) = body.chunk().await?.map(<[u8]>::to_vec) else {
                let kept = self.request.body.receive().capacity();
                self.exchange.incoming.get_mut().memory.shrink_to(kept);
                return Ok(());
            };
            append(&mut self.request.body, &piece, most)?;
            let wait = CancelMemoryWaitOnDrop(&mut self.exchange);
            let Exchange { incoming, conn, .. } = &mut *wait.0;
            take_memory(conn, &mut incoming.get_mut().memory, self.request.body.len(), most).await?;
        }
    }

    /// Replaces a body that was received by the output of `filter`.
    async fn filter_received(&mut self, filter: Box<dyn BodyFilter>) -> Result {
        let most = self.limits().body_max.max(self.request.body.len());
        self.free_spare();
        let mut memory = MemoryShare::default();
        let filtered = filter_whole(filter, &mut self.request, &self.exchange.conn, &mut memory, most).await;
        let incoming = self.exchange.incoming.get_mut();
        // The body that failed is empty, and must not pass for a request without content.
        incoming.note_discarded(if filtered.is_err() { self.request.body.len() } else { 0 });
        self.request.body.clear();
        self.request.body = filtered?;
        incoming.memory = memory;
        Ok(())
    }
}

impl AsMut<MemoryShare> for Exchange {
    /// The memory of a body that is buffered.
    fn as_mut(&mut self) -> &mut MemoryShare {
        &mut self.incoming.get_mut().memory
    }
}

/// The output of `filter` for the body of `request`, which is in memory. Takes `memory` for it.
async fn filter_whole(
    filter: Box<dyn BodyFilter>,
    request: &mut Request,
    conn: &SharedConn,
    memory: &mut MemoryShare,
    most: usize,
) -> io::Result<Body> {
    let mut filtered = FilteredBody::new(filter);
    let mut body = Body::new();
    let mut budget = Budget::default();
    for piece in request.body.bytes().chunks(PIECE) {
        poll_fn(|cx| budget.poll_proceed(cx)).await;
        budget.spend(piece.len());
        filtered.apply(piece, Flush::Later)?;
        filtered.next_piece()?;
        append(&mut body, filtered.piece(), most)?;
        take_memory(conn, memory, body.len(), most).await?;
    }
    filtered.end(&mut request.trailers)?;
    filtered.next_piece()?;
    append(&mut body, filtered.piece(), most)?;
    // The memory was taken for all that might come.
    memory.shrink_to(body.receive().capacity());
    Ok(body)
}

/// Appends a piece to a body that is received, up to `most` bytes.
fn append(body: &mut Body, piece: &[u8], most: usize) -> io::Result<()> {
    if piece.len() > most.saturating_sub(body.len()) {
        return Err(ExchangeError::body_too_large(most, None).into());
    }
    body.receive_part().extend(piece);
    Ok(())
}

/// Takes memory for content that is not small, of which `len` bytes are here, and at most `most` come in all.
async fn take_memory(
    conn: &SharedConn,
    memory: &mut MemoryShare,
    len: usize,
    most: usize,
) -> Result<(), ExchangeError> {
    if len <= memory.len().max(PIECE) {
        return Ok(());
    }
    let target = conn.bounds(|bounds| bounds.memory.growth_target(len, most));
    poll_fn(|cx| conn.poll_memory(cx, memory, target)).await
}

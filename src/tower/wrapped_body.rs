//! [`replace_body`]: receives a body that layers have wrapped, in place of that of the request.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use tokio::io::AsyncReadExt;

use super::tower::service_error;
use super::tower_body::BodyPump;
use crate::exchange::{ExchangeError, Phase};
use crate::message::{Body, Status};
use crate::runtime::{MemoryBudget, MemoryShare, select};
use crate::server::{Context, Error, Result};

/// Receives `body` into memory, up to [`Limits::body_max`](crate::Limits::body_max), and makes it that of the request. Returns
/// the response of the layers if they answer meanwhile.
pub(super) async fn replace_body<B>(
    ctx: &mut Context,
    pump: &BodyPump,
    answering: Pin<&mut impl Future<Output = Result<http::Response<B>>>>,
    body: Body,
) -> Result<Option<http::Response<B>>> {
    ctx.free_spare();
    let most = ctx.limits().body_max.max(ctx.request.body.len());
    let mut memory = ContentMemory {
        budget: ctx.memory_budget(),
        share: MemoryShare::default(),
        limit: ctx.timeouts().body,
    };
    let received = async { receive(body, pump, &mut memory, most).await.map(Ok) };
    let received = select(async { answering.await.map(Err) }, received);
    let content = match pump.run_beside(&mut pump.reader(ctx.body_reader()), received).await? {
        Ok(content) => content,
        Err(response) => return Ok(Some(response)),
    };
    discard_rest(ctx).await?;
    pump.skip_buffered();
    ctx.replace_body(content, memory.share);
    Ok(None)
}

/// Receives `body`, up to `most` bytes, for which it takes `memory`.
async fn receive(body: Body, pump: &BodyPump, memory: &mut ContentMemory, most: usize) -> Result<Body> {
    let too_large = || ExchangeError::body_too_large(most, None);
    let Some(mut source) = body.take_source() else {
        if body.len() > most {
            return Err(too_large().into());
        }
        memory.take(body.len(), body.len()).await?;
        return Ok(body);
    };
    let mut received = Body::new();
    let content = received.receive();
    // The end is found by a read beyond it.
    let room_max = most.saturating_add(PIECE);
    loop {
        memory.take(content.capacity().max(content.len() + PIECE), room_max).await?;
        let capacity_max = if memory.share.len() == 0 { room_max } else { memory.share.len().min(room_max) };
        let room = content.spare_within(PIECE, capacity_max.saturating_sub(content.len()));
        let count =
            source.read(room).await.map_err(|error| unreadable(pump.explain(service_error(error))))?;
        content.commit(count);
        if content.len() > most {
            return Err(too_large().into());
        }
        if count == 0 {
            break;
        }
    }
    memory.share.shrink_to(content.capacity());
    Ok(received)
}

/// The memory of content, of what the peers of a server share.
struct ContentMemory {
    budget: MemoryBudget,
    share: MemoryShare,
    /// How long it waits for memory, and has some for which others wait.
    limit: Duration,
}

impl ContentMemory {
    /// Waits for memory for `len` bytes, of which at most `most` come in all.
    async fn take(&mut self, len: usize, most: usize) -> Result<(), ExchangeError> {
        let ContentMemory { budget, share, limit } = self;
        if share.is_overdue(budget, *limit) {
            return Err(ExchangeError::TimedOut(Phase::Body, (*limit).into()));
        }
        if len <= share.len() {
            return Ok(());
        }
        let target = budget.growth_target(len, most);
        let grown = poll_fn(|cx| share.poll_grow_to(cx, budget, target, *limit)).await;
        grown.map_err(ExchangeError::from_memory)
    }
}

/// The bytes of one step.
const PIECE: usize = 16 << 10;

/// Discards the rest of a body that the layers have replaced, or a handler that streams would read it behind theirs.
async fn discard_rest(ctx: &mut Context) -> Result {
    let most = ctx.limits().drain_max;
    let mut left = most;
    let mut body = ctx.body_reader().skip_buffered();
    while let Some(chunk) = body.chunk().await? {
        let rest = left.checked_sub(chunk.len());
        left = rest.ok_or_else(|| ExchangeError::body_too_large(most, None))?;
    }
    Ok(())
}

/// The error of a body that a layer cannot decode, for example: the peer has sent it.
fn unreadable(error: Error) -> Error {
    match error.status() {
        Status::INTERNAL_SERVER_ERROR => Error::new(Status::BAD_REQUEST, error),
        _ => error,
    }
}

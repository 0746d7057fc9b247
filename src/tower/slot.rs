//! [`Slot`]: where the handler leaves a piece of a body, and the service finds it.

use std::mem;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::Frame;

use crate::exchange::ExchangeError;
use crate::memory::lock;

/// Where a piece of a body passes from the handler, which reads it, to the service, which may be in another task. There
/// is never more than one, and none is read before it is asked for, except what was buffered from the start.
#[derive(Default)]
pub(super) struct Slot(Mutex<Passing>);

#[derive(Default)]
struct Passing {
    state: State,
    /// Who has asked.
    asker: Option<Waker>,
    /// The handler, while it waits to be asked.
    giver: Option<Waker>,
}

#[derive(Default)]
enum State {
    #[default]
    Idle,
    Asked,
    Given(Piece),
}

/// A part of a body, its trailers, or its end.
pub(super) type Piece = Option<Result<Frame<Bytes>, ExchangeError>>;

impl Slot {
    /// A slot in which the first piece lies already.
    pub(super) fn with(piece: Bytes) -> Slot {
        let state = State::Given(Some(Ok(Frame::data(piece))));
        Slot(Mutex::new(Passing { state, ..Passing::default() }))
    }

    /// Asks for a piece, and takes it once it is there.
    pub(super) fn poll_take(&self, cx: &mut Context<'_>) -> Poll<Piece> {
        let mut passing = lock(&self.0);
        if let State::Given(piece) = mem::take(&mut passing.state) {
            return Poll::Ready(piece);
        }
        passing.state = State::Asked;
        passing.asker = Some(cx.waker().clone());
        let giver = passing.giver.take();
        // Whoever is woken may come here at once.
        drop(passing);
        giver.into_iter().for_each(Waker::wake);
        Poll::Pending
    }

    /// Ready when a piece is asked for.
    pub(super) fn poll_asked(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut passing = lock(&self.0);
        if let State::Asked = passing.state {
            return Poll::Ready(());
        }
        passing.giver = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Leaves a piece, in place of one that was not taken.
    pub(super) fn give(&self, piece: Piece) {
        let mut passing = lock(&self.0);
        passing.state = State::Given(piece);
        let asker = passing.asker.take();
        drop(passing);
        asker.into_iter().for_each(Waker::wake);
    }
}

//! Futures of futures: [`ReusableFuture`], [`boxed`], [`select`] and [`join_first`].

use std::cell::Cell;
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};

/// A future that is allocated once and makes one output after the other, each from an input. Between an output and the
/// next input, the future is idle and may serve another owner.
pub(crate) struct ReusableFuture<I, O> {
    future: Pin<Box<dyn Future<Output = Infallible>>>,
    cells: Rc<Cells<I, O>>,
}

/// The input and the output, shared with the future that takes the one and sets the other.
struct Cells<I, O> {
    input: Cell<Option<I>>,
    output: Cell<Option<O>>,
}

impl<I: 'static, O: 'static> ReusableFuture<I, O> {
    /// Makes outputs by calling `work`. An idle future holds nothing but `work`.
    pub(crate) fn new<F: Future<Output = O>>(work: impl Fn(I) -> F + 'static) -> ReusableFuture<I, O> {
        let cells = Rc::new(Cells { input: Cell::default(), output: Cell::default() });
        let shared = cells.clone();
        let future = Box::pin(async move {
            loop {
                let input = poll_fn(|_| shared.input.take().map_or(Poll::Pending, Poll::Ready)).await;
                let output = work(input).await;
                let untaken = shared.output.replace(Some(output));
                debug_assert!(untaken.is_none(), "each output is taken before the next is made");
            }
        });
        ReusableFuture { future, cells }
    }

    /// Sets the next input. The future must be idle.
    #[inline]
    pub(crate) fn start(&self, input: I) {
        let pending = self.cells.input.replace(Some(input));
        debug_assert!(pending.is_none(), "the future is idle");
    }

    /// How many bytes the future takes.
    pub(crate) fn size(&self) -> usize {
        size_of_val(&*self.future) + size_of::<Cells<I, O>>()
    }

    /// Ready with the output, after which the future is idle.
    #[inline]
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<O> {
        match self.future.as_mut().poll(cx) {
            Poll::Ready(never) => match never {},
            Poll::Pending => self.cells.output.take().map_or(Poll::Pending, Poll::Ready),
        }
    }
}

/// Boxes a future that few exchanges need; otherwise the future that awaits it would be larger by its size. `make` is called
/// in a function of its own; otherwise each poll of the awaiting future would set up a stack frame for it, over several
/// pages.
#[cold]
#[inline(never)]
pub(crate) fn boxed<F: Future>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    Box::pin(make())
}

/// Waits for the first of two futures. If both are ready, `one` wins.
pub(crate) async fn select<T>(one: impl Future<Output = T>, other: impl Future<Output = T>) -> T {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(|cx| match one.as_mut().poll(cx) {
        Poll::Ready(done) => Poll::Ready(done),
        Poll::Pending => other.as_mut().poll(cx),
    })
    .await
}

/// Awaits `first`, and polls `second` meanwhile. Fails if either future does. The end of `second` is not awaited.
pub(crate) async fn join_first<T, E>(
    first: impl Future<Output = Result<T, E>>,
    second: impl Future<Output = Result<(), E>>,
) -> Result<T, E> {
    let (mut first, mut second) = (pin!(first), pin!(second));
    let mut is_over = false;
    poll_fn(|cx| {
        if let Poll::Ready(outcome) = first.as_mut().poll(cx) {
            return Poll::Ready(outcome);
        }
        if !is_over && let Poll::Ready(outcome) = second.as_mut().poll(cx) {
            is_over = true;
            outcome?;
        }
        Poll::Pending
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;
    use crate::runtime::{block_on, yield_now};

    #[test]
    fn one_output_is_made_after_the_other_and_nothing_is_kept() {
        let mut future = ReusableFuture::new(|input: Rc<usize>| async move {
            yield_now().await;
            2 * *input
        });
        for number in 0..3 {
            let input = Rc::new(number);
            future.start(input.clone());
            let made = block_on(poll_fn(|cx| future.poll(cx))).unwrap();
            assert_eq!((made, Rc::strong_count(&input)), (2 * number, 1));
            assert!(future.poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
    }
}

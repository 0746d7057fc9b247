//! [`Routine`]: a future that is used again.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// A future that is used again: it makes one output after the other, each from an input. It is allocated once, and
/// while it is at rest it can change hands.
pub(crate) struct Routine<I, O> {
    run: Pin<Box<dyn Future<Output = Infallible>>>,
    tray: Rc<Tray<I, O>>,
}

/// What a routine is given, and what it has made.
struct Tray<I, O> {
    input: Cell<Option<I>>,
    output: Cell<Option<O>>,
}

impl<I: 'static, O: 'static> Routine<I, O> {
    /// A routine that makes outputs as `work` does. While it is at rest, it holds nothing but that.
    pub(crate) fn new<F: Future<Output = O>>(work: impl Fn(I) -> F + 'static) -> Routine<I, O> {
        let tray = Rc::new(Tray { input: Cell::default(), output: Cell::default() });
        let shared = tray.clone();
        let run = Box::pin(async move {
            loop {
                let input = poll_fn(|_| shared.input.take().map_or(Poll::Pending, Poll::Ready)).await;
                let output = work(input).await;
                shared.output.set(Some(output));
            }
        });
        Routine { run, tray }
    }

    /// Gives it an input. It must be at rest.
    #[inline]
    pub(crate) fn begin(&self, input: I) {
        self.tray.input.set(Some(input));
    }

    /// Ready when the output is made, and the routine at rest.
    #[inline]
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<O> {
        match self.run.as_mut().poll(cx) {
            Poll::Ready(never) => match never {},
            Poll::Pending => self.tray.output.take().map_or(Poll::Pending, Poll::Ready),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;
    use crate::runtime::{block_on, yield_now};

    #[test]
    fn one_output_is_made_after_the_other_and_nothing_is_kept() {
        let mut routine = Routine::new(|input: Rc<usize>| async move {
            yield_now().await;
            2 * *input
        });
        for number in 0..3 {
            let input = Rc::new(number);
            routine.begin(input.clone());
            let made = block_on(poll_fn(|cx| routine.poll(cx))).unwrap();
            assert_eq!((made, Rc::strong_count(&input)), (2 * number, 1));
            assert!(routine.poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
    }
}

//! [`Half`]: the access that each half of a call has to it.

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use super::Call;
use crate::client::ClientError;
use crate::memory::lock;

/// The access that one half of a call has to it.
pub(super) struct Half {
    side: Side,
    shared: Arc<Mutex<SharedCall>>,
    wakers: Arc<HalfWakers>,
}

impl Half {
    /// The halves of the writer and of the reader.
    pub(super) fn pair(call: Call) -> (Half, Half) {
        let shared = Arc::new(Mutex::new(SharedCall(Some(call))));
        let wakers = Arc::<HalfWakers>::default();
        let half = |side| Half { side, shared: shared.clone(), wakers: wakers.clone() };
        (half(Side::Writer), half(Side::Reader))
    }

    /// Polls the call for one half. Both owners are woken by whatever happens to the connection, and by each of its
    /// time limits: it has one timer, and the half that polls last cannot know what the other one waits for.
    pub(super) fn poll<T>(
        &self,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&mut Call, &mut Context<'_>) -> Poll<Result<T, ClientError>>,
    ) -> Poll<Result<T, ClientError>> {
        // Not dropped under a lock either: it may be the last that holds its task, and with it the other half.
        let _replaced = self.wakers.register(self.side, cx.waker());
        let polled =
            self.with_call(|call| poll(call, &mut Context::from_waker(&Waker::from(self.wakers.clone()))));
        if let Poll::Ready(Err(_)) = polled {
            // Nothing else tells the other half what that means for it.
            self.wake_halves();
        }
        polled
    }

    /// Calls `then` with the call.
    pub(super) fn with_call<T>(&self, then: impl FnOnce(&mut Call) -> T) -> T {
        then(lock(&self.shared).0.as_mut().expect("it is taken when this is dropped"))
    }

    /// Wakes the owners of both halves.
    pub(super) fn wake_halves(&self) {
        self.wakers.wake_by_ref();
    }
}

#[derive(Clone, Copy, Debug)]
enum Side {
    Writer,
    Reader,
}

/// The tasks that await the halves, or last did.
#[derive(Default)]
struct HalfWakers(Mutex<[Option<Waker>; 2]>);

impl HalfWakers {
    /// Notes who awaits a half now. Returns the waker of the task that did before, if it is another one.
    fn register(&self, side: Side, waker: &Waker) -> Option<Waker> {
        match &mut lock(&self.0)[side as usize] {
            Some(known) if known.will_wake(waker) => None,
            owner => owner.replace(waker.clone()),
        }
    }
}

impl Wake for HalfWakers {
    fn wake(self: Arc<HalfWakers>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<HalfWakers>) {
        // Not woken under the lock, since a waker may do anything.
        let wakers = lock(&self.0).clone();
        wakers.into_iter().flatten().for_each(Waker::wake);
    }
}

/// What the halves share: a call, until this is dropped.
struct SharedCall(Option<Call>);

impl Drop for SharedCall {
    fn drop(&mut self) {
        if let Some(call) = self.0.take() {
            call.release();
        }
    }
}

//! [`Half`]: the access that each half of a call has to their connection.

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use crate::client::ClientError;
use crate::client::link::Link;
use crate::client::tally::Tally;
use crate::memory::lock;
use crate::message::Response;

/// The access that one half of a call has to the connection of both.
pub(super) struct Half {
    side: Side,
    both: Arc<Mutex<Both>>,
    owners: Arc<Owners>,
}

impl Half {
    /// The halves of the writer and of the reader. `early` is the head of an answer, if one has already come.
    pub(super) fn pair(link: Box<Link>, early: Response, tally: Tally) -> (Half, Half) {
        let both = Arc::new(Mutex::new(Both { link: Some(link), early, tally }));
        let owners = Arc::<Owners>::default();
        let half = |side| Half { side, both: both.clone(), owners: owners.clone() };
        (half(Side::Writer), half(Side::Reader))
    }

    /// Polls the link for one half. Both owners are woken by whatever happens to the connection, and by each of its
    /// time limits: it has one timer, and the half that polls last cannot know what the other one waits for.
    pub(super) fn poll<T>(
        &self,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&mut Link, &mut Response, &mut Context<'_>) -> Poll<Result<T, ClientError>>,
    ) -> Poll<Result<T, ClientError>> {
        // Not dropped under a lock either: it may be the last that holds its task, and with it the other half.
        let _former = self.owners.note(self.side, cx.waker());
        let mut both = lock(&self.both);
        let (link, early) = both.parts();
        let polled = poll(link, early, &mut Context::from_waker(&Waker::from(self.owners.clone())));
        let polled = both.tally.noting(polled);
        drop(both);
        if let Poll::Ready(Err(_)) = polled {
            // Nothing else tells the other half what that means for it.
            self.wake_owners();
        }
        polled
    }

    /// Lends what a balancer notes for a moment.
    pub(super) fn with_tally(&self, then: impl FnOnce(&mut Tally)) {
        then(&mut lock(&self.both).tally);
    }

    /// Calls `then` with the link.
    pub(super) fn with_link<T>(&self, then: impl FnOnce(&mut Link) -> T) -> T {
        then(lock(&self.both).parts().0)
    }

    /// Wakes the owners of both halves.
    pub(super) fn wake_owners(&self) {
        self.owners.wake_by_ref();
    }
}

#[derive(Clone, Copy, Debug)]
enum Side {
    Writer,
    Reader,
}

/// The tasks that await the halves, or last did.
#[derive(Default)]
struct Owners(Mutex<[Option<Waker>; 2]>);

impl Owners {
    /// Notes who awaits a half now. Returns the waker of the task that did before, if it is another one.
    fn note(&self, side: Side, waker: &Waker) -> Option<Waker> {
        match &mut lock(&self.0)[side as usize] {
            Some(known) if known.will_wake(waker) => None,
            owner => owner.replace(waker.clone()),
        }
    }
}

impl Wake for Owners {
    fn wake(self: Arc<Owners>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Owners>) {
        // Not woken under the lock, since a waker may do anything.
        let owners = lock(&self.0).clone();
        owners.into_iter().flatten().for_each(Waker::wake);
    }
}

/// What the halves share.
struct Both {
    /// Present until this is dropped.
    link: Option<Box<Link>>,
    /// The head of an answer, if the writer found it, or the call did before it was split.
    early: Response,
    tally: Tally,
}

impl Both {
    fn parts(&mut self) -> (&mut Link, &mut Response) {
        (self.link.as_deref_mut().expect("it is taken when this is dropped"), &mut self.early)
    }
}

impl Drop for Both {
    fn drop(&mut self) {
        if let Some(link) = self.link.take() {
            link.rest();
        }
    }
}

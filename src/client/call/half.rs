//! [`Half`]: what each half of a call has of its connection, which is for both.

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use crate::client::link::Link;
use crate::memory::lock;
use crate::message::Response;

/// What each half of a call has of its connection.
pub(super) struct Half {
    side: Side,
    both: Arc<Mutex<Both>>,
    owners: Arc<Owners>,
}

impl Half {
    /// The writer's and the reader's. `early` is the answer's head, if it has come already.
    pub(super) fn pair(link: Box<Link>, early: Response) -> (Half, Half) {
        let both = Arc::new(Mutex::new(Both { link: Some(link), early }));
        let owners = Arc::<Owners>::default();
        let half = |side| Half { side, both: both.clone(), owners: owners.clone() };
        (half(Side::Writer), half(Side::Reader))
    }

    /// Polls the link for one half. Whatever happens to the connection, and each of its limits of time, wakes the owners
    /// of both: it has one alarm, and who of them polls last cannot know what the other one waits for.
    pub(super) fn poll<T>(
        &self,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&mut Link, &mut Response, &mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let mut both = lock(&self.both);
        self.owners.note(self.side, cx.waker());
        let (link, early) = both.parts();
        poll(link, early, &mut Context::from_waker(&Waker::from(self.owners.clone())))
    }

    /// Lends the link for a moment.
    pub(super) fn with_link<T>(&self, then: impl FnOnce(&mut Link) -> T) -> T {
        then(lock(&self.both).parts().0)
    }

    /// Has the owners of both halves look again.
    pub(super) fn wake_owners(&self) {
        self.owners.wake_by_ref();
    }
}

#[derive(Clone, Copy, Debug)]
enum Side {
    Writer,
    Reader,
}

/// Who awaits each half, or did so last.
#[derive(Default)]
struct Owners(Mutex<[Option<Waker>; 2]>);

impl Owners {
    fn note(&self, side: Side, waker: &Waker) {
        match &mut lock(&self.0)[side as usize] {
            Some(owner) => owner.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
    }
}

impl Wake for Owners {
    fn wake(self: Arc<Owners>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Owners>) {
        // They are not woken under the lock: a waker may do whatever it likes.
        let owners = lock(&self.0).clone();
        owners.into_iter().flatten().for_each(Waker::wake);
    }
}

/// What the halves have in common.
struct Both {
    /// Some, until this is dropped.
    link: Option<Box<Link>>,
    /// The answer's head, if the writer was the one to find it, or the call before it was taken apart.
    early: Response,
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

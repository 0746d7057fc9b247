//! [`Desk`]: the tickets of a board, while somebody is at work on them.

use std::mem;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard};
use std::task::Waker;

use super::board::{Job, Tickets};
use crate::memory::lock;

/// The tickets of a board, for us alone. Whom that sets free to go on is told when they are free, too: a waker may do
/// whatever it likes, and most of all ask again.
pub(super) struct Desk<'a> {
    /// Some, until this is dropped.
    tickets: Option<MutexGuard<'a, Tickets>>,
}

impl<'a> Desk<'a> {
    pub(super) fn new(tickets: &'a Mutex<Tickets>) -> Desk<'a> {
        Desk { tickets: Some(lock(tickets)) }
    }
}

/// Who may go on: the caller whose answer is here, or whoever waits for the place of a request that is over.
pub(super) enum Free {
    Caller(Waker),
    Place(Job),
}

impl Free {
    fn go(self) {
        match self {
            Free::Caller(waker) => waker.wake(),
            Free::Place(job) => drop(job),
        }
    }
}

impl Deref for Desk<'_> {
    type Target = Tickets;

    fn deref(&self) -> &Tickets {
        self.tickets.as_ref().expect("they are let go when this is dropped")
    }
}

impl DerefMut for Desk<'_> {
    fn deref_mut(&mut self) -> &mut Tickets {
        self.tickets.as_mut().expect("they are let go when this is dropped")
    }
}

impl Drop for Desk<'_> {
    fn drop(&mut self) {
        let Some(mut tickets) = self.tickets.take() else { return };
        // Most often it is one at most, and then the list keeps its memory.
        let last = tickets.freed.pop();
        let others = if tickets.freed.is_empty() { Vec::new() } else { mem::take(&mut tickets.freed) };
        drop(tickets);
        others.into_iter().chain(last).for_each(Free::go);
    }
}

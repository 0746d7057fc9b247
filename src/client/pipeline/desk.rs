//! [`Desk`]: the tickets of a board, locked.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard};

use super::tickets::{Freed, Tickets};
use crate::memory::lock;

/// The tickets of a board, locked. Tasks that may continue are woken when this is dropped and the lock is free, since a
/// waker may do anything, and most likely uses the board again.
pub(super) struct Desk<'a> {
    /// Present until this is dropped.
    tickets: Option<MutexGuard<'a, Tickets>>,
}

impl<'a> Desk<'a> {
    pub(super) fn new(tickets: &'a Mutex<Tickets>) -> Desk<'a> {
        Desk { tickets: Some(lock(tickets)) }
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
        let freed = tickets.take_freed();
        drop(tickets);
        freed.for_each(Freed::go);
    }
}

//! [`Guard`]: the tickets of a board, locked.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard};

use super::tickets::{Freed, Tickets};
use crate::memory::lock;

/// The tickets of a board, locked. Tasks that may continue are woken when this is dropped and the lock is free, since a
/// waker may do anything, and most likely uses the board again.
pub(super) struct Guard<'a> {
    /// Present until this is dropped.
    tickets: Option<MutexGuard<'a, Tickets>>,
}

impl<'a> Guard<'a> {
    pub(super) fn new(tickets: &'a Mutex<Tickets>) -> Guard<'a> {
        Guard { tickets: Some(lock(tickets)) }
    }
}

impl Deref for Guard<'_> {
    type Target = Tickets;

    fn deref(&self) -> &Tickets {
        self.tickets.as_ref().expect("they are let go when this is dropped")
    }
}

impl DerefMut for Guard<'_> {
    fn deref_mut(&mut self) -> &mut Tickets {
        self.tickets.as_mut().expect("they are let go when this is dropped")
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        let Some(mut tickets) = self.tickets.take() else { return };
        let freed = tickets.take_freed();
        drop(tickets);
        freed.for_each(Freed::go);
    }
}

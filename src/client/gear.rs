//! [`Gear`]: what an exchange needs only while it lasts, and uses again.

use crate::exchange::{Incoming, Outgoing};
use crate::memory::Reset;
use crate::message::Timings;
use crate::net::Desk;

/// The memory of one exchange.
#[derive(Default)]
pub(super) struct Gear {
    pub(super) incoming: Incoming,
    pub(super) outgoing: Outgoing,
    /// The connection has it, while it is in use.
    pub(super) desk: Option<Box<Desk>>,
    /// Here and not in the link, which moves from one future to the next and so should be small.
    pub(super) timings: Timings,
}

impl Reset for Gear {
    fn reset(&mut self) {
        let Gear { incoming, outgoing, desk, timings } = self;
        incoming.reset();
        outgoing.reset();
        desk.iter_mut().for_each(|desk| desk.reset());
        *timings = Timings::default();
    }

    fn shrink(&mut self) {
        self.incoming.shrink();
        self.outgoing.shrink();
        self.desk.iter_mut().for_each(|desk| desk.shrink());
    }
}

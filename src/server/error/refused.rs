//! [`Refused`]: a refusal that is still to be answered.

use super::RefusalCause;
use crate::exchange::ExchangeError;
use crate::message::Status;

/// A refusal that is still to be answered: what the peer is told, and why.
#[derive(Debug)]
pub(in crate::server) struct Refused {
    /// `None` if the peer is told nothing, because it is gone, or has part of another answer.
    pub(in crate::server) status: Option<Status>,
    pub(in crate::server) cause: RefusalCause,
}

impl Refused {
    // Boxed, because it is rare, and the results that hold it are moved for every request.
    #[cold]
    pub(in crate::server) fn new(status: Status, cause: RefusalCause) -> Box<Refused> {
        Box::new(Refused { status: Some(status), cause })
    }

    /// A refusal that comes too late to be answered.
    #[cold]
    pub(in crate::server) fn untold(cause: RefusalCause) -> Box<Refused> {
        Box::new(Refused { status: None, cause })
    }
}

impl From<ExchangeError> for Box<Refused> {
    #[cold]
    fn from(error: ExchangeError) -> Box<Refused> {
        Box::new(Refused { status: error.owed(), cause: RefusalCause::Exchange(error) })
    }
}

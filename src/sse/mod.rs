//! Floor 5: server-sent events (HTML §9.2), written and read.

mod event;
mod event_reader;
mod events;

pub use event::{Event, InvalidEvent};
pub use event_reader::EventReader;
pub use events::Events;

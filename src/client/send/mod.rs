//! How a client sends requests, over the connections of its pools.

mod redirect;
mod request_sender;

pub use redirect::Redirects;
pub(super) use request_sender::RequestSender;

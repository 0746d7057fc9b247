//! How a client sends requests, over the connections of its pools.
//!
//! Each way to send is a method of [`RequestSender`] or in `upgraded.rs`. All of them make attempts, in one place, where the
//! policy for retries is.

mod attempt;
mod attempts;
mod hedge;
mod redirect;
mod request_sender;
mod upgraded;

pub use redirect::Redirects;
pub(super) use request_sender::RequestSender;
pub use upgraded::ClientUpgraded;
#[cfg(feature = "websocket")]
pub(super) use upgraded::switch;
pub(super) use upgraded::upgrade;

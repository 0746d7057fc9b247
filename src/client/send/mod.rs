//! How a client sends requests, over the connections of its pools.
//!
//! Each way to send is a method of [`RequestSender`] or in `upgraded.rs`. All of them make attempts, in one place, where the
//! policy for retries is, and the middleware beneath it.

mod hedge;
mod redirect_chain;
mod request_sender;
mod retry_loop;
mod sent_request;
mod surrounded;
mod upgraded;

pub(super) use hedge::{Winner, hedge};
pub(super) use request_sender::RequestSender;
pub(super) use sent_request::has_call_body;
pub use upgraded::ClientUpgraded;
#[cfg(feature = "websocket")]
pub(super) use upgraded::switch;
pub(super) use upgraded::upgrade;

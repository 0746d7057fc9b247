//! [`Response`], and the heads of both messages in logs.

mod client_info;
mod head_display;
mod response;
mod rewrite;

pub use client_info::{ClientInfo, Redirect, Timings};
pub use response::Response;

//! [`Response`], and how the heads of both messages are shown in logs.

mod client_info;
mod head_display;
mod response;
mod rewrite;

pub use client_info::{ClientInfo, Redirect, Timings};
pub use response::Response;

//! [`Response`], and how the heads of both messages are shown in logs.

mod head_display;
mod response;

pub use response::{ClientInfo, Response, Timings};

//! An arena-backed HTTP/1.1 server on a per-core runtime: nothing is allocated per request.

#![forbid(unsafe_code)]

mod exchange;
mod memory;
mod message;
mod net;
mod runtime;
mod server;
mod wire;

pub use exchange::{ExchangeError, Phase, Timeouts};
pub use message::{
    Body, ExtensionMethod, FieldValue, Headers, InvalidField, InvalidMethod, InvalidRequest, InvalidStatus,
    InvalidTarget, Iter, Method, Pairs, Query, Request, Response, Source, Status, Target, TargetForm,
    Version,
};
pub use net::{Address, MemoryConnector, MemoryListener, MemoryStream, PeerAddr};
pub use server::{
    AsyncHandler, BodyPlan, Cause, Context, Core, Counts, Error, Errors, Extensions, Handler, IntoHandler,
    Outcome, PlainHandler, Planned, Reader, Refusal, Result, Running, Server, Service, Stats, Upgraded,
    Writer, with_plan,
};
pub use wire::{Limits, WireError};

//! Floor 5: CORS, by which a browser lets the pages of other origins read what a server answers.
//!
//! In reading order: the middleware, and the origins that it allows.

mod cors;
mod origin;

pub use cors::Cors;

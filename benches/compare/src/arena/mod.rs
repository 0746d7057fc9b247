//! Whole applications, as the public benchmark HttpArena asks for them: the data, the entries, what they are asked for,
//! and the rules that each must keep before it is measured.

mod database;
mod dataset;
mod exchange;
mod kind;
mod static_files;

mod data;
mod entry;
mod programs;

mod requests;
mod rules;
mod scenario;

pub(crate) use data::Data;
pub(crate) use entry::{Addresses, Entry};
pub(crate) use programs::Programs;
pub(crate) use scenario::{SCENARIOS, Scenario};

//! The parts that benchmarks share: peers, load, fake connections, and what counts and reports.
//!
//! `cargo regression` counts a program without link-time optimization. So a function that is called in the exchanges it
//! counts is `#[inline]` here, and compiled with the benchmark.

// Counting and reporting.
#[path = "../../tests/support/alloc.rs"]
pub mod alloc;
pub mod baseline;
pub mod callgrind;
pub mod report;
pub mod spread;
pub mod syscalls;

// Messages in memory.
pub mod fake;
pub mod github_api;
pub mod heads;
pub mod scripted;
pub mod workload;

// Processes.
pub mod child;
pub mod nginx;

// Servers and clients that are measured.
pub mod askers;
pub mod handlers;
pub mod limit;
pub mod runtime_only;
pub mod servers;
#[cfg(feature = "load")]
pub mod work;

// Load over sockets.
pub mod clients;
pub mod flood;
pub mod load;
pub mod people;

// Simulations.
pub mod simulation;

//! corehttp beside everyone: one command that measures servers and clients, and writes down what it saw.
//!
//! ```text
//! cargo run --release --manifest-path benches/compare/Cargo.toml
//! cargo run --release --manifest-path benches/compare/Cargo.toml -- applications
//! cargo run --release --manifest-path benches/compare/Cargo.toml -- observing
//! cargo run --release --manifest-path benches/compare/Cargo.toml -- --quick
//! cargo run --release --manifest-path benches/compare/Cargo.toml -- hyper echo
//! ```
//!
//! Each peer is a process of its own on the server's core; the load has another core. The peers take turns round by
//! round, so a machine that slows down slows all of them. The first peer of each workload is the limit: a bare epoll
//! loop, or a bare write and read, that does the work of the workload and nothing else. Of the applications, those rows
//! have one in which nothing is computed.

mod application;

mod allocations;
mod child;
mod machine;
mod pinned_core;
mod steal;
#[path = "../../support/syscalls.rs"]
mod syscalls;

mod arena;
mod asker;
mod load;
mod observing;
mod peer;
mod workload;

mod measure;
mod options;
mod progress;
mod spread;

mod report;

use std::process::ExitCode;

use options::{Options, Role};

fn main() -> ExitCode {
    let role = match Options::parse(std::env::args().skip(1)) {
        Ok(role) => role,
        Err(help) => {
            eprintln!("{help}");
            return ExitCode::FAILURE;
        }
    };
    // Ten thousand idle connections, and the busy ones beside them.
    if let Err(error) = rlimit::increase_nofile_limit(u64::MAX) {
        eprintln!("the limit of open files stays as it is: {error}");
    }
    let outcome = match role {
        Role::Serve(peer) => peer.serve(),
        Role::Observe(observed) => observed.serve(),
        Role::CompareObserved => observing::compare(),
        Role::Ask(asker, task, address) => asker::answer_parent(asker, task, address),
        Role::Become(program, args) => child::become_program(&program, &args),
        Role::Help => {
            println!("{}", options::help());
            Ok(())
        }
        Role::Measure(options) => {
            let folder = options.folder();
            measure::all(&options, |results| report::write(results, &folder))
                .map(|results| report::tell(&results, &folder))
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

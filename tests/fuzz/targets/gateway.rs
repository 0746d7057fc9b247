//! Fuzzes [`corehttp_fuzz::gateway`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| corehttp_fuzz::gateway::run(data));

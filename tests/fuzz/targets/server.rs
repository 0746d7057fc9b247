//! Fuzzes [`corehttp_fuzz::server`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| corehttp_fuzz::server::run(data));

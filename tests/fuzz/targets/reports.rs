//! Fuzzes [`corehttp_fuzz::reports`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| corehttp_fuzz::reports::run(data));

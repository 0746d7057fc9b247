//! Fuzzes [`corehttp_fuzz::handover`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| corehttp_fuzz::handover::run(data));

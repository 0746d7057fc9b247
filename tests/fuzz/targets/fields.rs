//! Fuzzes [`corehttp_fuzz::fields`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| corehttp_fuzz::fields::run(data));

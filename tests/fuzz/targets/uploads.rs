//! Fuzzes [`corehttp_fuzz::uploads`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| corehttp_fuzz::uploads::run(data));

//! Fuzzes [`corehttp_fuzz::decoding`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| corehttp_fuzz::decoding::run(data));

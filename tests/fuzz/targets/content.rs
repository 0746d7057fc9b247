//! Fuzzes [`corehttp_fuzz::content`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| corehttp_fuzz::content::run(data));

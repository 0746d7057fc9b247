//! Fuzzes [`corehttp_fuzz::files`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| corehttp_fuzz::files::run(data));

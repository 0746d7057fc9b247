//! Fuzzes [`corehttp_fuzz::proxies`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| corehttp_fuzz::proxies::run(data));

//! Fuzzes [`corehttp_fuzz::client`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| corehttp_fuzz::client::run(data));

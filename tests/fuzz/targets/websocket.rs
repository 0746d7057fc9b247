//! Fuzzes [`corehttp_fuzz::websocket`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| corehttp_fuzz::websocket::run(data));

//! Runs the fuzz target that has the name of the program.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| leasehold_fuzz::run(env!("CARGO_BIN_NAME"), input));

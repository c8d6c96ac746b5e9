//! Fuzzes `tallymesh_tests::hostile::token`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tallymesh_tests::hostile::token(bytes));

//! Fuzzes `tallymesh_tests::hostile::delivery`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tallymesh_tests::hostile::delivery(bytes));

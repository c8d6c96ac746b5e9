//! Fuzzes `tallymesh_tests::hostile::member`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tallymesh_tests::hostile::member(bytes));

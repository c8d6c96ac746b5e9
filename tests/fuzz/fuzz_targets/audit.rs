//! Fuzzes `tallymesh_tests::hostile::audit`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tallymesh_tests::hostile::audit(bytes));

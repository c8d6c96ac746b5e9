//! Fuzzes `tallymesh_tests::hostile::peer`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tallymesh_tests::hostile::peer(bytes));

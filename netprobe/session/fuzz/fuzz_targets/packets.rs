//! Arbitrary octets to reflector and sender. Run by `cargo +nightly fuzz run packets` in `netprobe/session`.

#![no_main]

#[path = "../../tests/it/feed.rs"]
mod feed;

libfuzzer_sys::fuzz_target!(|octets: &[u8]| feed::feed(octets));

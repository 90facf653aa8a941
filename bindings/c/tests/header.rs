//! The header is that of the library: `scripts/bindings-c header`, which runs this test with `TYR_WRITE_HEADER=1`, writes it anew.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{env, fs, path::Path};

#[test]
fn the_header_is_that_of_the_library() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(here.join("cbindgen.toml")).unwrap();
    let mut header = Vec::new();
    cbindgen::generate_with_config(here, config).unwrap().write(&mut header);
    let header = String::from_utf8(header).unwrap();

    let path = here.join("include/tyr.h");
    if env::var_os("TYR_WRITE_HEADER").is_some() {
        fs::write(&path, &header).unwrap();
    }
    assert!(
        header == fs::read_to_string(&path).unwrap(),
        "include/tyr.h is out of date: run scripts/bindings-c header"
    );
}

//! While contracts are made: a file that gets whatever the tests would check against them.

use std::io::Write;

use serde_json::Value;

/// Names the file. `make contracts` sets it.
const FILE: &str = "C5C3_CONTRACTS_RECORD";

/// Whether contracts are being made: then they may lack what tests ask of them.
pub fn is_recording() -> bool {
    std::env::var_os(FILE).is_some()
}

/// Notes an object whose fields, or a definition whose schema, belong into contracts, if they are being made.
pub fn record(object: &Value) -> bool {
    let Some(file) = std::env::var_os(FILE) else { return false };
    let file = std::fs::File::options().append(true).create(true).open(file);
    // One write for each line: tests that run at the same time append to the same file.
    let written = file.and_then(|mut file| file.write_all(format!("{object}\n").as_bytes()));
    written.expect("the file for recorded objects can be written");
    true
}

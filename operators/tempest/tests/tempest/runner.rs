//! The runner, as far as it goes without a cloud: the Python of this machine runs its own tests.

use std::process::Command;

#[test]
fn the_runner_chooses_counts_and_tells_what_it_should() {
    let folder = env!("CARGO_MANIFEST_DIR");
    let done = Command::new("python3")
        .args(["-B", "-m", "unittest", "-q", "runner_test"])
        .current_dir(format!("{folder}/tests/tempest"))
        .env("PYTHONPATH", format!("{folder}/src"))
        .output();
    let done = done.expect("python3 is installed");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

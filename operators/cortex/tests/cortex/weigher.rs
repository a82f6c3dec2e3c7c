//! The weigher that a patch adds to the image of Nova, in Python, with a server that answers as Cortex does.

use std::path::Path;
use std::process::Command;

const TEST: &str = include_str!("weigher_test.py");

/// The file that a patch adds.
fn added(patch: &str) -> String {
    let (_, rest) = patch.split_once("+++ b/nova/scheduler/cortex.py\n").unwrap();
    let lines = rest.lines().skip(1).map_while(|line| line.strip_prefix('+'));
    lines.flat_map(|line| [line, "\n"]).collect()
}

#[test]
fn the_weigher_follows_the_answer_and_fails_as_it_is_told_to() {
    let releases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../images/releases");
    let file = "patches/service/nova/0001-ask-cortex-where-servers-go.patch";
    let weighers =
        ["2025.2", "2026.1"].map(|release| added(&std::fs::read_to_string(releases.join(release).join(file)).unwrap()));
    assert_eq!(weighers[0], weighers[1], "the releases have different weighers");
    let output = Command::new("python3").args(["-c", TEST, &weighers[0]]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

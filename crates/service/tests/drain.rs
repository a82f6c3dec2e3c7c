//! What a pod does before it ends, on a clock of the test's own.

use std::process::Command;

/// Runs `drain` with connections by the tenth of a second, and says after how many seconds it ended.
const SCRIPT: &str = r#"
import runpy, sys
drain = runpy.run_path(sys.argv[1])["drain"]
OPEN, GONE, NEVER = "01", "06", 10_000
clock = [0.0]

def ends(*connections):
    clock[0] = 0.0
    def look(_):
        states = {}
        for number, (begins, ends) in enumerate(connections):
            if begins <= clock[0]:
                states[number] = OPEN if clock[0] < ends else GONE
        return states
    drain({5000}, now=lambda: clock[0], look=look, pause=lambda seconds: clock.__setitem__(0, clock[0] + seconds))
    return round(clock[0])

print(ends(), ends((0, 9)), ends((-1, 0)), ends((6, 6)), ends((4, 4), (6, 6)), ends((0, NEVER)))
"#;

#[test]
fn a_pod_goes_on_until_no_client_connects_and_not_for_ever() {
    let output = Command::new("python3")
        .args(["-c", SCRIPT, concat!(env!("CARGO_MANIFEST_DIR"), "/src/drain.py")])
        .output()
        .unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // No client; one that is answered late; one of before; one who comes too late to matter; two in a row; one who never goes.
    assert_eq!(said.trim(), "5 12 5 5 9 35");
}

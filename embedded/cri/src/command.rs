//! Running a program to its end.

use std::io::{self, Write as _};
use std::process::{ChildStdin, Command, Stdio};

/// A program that failed: the command line, and what it said.
#[derive(Debug, thiserror::Error)]
#[error("{command}: {reason}")]
pub struct CommandError {
    /// The command line.
    pub command: String,
    /// What it printed as errors, or why it could not be run.
    pub reason: String,
}

/// Runs a program with some input; what it prints.
pub(crate) fn run(command: &mut Command, input: &str) -> Result<String, CommandError> {
    run_with(command, |mut stdin| stdin.write_all(input.as_bytes()))
}

/// Runs a program with what is written to it; what it prints.
pub(crate) fn run_with(
    command: &mut Command,
    input: impl FnOnce(ChildStdin) -> io::Result<()>,
) -> Result<String, CommandError> {
    let failed = |command: &Command, reason: String| CommandError { command: line(command), reason };
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| failed(command, error.to_string()))?;
    // One that ends without reading its input says why by its exit.
    let _ = input(child.stdin.take().expect("stdin is a pipe"));
    let output = child.wait_with_output().map_err(|error| failed(command, error.to_string()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let reason = if said.trim().is_empty() { output.status.to_string() } else { said.trim().to_owned() };
    Err(failed(command, reason))
}

fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

//! The network namespace that commands run in.

use std::path::PathBuf;
use std::process::{Output, Stdio};

use thiserror::Error;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// A network namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Namespace {
    /// The one of this process.
    #[default]
    Current,
    /// The one that is mounted there, such as `/run/netns/NAME`.
    At(PathBuf),
}

/// Why a command did not do its work.
#[derive(Debug, Error)]
pub enum CommandError {
    /// The program is not there, or could not be talked to.
    #[error("running {program}")]
    Run {
        /// What was to run.
        program: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// It ran, and said no.
    #[error("{program} failed: {message}")]
    Failed {
        /// What ran.
        program: String,
        /// What it said.
        message: String,
    },
}

impl Namespace {
    fn command(&self, program: &str) -> Command {
        match self {
            Self::Current => Command::new(program),
            Self::At(path) => {
                let mut net = std::ffi::OsString::from("--net=");
                net.push(path);
                let mut command = Command::new("nsenter");
                command.arg(net).arg("--").arg(program);
                command
            }
        }
    }

    /// Runs a program in this namespace with that text as its input, and gives what it printed.
    pub(crate) async fn run(&self, program: &str, arguments: &[&str], input: &str) -> Result<String, CommandError> {
        let failed = |source| CommandError::Run { program: program.to_owned(), source };
        let mut child = self
            .command(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let stdin = child.stdin.take();
        let feed = async move {
            let Some(mut stdin) = stdin else { return };
            // A program that ends early says why on its standard error: that is the error to tell.
            if let Err(error) = stdin.write_all(input.as_bytes()).await {
                tracing::debug!(%error, "a program did not read all of its input");
            }
        };
        let (output, ()) = tokio::join!(child.wait_with_output(), feed);
        let Output { status, stdout, stderr } = output.map_err(failed)?;
        if status.success() {
            return Ok(String::from_utf8_lossy(&stdout).into_owned());
        }
        let message = String::from_utf8_lossy(&stderr).trim().to_owned();
        Err(CommandError::Failed { program: program.to_owned(), message })
    }
}

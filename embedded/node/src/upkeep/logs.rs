//! Logs do not grow for ever: a file of 10 MiB is moved aside, and five are kept.

use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;

use crate::node::Node;

const LARGEST: u64 = 10 << 20;
/// With the one that is written to.
const MOST_FILES: usize = 5;

/// Rotates the logs of running containers that have become too large.
pub(super) async fn rotate(node: &Node) {
    for container in node.directory.running() {
        let is_large = std::fs::metadata(&container.log).is_ok_and(|metadata| metadata.len() > LARGEST);
        if !is_large {
            continue;
        }
        let moved = move_aside(&container.log, Timestamp::now());
        let outcome = match moved {
            Ok(aside) => match node.runtime.reopen_container_log(&container.container).await {
                // The container still writes to the old file: it goes on as if nothing had been.
                Err(error) => std::fs::rename(aside, &container.log).and(Err(io::Error::other(error))),
                Ok(()) => Ok(()),
            },
            Err(error) => Err(error),
        };
        if let Err(error) = outcome {
            tracing::warn!(log = %container.log.display(), %error, "cannot rotate a log");
        }
    }
}

/// Moves a log aside under the time, and removes the oldest.
fn move_aside(log: &Path, now: Timestamp) -> io::Result<PathBuf> {
    let time = strtime::format("%Y%m%d-%H%M%S", &now.to_zoned(TimeZone::UTC)).map_err(io::Error::other)?;
    let aside = PathBuf::from(format!("{}.{time}", log.display()));
    let mut rotated = rotated(log)?;
    // One more is about to come, and one is being written to.
    let excess = (rotated.len() + 2).saturating_sub(MOST_FILES);
    for oldest in rotated.drain(..excess) {
        std::fs::remove_file(oldest)?;
    }
    std::fs::rename(log, &aside)?;
    Ok(aside)
}

/// The files that were moved aside, oldest first.
pub(crate) fn rotated(log: &Path) -> io::Result<Vec<PathBuf>> {
    let (Some(folder), Some(name)) = (log.parent(), log.file_name()) else { return Ok(Vec::new()) };
    let prefix = format!("{}.", name.to_string_lossy());
    let entries = std::fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    let ours = entries.into_iter().filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix));
    let mut files: Vec<PathBuf> = ours.map(|entry| entry.path()).collect();
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::testing::at;

    #[test]
    fn five_files_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("0.log");
        for minute in 0..8 {
            std::fs::write(&log, minute.to_string()).unwrap();
            move_aside(&log, at(minute * 60)).unwrap();
        }
        std::fs::write(folder.path().join("1.log"), "").unwrap();
        let kept = rotated(&log).unwrap();
        let texts: Vec<String> = kept.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
        assert_eq!(texts, ["4", "5", "6", "7"]);
    }
}

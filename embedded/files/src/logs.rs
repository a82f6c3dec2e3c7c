//! Logs of processes that write to a file which they were started with.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;

/// The size at which logs of the cluster's own processes are moved away.
pub const LOG_LIMIT: u64 = 10 << 20;

/// Moves what a log holds to a second file, `NAME.1`, if that is more than `limit`. The process keeps its file open and
/// appends, so the file itself stays. A log that is not there is small.
pub fn rotate_log(log: &Path, limit: u64) -> io::Result<()> {
    let large = fs::metadata(log).is_ok_and(|found| found.len() > limit);
    if !large {
        return Ok(());
    }
    let mut second = log.as_os_str().to_owned();
    second.push(".1");
    fs::copy(log, second)?;
    OpenOptions::new().write(true).open(log)?.set_len(0)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_large_log_is_moved_under_the_process_that_writes_it() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("agent.log");
        rotate_log(&log, LOG_LIMIT).unwrap();
        let mut writer = OpenOptions::new().create(true).append(true).open(&log).unwrap();
        writer.write_all(b"small\n").unwrap();
        rotate_log(&log, LOG_LIMIT).unwrap();
        assert_eq!(fs::read(&log).unwrap(), b"small\n");
        writer.set_len(LOG_LIMIT + 1).unwrap();
        rotate_log(&log, LOG_LIMIT).unwrap();
        writer.write_all(b"fresh\n").unwrap();
        assert_eq!(fs::read(&log).unwrap(), b"fresh\n");
        assert_eq!(fs::metadata(folder.path().join("agent.log.1")).unwrap().len(), LOG_LIMIT + 1);
    }
}

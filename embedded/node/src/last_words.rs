//! What a container says about its end: the file it may write to, else the end of its log.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// As much of the file as a status holds.
const LONGEST: u64 = 4096;
/// As much of a log's end.
const LONGEST_OF_LOG: usize = 2048;
const LINES_OF_LOG: usize = 80;

/// What the file says, or the end of the log if one may be looked at and the file is empty.
pub(crate) fn read(file: Option<&Path>, log: Option<&Path>) -> String {
    let said = file.and_then(|file| start_of(file).ok()).unwrap_or_default();
    if !said.is_empty() {
        return said;
    }
    log.and_then(|log| end_of(log).ok()).map(|text| end_of_log(&text)).unwrap_or_default()
}

fn start_of(file: &Path) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    File::open(file)?.take(LONGEST).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// More than is needed, for each line of the file has a prefix.
fn end_of(log: &Path) -> std::io::Result<String> {
    let mut file = File::open(log)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(16 * LONGEST)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The last lines of a log in the format of the CRI: `TIME STREAM F text`.
fn end_of_log(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let tail = &lines[lines.len().saturating_sub(LINES_OF_LOG)..];
    let mut said = String::new();
    for line in tail {
        let mut parts = line.splitn(4, ' ').skip(2);
        if let (Some(flag), Some(text)) = (parts.next(), parts.next()) {
            said.push_str(text);
            // `P` marks a part of a line.
            said.push_str(if flag.starts_with('F') { "\n" } else { "" });
        }
    }
    let mut cut = said.len().saturating_sub(LONGEST_OF_LOG);
    while !said.is_char_boundary(cut) {
        cut += 1;
    }
    said.split_off(cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_comes_before_the_log() {
        let folder = tempfile::tempdir().unwrap();
        let (file, log) = (folder.path().join("file"), folder.path().join("log"));
        std::fs::write(&log, "2026-01-01T00:00:00Z stderr P no su\n2026-01-01T00:00:00Z stderr F ch key\n").unwrap();
        std::fs::write(&file, "").unwrap();
        assert_eq!(read(Some(&file), Some(&log)), "no such key\n");
        assert_eq!(read(Some(&file), None), "");
        std::fs::write(&file, "x".repeat(5000)).unwrap();
        assert_eq!(read(Some(&file), Some(&log)).len(), 4096);
    }

    #[test]
    fn of_a_log_only_the_end_is_told() {
        let lines: Vec<String> = (0..500).map(|n| format!("2026-01-01T00:00:00Z stdout F {n:0>60}\n")).collect();
        let said = end_of_log(&lines.concat());
        assert_eq!(said.len(), 2048);
        assert!(said.ends_with("499\n"), "{said}");
    }
}

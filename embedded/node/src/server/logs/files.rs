//! The files of a log: the one that is written to, and those that were moved aside; and where its last lines begin.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// How much is read at once when looking backwards.
const BLOCK: u64 = 64 * 1024;

/// All files, oldest first; the one that is written to is the last, and may not be there.
pub(super) fn all(log: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = crate::upkeep::rotated(log)?;
    files.push(log.to_owned());
    Ok(files)
}

/// Where the last lines begin: which file, and at which byte. Of a last line that is being written nothing counts.
pub(super) fn tail(files: &[PathBuf], lines: u64) -> io::Result<(usize, u64)> {
    let mut wanted = lines;
    for (index, path) in files.iter().enumerate().rev() {
        match ends(path, wanted)? {
            Found::At(position) => return Ok((index, position)),
            Found::Only(count) => wanted -= count,
        }
    }
    Ok((0, 0))
}

enum Found {
    /// So many lines begin at this byte.
    At(u64),
    /// The file has only so many, and fewer than wanted.
    Only(u64),
}

/// Looks for line ends from the end of a file: what is wanted begins behind the one before the first wanted line's.
fn ends(path: &Path, wanted: u64) -> io::Result<Found> {
    let mut file = File::open(path)?;
    let (mut end, mut seen) = (file.metadata()?.len(), 0);
    let mut block = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(BLOCK);
        file.seek(SeekFrom::Start(start))?;
        block.clear();
        (&mut file).take(end - start).read_to_end(&mut block)?;
        for (offset, _) in (start..).zip(&block).filter(|(_, byte)| **byte == b'\n').collect::<Vec<_>>().iter().rev() {
            if seen == wanted {
                return Ok(Found::At(offset + 1));
            }
            seen += 1;
        }
        end = start;
    }
    Ok(if seen == wanted { Found::At(0) } else { Found::Only(seen) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_found_across_files() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("0.log");
        std::fs::write(folder.path().join("0.log.20260101-000000"), "a\nb\n").unwrap();
        std::fs::write(folder.path().join("0.log.20260102-000000"), "c\n").unwrap();
        std::fs::write(folder.path().join("1.log"), "not of this log\n").unwrap();
        std::fs::write(&log, "d\ne\nbeing writ").unwrap();
        let files = all(&log).unwrap();
        assert_eq!(files.len(), 3);
        let found = |lines| tail(&files, lines).unwrap();
        assert_eq!((found(0), found(1), found(2)), ((2, 4), (2, 2), (2, 0)));
        assert_eq!((found(3), found(4), found(5), found(99)), ((1, 0), (0, 2), (0, 0), (0, 0)));
    }

    #[test]
    fn lines_longer_than_a_block_are_found_too() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("0.log");
        let long = "x".repeat(usize::try_from(BLOCK).unwrap());
        std::fs::write(&log, format!("a\n{long}\n{long}\n")).unwrap();
        assert_eq!(tail(std::slice::from_ref(&log), 1).unwrap(), (0, BLOCK + 3));
        assert_eq!(tail(&[log], 2).unwrap(), (0, 2));
    }
}

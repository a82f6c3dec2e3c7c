//! Reads a log from file to file, and waits for more at its end if more is wanted.

use std::collections::VecDeque;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use tokio::fs::File;
use tokio::io::{AsyncBufReadExt, AsyncSeekExt, BufReader};

use super::files;
use super::options::Options;
use super::render::Render;

/// How often a log that is followed is looked at: soon enough for whoever reads it, and little work.
const PAUSE: Duration = Duration::from_millis(100);

/// How much is shown at once, at most, but for one line.
const CHUNK: usize = 64 * 1024;

/// A log that is being read.
pub(super) struct Reader {
    /// The file that is written to.
    log: PathBuf,
    /// What is to be read next.
    later: VecDeque<PathBuf>,
    file: BufReader<File>,
    /// Which one that is, whatever it is called by now.
    inode: u64,
    /// The line that is being read; its end may not be written yet.
    line: Vec<u8>,
    render: Render,
    follow: bool,
    /// The log goes on in another file, or its container has ended: only what is written already is left to read.
    is_final: bool,
}

impl Reader {
    /// Opens a log where reading begins.
    pub(super) async fn open(log: &Path, options: Options) -> io::Result<Self> {
        let path = log.to_owned();
        let found = tokio::task::spawn_blocking(move || {
            let files = files::all(&path)?;
            let (index, position) = options.tail.map_or(Ok((0, 0)), |lines| files::tail(&files, lines))?;
            Ok::<_, io::Error>((files.into_iter().skip(index).collect::<VecDeque<_>>(), position))
        });
        let (mut later, position) = found.await.map_err(io::Error::other)??;
        let first = later.pop_front().unwrap_or_else(|| log.to_owned());
        let (mut file, inode) = opened(&first).await?;
        file.seek(io::SeekFrom::Start(position)).await?;
        Ok(Self {
            log: log.to_owned(),
            later,
            file: BufReader::with_capacity(CHUNK, file),
            inode,
            line: Vec::new(),
            render: Render::new(options),
            follow: options.follow,
            is_final: false,
        })
    }

    /// What is to be shown next; waits for it if the log is followed. None at the end.
    pub(super) async fn next(&mut self, goes_on: &(impl Fn() -> bool + Sync)) -> io::Result<Option<Bytes>> {
        loop {
            let shown = self.read().await?;
            if !shown.is_empty() {
                return Ok(Some(shown.into()));
            }
            if self.render.is_done() || !self.turn_page(goes_on).await? {
                return Ok(None);
            }
        }
    }

    /// Reads whole lines from the open file, until its end or until it is enough for once.
    async fn read(&mut self) -> io::Result<Vec<u8>> {
        let mut shown = Vec::new();
        while shown.len() < CHUNK && !self.render.is_done() {
            self.file.read_until(b'\n', &mut self.line).await?;
            if !self.line.ends_with(b"\n") {
                break;
            }
            self.render.line(&self.line, &mut shown);
            self.line.clear();
        }
        Ok(shown)
    }

    /// What to do at the end of a file: go on with the next, look once more, or wait. False at the end of the log.
    async fn turn_page(&mut self, goes_on: &impl Fn() -> bool) -> io::Result<bool> {
        if let Some(next) = self.later.pop_front() {
            return self.switch(&next).await.map(|()| true);
        }
        if !self.follow {
            return Ok(false);
        }
        let is_moved = tokio::fs::metadata(&self.log).await.is_ok_and(|log| log.ino() != self.inode);
        if self.is_final && is_moved {
            self.is_final = false;
            let log = self.log.clone();
            self.switch(&log).await?;
        } else if self.is_final {
            return Ok(false);
        } else if is_moved || !goes_on() {
            // Something may have been written between the last look and now.
            self.is_final = true;
        } else {
            tokio::time::sleep(PAUSE).await;
        }
        Ok(true)
    }

    async fn switch(&mut self, path: &Path) -> io::Result<()> {
        let (file, inode) = opened(path).await?;
        (self.file, self.inode) = (BufReader::with_capacity(CHUNK, file), inode);
        self.line.clear();
        Ok(())
    }
}

async fn opened(path: &Path) -> io::Result<(File, u64)> {
    let file = File::open(path).await?;
    let inode = file.metadata().await?.ino();
    Ok((file, inode))
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    struct Log {
        folder: tempfile::TempDir,
        runs: AtomicBool,
    }

    impl Log {
        fn new() -> Self {
            Self { folder: tempfile::tempdir().unwrap(), runs: AtomicBool::new(true) }
        }

        fn path(&self) -> PathBuf {
            self.folder.path().join("0.log")
        }

        fn write(&self, text: &str) {
            let mut file = OpenOptions::new().create(true).append(true).open(self.path()).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        }

        fn line(&self, text: &str) {
            self.write(&format!("2026-03-01T12:00:00Z stdout F {text}\n"));
        }

        fn rotate(&self, time: &str) {
            std::fs::rename(self.path(), self.folder.path().join(format!("0.log.{time}"))).unwrap();
        }

        async fn read(&self, options: Options) -> String {
            let mut reader = Reader::open(&self.path(), options).await.unwrap();
            let mut text = String::new();
            while let Some(shown) = self.next(&mut reader).await {
                text.push_str(&shown);
            }
            text
        }

        async fn next(&self, reader: &mut Reader) -> Option<String> {
            let shown = reader.next(&|| self.runs.load(Ordering::SeqCst)).await.unwrap();
            shown.map(|shown| String::from_utf8(shown.to_vec()).unwrap())
        }
    }

    #[tokio::test]
    async fn all_files_are_read_and_a_line_that_is_being_written_is_not() {
        let log = Log::new();
        log.line("one");
        log.rotate("20260301-120000");
        log.line("two");
        log.write("2026-03-01T12:00:00Z stdout F being writ");
        assert_eq!(log.read(Options::default()).await, "one\ntwo\n");
        assert_eq!(log.read(Options { tail: Some(1), ..Options::default() }).await, "two\n");
        assert_eq!(log.read(Options { limit: Some(5), ..Options::default() }).await, "one\nt");
    }

    #[tokio::test]
    async fn a_log_is_followed_through_rotation_to_the_end_of_its_container() {
        let log = Log::new();
        log.line("one");
        let options = Options { follow: true, tail: Some(0), ..Options::default() };
        let mut reader = Reader::open(&log.path(), options).await.unwrap();
        log.write("2026-03-01T12:00:00Z stdout F in ");
        log.write("parts\n");
        assert_eq!(log.next(&mut reader).await.unwrap(), "in parts\n");
        log.line("before");
        log.rotate("20260301-120000");
        log.line("after");
        assert_eq!(log.next(&mut reader).await.unwrap(), "before\n");
        assert_eq!(log.next(&mut reader).await.unwrap(), "after\n");
        log.runs.store(false, Ordering::SeqCst);
        log.line("last");
        assert_eq!(log.next(&mut reader).await.unwrap(), "last\n");
        assert_eq!(log.next(&mut reader).await, None);
    }
}

//! Processes of the machine, held by a descriptor so that a signal never reaches another one that took the number.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// How long one that was killed may take to vanish: longer only when the kernel waits for a device.
const KILL_LIMIT: Duration = Duration::from_secs(30);

/// A process that ran when it was looked up.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    handle: OwnedFd,
}

impl Process {
    /// The process of this number, if there is one.
    pub(crate) fn open(pid: u32) -> Option<Self> {
        let number = Pid::from_raw(i32::try_from(pid).ok()?)?;
        let handle = pidfd_open(number, PidfdFlags::empty()).ok()?;
        Some(Self { pid, handle })
    }

    /// Asks the process to end; kills it after `grace`.
    pub(crate) fn end(&self, grace: Duration) -> io::Result<()> {
        if !grace.is_zero() {
            self.signal(Signal::TERM)?;
            if self.ended_within(grace)? {
                return Ok(());
            }
        }
        self.signal(Signal::KILL)?;
        if self.ended_within(KILL_LIMIT)? {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, format!("process {} does not end", self.pid)))
    }

    pub(crate) fn signal(&self, signal: Signal) -> io::Result<()> {
        match pidfd_send_signal(&self.handle, signal) {
            // It has ended already.
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn has_ended(&self) -> io::Result<bool> {
        self.ended_within(Duration::ZERO)
    }

    fn ended_within(&self, limit: Duration) -> io::Result<bool> {
        let deadline = Instant::now() + limit;
        loop {
            let left = Timespec::try_from(deadline.saturating_duration_since(Instant::now()))
                .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
            match poll(&mut [PollFd::from_borrowed_fd(self.handle.as_fd(), PollFlags::IN)], Some(&left)) {
                Ok(ready) => return Ok(ready > 0),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Is the process in the network namespace that this file stands for?
    pub(crate) fn is_in_namespace(&self, namespace: &Path) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        let identity = |path: &Path| std::fs::metadata(path).map(|found| (found.dev(), found.ino())).ok();
        let own = identity(Path::new(&format!("/proc/{}/ns/net", self.pid)));
        own.is_some() && own == identity(namespace)
    }
}

/// The processes that have `argument` among the words of their command line, each with the name of its program.
pub(crate) fn with_argument(argument: &Path) -> io::Result<Vec<(String, Process)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // The descriptor first: the command line is then that of the process which it holds.
        let Some(process) = Process::open(pid) else { continue };
        let Ok(line) = std::fs::read(format!("/proc/{pid}/cmdline")) else { continue };
        let mut words = line.split(|&byte| byte == 0);
        let program = words.next().and_then(|word| word.rsplit(|&byte| byte == b'/').next()).unwrap_or_default();
        if words.any(|word| word == argument.as_os_str().as_encoded_bytes()) {
            found.push((String::from_utf8_lossy(program).into_owned(), process));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_found_by_an_argument_and_ends_when_asked() {
        let argument = format!("/nowhere/{}", std::process::id());
        let mut command = std::process::Command::new("sh");
        let command = command.args(["-c", "read never", &argument]).stdin(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let looked_for = Path::new(&argument);
        let found = loop {
            // Between fork and exec the command line is still that of the test.
            match with_argument(looked_for).unwrap().pop() {
                Some(found) => break found,
                None => std::thread::yield_now(),
            }
        };
        assert_eq!((found.0.as_str(), found.1.pid), ("sh", child.id()));
        assert!(found.1.is_in_namespace(Path::new("/proc/self/ns/net")));
        found.1.end(Duration::from_mins(1)).unwrap();
        assert!(!child.wait().unwrap().success());
        assert!(with_argument(looked_for).unwrap().is_empty());
    }
}

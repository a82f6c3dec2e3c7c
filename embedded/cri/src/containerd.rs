//! A node's own containerd: started in the node's network namespace and in a session of its own, so that it and its
//! containers outlive us, and found again by the next process.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ipnet::Ipv4Net;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::config::{self, Machine, Registry};
use crate::processes::{self, Process};
use crate::programs::SEARCH_PATH;
use crate::{Programs, Runtime, Site};

/// How long containerd may take to answer: it needs a twentieth of a second on an idle machine.
const START_LIMIT: Duration = Duration::from_mins(1);
/// How long it may take to end when asked to.
const STOP_GRACE: Duration = Duration::from_secs(10);
/// How often it is looked at whether containerd still runs. One that we did not start tells no one of its end.
const EXIT_INTERVAL: Duration = Duration::from_millis(250);
/// How often the log's size is looked at.
const LOG_INTERVAL: Duration = Duration::from_mins(1);

/// How a node's containerd is run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whose it is.
    pub site: Site,
    /// What it runs.
    pub programs: Programs,
    /// The network namespace to start it in, or ours.
    pub namespace: Option<PathBuf>,
    /// Where exec, attach and port-forward streams are served, in the clear: an address that none but those who pass
    /// them on can reach, as loopback is in a node's own namespace.
    pub address: Ipv4Addr,
    /// The addresses of the node's pods.
    pub pods: Ipv4Net,
    /// The image of sandboxes. It has to be imported, or to be fetched from a registry.
    pub sandbox_image: String,
    /// Registries that are asked elsewhere or otherwise than their name says.
    pub registries: Vec<Registry>,
}

/// Why containerd does not run.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A folder or file of the node cannot be written.
    #[error("{}: {source}", path.display())]
    Write {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It could not be started at all, or one that runs could not be stopped.
    #[error("containerd: {0}")]
    Process(#[from] io::Error),
    /// It ended before it answered.
    #[error("containerd ended before it answered ({status}); the end of {}:\n{tail}", log.display())]
    Ended {
        /// How it ended.
        status: String,
        /// Its log.
        log: PathBuf,
        /// The last lines of it.
        tail: String,
    },
    /// It runs, and does not answer.
    #[error("containerd (process {pid}) does not answer within {START_LIMIT:?}: {reason}; see {}", log.display())]
    Silent {
        /// Its process.
        pid: u32,
        /// What the last question failed with.
        reason: String,
        /// Its log.
        log: PathBuf,
    },
}

/// A containerd that answers. Dropping this leaves it running.
#[derive(Debug)]
pub struct Containerd {
    settings: Settings,
    process: Process,
    /// None if another process of ours started it.
    child: Option<Child>,
    runtime: Runtime,
}

impl Containerd {
    /// Finds the node's containerd, or starts it, and waits until it answers. One that runs with other settings or in
    /// another namespace is replaced; its containers go on.
    pub async fn start(settings: Settings) -> Result<Self, StartError> {
        let prepared = tokio::task::spawn_blocking(move || Self::find_or_spawn(settings)).await;
        let (mut containerd, _lock) = prepared.map_err(io::Error::other)??;
        containerd.wait_for_answer().await?;
        Ok(containerd)
    }

    /// Also a lock, to be held until containerd answers: two that start at the same time would wait for each other's
    /// files.
    fn find_or_spawn(settings: Settings) -> Result<(Self, File), StartError> {
        let site = &settings.site;
        for folder in [site.containerd().join("temp"), site.run()] {
            fs::create_dir_all(&folder).map_err(|source| StartError::Write { path: folder, source })?;
        }
        let path = site.containerd().join("lock");
        let lock = File::create(&path).and_then(|file| file.lock().map(|()| file));
        let lock = lock.map_err(|source| StartError::Write { path, source })?;

        let files = config::files(&settings, Machine::detect());
        let changed = files.iter().any(|(path, wanted)| fs::read_to_string(path).ok().as_ref() != Some(wanted));
        let running = Self::find(&settings, !changed)?;
        for (path, text) in &files {
            write(path, text).map_err(|source| StartError::Write { path: path.clone(), source })?;
        }
        let runtime = Runtime::at(&site.socket());
        let containerd = match running {
            Some(process) => Self { process, child: None, runtime, settings },
            None => Self::spawn(settings, runtime)?,
        };
        Ok((containerd, lock))
    }

    /// The node's containerd, if it runs, and is good as it is. Any other one of this node is ended.
    fn find(settings: &Settings, good: bool) -> io::Result<Option<Process>> {
        let mut running = None;
        for (program, process) in processes::with_argument(&settings.site.socket())? {
            let in_place = settings.namespace.as_ref().is_none_or(|namespace| process.is_in_namespace(namespace));
            match program.as_str() {
                "containerd" if good && in_place && running.is_none() => running = Some(process),
                "containerd" => process.end(STOP_GRACE)?,
                _ => {}
            }
        }
        Ok(running)
    }

    fn spawn(settings: Settings, runtime: Runtime) -> Result<Self, StartError> {
        let (site, programs) = (&settings.site, &settings.programs);
        rotate(&site.log());
        let log = OpenOptions::new().create(true).append(true).open(site.log());
        let log = log.map_err(|source| StartError::Write { path: site.log(), source })?;
        // Each of these programs becomes the next, so that the child's number is containerd's.
        let mut command = Command::new(&programs.setsid);
        if let Some(namespace) = &settings.namespace {
            let mut net = std::ffi::OsString::from("--net=");
            net.push(namespace);
            command.arg(&programs.nsenter).arg(net);
        }
        command.arg(&programs.containerd);
        command.arg("--config").arg(site.containerd().join("config.toml")).arg("--address").arg(site.socket());
        command.env("PATH", SEARCH_PATH).env_remove("NOTIFY_SOCKET").current_dir("/");
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn()?;
        let process = Process::open(child.id()).ok_or_else(|| io::Error::other("the child is gone"))?;
        Ok(Self { process, child: Some(child), runtime, settings })
    }

    async fn wait_for_answer(&mut self) -> Result<(), StartError> {
        let deadline = Instant::now() + START_LIMIT;
        loop {
            let question = timeout(Duration::from_secs(5), self.runtime.version()).await;
            let reason = match question {
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(error)) => error.to_string(),
                Err(late) => late.to_string(),
            };
            let log = self.settings.site.log();
            if self.process.has_ended()? {
                let status = self.child.as_mut().and_then(|child| child.wait().ok());
                let status = status.map_or_else(|| "nobody knows why".to_owned(), |status| status.to_string());
                return Err(StartError::Ended { status, tail: tail(&log), log });
            }
            if Instant::now() > deadline {
                return Err(StartError::Silent { pid: self.process.pid, reason, log });
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// The client of this containerd.
    pub fn runtime(&self) -> Runtime {
        self.runtime.clone()
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.process.pid
    }

    /// Was it running already, with the containers of before?
    pub fn was_found(&self) -> bool {
        self.child.is_none()
    }

    /// Waits until containerd has ended, whoever started it.
    pub async fn exited(&mut self) -> io::Result<()> {
        while !self.process.has_ended()? {
            sleep(EXIT_INTERVAL).await;
        }
        self.reap();
        Ok(())
    }

    /// Starts containerd again whenever it ends, and keeps its log small, until told to stop. It is left running then.
    pub async fn keep(mut self, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = sleep(LOG_INTERVAL) => rotate(&self.settings.site.log()),
                _ = self.exited() => {
                    tracing::warn!(node = self.settings.site.node(), "containerd ended, and is started again");
                    match Self::start(self.settings.clone()).await {
                        Ok(again) => self = again,
                        Err(error) => tracing::error!(node = self.settings.site.node(), "{error}"),
                    }
                    // One that ends over and over must not take all the time there is.
                    sleep(Duration::from_secs(1)).await;
                }
            }
        }
    }

    /// Ends containerd. Its containers go on running, and the next one finds them.
    pub async fn stop(mut self) -> io::Result<()> {
        let ended = tokio::task::spawn_blocking(move || {
            self.process.end(STOP_GRACE)?;
            self.reap();
            Ok(())
        });
        ended.await.map_err(io::Error::other)?
    }

    fn reap(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.try_wait();
        }
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        self.reap();
    }
}

/// Writes a file that has other content.
fn write(path: &Path, text: &str) -> io::Result<()> {
    if fs::read_to_string(path).is_ok_and(|found| found == text) {
        return Ok(());
    }
    c5c3_files::write_private(path, text.as_bytes())
}

/// Keeps containerd's log small.
fn rotate(log: &Path) {
    if let Err(error) = c5c3_files::rotate_log(log, c5c3_files::LOG_LIMIT) {
        tracing::warn!("{}: {error}", log.display());
    }
}

fn tail(log: &Path) -> String {
    let text = fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(5)..].join("\n")
}

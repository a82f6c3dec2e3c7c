//! Images that are made on this machine: the one of sandboxes and one for tests, and how an archive of images gets into
//! a node's containerd. No registry is involved.

mod archive;

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::command::{self, CommandError};
use crate::{CallError, Programs, Runtime, Site};

pub use archive::{Config, Image, Layer};

/// The image of sandboxes.
pub const PAUSE: &str = "c5c3.local/pause:1";
/// An image with a shell and the usual small programs.
pub const BUSYBOX: &str = "c5c3.local/busybox:1";

/// How long an image that was imported may take to be known to the CRI, which hears of it by an event.
const EVENT_LIMIT: Duration = Duration::from_mins(1);

/// Why an image is not there.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// A file of it cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It names no image in full, with registry and tag.
    #[error("{}: the archive names no image", .0.display())]
    Nameless(PathBuf),
    /// A program refused.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// containerd refused.
    #[error(transparent)]
    Call(#[from] CallError),
    /// It was imported, and containerd does not show it.
    #[error("{0} was imported, and does not show up within {EVENT_LIMIT:?}")]
    Unseen(String),
}

impl ImageError {
    fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { path: path.to_owned(), source }
    }
}

/// The image of sandboxes: one process that waits, and reaps what other processes of the pod leave.
pub fn pause(programs: &Programs) -> Result<Image, ImageError> {
    let binary = fs::read(&programs.catatonit).map_err(ImageError::file(&programs.catatonit))?;
    let config = Config { entrypoint: words(&["/catatonit", "-P"]), user: "65535:65535".into(), ..Config::default() };
    Ok(Image { name: PAUSE.into(), config, layer: Layer::new().file("catatonit", 0o755, binary) })
}

/// An image for tests: `busybox`, a static binary, under each of its names. The one of Debian 12 crashes on `wget -T`;
/// `timeout 5 wget` does the same.
pub fn busybox(binary: &Path) -> Result<Image, ImageError> {
    let names = command::run(Command::new(binary).arg("--list-full"), "")?;
    let content = fs::read(binary).map_err(ImageError::file(binary))?;
    let layer = Layer::new()
        .folder("tmp", 0o1777)
        .folder("root", 0o700)
        .folder("var/www", 0o755)
        .file("etc/passwd", 0o644, PASSWD)
        .file("etc/group", 0o644, GROUP)
        .file("bin/busybox", 0o755, content);
    let links = names.lines().filter(|name| *name != "bin/busybox");
    let layer = links.fold(layer, |layer, name| layer.link(name, "/bin/busybox"));
    let config = Config { command: words(&["sh"]), ..Config::default() };
    Ok(Image { name: BUSYBOX.into(), config, layer })
}

const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh
daemon:x:1:1:daemon:/tmp:/bin/sh
app:x:1000:1000:app:/tmp:/bin/sh
nobody:x:65534:65534:nobody:/tmp:/bin/sh
";
const GROUP: &str = "root:x:0:
daemon:x:1:
app:x:1000:
staff:x:1500:app
nogroup:x:65534:
";

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// What an archive holds, which is an OCI layout or what `docker save` writes.
#[derive(Clone, Debug, Default)]
pub struct Content {
    /// The names of its images.
    pub names: Vec<String>,
    /// The digests of their layers, as far as it says them.
    pub layers: Vec<String>,
}

/// What is in an archive.
pub fn content(file: &Path) -> Result<Content, ImageError> {
    let mut content = Content::default();
    for image in held(file)? {
        content.names.push(image.name);
        content.layers.extend(image.layers);
    }
    Ok(content)
}

fn held(file: &Path) -> Result<Vec<archive::Held>, ImageError> {
    archive::images(File::open(file).map_err(ImageError::file(file))?).map_err(ImageError::file(file))
}

/// Brings all images of an archive into a node's containerd, unless it has them, and waits until it shows them; their names.
pub async fn import(
    site: &Site,
    programs: &Programs,
    runtime: &Runtime,
    file: &Path,
) -> Result<Vec<String>, ImageError> {
    let held = held(file)?;
    let names: Vec<String> = held.iter().map(|image| image.name.clone()).collect();
    if names.is_empty() {
        return Err(ImageError::Nameless(file.to_owned()));
    }
    let mut is_there = true;
    for image in &held {
        let there = runtime.image_status(&image.name).await?;
        is_there &= there.is_some_and(|there| image.id.as_ref() == Some(&there.id));
    }
    if is_there {
        return Ok(names);
    }
    let (ctr, archive) = (Ctr::new(site, programs), file.to_owned());
    let imported = tokio::task::spawn_blocking(move || ctr.import(&archive, &held)).await;
    imported.map_err(io::Error::other).map_err(ImageError::file(file))??;
    let deadline = Instant::now() + EVENT_LIMIT;
    for name in &names {
        while runtime.image_status(name).await?.is_none() {
            if Instant::now() > deadline {
                return Err(ImageError::Unseen(name.clone()));
            }
            sleep(Duration::from_millis(5)).await;
        }
    }
    Ok(names)
}

/// containerd's own client.
struct Ctr {
    program: PathBuf,
    socket: PathBuf,
}

impl Ctr {
    fn new(site: &Site, programs: &Programs) -> Self {
        Self { program: programs.ctr.clone(), socket: site.socket() }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        // The CRI sees this namespace only.
        command.arg("--address").arg(&self.socket).args(["--namespace", "k8s.io"]).args(arguments);
        command
    }

    /// Imports an archive. Layers that containerd has are left out: it would read, check and write them all again.
    fn import(&self, file: &Path, held: &[archive::Held]) -> Result<(), ImageError> {
        let there = command::run(&mut self.command(&["content", "ls", "--quiet"]), "")?;
        let there: HashSet<&str> = there.lines().collect();
        let layers = held.iter().flat_map(|image| &image.layers).map(String::as_str);
        let known: HashSet<&str> = layers.filter(|layer| there.contains(layer)).collect();
        if !known.is_empty() {
            let source = File::open(file).map_err(ImageError::file(file))?;
            let rest = |stdin: ChildStdin| archive::copy(source, &known, stdin);
            match command::run_with(&mut self.command(&["images", "import", "-"]), rest) {
                Ok(_) => return Ok(()),
                // A layer may go with the last image that had it, at any time.
                Err(error) => tracing::info!(%error, "the whole archive is imported"),
            }
        }
        command::run(self.command(&["images", "import"]).arg(file), "")?;
        Ok(())
    }
}

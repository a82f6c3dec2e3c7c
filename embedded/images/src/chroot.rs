//! Running a command on top of layers, in namespaces of its own: whatever ends it, nothing stays mounted or running.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::Problem;
use crate::plan::EPOCH;

/// How often it is looked whether a command has ended, or is to end.
const LOOK: Duration = Duration::from_millis(20);

/// What a command can reach.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Network {
    /// Nothing, not even this machine.
    Nothing,
    /// What this machine does: for those that download packages.
    Registries,
}

/// Layers to run on, with a folder that takes what is written.
#[derive(Debug)]
pub(crate) struct Chroot<'a> {
    /// The layers, the lowest first.
    pub(crate) lower: Vec<PathBuf>,
    /// Takes what is written.
    pub(crate) upper: PathBuf,
    /// Two empty folders that the overlay needs, `upper`'s file system for the first.
    pub(crate) overlay: PathBuf,
    pub(crate) mount: PathBuf,
    /// Files and folders of the machine, and their names in the build's `/run/build`, which is gone when it ends.
    pub(crate) lent: Vec<(PathBuf, &'static str)>,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) network: Network,
    /// Where output goes.
    pub(crate) log: PathBuf,
    /// Set when the build is to end.
    pub(crate) stop: &'a AtomicBool,
}

/// What root can do in a build: own and change files, be other users, give programs capabilities. It cannot mount, make
/// devices, trace, or leave the chroot, which is no boundary for one who may call `chroot` again. Scripts of packages that
/// need more fail, by name.
const CAPABILITIES: &str = "-all,+chown,+dac_override,+fowner,+fsetid,+kill,+setgid,+setuid,+setfcap,+setpcap";

/// Mounts the overlay and what a system expects beside it, then becomes the command, with few of root's capabilities and no
/// way to more. The arguments: the capabilities, the overlay's options, its place, pairs of what is lent, `--`, the command.
/// Capabilities are dropped by the image's own program: entering the chroot takes one that is dropped.
const ENTER: &str = r#"
capabilities=$1
shift
mount -t overlay overlay -o "$1" "$2"
cd "$2"
mount -t proc proc proc
mount -t tmpfs -o mode=755 tmpfs dev
for node in null zero full random urandom tty; do : >dev/$node; mount --bind /dev/$node dev/$node; done
mkdir dev/shm
mount -t tmpfs -o mode=1777 tmpfs dev/shm
ln -s /proc/self/fd dev/fd
mount -t tmpfs -o mode=1777 tmpfs tmp
mount -t tmpfs -o mode=1777 tmpfs run
for file in etc/resolv.conf etc/hosts; do [ ! -e $file ] || mount --bind /$file $file; done
mkdir run/build run/lock
shift 2
while [ "$1" != -- ]; do
    if [ -d "$1" ]; then mkdir -p "run/build/$2"; else : >"run/build/$2"; fi
    mount --bind "$1" "run/build/$2"
    shift 2
done
shift
exec chroot . setpriv --no-new-privs --inh-caps=-all --bounding-set="$capabilities" -- "$@"
"#;

impl Chroot<'_> {
    /// Runs a shell script; what it printed.
    pub(crate) fn script(&self, script: &str, arguments: &[&str]) -> Result<String, Problem> {
        let mut command = contained(self.network);
        command.args(["sh", "-euc", ENTER, "enter", CAPABILITIES]).arg(self.options()).arg(&self.mount);
        for (from, name) in &self.lent {
            command.arg(from).arg(name);
        }
        command.args(["--", "/bin/sh", "-euc", script, "sh"]).args(arguments);
        for (name, value) in environment().chain(self.environment.iter().cloned()) {
            command.env(name, value);
        }
        run(&mut command, &self.log, self.stop)
    }

    fn options(&self) -> String {
        let escaped =
            |path: &Path| path.to_string_lossy().replace('\\', "\\\\").replace(':', "\\:").replace(',', "\\,");
        let lower: Vec<_> = self.lower.iter().rev().map(|path| escaped(path)).collect();
        // Plain copies, so that what is in the upper folder is a layer without knowledge of the lower ones.
        format!(
            "lowerdir={},upperdir={},workdir={},redirect_dir=off,index=off,metacopy=off",
            lower.join(":"),
            escaped(&self.upper),
            escaped(&self.overlay)
        )
    }
}

fn environment() -> impl Iterator<Item = (String, String)> {
    let epoch = EPOCH.to_string();
    let fixed = [
        ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
        ("HOME", "/run/build"),
        ("LANG", "C.UTF-8"),
        ("DEBIAN_FRONTEND", "noninteractive"),
        // Kernels are not booted here.
        ("INITRD", "No"),
        ("SOURCE_DATE_EPOCH", epoch.as_str()),
    ];
    let fixed = fixed.map(|(name, value)| (name.to_owned(), value.to_owned()));
    // How this machine reaches registries of packages.
    let proxies = ["http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"];
    let proxies = proxies.into_iter().filter_map(|name| Some((name.to_owned(), std::env::var(name).ok()?)));
    fixed.into_iter().chain(proxies)
}

/// A command that ends with us and takes its children along, and whose mounts are its own. The environment is empty.
pub(crate) fn contained(network: Network) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child"]);
    command.args(["--propagation", "private", "--mount-proc"]);
    if network == Network::Nothing {
        command.arg("--net");
    }
    command.env_clear().envs(environment()).stdin(Stdio::null());
    command
}

/// Runs a command to its end, or until the build is to end; what it printed, errors too. The thread that calls this must
/// live as long as the command does, which would end with it.
pub(crate) fn run(command: &mut Command, log: &Path, stop: &AtomicBool) -> Result<String, Problem> {
    let output = File::create(log).map_err(Problem::file(log))?;
    let errors = output.try_clone().map_err(Problem::file(log))?;
    let program = Path::new(command.get_program()).to_owned();
    let mut child = command.stdout(output).stderr(errors).spawn().map_err(Problem::file(&program))?;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(Problem::file(&program))? {
            break status;
        }
        if stop.load(Ordering::Relaxed) {
            let _ = child.kill();
            let _ = child.wait();
            return Err(Problem::Stopped);
        }
        std::thread::sleep(LOOK);
    };
    let said = String::from_utf8_lossy(&fs::read(log).map_err(Problem::file(log))?).into_owned();
    if status.success() {
        Ok(said)
    } else {
        let folder = log.parent().unwrap_or(log);
        if said.contains("No space left on device") || is_full(folder) {
            return Err(Problem::Full(folder.to_owned()));
        }
        Err(Problem::Command(if said.trim().is_empty() { status.to_string() } else { said }))
    }
}

/// Whether nothing can be written to a folder: what a program said of it is not written either then.
fn is_full(folder: &Path) -> bool {
    let page = folder.join("page");
    let written = fs::write(&page, [0; 4096]);
    let _ = fs::remove_file(&page);
    written.is_err_and(|error| error.kind() == ErrorKind::StorageFull)
}

/// The last lines of what a command said.
pub(crate) fn tail(said: &str) -> String {
    let lines: Vec<_> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(12)..].join("\n")
}

//! Git: commits of a repository on this machine, fetched into a bare one of our own and read from there.
//!
//! Nothing runs within the user's repository but `git upload-pack`, which is made to serve repositories that are not
//! trusted: neither its hooks nor its configuration are used, and no files are checked out.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use c5c3_files::{create_private_folder, write_private};
use sha2::{Digest, Sha256};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::build::{File, Tree};

/// What every call of git is told. The owner of a repository may be another user than ours; the protocols are those of
/// files only.
const CONFIGURATION: &str = "[safe]\n\tdirectory = *\n[core]\n\thooksPath = /dev/null\n\tfsmonitor = false\n\
    [gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n[protocol]\n\tallow = never\n[protocol \"file\"]\n\tallow = always\n\
    [transfer]\n\tfsckObjects = true\n[credential]\n\thelper =\n";

/// What is fetched lies here.
const HEAD: &str = "refs/c5c3/head";

/// How long reading what was fetched may take.
const READ: Duration = Duration::from_mins(1);

/// The largest file with objects, and the most of all of them.
const LARGEST: u64 = 4 << 20;
const MOST: u64 = 64 << 20;

/// Why git does not do what is asked.
#[derive(Debug, thiserror::Error)]
pub(super) enum GitError {
    /// The program is not there.
    #[error("git is not installed on this machine; install it (Debian: apt install git)")]
    NotInstalled,
    /// A file or a process of ours.
    #[error("cannot {0}: {1}")]
    Here(&'static str, std::io::Error),
    /// Git says no.
    #[error("cannot {what}: {said}")]
    Refused {
        /// What was asked.
        what: String,
        /// What it said.
        said: String,
    },
    /// It takes too long.
    #[error("cannot {what} within {after:?}")]
    TooLate {
        /// What was asked.
        what: String,
        /// How long it had.
        after: Duration,
    },
    /// What it says cannot be understood.
    #[error("git says what cannot be understood: {0}")]
    Odd(String),
    /// There is too much.
    #[error("the YAML and JSON files of the commit have {0} bytes; at most {MOST} are read")]
    TooMuch(u64),
}

/// A commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Commit(String);

impl Commit {
    /// The commit of a revision such as `main@sha1:...`.
    pub(super) fn of_revision(revision: &str) -> Option<Self> {
        Self::parse(revision.rsplit_once(':')?.1)
    }

    /// A commit by its whole hash.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let is_hash = [40, 64].contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hash.then(|| Self(text.to_owned()))
    }

    /// The commit as Flux writes it, such as `sha1:...`.
    pub(super) fn digest(&self) -> String {
        format!("{}:{}", if self.0.len() == 40 { "sha1" } else { "sha256" }, self.0)
    }

    pub(super) fn hash(&self) -> &str {
        &self.0
    }
}

/// Where commits are kept, and how git is run.
#[derive(Clone, Debug)]
pub(super) struct Place {
    folder: PathBuf,
}

impl Place {
    /// A folder for all repositories, for its owner only.
    pub(super) fn new(folder: &Path) -> Result<Self, GitError> {
        create_private_folder(folder).map_err(|error| GitError::Here("make the folder of commits", error))?;
        let place = Self { folder: folder.to_owned() };
        let written = write_private(&place.configuration(), CONFIGURATION.as_bytes());
        written.map_err(|error| GitError::Here("configure git", error))?;
        Ok(place)
    }

    fn configuration(&self) -> PathBuf {
        self.folder.join("gitconfig")
    }

    /// The commits of one GitRepository.
    pub(super) fn of(&self, namespace: &str, name: &str) -> Mirror {
        Mirror { folder: self.folder.join("gitrepository").join(namespace).join(name), place: self.clone() }
    }
}

/// The commits of one repository.
#[derive(Clone, Debug)]
pub(super) struct Mirror {
    folder: PathBuf,
    place: Place,
}

impl Mirror {
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Fetches what a reference of a repository, or the hash of a commit, stands for now.
    pub(super) async fn fetch(&self, url: &str, reference: &str, patience: Duration) -> Result<Commit, GitError> {
        if !self.folder.join("HEAD").exists() {
            create_private_folder(&self.folder).map_err(|error| GitError::Here("make a folder for commits", error))?;
            let make = ["init", "--quiet", "--bare", "--template="];
            self.git("make a folder for commits", &make, b"", READ).await?;
        }
        let (what, refspec) = (format!("fetch {reference} of {url}"), format!("+{reference}:{HEAD}"));
        let fetch = ["fetch", "--quiet", "--no-tags", "--depth=1", "--no-recurse-submodules", "--", url, &refspec];
        self.git(&what, &fetch, b"", patience).await?;
        let peeled = format!("{HEAD}^{{commit}}");
        let said = self.git(&what, &["rev-parse", "--verify", "--quiet", &peeled], b"", READ).await?;
        let said = String::from_utf8_lossy(&said);
        Commit::parse(said.trim()).ok_or_else(|| GitError::Odd(format!("the commit {said}")))
    }

    /// Whether a commit is there. None is at first, whatever a status from before the process started says.
    pub(super) async fn holds(&self, commit: &Commit) -> Result<bool, GitError> {
        let object = format!("{}^{{commit}}", commit.hash());
        match self.git("look for the commit", &["cat-file", "-e", &object], b"", READ).await {
            Ok(_) => Ok(true),
            Err(GitError::Refused { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Forgets what was replaced a while ago; whoever reads it now goes on.
    pub(super) async fn tidy(&self) -> Result<(), GitError> {
        self.git("forget old commits", &["gc", "--quiet", "--prune=1.hour.ago"], b"", READ).await.map(|_| ())
    }

    /// A digest of all files of a commit, by their names and contents.
    pub(super) async fn digest(&self, commit: &Commit) -> Result<String, GitError> {
        use std::fmt::Write;
        let listed = self.listing(commit).await?;
        let mut digest = String::from("sha256:");
        for byte in Sha256::digest(&listed) {
            let _ = write!(digest, "{byte:02x}");
        }
        Ok(digest)
    }

    async fn listing(&self, commit: &Commit) -> Result<Vec<u8>, GitError> {
        let list = ["ls-tree", "-r", "-l", "-z", "--full-tree", commit.hash()];
        self.git("list the files of the commit", &list, b"", READ).await
    }

    /// The files of a commit. Those that may hold objects are read.
    pub(super) async fn tree(&self, commit: &Commit) -> Result<Tree, GitError> {
        let listed = self.listing(commit).await?;
        let mut tree = Tree::default();
        let (mut wanted, mut total) = (Vec::new(), 0);
        for line in listed.split(|byte| *byte == 0).filter(|line| !line.is_empty()) {
            let line = String::from_utf8_lossy(line);
            let entry = Entry::parse(&line).ok_or_else(|| GitError::Odd(format!("the entry {line}")))?;
            let unread = match entry {
                Entry { mode: "120000", .. } => Some("is a symbolic link, which is not followed"),
                Entry { mode: "160000", .. } => Some("is a submodule, which is not fetched"),
                Entry { size, .. } if size > LARGEST => Some("is larger than 4 MiB"),
                Entry { path, .. } if !File::is_read(path) => Some("is neither a YAML nor a JSON file by its name"),
                _ => None,
            };
            if let Some(why) = unread {
                tree.add(entry.path, File::Unread(why));
            } else {
                total += entry.size;
                wanted.push((entry.path.to_owned(), entry.hash.to_owned()));
            }
        }
        if total > MOST {
            return Err(GitError::TooMuch(total));
        }
        self.read(&wanted, &mut tree).await?;
        Ok(tree)
    }

    async fn read(&self, wanted: &[(String, String)], tree: &mut Tree) -> Result<(), GitError> {
        let mut asked = String::new();
        for (_, hash) in wanted {
            asked.extend([hash, "\n"]);
        }
        let what = "read the files of the commit";
        let said = self.git(what, &["cat-file", "--batch"], asked.as_bytes(), READ).await?;
        let mut rest = said.as_slice();
        for (path, hash) in wanted {
            let odd = || GitError::Odd(format!("the content {hash} of {path}"));
            let end = rest.iter().position(|byte| *byte == b'\n').ok_or_else(odd)?;
            let head = String::from_utf8_lossy(&rest[..end]).into_owned();
            let size = head.strip_prefix(hash.as_str()).and_then(|head| head.strip_prefix(" blob "));
            let size: usize = size.and_then(|size| size.parse().ok()).ok_or_else(odd)?;
            let content = rest.get(end + 1..end + 1 + size).ok_or_else(odd)?;
            rest = rest.get(end + size + 2..).ok_or_else(odd)?;
            let file = match std::str::from_utf8(content) {
                Ok(text) => File::Text(text.to_owned()),
                Err(_) => File::Unread("is not text in UTF-8"),
            };
            tree.add(path, file);
        }
        Ok(())
    }

    /// Runs git on our own folder, with an environment of ours.
    async fn git(&self, what: &str, args: &[&str], input: &[u8], patience: Duration) -> Result<Vec<u8>, GitError> {
        let mut command = Command::new("git");
        command.arg("--git-dir").arg(&self.folder).args(args).env_clear();
        command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        command.env("GIT_CONFIG_GLOBAL", self.place.configuration()).env("GIT_CONFIG_NOSYSTEM", "1");
        command.envs([("GIT_TERMINAL_PROMPT", "0"), ("LC_ALL", "C"), ("HOME", "/nonexistent")]);
        command.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => GitError::NotInstalled,
            _ => GitError::Here("start git", error),
        })?;
        let stdin = child.stdin.take();
        let feed = async move {
            // It may end before it has read all; what it says then is what counts.
            if let Some(mut stdin) = stdin {
                let _ = stdin.write_all(input).await;
            }
        };
        let ended = tokio::time::timeout(patience, async { tokio::join!(feed, child.wait_with_output()).1 }).await;
        let ended = ended.map_err(|_| GitError::TooLate { what: what.to_owned(), after: patience })?;
        let output = ended.map_err(|error| GitError::Here("wait for git", error))?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().map(str::trim).filter(|line| !line.is_empty()).take(4).collect::<Vec<_>>().join(" ");
        let said = if said.is_empty() { output.status.to_string() } else { said };
        Err(GitError::Refused { what: what.to_owned(), said })
    }
}

/// An entry of `git ls-tree -l`.
struct Entry<'a> {
    mode: &'a str,
    hash: &'a str,
    size: u64,
    path: &'a str,
}

impl<'a> Entry<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (head, path) = line.split_once('\t')?;
        let mut words = head.split_whitespace();
        let (mode, _, hash, size) = (words.next()?, words.next()?, words.next()?, words.next()?);
        Some(Self { mode, hash, size: size.parse().unwrap_or(0), path })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_names_its_commit_and_a_hash_its_kind() {
        let hash = "0123456789abcdef0123456789abcdef01234567";
        let commit = Commit::of_revision(&format!("refs/heads/main@sha1:{hash}")).unwrap();
        assert_eq!((commit.hash(), commit.digest()), (hash, format!("sha1:{hash}")));
        assert_eq!(Commit::of_revision("main@sha1:--upload-pack=x"), None);
        assert_eq!(Commit::of_revision(hash), None);
    }

    #[test]
    fn an_entry_of_a_tree_has_a_size_unless_it_is_a_submodule() {
        let entry = Entry::parse("100644 blob 0123abc     42\tapps/my file.yaml").unwrap();
        assert_eq!((entry.mode, entry.size, entry.path), ("100644", 42, "apps/my file.yaml"));
        assert_eq!(Entry::parse("160000 commit 0123abc      -\tsub").unwrap().size, 0);
    }
}

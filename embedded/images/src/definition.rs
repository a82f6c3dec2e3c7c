//! What an image is made of, as its file under `images/` says.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A definition: of an image, or of a layer that images stand on.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Definition {
    /// Its name, which is that of its file.
    #[serde(skip)]
    pub name: String,
    /// Whether it is a layer only, and no image.
    #[serde(skip)]
    pub layer: bool,
    /// What it is, in a few words.
    pub title: String,
    /// Made from nothing, by bootstrapping Debian: the base alone.
    pub bootstrap: Option<Bootstrap>,
    /// The image or layer that it stands on; `base` when absent.
    pub from: Option<String>,
    /// Debian packages.
    #[serde(default)]
    pub debian: Vec<String>,
    /// Files of Debian packages that are not installed as a whole.
    #[serde(default)]
    pub extract: BTreeMap<String, Vec<String>>,
    /// Files of installed Debian packages that are not needed.
    #[serde(default)]
    pub remove: Vec<String>,
    /// A Python environment.
    pub python: Option<Python>,
    /// Files that a script makes.
    pub script: Option<Script>,
    /// Where this program itself is put.
    pub binary: Option<String>,
    /// The Debian package whose version is the image's.
    pub version_of: Option<String>,
    /// How it is run.
    #[serde(default)]
    pub run: Run,
    /// A command that prints a version, and by that shows that the image runs.
    #[serde(default)]
    pub check: Vec<String>,
}

/// The root file system that everything stands on.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Bootstrap {
    /// Debian's name of its release.
    pub suite: String,
}

/// A Python environment: the main package is the release's.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Python {
    /// Where it is, in the image and while it is made: scripts name their interpreter in full.
    pub venv: String,
    /// Packages beside the main one.
    #[serde(default)]
    pub packages: Vec<String>,
    /// The layer on which packages are compiled, which is not shipped.
    pub builder: Option<String>,
    /// Whether Debian's Python packages can be imported, after those of the environment.
    #[serde(default)]
    pub system_packages: bool,
    /// Folders of installed packages that are not needed to run them.
    #[serde(default)]
    pub remove: Vec<String>,
}

/// Files that a script makes.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Script {
    /// The layer on which it runs, which is not shipped.
    pub builder: Option<String>,
    /// The script's file, beside the definition.
    pub run: String,
}

/// How an image is run unless a pod says otherwise.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Run {
    /// Numbers of user and group.
    pub user: String,
    /// The first process, which reaps what others leave.
    pub entrypoint: Vec<String>,
    /// What it runs.
    pub command: Vec<String>,
    /// Where programs are looked for before the usual places.
    pub path: Vec<String>,
    /// The ports that it may listen on.
    pub ports: Vec<u16>,
}

/// The user of everything that need not be root.
pub const USER: u32 = 42424;

impl Default for Run {
    fn default() -> Self {
        Self {
            user: format!("{USER}:{USER}"),
            entrypoint: vec!["/usr/bin/tini".into(), "--".into()],
            command: Vec::new(),
            path: Vec::new(),
            ports: Vec::new(),
        }
    }
}

impl Definition {
    /// What it stands on: nothing for the base.
    pub fn foundation(&self) -> Option<&str> {
        if self.bootstrap.is_some() { None } else { Some(self.from.as_deref().unwrap_or("base")) }
    }

    /// The layer that it is made with and that is not shipped.
    pub fn builder(&self) -> Option<&str> {
        let python = self.python.as_ref().and_then(|python| python.builder.as_deref());
        python.or(self.script.as_ref().and_then(|script| script.builder.as_deref()))
    }
}

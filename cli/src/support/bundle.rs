//! The files of a bundle. A text gets into it without its secrets, and in no other way.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;
use tar::{Builder, Header};

use crate::redact::Known;

/// How large all files may be together, before they are compressed.
const LARGEST: usize = 64 << 20;

/// Files that are gathered.
#[derive(Default)]
pub(super) struct Bundle {
    pub(super) known: Known,
    /// The names of Secrets, which fields that are called so often hold.
    pub(super) secrets: BTreeSet<String>,
    files: BTreeMap<String, String>,
    size: usize,
    /// What could not be read, or found no room.
    pub(super) notes: Vec<String>,
}

impl Bundle {
    /// Adds a file, without its secrets.
    pub(super) fn add(&mut self, path: impl Into<String>, text: &str) {
        let (path, text) = (path.into(), self.known.redact(text));
        if self.size + text.len() > LARGEST {
            self.note(format!("{path}: the bundle is as large as it may get; narrow it with -n, --tail or --since"));
            return;
        }
        self.size += text.len();
        self.files.insert(path, text);
    }

    /// Adds a value as YAML. Each text in it loses its secrets by itself, for YAML may break a long one into lines.
    pub(super) fn add_value(&mut self, path: impl Into<String>, value: &Value) {
        let clean = self.without_secrets(value);
        self.add(path, &serde_saphyr::to_string(&clean).unwrap_or_else(|_| format!("{clean:#}\n")));
    }

    fn without_secrets(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.known.redact(text).into(),
            Value::Array(items) => items.iter().map(|item| self.without_secrets(item)).collect(),
            Value::Object(fields) => {
                fields.iter().map(|(name, inner)| (name.clone(), self.without_secrets(inner))).collect()
            }
            other => other.clone(),
        }
    }

    /// Notes what is not in it.
    pub(super) fn note(&mut self, what: impl AsRef<str>) {
        let what = self.known.redact(what.as_ref());
        if !self.notes.contains(&what) {
            self.notes.push(what);
        }
    }

    /// Writes it, for its owner alone to read. Says how many files are in it, and how large it is.
    pub(super) fn write(&mut self, name: &str, path: &Path) -> Result<(usize, u64), String> {
        if !self.notes.is_empty() {
            self.files.insert("notes.txt".into(), self.notes.join("\n") + "\n");
        }
        let failed = |error: std::io::Error| format!("cannot write {}: {error}", path.display());
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path).map_err(failed)?;
        let mut archive = Builder::new(GzEncoder::new(file, Compression::default()));
        for (inner, text) in &self.files {
            let mut header = Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_mode(0o600);
            archive.append_data(&mut header, format!("{name}/{inner}"), text.as_bytes()).map_err(failed)?;
        }
        let mut file = archive.into_inner().and_then(GzEncoder::finish).map_err(failed)?;
        file.flush().map_err(failed)?;
        let bytes = file.metadata().map_err(failed)?.len();
        Ok((self.files.len(), bytes))
    }
}

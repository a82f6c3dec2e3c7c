//! Configuration in immutable Secrets that are named after their content. A changed file is a new Secret, and a new
//! Secret rolls the pods; the last few stay, so that a rollback finds its files.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::core::ObjectMeta;
use secrecy::{ExposeSecret, SecretString};

use crate::hash;
use crate::ownership::BASE;
use crate::plan::Child;

/// How many older configurations are kept.
pub const REVISION_HISTORY_LIMIT: usize = 3;

/// Configuration files that are mounted together.
#[derive(Clone, Debug)]
pub struct ConfigFiles {
    base: String,
    namespace: String,
    files: BTreeMap<String, SecretString>,
}

impl ConfigFiles {
    /// No files yet. The Secret will be called `base-<hash>`.
    pub fn new(namespace: impl Into<String>, base: impl Into<String>) -> Self {
        Self { base: base.into(), namespace: namespace.into(), files: BTreeMap::new() }
    }

    /// Adds a file.
    pub fn file(mut self, name: impl Into<String>, content: SecretString) -> Self {
        self.files.insert(name.into(), content);
        self
    }

    /// The content in ten digits.
    pub fn hash(&self) -> String {
        let mut content = Vec::new();
        for (name, file) in &self.files {
            // Lengths keep two files apart that would run together otherwise.
            let text = file.expose_secret();
            content.extend(format!("{}:{name}{}:", name.len(), text.len()).bytes());
            content.extend(text.bytes());
        }
        hash::short(&content)
    }

    /// The name of the Secret: what a pod mounts.
    pub fn name(&self) -> String {
        hash::named(&self.base, &self.hash())
    }

    /// The Secret, as a child of which older generations are kept.
    pub fn child(&self) -> Child {
        let data =
            self.files.iter().map(|(name, file)| (name.clone(), ByteString(file.expose_secret().bytes().collect())));
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(self.name()),
                namespace: Some(self.namespace.clone()),
                labels: Some([(BASE.to_owned(), hash::truncate_base(&self.base))].into()),
                ..ObjectMeta::default()
            },
            data: Some(data.collect()),
            immutable: Some(true),
            ..Secret::default()
        };
        Child::new(&secret).keep_previous(REVISION_HISTORY_LIMIT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(content: &str) -> ConfigFiles {
        ConfigFiles::new("orchard", "press-config").file("press.conf", content.to_owned().into())
    }

    #[test]
    fn the_same_content_has_the_same_name_and_other_content_another() {
        assert_eq!(files("speed = 1").name(), files("speed = 1").name());
        assert_ne!(files("speed = 1").name(), files("speed = 2").name());
        assert_ne!(
            files("a").file("b", "c".to_owned().into()).hash(),
            files("ab").file("c", String::new().into()).hash()
        );
    }

    #[test]
    fn the_secret_is_immutable_and_prints_no_content() {
        let child = files("password = hunter2").child();
        assert_eq!(child.object.data["immutable"], true);
        let printed = format!("{child:?} {:?}", child.redacted());
        assert!(!printed.contains("hunter2") && !printed.contains("aHVudGVyMg"), "{printed}");
    }
}

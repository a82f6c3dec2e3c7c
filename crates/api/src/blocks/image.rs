//! Container images.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::text::text;

text! {
    /// The name of an image without tag or digest, such as `ghcr.io/c5c3/keystone`.
    Repository, max 255,
    ["self.matches('^[a-z0-9]+([._:/-]+[a-z0-9]+)*$')",
     "is not an image repository; write it in lower case without tag or digest, such as ghcr.io/c5c3/keystone"],
    |text| {
        let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        let inner = text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "._:/-".contains(c));
        if inner && ends(text.chars().next()) && ends(text.chars().last()) { Ok(()) } else {
            Err(format!("{text:?} is not an image repository; write it in lower case without tag or digest"))
        }
    }
}

text! {
    /// The tag of an image: a version (`28.0.0`), a patch level (`28.0.0-p1`), a branch or a commit.
    Tag, max 128,
    ["self.matches('^[A-Za-z0-9_][A-Za-z0-9_.-]*$')",
     "is not an image tag; use letters, digits, '_', '.' and '-', not starting with '.' or '-', such as 28.0.0"],
    |text| if text.starts_with(['.', '-']) || !text.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c)) {
        Err(format!("{text:?} is not an image tag; use letters, digits, '_', '.' and '-', such as 28.0.0"))
    } else { Ok(()) }
}

text! {
    /// The digest of an image: `sha256:` and 64 hexadecimal digits.
    Digest, max 71,
    ["self.matches('^sha256:[a-f0-9]{64}$')", "is not a digest; write sha256: and 64 hexadecimal digits"],
    |text| match text.strip_prefix("sha256:") {
        Some(hex) if hex.len() == 64 && hex.chars().all(|c| c.is_ascii_digit() || ('a'..='f').contains(&c)) => Ok(()),
        _ => Err(format!("{text:?} is not a digest; write sha256: and 64 hexadecimal digits")),
    }
}

/// A container image, by tag or by digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.tag) != has(self.digest)").message("needs exactly one of tag and digest; set one of them"))]
pub struct Image {
    /// Where the image is, such as `ghcr.io/c5c3/keystone`.
    pub repository: Repository,
    /// Which one, by tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<Tag>,
    /// Which one, by digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
}

impl Image {
    /// The reference that a pod's container takes.
    pub fn reference(&self) -> String {
        match (&self.tag, &self.digest) {
            (_, Some(digest)) => format!("{}@{digest}", self.repository),
            (Some(tag), None) => format!("{}:{tag}", self.repository),
            (None, None) => self.repository.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tag_form_of_the_release_process_is_taken() {
        for tag in ["28.0.0", "28.0.0-p1", "stable-2025.2", "a1b2c3d", "28.0.0-p2-main-a1b2c3d"] {
            assert!(Tag::new(tag).is_ok(), "{tag}");
        }
        for tag in ["", "28.0.0 ", "v1:2", ".1", "-x", "latest@sha256"] {
            assert!(Tag::new(tag).is_err(), "{tag}");
        }
    }
}

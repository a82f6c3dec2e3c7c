//! Versions of Debian packages, names of Python packages, and the tags that images get of them.

/// The version that upstream gave, of a Debian version: without epoch, revision and marks of repackaging.
pub fn upstream(debian: &str) -> &str {
    let version = debian.split_once(':').map_or(debian, |(_, version)| version);
    let version = version.rsplit_once('-').map_or(version, |(version, _)| version);
    let end = ["+dfsg", "+ds", "~dfsg", "~ds", "+deb", "+really"].iter().filter_map(|mark| version.find(mark)).min();
    &version[..end.unwrap_or(version.len())]
}

/// A Python package's name in the one spelling that compares.
pub fn normal(name: &str) -> String {
    let mut normal = String::new();
    for character in name.trim().chars() {
        match character {
            '-' | '_' | '.' if normal.ends_with('-') => {}
            '-' | '_' | '.' => normal.push('-'),
            other => normal.push(other.to_ascii_lowercase()),
        }
    }
    normal
}

/// Where a build comes from, if that is to be part of a tag.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Origin {
    /// The branch, such as `main` or `stable/1.0`.
    pub branch: String,
    /// The commit, in full or its beginning.
    pub commit: String,
}

/// The tags of an image, the plainest first: the upstream version, and with the number of patches if there are any. With
/// an origin also the one tag that is never given again, the branch, and the commit.
pub fn tags(version: &str, patches: usize, origin: Option<&Origin>) -> Vec<String> {
    let version = allowed(version);
    let mut tags = vec![version.clone()];
    if patches > 0 {
        tags.push(format!("{version}-p{patches}"));
    }
    if let Some(Origin { branch, commit }) = origin {
        let (branch, commit) = (allowed(branch), commit.get(..7).unwrap_or(commit));
        tags.push(format!("{version}-p{patches}-{branch}-{commit}"));
        tags.extend([branch, commit.to_owned()]);
    }
    tags
}

/// A text with the letters alone that a tag may have.
fn allowed(text: &str) -> String {
    let may_be = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-');
    text.chars().map(|letter| if may_be(letter) { letter } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upstream_versions_are_bare() {
        for (debian, bare) in [
            ("1:11.8.6-0+deb13u1", "11.8.6"),
            ("8.1.1+dfsg1-3+deb13u1", "8.1.1"),
            ("18.2.7+ds-1", "18.2.7"),
            ("1.6.38-1", "1.6.38"),
            ("13.8+deb13u2", "13.8"),
            ("25.03.0-1+b1", "25.03.0"),
        ] {
            assert_eq!(upstream(debian), bare);
        }
    }

    #[test]
    fn names_of_python_packages_compare_whatever_their_spelling() {
        assert_eq!(normal("Oslo.Messaging"), "oslo-messaging");
        assert_eq!(normal("dogpile__cache"), "dogpile-cache");
    }

    #[test]
    fn tags_tell_the_version_the_patches_and_the_origin() {
        assert_eq!(tags("28.0.0", 0, None), ["28.0.0"]);
        assert_eq!(tags("28.0.0", 2, None), ["28.0.0", "28.0.0-p2"]);
        let origin = Origin { branch: "stable/1.0".into(), commit: "a1b2c3d4e5".into() };
        let all = tags("28.0.0", 0, Some(&origin));
        assert_eq!(all, ["28.0.0", "28.0.0-p0-stable-1.0-a1b2c3d", "stable-1.0", "a1b2c3d"]);
        let all = tags("28.0.0", 1, Some(&origin));
        assert_eq!(all[..3], ["28.0.0", "28.0.0-p1", "28.0.0-p1-stable-1.0-a1b2c3d"]);
    }
}

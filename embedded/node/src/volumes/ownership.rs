//! `fsGroup`: the group that a volume's files belong to, so that every container of the pod can use them.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown};
use std::path::Path;

use crate::pod::Pod;

/// New files in a folder get the folder's group.
const SET_GROUP_ID: u32 = 0o2000;

/// What the group may do with the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// To whom the files of a pod's volumes belong.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Ownership {
    pub(crate) group: Option<u32>,
    /// The user that all containers run as: a token can be for them alone.
    pub(crate) user: Option<u32>,
    only_on_mismatch: bool,
}

impl Ownership {
    pub(crate) fn of(pod: &Pod) -> Self {
        let context = pod.spec().security_context.clone().unwrap_or_default();
        let number = |value: Option<i64>| value.and_then(|value| u32::try_from(value).ok());
        let mut users = pod.containers().map(|container| {
            container.security_context.as_ref().and_then(|own| own.run_as_user).or(context.run_as_user)
        });
        let first = users.next().flatten();
        Self {
            group: number(context.fs_group),
            user: number(first).filter(|_| users.all(|user| user == first)),
            only_on_mismatch: context.fs_group_change_policy.as_deref() == Some("OnRootMismatch"),
        }
    }

    /// Gives a folder and everything in it to the group, to write or only to read.
    pub(crate) fn apply(&self, root: &Path, access: Access) -> io::Result<()> {
        let Some(group) = self.group else { return Ok(()) };
        let metadata = std::fs::metadata(root)?;
        let fits = metadata.gid() == group && metadata.mode() & (SET_GROUP_ID | 0o770) == (SET_GROUP_ID | 0o770);
        if self.only_on_mismatch && fits {
            return Ok(());
        }
        give(root, group, access)
    }
}

/// The root last: it tells whether all below is done.
fn give(path: &Path, group: u32, access: Access) -> io::Result<()> {
    let metadata = std::fs::symlink_metadata(path)?;
    if metadata.is_dir() {
        for entry in std::fs::read_dir(path)? {
            give(&entry?.path(), group, access)?;
        }
    }
    lchown(path, None, Some(group))?;
    if metadata.is_symlink() {
        return Ok(());
    }
    let more = match (metadata.is_dir(), access) {
        (true, Access::Write) => SET_GROUP_ID | 0o770,
        (true, Access::Read) => SET_GROUP_ID | 0o550,
        (false, Access::Write) => 0o660,
        (false, Access::Read) => 0o440,
    };
    set_mode(path, (metadata.mode() | more) & 0o7777)
}

/// Sets a mode whatever the process's mask is.
pub(crate) fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    std::fs::set_permissions(path, Permissions::from_mode(mode))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::pod::testing::pod;

    #[test]
    fn a_group_gets_everything_below_but_not_what_links_point_at() {
        let folder = tempfile::tempdir().unwrap();
        let (root, outside) = (folder.path().join("root"), folder.path().join("outside"));
        std::fs::create_dir_all(root.join("inner")).unwrap();
        for file in [root.join("inner/file"), outside.clone()] {
            std::fs::write(&file, "x").unwrap();
            set_mode(&file, 0o600).unwrap();
        }
        std::os::unix::fs::symlink(&outside, root.join("link")).unwrap();
        let group = std::fs::metadata(&root).unwrap().gid();
        Ownership { group: Some(group), ..Ownership::default() }.apply(&root, Access::Write).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o7777;
        assert_eq!(mode(&root.join("inner")) & 0o2770, 0o2770);
        assert_eq!(mode(&root.join("inner/file")), 0o660);
        assert_eq!(mode(&outside), 0o600);
    }

    #[test]
    fn the_user_is_known_if_all_containers_agree() {
        let user = |first: i64, second: i64| {
            let named = |name: &str, user: i64| json!({"name": name, "securityContext": {"runAsUser": user}});
            Ownership::of(&pod(json!({"containers": [named("a", first), named("b", second)]}))).user
        };
        assert_eq!((user(5, 5), user(5, 6)), (Some(5), None));
        assert_eq!(Ownership::of(&pod(json!({"securityContext": {"fsGroup": 7}}))).group, Some(7));
    }
}

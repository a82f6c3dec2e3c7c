//! Images that no one uses are removed when the disk gets full: those that a registry has, for they can be had again. What
//! was built here and imported stays.

use std::collections::HashSet;

use c5c3_cri::v1::Image;

use crate::machine::disk_use;
use crate::node::Node;

/// In percent of the disk: above the first images are removed, until the second.
const FULL: i64 = 85;
const TARGET: i64 = 80;

/// Looks once; `before` are those that no one used at the last look, which alone are removed: a pod may be about to use
/// one that was just pulled.
pub(super) async fn collect(node: &Node, before: &mut HashSet<String>) {
    let (used, mut excess) = disk_use(node.config.site.data(), TARGET);
    if used < FULL {
        before.clear();
        return;
    }
    let Ok(images) = node.runtime.list_images().await else { return };
    let in_use: HashSet<String> =
        node.directory.images().into_iter().chain([node.config.pause_image.clone()]).collect();
    let unused = unused(images, &in_use);
    let seen = std::mem::replace(before, unused.iter().map(|image| image.id.clone()).collect());
    for image in unused.into_iter().filter(|image| seen.contains(&image.id)) {
        if excess <= 0 {
            return;
        }
        match node.runtime.remove_image(&image.id).await {
            Ok(()) => {
                tracing::info!(image = image.id, "removed, the disk is full");
                excess -= i64::try_from(image.size).unwrap_or(0);
            }
            Err(error) => tracing::warn!(image = image.id, %error, "cannot remove an image"),
        }
    }
}

/// The images that no container was made from and no pod names, largest first.
fn unused(images: Vec<Image>, in_use: &HashSet<String>) -> Vec<Image> {
    let is_used = |image: &Image| {
        let mut names = std::iter::once(&image.id).chain(&image.repo_tags).chain(&image.repo_digests);
        image.pinned || image.repo_digests.is_empty() || names.any(|name| in_use.contains(name))
    };
    let mut unused: Vec<Image> = images.into_iter().filter(|image| !is_used(image)).collect();
    unused.sort_by_key(|image| std::cmp::Reverse(image.size));
    unused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_image_and_those_in_use_or_built_here_are_spared() {
        let image = |id: &str, tag: &str, size: u64| Image {
            id: id.to_owned(),
            repo_tags: vec![tag.to_owned()],
            repo_digests: if tag.starts_with("local") { vec![] } else { vec![format!("{tag}@sha256:0")] },
            size,
            ..Image::default()
        };
        let all = vec![
            image("1", "pause:1", 1),
            image("2", "a:1", 2),
            image("3", "b:1", 3),
            image("4", "c:1", 4),
            image("5", "local:1", 5),
        ];
        let in_use = HashSet::from(["pause:1".to_owned(), "3".to_owned()]);
        let ids: Vec<String> = unused(all, &in_use).into_iter().map(|image| image.id).collect();
        assert_eq!(ids, ["4", "2"]);
    }
}

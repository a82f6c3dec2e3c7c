//! Discovery: the documents by which clients learn what is served, in the old form of one document per group and
//! version and in the aggregated form of one document for all.

mod aggregated;
mod documents;
mod version;

use crate::resource::Resource;

pub use aggregated::{AGGREGATED_CONTENT_TYPE, aggregated_core, aggregated_groups};
pub use documents::{api_group, api_group_list, api_resource_list, api_services, api_versions};

/// A group with its versions, the preferred one first, and the resources of each.
struct Group<'r> {
    name: &'r str,
    versions: Vec<(&'r str, Vec<&'r Resource>)>,
}

/// The groups: built-in ones in their own order, then custom ones by name. The core group is the one without a name.
fn groups<'r>(resources: &[&'r Resource]) -> Vec<Group<'r>> {
    let mut groups: Vec<Group<'r>> = Vec::new();
    for resource in resources {
        let position = groups.iter().position(|group| group.name == resource.group);
        let position = position.unwrap_or_else(|| {
            groups.push(Group { name: &resource.group, versions: Vec::new() });
            groups.len() - 1
        });
        let versions = &mut groups[position].versions;
        match versions.iter_mut().find(|(name, _)| *name == resource.version) {
            Some((_, of_version)) => of_version.push(resource),
            None => versions.push((&resource.version, vec![resource])),
        }
    }
    let is_custom =
        |group: &Group<'_>| group.versions.iter().all(|(_, resources)| resources.iter().all(|r| r.custom().is_some()));
    groups.sort_by_key(|group| is_custom(group).then_some(group.name));
    for group in &mut groups {
        group.versions.sort_by_key(|(name, _)| std::cmp::Reverse(version::priority(name)));
        for (_, resources) in &mut group.versions {
            resources.sort_by_key(|resource| &resource.plural);
        }
    }
    groups
}

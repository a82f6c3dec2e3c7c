//! What tests that were killed left on a cluster.

use http::Method;
use kube::Client;

use crate::PREFIX;
use crate::definitions::SHARED;
use crate::error::Error;
use crate::ledger::Made;
use crate::raw::send;
use crate::removal::remove;

/// The resources that can be listed, in namespaces or outside: group, version, plural.
pub(crate) async fn listable(client: &Client, namespaced: bool) -> Result<Vec<(String, String, String)>, Error> {
    let groups = client.list_api_groups().await?.groups;
    let preferred = groups.into_iter().filter_map(|group| Some(group.preferred_version?.group_version));
    let mut found = Vec::new();
    for group_version in std::iter::once("v1".to_owned()).chain(preferred) {
        let (group, version) = group_version.split_once('/').unwrap_or(("", &group_version));
        let resources = match group {
            "" => client.list_core_api_resources(version).await,
            _ => client.list_api_group_resources(&group_version).await,
        };
        // Another test's group may go while one looks, and the server behind an aggregated one may be down.
        let Ok(resources) = resources else { continue };
        let wanted = resources.resources.into_iter().filter(|resource| resource.namespaced == namespaced);
        let wanted =
            wanted.filter(|resource| !resource.name.contains('/') && resource.verbs.iter().any(|verb| verb == "list"));
        found.extend(wanted.map(|resource| (group.to_owned(), version.to_owned(), resource.name)));
    }
    Ok(found)
}

/// What tests left behind, or are still using: namespaces, definitions and whatever else is in no namespace.
pub async fn leftovers(client: &Client) -> Result<Vec<Made>, Error> {
    let mut left = Vec::new();
    for (group, version, plural) in listable(client, false).await? {
        let kind = Made::across(&group, &version, &plural, "");
        let (_, list) = send(client, Method::GET, kind.path().trim_end_matches('/'), None).await?;
        for item in list["items"].as_array().into_iter().flatten() {
            let name = item["metadata"]["name"].as_str().unwrap_or_default();
            if name.contains(PREFIX) || !item["metadata"]["labels"][SHARED].is_null() {
                left.push(Made { name: name.to_owned(), ..kind.clone() });
            }
        }
    }
    Ok(left)
}

/// Removes what tests left behind. Tests that still run lose what they use. Returns what could not be removed.
pub async fn remove_leftovers(client: &Client) -> Result<Vec<String>, Error> {
    Ok(remove(client, &leftovers(client).await?.into_iter().collect()).await)
}

//! Which files a configMap, secret, downwardAPI or projected volume shows.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    ConfigMapProjection, DownwardAPIProjection, DownwardAPIVolumeFile, KeyToPath, SecretProjection,
    ServiceAccountTokenProjection, Volume,
};

use super::{VolumeError, Volumes};
use crate::environment::fields;
use crate::references::{Kind, Payload};

const DEFAULT_MODE: i32 = 0o644;
/// A token that is for one user or group.
const OWN: u32 = 0o600;

/// One file of a volume.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Projected {
    pub(super) path: String,
    pub(super) bytes: Vec<u8>,
    pub(super) mode: u32,
    /// Whom it belongs to, if not to root.
    pub(super) user: Option<u32>,
}

/// What a volume is put together from.
pub(super) struct Recipe {
    sources: Vec<Source>,
    mode: i32,
    /// The files must not reach a disk.
    pub(super) is_private: bool,
}

enum Source {
    Map(ConfigMapProjection),
    Secret(SecretProjection),
    Downward(DownwardAPIProjection),
    Token(ServiceAccountTokenProjection),
    Unsupported,
}

/// The recipe of a volume that consists of files from the API, if it is one.
pub(super) fn recipe(volume: &Volume) -> Option<Recipe> {
    if let Some(map) = volume.config_map.clone() {
        let source = ConfigMapProjection { name: map.name, items: map.items, optional: map.optional };
        return Some(Recipe::new(vec![Source::Map(source)], map.default_mode, false));
    }
    if let Some(secret) = volume.secret.clone() {
        let name = secret.secret_name.unwrap_or_default();
        let source = SecretProjection { name, items: secret.items, optional: secret.optional };
        return Some(Recipe::new(vec![Source::Secret(source)], secret.default_mode, true));
    }
    if let Some(downward) = volume.downward_api.clone() {
        let source = DownwardAPIProjection { items: downward.items };
        return Some(Recipe::new(vec![Source::Downward(source)], downward.default_mode, true));
    }
    let projected = volume.projected.clone()?;
    let sources = projected.sources.unwrap_or_default().into_iter().map(|source| {
        let map = source.config_map.map(Source::Map).or(source.secret.map(Source::Secret));
        let rest = source.downward_api.map(Source::Downward).or(source.service_account_token.map(Source::Token));
        map.or(rest).unwrap_or(Source::Unsupported)
    });
    Some(Recipe::new(sources.collect(), projected.default_mode, true))
}

impl Recipe {
    fn new(sources: Vec<Source>, mode: Option<i32>, is_private: bool) -> Self {
        Self { sources, mode: mode.unwrap_or(DEFAULT_MODE), is_private }
    }
}

/// The files, by path; of two with the same path the later one counts.
pub(super) async fn files(volumes: &Volumes<'_>, volume: &str, recipe: &Recipe) -> Result<Vec<Projected>, VolumeError> {
    let mut all = BTreeMap::new();
    for source in &recipe.sources {
        let files = match source {
            Source::Map(map) => {
                let wanted = Wanted { kind: Kind::ConfigMap, name: &map.name, optional: map.optional };
                of_object(volumes, &wanted, map.items.as_deref(), recipe.mode).await?
            }
            Source::Secret(secret) => {
                let wanted = Wanted { kind: Kind::Secret, name: &secret.name, optional: secret.optional };
                of_object(volumes, &wanted, secret.items.as_deref(), recipe.mode).await?
            }
            Source::Downward(downward) => {
                let items = downward.items.iter().flatten();
                items.map(|item| of_field(volumes, item, recipe.mode)).collect::<Result<_, _>>()?
            }
            Source::Token(token) => vec![of_token(volumes, volume, token, recipe.mode).await?],
            Source::Unsupported => return Err(VolumeError::Unsupported),
        };
        all.extend(files.into_iter().map(|file| (file.path.clone(), file)));
    }
    Ok(all.into_values().collect())
}

struct Wanted<'a> {
    kind: Kind,
    name: &'a str,
    optional: Option<bool>,
}

async fn of_object(
    volumes: &Volumes<'_>,
    wanted: &Wanted<'_>,
    items: Option<&[KeyToPath]>,
    mode: i32,
) -> Result<Vec<Projected>, VolumeError> {
    let &Wanted { kind, name, optional } = wanted;
    volumes.references.hold(kind, name).await;
    let is_optional = optional == Some(true);
    let payload = match volumes.references.get(kind, name)? {
        Some(payload) => payload,
        None if is_optional => return Ok(Vec::new()),
        None => return Err(VolumeError::Missing { kind, name: name.to_owned() }),
    };
    select(&payload, items, mode, is_optional).map_err(|key| VolumeError::MissingKey { kind, key })
}

/// The files of an object: all keys, or those that are listed under the paths that they are given. An error is a key
/// that is listed and not there.
fn select(
    payload: &Payload,
    items: Option<&[KeyToPath]>,
    mode: i32,
    is_optional: bool,
) -> Result<Vec<Projected>, String> {
    let file = |path: &str, bytes: &[u8], mode: i32| Projected {
        path: path.to_owned(),
        bytes: bytes.to_vec(),
        mode: u32::try_from(mode).unwrap_or(0) & 0o777,
        user: None,
    };
    let Some(items) = items.filter(|items| !items.is_empty()) else {
        return Ok(payload.files().map(|(key, bytes)| file(key, bytes, mode)).collect());
    };
    let mut files = Vec::new();
    for item in items {
        match payload.get(&item.key) {
            Some(bytes) => files.push(file(&item.path, bytes, item.mode.unwrap_or(mode))),
            None if is_optional => {}
            None => return Err(item.key.clone()),
        }
    }
    Ok(files)
}

fn of_field(volumes: &Volumes<'_>, item: &DownwardAPIVolumeFile, mode: i32) -> Result<Projected, VolumeError> {
    let text = if let Some(field) = &item.field_ref {
        fields::value(volumes.pod, &field.field_path, volumes.node, volumes.pod_ips)?
    } else if let Some(resource) = &item.resource_field_ref {
        let container = resource.container_name.as_deref().and_then(|name| volumes.pod.container(name));
        let container = container.ok_or_else(|| fields::FieldError::Resource(resource.resource.clone()))?;
        fields::resource(container, resource, volumes.node)?
    } else {
        String::new()
    };
    let mode = u32::try_from(item.mode.unwrap_or(mode)).unwrap_or(0) & 0o777;
    Ok(Projected { path: item.path.clone(), bytes: text.into_bytes(), mode, user: None })
}

async fn of_token(
    volumes: &Volumes<'_>,
    volume: &str,
    source: &ServiceAccountTokenProjection,
    mode: i32,
) -> Result<Projected, VolumeError> {
    let token = volumes.tokens.get(volumes.client, volumes.pod, volume, source).await.map_err(VolumeError::Token)?;
    let owner = super::Ownership::of(volumes.pod);
    let is_for_one = owner.user.is_some() || owner.group.is_some();
    let mode = if is_for_one { OWN } else { u32::try_from(mode).unwrap_or(0) & 0o777 };
    Ok(Projected { path: source.path.clone(), bytes: token.into_bytes(), mode, user: owner.user })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected(items: Option<&[(&str, &str, Option<i32>)]>, is_optional: bool) -> Result<Vec<String>, String> {
        let items: Option<Vec<KeyToPath>> = items.map(|items| {
            let item = |&(key, path, mode): &(&str, &str, Option<i32>)| KeyToPath {
                key: key.to_owned(),
                path: path.to_owned(),
                mode,
            };
            items.iter().map(item).collect()
        });
        let payload = Payload::of([("a", "1"), ("b", "2")]);
        let files = select(&payload, items.as_deref(), 0o644, is_optional)?;
        Ok(files.iter().map(|file| format!("{} {:o} {}", file.path, file.mode, file.bytes[0] as char)).collect())
    }

    #[test]
    fn keys_become_files_under_their_paths_with_their_modes() {
        assert_eq!(selected(None, false).unwrap(), ["a 644 1", "b 644 2"]);
        let items = [("b", "deep/x", Some(0o400)), ("a", "y", None)];
        assert_eq!(selected(Some(&items), false).unwrap(), ["deep/x 400 2", "y 644 1"]);
        assert_eq!(selected(Some(&[("c", "x", None)]), false).unwrap_err(), "c");
        assert_eq!(selected(Some(&[("c", "x", None)]), true).unwrap().len(), 0);
    }
}

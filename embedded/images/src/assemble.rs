//! An image of layers: how it is run, and what is said of it.

use std::collections::BTreeMap;

use c5c3_oci::spec::{Config, ConfigBuilder};
use c5c3_oci::{Descriptor, Image, Layout, Reference, Step};

use crate::Error;
use crate::cache::Built;
use crate::catalogue::REGISTRY;
use crate::plan::{EPOCH, PlannedImage};
use crate::release::Release;
use crate::version::{Origin, tags};

/// Where programs are looked for.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The annotation that lists the patches, as `kind/of/name` with commas between.
pub const PATCHES: &str = "io.c5c3.patches";

/// Puts an image into the store, and gives it its names.
pub(crate) fn image(
    layout: &Layout,
    planned: &PlannedImage,
    layers: &[(String, Built)],
    release: &Release,
    origin: Option<&Origin>,
) -> Result<(Descriptor, Vec<Reference>), Error> {
    let steps = layers.iter().map(|(label, built)| Step { made_by: label.clone(), layer: built.layer.clone() });
    let image = Image {
        created: EPOCH.cast_signed(),
        config: config(planned)?,
        steps: steps.collect(),
        annotations: annotations(planned, layers, release),
    };
    let manifest = image.assemble(layout)?;
    let name = &planned.definition.name;
    let mut references = Vec::new();
    for tag in tags(&planned.version, planned.patches.len(), origin) {
        let reference = Reference::with_tag(registry(), format!("{}/{name}", repository()), tag);
        layout.tag(&reference, &manifest)?;
        references.push(reference);
    }
    Ok((manifest, references))
}

fn registry() -> String {
    REGISTRY.split('/').next().unwrap_or(REGISTRY).to_owned()
}

fn repository() -> String {
    REGISTRY.split_once('/').map(|(_, path)| path).unwrap_or_default().to_owned()
}

fn config(planned: &PlannedImage) -> Result<Config, Error> {
    let definition = &planned.definition;
    let venv = definition.python.as_ref().map(|python| format!("{}/bin", python.venv));
    let path: Vec<_> = venv.iter().chain(&definition.run.path).map(String::as_str).chain([PATH]).collect();
    let ports: Vec<_> = definition.run.ports.iter().map(|port| format!("{port}/tcp")).collect();
    let mut config = ConfigBuilder::default()
        .user(definition.run.user.clone())
        .entrypoint(definition.run.entrypoint.clone())
        .env(vec![format!("PATH={}", path.join(":")), "LANG=C.UTF-8".to_owned()])
        .working_dir("/");
    if !definition.run.command.is_empty() {
        config = config.cmd(definition.run.command.clone());
    }
    if !ports.is_empty() {
        config = config.exposed_ports(ports);
    }
    config.build().map_err(|error| Error::definition(format!("{}.yaml", definition.name), error))
}

fn annotations(planned: &PlannedImage, layers: &[(String, Built)], release: &Release) -> BTreeMap<String, String> {
    let definition = &planned.definition;
    let mut annotations = BTreeMap::from([
        ("org.opencontainers.image.title".to_owned(), definition.name.clone()),
        ("org.opencontainers.image.description".to_owned(), definition.title.clone()),
        ("org.opencontainers.image.version".to_owned(), planned.version.clone()),
        ("org.opencontainers.image.vendor".to_owned(), "CobaltCore".to_owned()),
        ("org.opencontainers.image.source".to_owned(), env!("CARGO_PKG_REPOSITORY").to_owned()),
    ]);
    if let Some((_, base)) = layers.first().filter(|_| layers.len() > 1) {
        annotations.insert("org.opencontainers.image.base.digest".to_owned(), base.layer.diff_id.to_string());
    }
    if definition.python.is_some() {
        annotations.insert("io.c5c3.release".to_owned(), release.name.clone());
    }
    if !planned.patches.is_empty() {
        let patches = planned.patches.iter().map(|patch| format!("{}/{}/{}", patch.kind, patch.of, patch.name));
        annotations.insert(PATCHES.to_owned(), patches.collect::<Vec<_>>().join(","));
    }
    annotations
}

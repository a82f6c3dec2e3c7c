//! `c5c3 image list`, `inspect` and `gc`: looking at images, and tidying up.

use std::fmt::Write as _;

use c5c3_images::{Builder, BuiltImage, PlannedImage, REGISTRY};

use serde_json::{Value, json};

use super::args::{ListArgs, OneArgs, WhereArgs};
use super::{builder, mebibytes};
use crate::args::Listing;
use crate::{Done, print, print_json, print_yaml};

pub(crate) fn list(args: &ListArgs) -> Done {
    let builder = builder(&args.place)?;
    let said = |error: c5c3_images::Error| error.to_string();
    let images: Vec<_> = builder.catalogue.images().collect();
    let names: Vec<_> = images.iter().map(|image| image.name.as_str()).collect();
    let (plan, built) = (builder.plan(&names).map_err(said)?, builder.built(&names).map_err(said)?);
    let all = || plan.images.iter().zip(&built);
    let items: Vec<Value> = all().map(|(image, built)| item(image, built.as_ref())).collect();
    let document = json!({"release": args.place.release, "images": items});
    match args.output {
        Listing::Table => {}
        Listing::Wide => return print(&wide(&items)),
        Listing::Json => return print_json(&document),
        Listing::Yaml => return print_yaml(&document),
    }
    let mut text = format!("{:<16} {:<10} {:>9} {:>9}  {}\n", "NAME", "VERSION", "OWN", "SIZE", "TITLE");
    for (image, built) in all() {
        let size = |of: fn(&BuiltImage) -> u64| built.as_ref().map_or("-".to_owned(), |built| mebibytes(of(built)));
        let (own, size) = (size(BuiltImage::own_size), size(BuiltImage::size));
        let (name, title) = (&image.definition.name, &image.definition.title);
        let _ = writeln!(text, "{name:<16} {:<10} {own:>9} {size:>9}  {title}", image.version);
    }
    print(&text)
}

/// An image of a list. One that was not built has no digest and no size.
fn item(image: &PlannedImage, built: Option<&BuiltImage>) -> Value {
    let name = &image.definition.name;
    let usual = format!("{REGISTRY}/{name}:{}", image.version);
    let names = built.map_or_else(|| vec![usual], |built| built.references.iter().map(ToString::to_string).collect());
    json!({
        "name": name, "version": image.version, "title": image.definition.title, "references": names,
        "digest": built.map(|built| built.manifest.digest().to_string()), "bytes": built.map(BuiltImage::size),
        "ownBytes": built.map(BuiltImage::own_size),
    })
}

/// Each image by the name that pods use, with its digest.
fn wide(items: &[Value]) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let widest = items.iter().map(|item| text(&item["references"][0]).len()).max().unwrap_or_default();
    let mut table = format!("{:<16} {:<10} {:<widest$}  {}\n", "NAME", "VERSION", "IMAGE", "DIGEST");
    for item in items {
        let [name, version, image, digest] =
            [&item["name"], &item["version"], &item["references"][0], &item["digest"]].map(text);
        let _ = writeln!(table, "{name:<16} {version:<10} {image:<widest$}  {digest}");
    }
    table
}

/// An image as it is defined now, if it is built.
pub(super) fn found(builder: &Builder, name: &str) -> Result<BuiltImage, String> {
    let built = builder.built(&[name]).map_err(|error| error.to_string())?;
    let missing = || format!("{name} is not built, or not as it is defined now: c5c3 image build {name}");
    built.into_iter().next().flatten().ok_or_else(missing)
}

pub(crate) fn run(args: &OneArgs) -> Done {
    let builder = builder(&args.place)?;
    let image = found(&builder, &args.name)?;
    let definition = &image.planned.definition;
    let mut text = format!("{}\n{}\n\n", definition.title, image.manifest.digest());
    for name in &image.references {
        let _ = writeln!(text, "name     {name}");
    }
    let _ = writeln!(text, "user     {}", definition.run.user);
    let _ = writeln!(text, "command  {} {}", definition.run.entrypoint.join(" "), definition.run.command.join(" "));
    for (stage, built) in &image.layers {
        let digest = &built.layer.diff_id;
        let _ = writeln!(text, "layer    {digest} {:>8}  {stage}", mebibytes(built.size));
    }
    for (_, built) in &image.layers {
        for patch in &built.patches {
            let _ = writeln!(text, "patch    {}/{}/{}", patch.kind, patch.of, patch.name);
        }
        for drift in &built.drift {
            let _ = writeln!(text, "drift    {drift}");
        }
    }
    let _ = writeln!(
        text,
        "packages {} of Debian",
        image.layers.iter().map(|(_, built)| built.debian.len()).sum::<usize>()
    );
    print(&text)
}

pub(crate) fn gc(args: &WhereArgs) -> Done {
    let collected = builder(args)?.collect().map_err(|error| error.to_string())?;
    print(&format!(
        "removed {} stages, {} names, {} blobs and {} files: {}\n",
        collected.stages,
        collected.names,
        collected.blobs,
        collected.files,
        mebibytes(collected.bytes)
    ))
}

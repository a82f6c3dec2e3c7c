//! `c5c3 image list`, `inspect` and `gc`: looking at images, and tidying up.

use std::fmt::Write as _;

use c5c3_images::{Builder, BuiltImage};

use super::args::{OneArgs, WhereArgs};
use super::{builder, mebibytes};
use crate::{Done, print};

pub(crate) fn list(args: &WhereArgs) -> Done {
    let builder = builder(args)?;
    let said = |error: c5c3_images::Error| error.to_string();
    let images: Vec<_> = builder.catalogue.images().collect();
    let names: Vec<_> = images.iter().map(|image| image.name.as_str()).collect();
    let (plan, built) = (builder.plan(&names).map_err(said)?, builder.built(&names).map_err(said)?);
    let mut text = format!("{:<16} {:<10} {:>9} {:>9}  {}\n", "NAME", "VERSION", "OWN", "SIZE", "TITLE");
    for (image, built) in plan.images.iter().zip(built) {
        let size = |of: fn(&BuiltImage) -> u64| built.as_ref().map_or("-".to_owned(), |built| mebibytes(of(built)));
        let (own, size) = (size(BuiltImage::own_size), size(BuiltImage::size));
        let (name, title) = (&image.definition.name, &image.definition.title);
        let _ = writeln!(text, "{name:<16} {:<10} {own:>9} {size:>9}  {title}", image.version);
    }
    print(&text)
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

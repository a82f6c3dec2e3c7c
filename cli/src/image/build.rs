//! `c5c3 image build`.

use std::fmt::Write as _;

use c5c3_images::BuiltImage;

use super::args::BuildArgs;
use super::progress::Told;
use super::{builder, mebibytes, names};
use crate::{Done, print};

pub(crate) fn run(args: &BuildArgs) -> Done {
    let mut builder = builder(&args.place)?;
    builder.locked = args.locked;
    builder.origin.clone_from(&args.origin);
    let told = Told::new();
    let furnish = |image: &BuiltImage| builder.attach_bills(image, &told);
    let built = builder.build_each(&names(&builder, &args.names, args.all), &told, furnish);
    let built = built.map_err(|error| error.to_string())?;
    drop(told);
    let mut text = String::new();
    for image in built {
        let names: Vec<_> = image.references.iter().map(ToString::to_string).collect();
        let (own, size) = (mebibytes(image.own_size()), mebibytes(image.size()));
        let _ = writeln!(text, "{} {} ({own} of {size})", names.join(" "), image.manifest.digest());
    }
    print(&text)
}

//! `c5c3 image lock`.

use std::fmt::Write as _;

use c5c3_images::relock;

use super::args::LockArgs;
use super::progress::Told;
use super::{builder, names};
use crate::{Done, print};

pub(crate) fn run(args: &LockArgs) -> Done {
    let builder = builder(&args.place)?;
    let folder = builder.catalogue.folder.clone();
    let folder = folder.ok_or("locks are part of the definitions: run this in a checkout, or give --images DIR")?;
    let said = |error: c5c3_images::Error| error.to_string();
    let chosen = names(&builder, &args.names, args.all);
    let renewed = if args.debian {
        relock::debian(&builder, &chosen, &Told::new()).map_err(said)?
    } else {
        let mut renewed = Vec::new();
        for name in chosen {
            let image = builder.catalogue.definition(name).map_err(said)?;
            renewed.extend(relock::python(&builder, image, args.upgrade).map_err(said)?);
        }
        renewed
    };
    if !args.dry_run {
        relock::write(&folder, &renewed).map_err(said)?;
    }
    let mut text = String::new();
    for lock in renewed {
        let count = lock.changes.len();
        let _ = writeln!(
            text,
            "{}: {}",
            lock.file,
            if count == 0 { "as it was".into() } else { format!("{count} changes") }
        );
        for change in lock.changes {
            let _ = writeln!(text, "  {change}");
        }
    }
    print(&text)
}

//! `c5c3 image import`: into the cluster on this machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use c5c3_cluster::Folder;
use c5c3_images::{Builder, Ready, archive};
use c5c3_oci::{Descriptor, Reference};
use clap::Args;
use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};

use super::args::WhereArgs;
use super::progress::Told;
use super::stored::{find, said};
use super::{builder, names};
use crate::Done;
use crate::up::{folder, images, say};

/// How long nodes may take to have what was handed to them.
const LIMIT: Duration = Duration::from_mins(3);

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// Which images: keystone, built if need be, or the full name of one that was pulled
    #[arg(required_unless_present_any = ["all", "archive"])]
    names: Vec<String>,
    /// All that are defined
    #[arg(long)]
    all: bool,
    /// The images of an archive, such as `export`, `skopeo copy` or `podman save` writes
    #[arg(long, value_name = "FILE")]
    archive: Option<PathBuf>,
    /// What the image of the archive is called, if the archive does not say it in full
    #[arg(long = "as", value_name = "NAME", requires = "archive")]
    called: Option<Reference>,
    #[command(flatten)]
    data: crate::args::DataArgs,
    #[command(flatten)]
    place: WhereArgs,
}

pub(crate) fn run(args: &ImportArgs) -> Done {
    let builder = builder(&args.place)?;
    let folder = folder(&args.data)?;
    let hand = |names: &[Reference], image: &Descriptor| {
        let ready = archive(&builder.cache, names, image)?;
        let place = folder.images();
        let handed = hand_over(&place, &ready);
        handed.map_err(|source| c5c3_images::Error::File { path: place, source })?;
        Ok::<_, c5c3_images::Error>(ready)
    };
    let mut ready = Vec::new();
    for (names, image) in stored(args, &builder)? {
        ready.push(hand(&names, &image).map_err(|error| error.to_string())?);
    }
    let defined: Vec<_> = args.names.iter().filter(|name| !name.contains('/')).cloned().collect();
    let finish = |image: &c5c3_images::BuiltImage| hand(&image.references, &image.manifest).map(drop);
    let built = builder.build_each(&names(&builder, &defined, args.all), &Told::new(), finish);
    for image in built.map_err(|error| error.to_string())? {
        ready.push(hand(&image.references, &image.manifest).map_err(|error| error.to_string())?);
    }
    taken(&folder, &ready)
}

/// Images that are not built here: those of an archive, which the store takes in, and those that it has by full names.
fn stored(args: &ImportArgs, builder: &Builder) -> Result<Vec<(Vec<Reference>, Descriptor)>, String> {
    let mut images = Vec::new();
    if let Some(file) = &args.archive {
        let layout = builder.cache.layout().map_err(|error| error.to_string())?;
        let found = c5c3_oci::archive::import(&layout, file, args.called.as_ref()).map_err(said)?;
        images.extend(found.into_iter().map(|image| (vec![image.name], image.descriptor)));
    }
    let full: Vec<_> = args.names.iter().filter(|name| name.contains('/')).cloned().collect();
    let (_, found) = find(&args.place, &full)?;
    images.extend(found.into_iter().map(|image| (image.names, image.image)));
    Ok(images)
}

/// Waits until the nodes have the images, if the cluster runs.
fn taken(folder: &Folder, ready: &[Ready]) -> Done {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start: {error}"))?;
    let there = runtime.block_on(async {
        let Some(client) = client(folder).await else { return Ok(false) };
        let waited = tokio::time::timeout(LIMIT, images::imported(&client, ready)).await;
        waited.map_err(|_| format!("the nodes do not have the images after {} s", LIMIT.as_secs()))?.map(|()| true)
    })?;
    for image in ready {
        say(&format!("{} {}", image.reference, image.digest));
    }
    if !there {
        say("the cluster does not run; its nodes take the images when it starts");
    }
    Ok(ExitCode::SUCCESS)
}

/// A client of the cluster, if it answers.
async fn client(folder: &Folder) -> Option<Client> {
    let read = Kubeconfig::read_from(folder.kubeconfig()).ok()?;
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.ok()?;
    let client = Client::try_from(config).ok()?;
    client.apiserver_version().await.ok()?;
    Some(client)
}

/// Puts an archive where every node of a cluster looks for images, under a name that tells its content. One that is there
/// already is left alone; another one of the same reference goes.
pub(crate) fn hand_over(folder: &Path, ready: &Ready) -> std::io::Result<()> {
    // It may be the first thing that is made of the cluster, whose folder holds secrets later.
    c5c3_files::create_private_folder(folder)?;
    let slug: String =
        ready.reference.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect();
    let digest: String = ready.digest.chars().skip_while(|c| *c != ':').skip(1).take(16).collect();
    let name = format!("{slug}-{digest}.tar");
    let is_older = |file: &str| {
        let digest = file.strip_prefix(&slug).and_then(|rest| rest.strip_prefix('-')?.strip_suffix(".tar"));
        file != name && digest.is_some_and(|digest| digest.len() == 16 && digest.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    let place = folder.join(&name);
    if !place.exists() {
        // A half-written archive would be imported: it gets its name when it is whole.
        let partial = folder.join(format!("{name}.part"));
        let _ = fs::remove_file(&partial);
        if fs::hard_link(&ready.archive, &partial).is_err() {
            fs::copy(&ready.archive, &partial)?;
        }
        fs::rename(partial, place)?;
    }
    for entry in fs::read_dir(folder)?.flatten() {
        if entry.file_name().to_str().is_some_and(is_older) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_takes_the_place_of_an_older_one_of_the_same_name_alone() {
        let folder = tempfile::tempdir().unwrap();
        let archive = folder.path().join("archive");
        fs::write(&archive, "image").unwrap();
        let images = folder.path().join("images");
        let hand = |reference: &str, digit: &str| {
            let digest = format!("sha256:{}", digit.repeat(64));
            hand_over(&images, &Ready { reference: reference.into(), archive: archive.clone(), digest }).unwrap();
        };
        hand("ghcr.io/c5c3/keystone:28.0.0", "a");
        hand("ghcr.io/c5c3/keystone:29.0.0", "b");
        hand("ghcr.io/c5c3/keystone:28.0.0", "c");
        hand("ghcr.io/c5c3/keystone:28.0.0", "c");
        let mut names: Vec<_> =
            fs::read_dir(&images).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        let expected = ["28.0.0-cccccccccccccccc", "29.0.0-bbbbbbbbbbbbbbbb"];
        assert_eq!(names, expected.map(|rest| format!("ghcr.io-c5c3-keystone-{rest}.tar")));
    }
    #[test]
    fn a_cluster_whose_images_come_before_it_starts_has_a_folder_for_its_owner_only() {
        use std::os::unix::fs::PermissionsExt;
        let parent = tempfile::tempdir().unwrap();
        let (cluster, archive) = (parent.path().join("cluster"), parent.path().join("archive"));
        fs::write(&archive, "image").unwrap();
        let digest = format!("sha256:{}", "a".repeat(64));
        hand_over(&cluster.join("images"), &Ready { reference: "fig".into(), archive, digest }).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!([mode(&cluster), mode(&cluster.join("images"))], [0o700, 0o700]);
    }
}

//! The image of this program, made of the very binary that the tests have, in a real containerd.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use c5c3_cri::testing::Machine;
use c5c3_cri::testing::pods::{Pod, confined};
use c5c3_cri::{Programs, images};
use c5c3_images::{Binary, Builder, Cache, DEFAULT_RELEASE, Quiet, Ready, USER};

const DEADLINE: Duration = Duration::from_mins(3);

/// Builds the image in a cache of its own, with downloads of the user's: each build of the tests is another program, and
/// none should stay.
fn build(folder: &Path) -> Ready {
    let shared = Builder::new(DEFAULT_RELEASE).unwrap();
    let cache = folder.join("cache");
    std::fs::create_dir(&cache).unwrap();
    symlink(Cache::default_path().join("debs"), cache.join("debs")).unwrap();
    // What debuggers want is most of it.
    let program = folder.join("c5c3");
    let stripped = Command::new("strip").arg("-o").arg(&program).arg(env!("CARGO_BIN_EXE_c5c3")).status().unwrap();
    assert!(stripped.success());
    let binary = Binary::at(&program, env!("CARGO_PKG_VERSION")).unwrap();
    let builder = Builder { cache: Cache::open(&cache).unwrap(), binary: Some(binary), ..shared };
    let built = builder.build(&["c5c3"], &Quiet).unwrap().remove(0);
    c5c3_images::archive(&builder.cache, &built.references, &built.manifest).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_image_of_this_program_prints_its_version_as_an_ordinary_user_on_a_read_only_root() {
    let beside = Cache::default_path().with_file_name("image-tests");
    std::fs::create_dir_all(&beside).unwrap();
    let folder = tempfile::tempdir_in(beside).unwrap();
    let ready = build(folder.path());
    assert_eq!(ready.reference, c5c3_service::tls::IMAGE);
    let machine = Machine::new(1);
    let containerd = machine.start(0).await;
    let (site, runtime) = (&machine.sites[0], containerd.runtime());
    images::import(site, &Programs::find().unwrap(), &runtime, &ready.archive).await.unwrap();
    let container = confined(&ready.reference, USER, &site.data().join("pods/c5c3"), &["c5c3", "version"]);
    let pod = Pod::start(site, &runtime, "c5c3", container).await;
    let (code, said) = (pod.ended(&runtime, DEADLINE).await, pod.said());
    assert!(code == 0 && said.contains(env!("CARGO_PKG_VERSION")), "{code}: {said}");
    pod.remove(&runtime).await;
}

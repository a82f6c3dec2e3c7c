//! `c5c3 image sbom|export|guest|import|push|pull|keygen|sign|verify`, as they are used one after the other.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use c5c3_images::{Built, Cache, Catalogue, Inputs, Plan};
use c5c3_oci::spec::Config;
use c5c3_oci::{Compression, Image, Layer, Layout, Reference, Step};

const NAME: &str = "example.org/c5c3/hello:1.0";

/// A store with one image, and the program that looks after it.
struct Desk {
    folder: tempfile::TempDir,
}

impl Desk {
    fn new() -> Self {
        let desk = Self::empty();
        let files = tempfile::tempdir().unwrap();
        fs::write(files.path().join("motd"), "hello").unwrap();
        let layout = desk.layout();
        let layer = Layer::of_folder(&layout, files.path(), 0, Compression::Gzip).unwrap();
        let steps = vec![Step { made_by: "greeting".into(), layer }];
        let image = Image { created: 0, config: Config::default(), steps, annotations: [].into() };
        layout.tag(&name(), &image.assemble(&layout).unwrap()).unwrap();
        desk
    }

    /// A store without images.
    fn empty() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn layout(&self) -> Layout {
        Layout::open(self.path("cache/oci")).unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn c5c3(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_c5c3"));
        command.arg("image").args(arguments).current_dir(self.folder.path());
        command.env("C5C3_IMAGE_CACHE", self.path("cache")).env_remove("REGISTRY_AUTH_FILE").output().unwrap()
    }

    /// What it prints when all is well.
    fn says(&self, arguments: &[&str]) -> String {
        let done = self.c5c3(arguments);
        assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    }

    /// What it prints when something is wrong.
    fn refuses(&self, arguments: &[&str]) -> String {
        let done = self.c5c3(arguments);
        assert!(!done.status.success(), "{arguments:?} should fail");
        String::from_utf8(done.stderr).unwrap()
    }

    /// Changes a bit of the image's layer.
    fn tamper(&self) {
        let layout = self.layout();
        let layer = layout.manifest(&layout.resolve(&name()).unwrap()).unwrap().layers()[0].digest().clone();
        let mut bytes = fs::read(layout.path(&layer).unwrap()).unwrap();
        bytes[15] ^= 1;
        fs::write(layout.path(&layer).unwrap(), bytes).unwrap();
    }
}

fn name() -> Reference {
    NAME.parse().unwrap()
}

#[test]
fn an_image_is_signed_and_a_tampered_one_is_refused() {
    let desk = Desk::new();
    desk.says(&["keygen", "mine"]);
    desk.says(&["keygen", "theirs"]);
    assert!(desk.refuses(&["keygen", "mine"]).contains("mine.pub already exists"));
    assert!(desk.refuses(&["verify", NAME, "--key", "mine.pub"]).contains("is not signed"));
    desk.says(&["sign", NAME, "--key", "mine"]);
    assert!(desk.says(&["verify", NAME, "--key", "mine.pub"]).contains("whole, signed as example.org/c5c3/hello"));
    assert!(desk.refuses(&["verify", NAME, "--key", "theirs.pub"]).contains("none is by this key"));
    desk.says(&["export", NAME, "--output", "hello.tar", "--referrers"]);
    assert!(desk.says(&["verify", "--archive", "hello.tar", "--key", "mine.pub"]).contains("whole, signed as"));

    desk.tamper();
    for arguments in [&["verify", NAME][..], &["sign", NAME, "--key", "theirs"]] {
        let error = desk.refuses(arguments);
        assert!(error.contains("layer 1 of 1 (greeting)") && error.contains("tampered"), "{error}");
    }
    assert!(desk.refuses(&["export", NAME, "--output", "again.tar"]).contains("tampered"));
    assert!(!desk.path("again.tar").exists());
}

#[test]
fn a_bill_of_materials_is_printed_in_both_formats() {
    let desk = Desk::new();
    assert!(desk.says(&["sbom", NAME]).contains(r#""bomFormat":"CycloneDX""#));
    desk.says(&["sbom", NAME, "--format", "spdx", "--output", "bom.json"]);
    assert!(fs::read_to_string(desk.path("bom.json")).unwrap().contains(r#""spdxVersion":"SPDX-2.3""#));
    assert!(desk.refuses(&["sbom", "example.org/c5c3/other:1.0"]).contains("no image is named"));
}

#[test]
fn the_disk_of_the_guest_is_written_as_a_file_for_glance() {
    let desk = Desk::empty();
    // The one of all tests: the guest is built once.
    let cache = Cache::default_path().display().to_string();
    let refused = desk.refuses(&["guest", "--cache", &cache, "--output", "nowhere/tiny.qcow2"]);
    assert!(refused.contains("there is no folder nowhere"), "{refused}");
    let said = desk.says(&["guest", "--cache", &cache, "--output", "tiny.qcow2"]);
    assert!(said.starts_with("tiny.qcow2: qcow2, ") && said.contains("Linux "), "{said}");
    let disk = fs::read(desk.path("tiny.qcow2")).unwrap();
    assert!(disk.starts_with(b"QFI\xfb") && disk.len() < 40 << 20, "{} bytes", disk.len());
    // As large as `images/guest.sh` makes it, which the smallest flavors have room for.
    assert_eq!(disk[24..32], (32_u64 << 20).to_be_bytes());
}

/// Debian's docker-registry on a free port of the loopback; ends with the test.
struct Server(Child, String);

impl Server {
    fn start(folder: &Path) -> Self {
        let config = folder.join("registry.yml");
        let storage = format!("storage: {{ filesystem: {{ rootdirectory: {} }} }}", folder.join("registry").display());
        fs::write(&config, format!("version: 0.1\n{storage}\nhttp: {{ addr: '127.0.0.1:0' }}\n")).unwrap();
        let mut command = Command::new("docker-registry");
        command.arg("serve").arg(&config).stderr(Stdio::piped()).stdout(Stdio::null());
        let mut process = command.spawn().expect("no docker-registry; `make test` gets it");
        let mut log = BufReader::new(process.stderr.take().unwrap()).lines().map_while(Result::ok);
        let place = |line: String| Some(line.split_once("listening on ")?.1.split(['"', ' ']).next()?.to_owned());
        let address = log.by_ref().find_map(place).expect("the registry does not listen");
        std::thread::spawn(move || log.for_each(drop));
        Self(process, address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn an_image_is_pushed_with_its_bills() {
    let desk = Desk::new();
    let server = Server::start(desk.folder.path());
    let to = format!("{}/lab", server.1);
    let pushed = desk.says(&["push", NAME, "--to", &to, "--plain-http"]);
    assert!(pushed.starts_with(&format!("{to}/hello:1.0 sha256:")) && pushed.contains("2 referrers"), "{pushed}");
    let error = desk.refuses(&["push", NAME, "--plain-http"]);
    assert!(error.contains("example.org is not on this machine"), "{error}");
}

/// Definitions of two images, one on the other, and of a layer that no image stands on.
fn define(folder: &Path) {
    for (file, text) in [
        ("base.yaml", "title: The base\nbootstrap: { suite: trixie }"),
        ("kettle.yaml", "title: A kettle\ndebian: [kettle]"),
        ("layers/spout.yaml", "title: A part of no image\ndebian: [spout]"),
        ("releases/2026.1/sources.yaml", "cutoff: 2026-01-01\nimages: {}"),
    ] {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

/// Puts layers into the store as a build of these images leaves them, each with one small file.
fn build(definitions: &Path, cache: &Path, names: &[&str]) {
    let catalogue = Catalogue::read(definitions).unwrap();
    let release = catalogue.release("2026.1").unwrap();
    let plan = Plan::new(Inputs { catalogue: &catalogue, release: &release, binary: None }, names).unwrap();
    let layout = Cache::open(cache).unwrap().layout().unwrap();
    for stage in &plan.stages {
        let files = tempfile::tempdir().unwrap();
        fs::write(files.path().join(&stage.image), "from the test").unwrap();
        let layer = Layer::of_folder(&layout, files.path(), 0, Compression::Gzip).unwrap();
        let built = Built { layer, size: 1, debian: vec![], drift: vec![], patches: vec![] };
        let folder = cache.join("layers").join(stage.key.as_str());
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("layer.json"), serde_json::to_vec(&built).unwrap()).unwrap();
    }
}

#[test]
fn all_images_of_a_release_are_pushed_and_none_unless_all_are_built() {
    let desk = Desk::empty();
    let (definitions, cache) = (desk.path("images"), desk.path("cache"));
    define(&definitions);
    let server = Server::start(desk.folder.path());
    let to = format!("{}/cloud", server.1);
    let images = definitions.display().to_string();
    let push: &[&str] = &["push", "--all", "--release", "2026.1", "--images", &images, "--to", &to, "--plain-http"];

    build(&definitions, &cache, &["base"]);
    assert!(desk.refuses(push).contains("kettle is not built"));
    let missing =
        desk.refuses(&["pull", "base", "--release", "2026.1", "--images", &images, "--from", &to, "--plain-http"]);
    assert!(missing.contains("cloud/base"), "nothing was pushed: {missing}");

    build(&definitions, &cache, &["kettle"]);
    let pushed = desk.says(push);
    let pushed: Vec<&str> = pushed.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(pushed, [format!("{to}/base:0"), format!("{to}/kettle:0")]);
    // Whoever has only the definitions gets them from there.
    let other = Desk::empty();
    for name in ["base", "kettle"] {
        other.says(&["pull", name, "--release", "2026.1", "--images", &images, "--from", &to, "--plain-http"]);
    }
    assert!(desk.refuses(&["push", "kettle", "--all", "--to", &to]).contains("cannot be used with"));
}

#[test]
fn an_image_is_pulled_by_others_if_the_right_key_has_signed_it() {
    let (desk, other) = (Desk::new(), Desk::empty());
    let server = Server::start(desk.folder.path());
    let place = format!("{}/lab", server.1);
    desk.says(&["keygen", "mine"]);
    desk.says(&["keygen", "theirs"]);
    desk.says(&["sign", NAME, "--key", "mine"]);
    desk.says(&["push", NAME, "--to", &place, "--plain-http"]);
    let key = |name: &str| desk.path(name).display().to_string();
    let pull = ["pull", NAME, "--from", &place, "--plain-http", "--key"];
    let refused = other.refuses(&[pull.as_slice(), &[&key("theirs.pub")]].concat());
    assert!(refused.contains("none is by this key"), "{refused}");
    assert!(other.refuses(&["verify", NAME]).contains("no image is named"));
    let pulled = other.says(&[pull.as_slice(), &[&key("mine.pub")]].concat());
    assert!(pulled.starts_with(&format!("{NAME} sha256:")) && pulled.contains("3 referrers"), "{pulled}");
    assert!(other.says(&["sbom", NAME]).contains(r#""bomFormat":"CycloneDX""#));
    let missing = other.refuses(&["pull", "example.org/c5c3/none:1.0", "--from", &place, "--plain-http"]);
    assert!(missing.contains("lab/none:1.0"), "{missing}");
}

#[test]
fn an_archive_is_handed_to_a_cluster_that_will_start_later() {
    let (desk, other) = (Desk::new(), Desk::empty());
    desk.says(&["export", NAME, "--output", "hello.tar"]);
    let (archive, data) = (desk.path("hello.tar").display().to_string(), other.path("data").display().to_string());
    let said = other.says(&["import", "--archive", &archive, "--data", &data]);
    assert!(said.starts_with(&format!("{NAME} sha256:")) && said.contains("when it starts"), "{said}");
    other.says(&["import", "--archive", &archive, "--as", "example.org/other:2", "--data", &data]);
    let handed = fs::read_dir(other.path("data/images")).unwrap();
    let mut handed: Vec<_> = handed.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    handed.sort();
    assert!(handed[0].starts_with("example.org-c5c3-hello-1.0-") && handed[1].starts_with("example.org-other-2-"));
    fs::write(desk.path("broken.tar"), "no archive").unwrap();
    let broken = desk.path("broken.tar").display().to_string();
    assert!(other.refuses(&["import", "--archive", &broken, "--data", &data]).contains("broken.tar"));
}

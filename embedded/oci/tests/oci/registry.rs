//! Images, sent to a real registry and fetched from it.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use c5c3_oci::bill::{Bill, Format, Provenance};
use c5c3_oci::registry::{Access, Credentials};
use c5c3_oci::signature::{self, SigningKey};
use c5c3_oci::{Descriptor, Error, Layout, Reference, Registry};

use crate::fixture::{cache, image, layout, name, output};
use crate::listing::Listing;

/// Debian's docker-registry on a free port of the loopback; ends with the test.
struct Server {
    process: Child,
    address: String,
    data: PathBuf,
}

impl Server {
    fn start(folder: &Path, auth: &str) -> Self {
        let data = folder.join("registry");
        let config = folder.join("registry.yml");
        let storage = format!("storage: {{ filesystem: {{ rootdirectory: {} }} }}", data.display());
        fs::write(
            &config,
            format!("version: 0.1\nlog: {{ level: info }}\n{storage}\nhttp: {{ addr: '127.0.0.1:0' }}\n{auth}"),
        )
        .unwrap();
        let unpacked = cache().join("bin/docker-registry");
        let program = if unpacked.exists() { unpacked } else { "docker-registry".into() };
        let mut command = Command::new(program);
        command
            .arg("serve")
            .arg(&config)
            .env("OTEL_TRACES_EXPORTER", "none")
            .stderr(Stdio::piped())
            .stdout(Stdio::null());
        let mut process = command.spawn().expect("no docker-registry; `make test` gets it");
        let mut log = BufReader::new(process.stderr.take().unwrap()).lines().map_while(Result::ok);
        let place = |line: String| Some(line.split_once("listening on ")?.1.split(['"', ' ']).next()?.to_owned());
        let address = log.by_ref().find_map(place).expect("the registry does not listen");
        // It would wait if no one read what it says.
        std::thread::spawn(move || log.for_each(drop));
        Self { process, address, data }
    }

    fn name(&self) -> Reference {
        name(&format!("{}/c5c3/hello:1.0", self.address))
    }

    fn blob(&self, digest: &c5c3_oci::Digest) -> PathBuf {
        let hex = digest.digest();
        self.data.join(format!("docker/registry/v2/blobs/sha256/{}/{hex}/data", &hex[..2]))
    }

    fn client(&self) -> Registry {
        Registry::new(&self.name(), plain()).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn plain() -> Access {
    Access { plain_http: true, ..Access::default() }
}

/// An image with two bills of materials and a signature.
fn furnished(layout: &Layout) -> (Descriptor, SigningKey) {
    let called = name("example.org/c5c3/hello:1.0");
    let hello = image(layout, "hello");
    layout.tag(&called, &hello).unwrap();
    let bill = Bill::of(layout, &called, &hello, &Provenance::default()).unwrap();
    for format in Format::ALL {
        bill.attach(layout, &hello, format).unwrap();
    }
    let key = SigningKey::generate(&layout.root().join("key")).unwrap();
    signature::sign(layout, &called, &key).unwrap();
    (hello, key)
}

#[tokio::test]
async fn an_image_comes_back_as_it_was_with_all_that_is_said_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), "");
    let (from, to) = (layout(folder.path(), "from"), layout(folder.path(), "to"));
    let (hello, key) = furnished(&from);

    let pushed = server.client().push(&from, &hello, &server.name()).await.unwrap();
    // Two layers, a configuration; an empty configuration, two bills and a signature.
    assert_eq!((pushed.blobs, pushed.referrers), (7, 3));
    let again = server.client().push(&from, &hello, &server.name()).await.unwrap();
    assert_eq!((again.blobs, again.bytes, again.referrers), (0, 0, 3));

    let pulled = server.client().pull(&to, &server.name()).await.unwrap();
    assert_eq!(pulled, hello);
    to.verify(&pulled).unwrap();
    assert_eq!(signature::verify(&to, &pulled, &key.public()).unwrap(), "example.org/c5c3/hello");
    let referrers = |layout: &Layout| layout.referrers(hello.digest()).unwrap();
    assert_eq!(referrers(&to), referrers(&from));
    for format in Format::ALL {
        let bill = Bill::attached(&to, pulled.digest(), format).unwrap();
        assert!(bill.is_some() && bill == Bill::attached(&from, hello.digest(), format).unwrap());
    }
    let by_digest = name(&format!("{}/c5c3/hello@{}", server.address, hello.digest()));
    assert_eq!(server.client().pull(&to, &by_digest).await.unwrap(), hello);
}

#[tokio::test]
async fn skopeo_sees_what_was_pushed_and_the_tag_of_its_signature() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), "");
    let layout = layout(folder.path(), "store");
    let (hello, _) = furnished(&layout);
    server.client().push(&layout, &hello, &server.name()).await.unwrap();
    let mut command = Command::new("skopeo");
    let seen = output(command.args(["inspect", "--tls-verify=false"]).arg(format!("docker://{}", server.name())));
    let seen: serde_json::Value = serde_json::from_str(&seen).unwrap();
    assert_eq!(seen["Digest"], hello.digest().to_string());
    let tag = hello.digest().to_string().replace(':', "-");
    let tags: Vec<&str> = seen["RepoTags"].as_array().unwrap().iter().filter_map(|tag| tag.as_str()).collect();
    assert!(tags.contains(&"1.0") && tags.contains(&format!("{tag}.sig").as_str()), "{tags:?}");
    assert!(tags.contains(&tag.as_str()), "this registry does not list referrers by itself: {tags:?}");
}

#[tokio::test]
async fn a_registry_that_lists_referrers_needs_no_tag_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), "");
    let listing = Listing::start(&server.address).await;
    let (from, to) = (layout(folder.path(), "from"), layout(folder.path(), "to"));
    let (hello, key) = furnished(&from);
    let called = name(&format!("{}/c5c3/hello:1.0", listing.address));
    let registry = Registry::new(&called, plain()).unwrap();
    assert_eq!(registry.push(&from, &hello, &called).await.unwrap().referrers, 3);
    let tag = hello.digest().to_string().replace(':', "-");
    let tags = server.data.join("docker/registry/v2/repositories/c5c3/hello/_manifests/tags");
    assert!(tags.join("1.0").exists() && !tags.join(tag).exists());
    let pulled = registry.pull(&to, &called).await.unwrap();
    assert_eq!(to.referrers(pulled.digest()).unwrap().len(), 3);
    signature::verify(&to, &pulled, &key.public()).unwrap();
}

#[tokio::test]
async fn a_layer_that_was_changed_in_the_registry_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), "");
    let (from, to) = (layout(folder.path(), "from"), layout(folder.path(), "to"));
    let (hello, _) = furnished(&from);
    server.client().push(&from, &hello, &server.name()).await.unwrap();
    let layer = from.manifest(&hello).unwrap().layers()[1].digest().clone();
    let mut bytes = fs::read(server.blob(&layer)).unwrap();
    bytes[20] ^= 1;
    fs::write(server.blob(&layer), bytes).unwrap();
    let error = server.client().pull(&to, &server.name()).await.unwrap_err();
    assert!(error.to_string().contains(layer.as_ref()), "{error}");
    assert!(!to.contains(&layer));
}

#[tokio::test]
async fn a_layer_that_was_changed_in_the_store_is_not_sent() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), "");
    let layout = layout(folder.path(), "store");
    let (hello, _) = furnished(&layout);
    let layer = layout.manifest(&hello).unwrap().layers()[1].digest().clone();
    fs::write(layout.path(&layer).unwrap(), "evil").unwrap();
    let error = server.client().push(&layout, &hello, &server.name()).await.unwrap_err();
    assert!(matches!(&error, Error::Part { part, .. } if part == "layer 2 of 2 (greeting)"), "{error}");
    assert!(!server.blob(&layer).exists());
}

#[tokio::test]
async fn a_registry_with_users_takes_an_image_from_one_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let passwords = folder.path().join("htpasswd");
    fs::write(&passwords, "ana:$2b$05$KuAu.B8Wj4fP70DbPrvxuOKwAbww9cZYQ9qTeIbBpKmO/RrKb2gbm\n").unwrap();
    let auth = format!("auth: {{ htpasswd: {{ realm: test, path: {} }} }}\n", passwords.display());
    let server = Server::start(folder.path(), &auth);
    let layout = layout(folder.path(), "store");
    let (hello, _) = furnished(&layout);
    let error = server.client().push(&layout, &hello, &server.name()).await.unwrap_err();
    assert!(matches!(error, Error::Registry { .. }), "{error}");
    let credentials = Credentials::User { name: "ana".into(), password: "geheim".into() };
    let client = Registry::new(&server.name(), Access { credentials, ..plain() }).unwrap();
    client.push(&layout, &hello, &server.name()).await.unwrap();
}

#[tokio::test]
async fn a_registry_that_is_not_there_is_said_not_to_be() {
    let folder = tempfile::tempdir().unwrap();
    let layout = layout(folder.path(), "store");
    // Bound, so that no one else takes the port, and closed again as late as possible.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let called = name(&format!("127.0.0.1:{port}/c5c3/hello:1.0"));
    let error = Registry::new(&called, plain()).unwrap().pull(&layout, &called).await.unwrap_err().to_string();
    assert!(error.starts_with(&format!("cannot fetch {called}: ")), "{error}");
}

#[test]
fn nothing_is_sent_over_a_network_without_encryption() {
    for registry in ["registry.example.org/c5c3/hello:1.0", "10.0.0.1:5000/c5c3/hello:1.0"] {
        let error = Registry::new(&name(registry), plain()).unwrap_err();
        assert!(matches!(error, Error::PlainHttp(_)), "{error}");
    }
}

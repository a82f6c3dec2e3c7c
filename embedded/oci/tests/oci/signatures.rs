//! Signatures, and images that are not what they were.

use std::fs;

use c5c3_oci::signature::{self, PublicKey, SigningKey};
use c5c3_oci::{Error, Layout, MediaType};

use crate::fixture::{image, layout, name};

fn key(layout: &Layout, name: &str) -> SigningKey {
    SigningKey::generate(&layout.root().join(name)).unwrap()
}

#[test]
fn what_is_signed_is_found_to_be_by_its_key_and_by_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let layout = layout(folder.path(), "store");
    let (hello, other) = (image(&layout, "hello"), image(&layout, "other"));
    let called = name("example.org/c5c3/hello:1.0");
    layout.tag(&called, &hello).unwrap();
    let (mine, theirs) = (key(&layout, "mine"), key(&layout, "theirs"));

    let error = signature::verify(&layout, &hello, &mine.public()).unwrap_err();
    assert!(matches!(error, Error::Unsigned(_)), "{error}");
    let first = signature::sign(&layout, &called, &mine).unwrap();
    assert_eq!(signature::sign(&layout, &called, &mine).unwrap(), first, "one signature a key is enough");
    assert_eq!(signature::verify(&layout, &hello, &mine.public()).unwrap(), "example.org/c5c3/hello");
    let error = signature::verify(&layout, &hello, &theirs.public()).unwrap_err();
    assert!(matches!(error, Error::Signature { signatures: 1, .. }), "{error}");
    signature::sign(&layout, &called, &theirs).unwrap();
    assert!(signature::verify(&layout, &hello, &theirs.public()).is_ok());

    // A signature of another image, attached to this one.
    let stolen = layout.artifact(&first).unwrap();
    layout.attach(&other, stolen).unwrap();
    let error = signature::verify(&layout, &other, &mine.public()).unwrap_err();
    assert!(matches!(error, Error::Signature { .. }), "{error}");
}

#[test]
fn what_is_signed_is_what_cosign_signs() {
    let folder = tempfile::tempdir().unwrap();
    let layout = layout(folder.path(), "store");
    let hello = image(&layout, "hello");
    layout.tag(&name("example.org/c5c3/hello:1.0"), &hello).unwrap();
    let referrer = signature::sign(&layout, &name("example.org/c5c3/hello:1.0"), &key(&layout, "key")).unwrap();
    let payload = String::from_utf8(layout.artifact(&referrer).unwrap().content).unwrap();
    let expected = format!(
        r#"{{"critical":{{"identity":{{"docker-reference":"example.org/c5c3/hello"}},"image":{{"docker-manifest-digest":"{}"}},"type":"cosign container image signature"}},"optional":null}}"#,
        hello.digest()
    );
    assert_eq!(payload, expected);
    let manifest = layout.manifest(&referrer).unwrap();
    let signed = &manifest.layers()[0];
    assert_eq!(signed.media_type().to_string(), "application/vnd.dev.cosign.simplesigning.v1+json");
    assert!(signed.annotations().as_ref().unwrap().contains_key("dev.cosignproject.cosign/signature"));
}

#[test]
fn a_tampered_layer_is_called_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let layout = layout(folder.path(), "store");
    let hello = image(&layout, "hello");
    layout.verify(&hello).unwrap();
    let layer = layout.manifest(&hello).unwrap().layers()[1].digest().clone();
    let path = layout.path(&layer).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&path, bytes).unwrap();
    let error = layout.verify(&hello).unwrap_err().to_string();
    assert!(error.starts_with("layer 2 of 2 (greeting) of sha256:"), "{error}");
    assert!(error.contains(&format!("blob {layer} was tampered with")), "{error}");
    fs::remove_file(&path).unwrap();
    let error = layout.verify(&hello).unwrap_err().to_string();
    assert!(error.ends_with(&format!("blob {layer} is missing")), "{error}");
}

/// Someone who can change a layer can also write a manifest for it; but not have it mean the same configuration.
#[test]
fn a_layer_that_was_exchanged_under_the_same_configuration_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let layout = layout(folder.path(), "store");
    let (hello, other) = (image(&layout, "hello"), image(&layout, "evil"));
    let mut manifest = layout.manifest(&hello).unwrap();
    manifest.layers_mut()[1] = layout.manifest(&other).unwrap().layers()[1].clone();
    let forged = layout.put_document(MediaType::ImageManifest, &manifest).unwrap();
    let error = layout.verify(&forged).unwrap_err().to_string();
    assert!(error.starts_with("layer 2 of 2 (greeting)") && error.contains("it unpacks to sha256:"), "{error}");
}

#[test]
fn a_public_key_is_read_back_from_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let key = SigningKey::generate(&folder.path().join("key")).unwrap();
    let file = folder.path().join("key.pub");
    fs::write(&file, key.public().to_pem()).unwrap();
    assert_eq!(PublicKey::read(&file).unwrap(), key.public());
}

//! Bills of materials, as they are written and as their own schemas see them.

use std::fs;
use std::path::Path;
use std::process::Command;

use c5c3_oci::bill::{Bill, Format, Origin, Patch, Provenance};
use c5c3_oci::{Descriptor, Layout, digest_of};

use crate::fixture::{cache, image_of, layout, name, output};

const NAME: &str = "example.org/c5c3/keyring:3.1";
const DPKG: &str = "\
Package: libfoo++2
Status: install ok installed
Architecture: amd64
Source: foo (1:2.0-1)
Version: 1:2.0-1+b2
Maintainer: Foo Team <foo@example.org>
Homepage: https://foo.example.org/
Description: a library
 with a long description: of it

Package: tool
Status: install ok installed
Architecture: all
Version: 3~rc1
Maintainer: Tool People <tool@example.org>

Package: purged
Status: deinstall ok config-files
Architecture: amd64
Version: 1
";
const COPYRIGHT: &str = "\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/

Files: *
Copyright: 2020 Foo
License: LGPL-2.1+ or Expat

Files: debian/*
License: public-domain
";

fn write(root: &Path, path: &str, text: &str) {
    fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
    fs::write(root.join(path), text).unwrap();
}

fn rootfs() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    write(root, "var/lib/dpkg/status", DPKG);
    write(root, "usr/lib/os-release", "ID=debian\nVERSION_ID=\"13\"\n");
    write(root, "usr/share/doc/foo-common/copyright", COPYRIGHT);
    std::os::unix::fs::symlink("foo-common", root.join("usr/share/doc/libfoo++2")).unwrap();
    write(root, "usr/share/doc/tool/copyright", "Ask the author.\n");
    let site = "opt/keyring/lib/python3.13/site-packages";
    let metadata = "Metadata-Version: 2.4\nName: Key.Ring\nVersion: 3.1\nLicense-Expression: Apache-2.0\nAuthor: Ana\n\
                    Project-URL: Homepage, https://ring.example.org\n\nLicense: in the text\n";
    write(root, &format!("{site}/key_ring-3.1.dist-info/METADATA"), metadata);
    let metadata =
        "Name: leaf\nVersion: 0.1+local\nLicense: Dual\nClassifier: License :: OSI Approved :: BSD License\n";
    write(root, &format!("{site}/leaf-0.1.dist-info/METADATA"), metadata);
    folder
}

fn provenance() -> Provenance {
    let patch = Patch {
        file: "patches/key-ring/2025.2/0001-mend.patch".into(),
        digest: digest_of(b"diff"),
        backport: true,
        resolves: vec!["CVE-2025-0001".into(), "LP#1".into()],
    };
    let mut known = Provenance::default();
    known.insert("key_ring", Origin { hashes: vec!["ab".repeat(32)], patches: vec![patch], ..Origin::default() });
    known.insert("leaf", Origin { constraint_override: Some("leaf===0.1+local".into()), ..Origin::default() });
    known
}

fn furnished(folder: &Path) -> (Layout, Descriptor, Bill) {
    let layout = layout(folder, "store");
    let image = image_of(&layout, rootfs().path());
    let bill = Bill::of(&layout, &name(NAME), &image, &provenance()).unwrap();
    (layout, image, bill)
}

/// A document to be read by people, without our own version, which changes with each release.
fn pretty(document: &[u8]) -> String {
    let mut document: serde_json::Value = serde_json::from_slice(document).unwrap();
    for path in ["/metadata/tools/components/0/version", "/creationInfo/creators/0"] {
        if let Some(version) = document.pointer_mut(path) {
            *version = version.as_str().unwrap().replace(env!("CARGO_PKG_VERSION"), "VERSION").into();
        }
    }
    serde_json::to_string_pretty(&document).unwrap()
}

#[test]
fn a_bill_names_packages_licences_hashes_and_patches() {
    let folder = tempfile::tempdir().unwrap();
    let (_, _, bill) = furnished(folder.path());
    insta::assert_snapshot!("cyclonedx", pretty(&bill.document(Format::CycloneDx)));
    insta::assert_snapshot!("spdx", pretty(&bill.document(Format::Spdx)));
}

#[test]
fn the_same_image_has_the_same_bill_and_carries_it() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (layout, image, bill) = furnished(one.path());
    let (_, _, again) = furnished(other.path());
    for format in Format::ALL {
        assert_eq!(bill.document(format), again.document(format));
        bill.attach(&layout, &image, format).unwrap();
        bill.attach(&layout, &image, format).unwrap();
        assert_eq!(Bill::attached(&layout, image.digest(), format).unwrap(), Some(bill.document(format)));
    }
    assert_eq!(layout.referrers(image.digest()).unwrap().len(), 2);
}

/// What checks a document, by the rules of those who made its format.
fn check(format: Format, document: &[u8]) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(match format {
        Format::CycloneDx => "bom.cdx.json",
        Format::Spdx => "bom.spdx.json",
    });
    fs::write(&file, document).unwrap();
    let script = match format {
        Format::CycloneDx => {
            "import sys\nfrom cyclonedx.schema import SchemaVersion\nfrom cyclonedx.validation.json import JsonStrictValidator\n\
             problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(open(sys.argv[1]).read())\n\
             sys.exit(str(problem) if problem else 0)"
        }
        Format::Spdx => {
            "import sys\nfrom spdx_tools.spdx.parser.parse_anything import parse_file\n\
             from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document\n\
             problems = validate_full_spdx_document(parse_file(sys.argv[1]))\n\
             sys.exit('\\n'.join(str(problem) for problem in problems[:5]) if problems else 0)"
        }
    };
    output(Command::new(cache().join("python/bin/python")).args(["-c", script]).arg(&file));
}

#[test]
fn a_bill_is_good_by_the_schema_of_cyclonedx() {
    let folder = tempfile::tempdir().unwrap();
    check(Format::CycloneDx, &furnished(folder.path()).2.document(Format::CycloneDx));
}

#[test]
fn a_bill_is_good_by_the_validator_of_spdx() {
    let folder = tempfile::tempdir().unwrap();
    check(Format::Spdx, &furnished(folder.path()).2.document(Format::Spdx));
}

/// The machine's own packages have whatever real files come up with; a part of them, since the validators are slow.
#[test]
fn a_bill_of_a_real_distribution_is_good() {
    let root = tempfile::tempdir().unwrap();
    let status = fs::read_to_string("/var/lib/dpkg/status").unwrap();
    let some: Vec<&str> = status.split("\n\n").take(150).collect();
    write(root.path(), "var/lib/dpkg/status", &some.join("\n\n"));
    for name in some.iter().filter_map(|paragraph| paragraph.lines().next()?.strip_prefix("Package: ")) {
        let path = format!("usr/share/doc/{name}/copyright");
        if let Ok(text) = fs::read(Path::new("/").join(&path)) {
            write(root.path(), &path, &String::from_utf8_lossy(&text));
        }
    }
    let folders = |folder: &Path| fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    for version in folders(&cache().join("python/lib")) {
        for package in folders(&version.path().join("site-packages")) {
            if let Ok(text) = fs::read_to_string(package.path().join("METADATA")) {
                write(root.path(), &format!("opt/x/{}/METADATA", package.file_name().display()), &text);
            }
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let layout = layout(folder.path(), "store");
    let bill = Bill::of(&layout, &name(NAME), &image_of(&layout, root.path()), &Provenance::default()).unwrap();
    assert!(bill.packages.len() > 100, "{} packages", bill.packages.len());
    for format in Format::ALL {
        check(format, &bill.document(format));
    }
}

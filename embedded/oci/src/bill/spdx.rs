//! A bill of materials as SPDX 2.3.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Bill, Licence, Package, escaped, licence};

const IMAGE: &str = "SPDXRef-image";

pub(super) fn document(bill: &Bill) -> Value {
    let mut packages = vec![image(bill)];
    packages.extend(bill.packages.iter().map(package));
    let mut relationships = vec![relationship("SPDXRef-DOCUMENT", "DESCRIBES", IMAGE)];
    relationships.extend(bill.packages.iter().map(|package| relationship(IMAGE, "CONTAINS", &identifier(package))));
    json!({
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": bill.name.to_string(),
        // Any URI that no other document has.
        "documentNamespace": format!("https://c5c3.io/spdx/{}@{}", bill.name.repository(), bill.digest),
        "creationInfo": {
            "created": bill.created,
            "creators": [format!("Tool: c5c3-{}", env!("CARGO_PKG_VERSION"))],
        },
        "packages": packages,
        "relationships": relationships,
        "hasExtractedLicensingInfos": named_licences(bill),
    })
}

fn image(bill: &Bill) -> Value {
    json!({
        "SPDXID": IMAGE,
        "name": format!("{}/{}", bill.name.registry(), bill.name.repository()),
        "versionInfo": bill.name.tag().unwrap_or(bill.digest.as_ref()),
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": false,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": "NOASSERTION",
        "copyrightText": "NOASSERTION",
        "primaryPackagePurpose": "CONTAINER",
        "checksums": checksums([bill.digest.digest()]),
        "externalRefs": [purl(&bill.purl())],
    })
}

fn package(package: &Package) -> Value {
    let mut value = json!({
        "SPDXID": identifier(package),
        "name": package.name,
        "versionInfo": package.version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": false,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": licence::all(&package.licences).unwrap_or_else(|| "NOASSERTION".to_owned()),
        "copyrightText": "NOASSERTION",
        "externalRefs": [purl(&package.purl())],
    });
    let fields = [
        (
            "checksums",
            Some(checksums(package.hashes.iter().map(String::as_str))).filter(|_| !package.hashes.is_empty()),
        ),
        ("supplier", package.supplier.as_deref().map(supplier)),
        ("homepage", package.website.clone().map(Value::from)),
        ("sourceInfo", changes(package).map(Value::from)),
    ];
    for (name, field) in fields.into_iter().filter_map(|(name, field)| Some((name, field?))) {
        value[name] = field;
    }
    value
}

fn checksums<'a>(hashes: impl IntoIterator<Item = &'a str>) -> Value {
    hashes.into_iter().map(|hash| json!({ "algorithm": "SHA256", "checksumValue": hash })).collect()
}

fn purl(locator: &str) -> Value {
    json!({ "referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": locator })
}

/// `Name <address>`, as packages have it, is `Name (address)` here.
fn supplier(text: &str) -> Value {
    let named = text.split_once(" <").and_then(|(name, rest)| Some((name, rest.strip_suffix('>')?)));
    named
        .map_or_else(|| format!("Organization: {text}"), |(name, address)| format!("Organization: {name} ({address})"))
        .into()
}

/// How a package differs from what its supplier gives.
fn changes(package: &Package) -> Option<String> {
    let patches = package.patches.iter().map(|patch| format!("patched with {} ({})", patch.file, patch.digest));
    let overridden = package.constraint_override.iter().map(|text| format!("constraint overridden: {text}"));
    Some(patches.chain(overridden).collect::<Vec<_>>().join("; ")).filter(|text| !text.is_empty())
}

/// A name within the document. Letters, digits, dots and dashes are all that one may have.
fn identifier(package: &Package) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
    let name = escaped(&package.purl()).replace("%2F", ".").replace(|c| !allowed(c), "-");
    format!("SPDXRef-{}", name.trim_start_matches("pkg-3A"))
}

fn relationship(from: &str, kind: &str, to: &str) -> Value {
    json!({ "spdxElementId": from, "relationshipType": kind, "relatedSpdxElement": to })
}

/// Licences that are not in the list of SPDX, which must be said to exist.
fn named_licences(bill: &Bill) -> Vec<Value> {
    let licences = bill.packages.iter().flat_map(|package| &package.licences);
    let named: BTreeMap<String, &str> = licences
        .filter_map(|licence| match licence {
            Licence::Named(name) => Some((licence.expression(), name.as_str())),
            _ => None,
        })
        .collect();
    let text = "The package's own copyright file or metadata has the text.";
    named.iter().map(|(id, name)| json!({ "licenseId": id, "name": name, "extractedText": text })).collect()
}

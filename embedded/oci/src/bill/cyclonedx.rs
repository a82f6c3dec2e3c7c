//! A bill of materials as CycloneDX 1.6.

use serde_json::{Value, json};

use super::{Bill, Kind, Licence, Package, Patch, licence};
use crate::digest_of;

pub(super) fn document(bill: &Bill) -> Value {
    let purl = bill.purl();
    let parts: Vec<String> = bill.packages.iter().map(Package::purl).collect();
    let mut dependencies = vec![json!({ "ref": purl, "dependsOn": parts })];
    dependencies.extend(parts.iter().map(|part| json!({ "ref": part })));
    let mut document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": serial_number(bill),
        "version": 1,
        "metadata": {
            "timestamp": bill.created,
            "tools": { "components": [tool()] },
            "component": {
                "type": "container",
                "bom-ref": purl,
                "name": format!("{}/{}", bill.name.registry(), bill.name.repository()),
                "version": bill.name.tag().unwrap_or(bill.digest.as_ref()),
                "hashes": hashes([bill.digest.digest()]),
                "purl": purl,
            },
        },
        "components": bill.packages.iter().map(component).collect::<Vec<_>>(),
        "dependencies": dependencies,
    });
    if !bill.distribution.id.is_empty() {
        let distribution = json!({
            "type": "operating-system",
            "name": bill.distribution.id,
            "version": bill.distribution.version,
        });
        document["components"]
            .as_array_mut()
            .into_iter()
            .for_each(|components| components.insert(0, distribution.clone()));
    }
    document
}

fn tool() -> Value {
    json!({ "type": "application", "name": "c5c3", "version": env!("CARGO_PKG_VERSION") })
}

/// A number that no other image has, and that this one has each time: 128 bits of a hash, marked as made by rules of our
/// own.
fn serial_number(bill: &Bill) -> String {
    let hash = digest_of(format!("cyclonedx {} {}", bill.name, bill.digest).as_bytes());
    let hex = hash.digest();
    format!("urn:uuid:{}-{}-8{}-8{}-{}", &hex[..8], &hex[8..12], &hex[12..15], &hex[15..18], &hex[18..30])
}

fn component(package: &Package) -> Value {
    let purl = package.purl();
    let mut component = json!({
        "type": "library",
        "bom-ref": purl,
        "name": package.name,
        "version": package.version,
        "purl": purl,
    });
    let fields = [
        ("licenses", licences(&package.licences)),
        ("hashes", Some(hashes(package.hashes.iter().map(String::as_str))).filter(|_| !package.hashes.is_empty())),
        ("supplier", package.supplier.as_ref().map(|name| json!({ "name": name }))),
        ("externalReferences", package.website.as_ref().map(|url| json!([{ "type": "website", "url": url }]))),
        ("pedigree", pedigree(&package.patches)),
        ("properties", properties(package)),
    ];
    for (name, value) in fields.into_iter().filter_map(|(name, value)| Some((name, value?))) {
        component[name] = value;
    }
    component
}

fn hashes<'a>(hashes: impl IntoIterator<Item = &'a str>) -> Value {
    hashes.into_iter().map(|hash| json!({ "alg": "SHA-256", "content": hash })).collect()
}

/// A list of licences, or one expression: a document may not mix them.
fn licences(licences: &[Licence]) -> Option<Value> {
    if licences.iter().any(|licence| matches!(licence, Licence::Expression(_))) {
        return Some(json!([{ "expression": licence::all(licences)? }]));
    }
    let list = licences.iter().map(|licence| match licence {
        Licence::Id(id) => json!({ "license": { "id": id } }),
        Licence::Named(name) | Licence::Expression(name) => json!({ "license": { "name": name } }),
    });
    Some(list.collect()).filter(|_| !licences.is_empty())
}

fn pedigree(patches: &[Patch]) -> Option<Value> {
    let list: Vec<Value> = patches.iter().map(patch).collect();
    let notes = patches.iter().map(|patch| format!("{} {}", patch.file, patch.digest)).collect::<Vec<_>>().join("\n");
    (!list.is_empty()).then(|| json!({ "patches": list, "notes": notes }))
}

fn patch(patch: &Patch) -> Value {
    let mut value = json!({
        "type": if patch.backport { "backport" } else { "unofficial" },
        "diff": { "url": patch.file },
    });
    if !patch.resolves.is_empty() {
        let issues = patch.resolves.iter().map(|id| {
            let kind = if id.starts_with("CVE-") { "security" } else { "defect" };
            json!({ "type": kind, "id": id })
        });
        value["resolves"] = issues.collect();
    }
    value
}

fn properties(package: &Package) -> Option<Value> {
    let mut properties = Vec::new();
    if let Kind::Debian { source, .. } = &package.kind {
        properties.push(json!({ "name": "c5c3:debian-source", "value": source }));
    }
    if let Some(value) = &package.constraint_override {
        properties.push(json!({ "name": "c5c3:constraint-override", "value": value }));
    }
    (!properties.is_empty()).then(|| properties.into())
}

//! The volumes of a MariaDB: how they grow, what of them cannot change any more, and whom they go with.

use c5c3_api::ext::mariadb::{MariaDB, PvcRetention};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::{Value, json};

use super::children;
use super::wanted::{Volume, Wanted};
use crate::failure::Error;
use crate::pods::bytes;

/// Brings claims to what is asked for, as far as claims can change, and says what of it they cannot.
pub(super) async fn tend(client: &Client, mariadb: &MariaDB, wanted: &Wanted) -> Result<Option<String>, Error> {
    let Volume::Claim { size, .. } = &wanted.volume else { return Ok(None) };
    let api = Api::<PersistentVolumeClaim>::namespaced(client.clone(), &wanted.namespace);
    let ours = ListParams::default().labels(&children::selector_text(wanted));
    let claims = api.list(&ours).await.map_err(Error::api("list claims"))?.items;
    for claim in &claims {
        if let Some(patch) = change(claim, mariadb, wanted, size) {
            let name = claim.name_any();
            let patched = api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
            patched.map_err(Error::api(format!("change claim {name}")))?;
        }
    }
    let too_large = claims.iter().filter(|claim| is_used(claim, wanted)).filter_map(requested);
    let mut too_large = too_large.filter(|has| bytes(has) > bytes(size));
    Ok(too_large.next().map(|has| format!("spec.storage.size: a volume of {has} cannot shrink to {size}")))
}

/// What is to change of a claim. A StatefulSet keeps the size that it began with, and gives an owner to claims of pods
/// that run; claims can grow, and those that a smaller cluster left behind go as the MariaDB says, too.
fn change(claim: &PersistentVolumeClaim, mariadb: &MariaDB, wanted: &Wanted, size: &str) -> Option<Value> {
    if is_used(claim, wanted) {
        let grows = requested(claim).is_some_and(|has| bytes(&has) < bytes(size));
        return grows.then(|| json!({"spec": {"resources": {"requests": {"storage": size}}}}));
    }
    let goes = wanted.retention.as_ref().and_then(|policy| policy.when_deleted) == Some(PvcRetention::Delete);
    let owner = owner(mariadb)?;
    let has = claim.owner_references().iter().any(|other| other.uid == owner.uid);
    if goes == has {
        return None;
    }
    let mut owners = claim.owner_references().to_vec();
    owners.retain(|other| other.uid != owner.uid);
    owners.extend(goes.then_some(owner));
    // Who changed it meanwhile is not undone: the patch is refused then, and made again from what is there.
    Some(json!({"metadata": {"ownerReferences": owners, "resourceVersion": claim.resource_version()}}))
}

/// The MariaDB as an owner that controls nothing: with it, what it owns goes.
fn owner(mariadb: &MariaDB) -> Option<OwnerReference> {
    Some(OwnerReference { controller: None, block_owner_deletion: None, ..mariadb.controller_owner_ref(&())? })
}

/// Whether a claim is of a pod that there should be.
fn is_used(claim: &PersistentVolumeClaim, wanted: &Wanted) -> bool {
    (0..wanted.replicas).any(|index| claim.metadata.name.as_ref() == Some(&wanted.claim(index)))
}

/// The size that was asked for; none of a claim that is not bound yet, which cannot change.
fn requested(claim: &PersistentVolumeClaim) -> Option<String> {
    let bound = claim.status.as_ref()?.phase.as_deref() == Some("Bound");
    let has = claim.spec.as_ref()?.resources.as_ref()?.requests.as_ref()?.get("storage")?;
    bound.then(|| has.0.clone())
}

/// The volumes that the servers of a StatefulSet have.
pub(super) fn of(set: &StatefulSet) -> Volume {
    let claim = || {
        let claim = set.spec.as_ref()?.volume_claim_templates.as_ref()?.first()?.spec.clone()?;
        let size = claim.resources?.requests?.remove("storage")?;
        Some(Volume::Claim { size: size.0, class: claim.storage_class_name })
    };
    claim().unwrap_or(Volume::Ephemeral)
}

/// What was asked for of volumes that cannot be any more.
pub(super) fn fixed(begun: &Volume, asked: &Volume) -> Option<String> {
    match (begun, asked) {
        (Volume::Claim { class, .. }, Volume::Claim { class: Some(asked), .. }) if class.as_ref() != Some(asked) => {
            let class = class.as_deref().unwrap_or("the cluster's own");
            Some(format!("spec.storage.storageClassName: cannot change from {class} to {asked}"))
        }
        (Volume::Claim { .. }, Volume::Claim { .. }) | (Volume::Ephemeral, Volume::Ephemeral) => None,
        _ => Some("spec.storage.ephemeral: cannot change; the data stays where it is".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::mariadb;

    fn with(storage: &Value) -> MariaDB {
        mariadb(json!({"replicas": 1, "galera": {"enabled": true}, "storage": storage}))
    }

    fn changed(mariadb: &MariaDB, claim: &Value) -> Option<Value> {
        let wanted = Wanted::of(mariadb).unwrap();
        change(&serde_json::from_value(claim.clone()).unwrap(), mariadb, &wanted, "2Gi")
    }

    #[test]
    fn a_claim_that_is_bound_grows() {
        let claim = |phase: &str| {
            json!({"metadata": {"name": "storage-ledger-0"}, "status": {"phase": phase},
                "spec": {"resources": {"requests": {"storage": "1Gi"}}}})
        };
        let mariadb = with(&json!({"size": "2Gi"}));
        let grown = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
        assert_eq!(changed(&mariadb, &claim("Bound")), Some(grown));
        assert_eq!(changed(&mariadb, &claim("Pending")), None);
    }

    #[test]
    fn a_claim_that_is_left_over_goes_with_the_mariadb_if_claims_do() {
        let owner =
            json!({"apiVersion": "k8s.mariadb.com/v1alpha1", "kind": "MariaDB", "name": "ledger", "uid": "0000-1111"});
        let claim = |owners: Value| json!({"metadata": {"name": "storage-ledger-2", "resourceVersion": "7", "ownerReferences": owners}});
        let (keeps, drops) =
            (json!({"size": "2Gi"}), json!({"size": "2Gi", "pvcRetentionPolicy": {"whenDeleted": "Delete"}}));
        let owners = |change: Option<Value>| change.map(|change| change["metadata"]["ownerReferences"].clone());
        assert_eq!(owners(changed(&with(&drops), &claim(json!([])))), Some(json!([owner])));
        assert_eq!(owners(changed(&with(&drops), &claim(json!([owner])))), None);
        assert_eq!(owners(changed(&with(&keeps), &claim(json!([owner])))), Some(json!([])));
        assert_eq!(owners(changed(&with(&keeps), &claim(json!([])))), None);
    }
}

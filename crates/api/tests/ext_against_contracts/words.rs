//! The words of our enumerations are those of the contracts: all of them, unless a comment says otherwise.

use c5c3_api::ext::{cert_manager, external_secrets, mariadb, rabbitmq, rook};

use crate::*;

/// The words that `K`'s contract allows at `path`, where `[]` stands for the items of a list.
fn allowed<K: Resource<DynamicType = ()>>(path: &str) -> Vec<String> {
    let schema = contract::<K>().schema();
    let found =
        path.split('.').fold(&schema, |at, step| if step == "[]" { &at["items"] } else { &at["properties"][step] });
    let words = found["enum"].as_array().unwrap_or_else(|| panic!("{} {path} is not an enum", K::kind(&())));
    let mut words: Vec<String> = words.iter().map(|word| word.as_str().expect("a word").to_string()).collect();
    words.sort();
    words
}

fn ours<W: Serialize>(words: &[W]) -> Vec<String> {
    let word = |word| serde_json::to_value(word).expect("a word is written").as_str().expect("as text").to_string();
    let mut words: Vec<String> = words.iter().map(word).collect();
    words.sort();
    words
}

#[test]
fn words_of_mariadb_operator() {
    use mariadb::*;
    assert_eq!(ours(CleanupPolicy::ALL), allowed::<MariaDB>("spec.cleanupPolicy"));
    assert_eq!(ours(CleanupPolicy::ALL), allowed::<Database>("spec.cleanupPolicy"));
    assert_eq!(ours(ServiceType::ALL), allowed::<MariaDB>("spec.primaryService.type"));
    assert_eq!(ours(Router::ALL), allowed::<MaxScale>("spec.services.[].router"));
    assert_eq!(ours(Monitoring::ALL), allowed::<MaxScale>("spec.monitor.cooperativeMonitoring"));
    assert_eq!(ours(Compression::ALL), allowed::<Backup>("spec.compression"));
    assert_eq!(ours(RestartPolicy::ALL), allowed::<Restore>("spec.restartPolicy"));
}

#[test]
fn words_of_the_rabbitmq_operators() {
    use rabbitmq::*;
    assert_eq!(ours(ServiceType::ALL), allowed::<RabbitmqCluster>("spec.service.type"));
    assert_eq!(ours(QueueType::ALL), allowed::<Vhost>("spec.defaultQueueType"));
    assert_eq!(ours(DeletionPolicy::ALL), allowed::<Vhost>("spec.deletionPolicy"));
    assert_eq!(ours(UserTag::ALL), allowed::<User>("spec.tags.[]"));
}

#[test]
fn words_of_external_secrets() {
    use external_secrets::*;
    assert_eq!(ours(StoreKind::ALL), allowed::<ExternalSecret>("spec.secretStoreRef.kind"));
    assert_eq!(ours(StoreKind::ALL), allowed::<PushSecret>("spec.secretStoreRefs.[].kind"));
    assert_eq!(ours(RefreshPolicy::ALL), allowed::<ExternalSecret>("spec.refreshPolicy"));
    assert_eq!(ours(CreationPolicy::ALL), allowed::<ExternalSecret>("spec.target.creationPolicy"));
    assert_eq!(ours(DeletionPolicy::ALL), allowed::<ExternalSecret>("spec.target.deletionPolicy"));
    assert_eq!(ours(PushConversion::ALL), allowed::<PushSecret>("spec.data.[].conversionStrategy"));
    assert_eq!(ours(UpdatePolicy::ALL), allowed::<PushSecret>("spec.updatePolicy"));
    assert_eq!(ours(PushDeletionPolicy::ALL), allowed::<PushSecret>("spec.deletionPolicy"));
    assert_eq!(ours(KvVersion::ALL), allowed::<SecretStore>("spec.provider.vault.version"));
    assert_eq!(ours(CaProviderKind::ALL), allowed::<SecretStore>("spec.provider.vault.caProvider.type"));
}

#[test]
fn words_of_cert_manager() {
    use cert_manager::*;
    assert_eq!(ours(KeyAlgorithm::ALL), allowed::<Certificate>("spec.privateKey.algorithm"));
    assert_eq!(ours(KeyEncoding::ALL), allowed::<Certificate>("spec.privateKey.encoding"));
    assert_eq!(ours(RotationPolicy::ALL), allowed::<Certificate>("spec.privateKey.rotationPolicy"));
    // A certificate can be for much that we have no use for.
    let usages = allowed::<Certificate>("spec.usages.[]");
    assert!(ours(Usage::ALL).iter().all(|usage| usages.contains(usage)));
}

#[test]
fn words_of_rook() {
    use rook::*;
    assert_eq!(ours(CephxKeyType::ALL), allowed::<CephClient>("spec.security.cephx.keyType"));
    // The empty word is the same as none.
    let mut policies = allowed::<CephClient>("spec.security.cephx.keyRotationPolicy");
    policies.retain(|policy| !policy.is_empty());
    assert_eq!(ours(KeyRotationPolicy::ALL), policies);
}

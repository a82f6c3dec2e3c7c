use c5c3_api::ext::NamedRef;
use c5c3_api::ext::external_secrets::*;
use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::*;

fn generator() -> GeneratorRef {
    GeneratorRef {
        api_version: Some("generators.external-secrets.io/v1alpha1".to_string()),
        kind: "VaultDynamicSecret".to_string(),
        name: "riddle".to_string(),
    }
}

fn key() -> RemoteKey {
    RemoteKey::new("kv-v2", "openstack/nova/db")
}

#[test]
fn an_external_secret() {
    let mut secret = ExternalSecret::new(
        "riddle",
        ExternalSecretSpec {
            secret_store_ref: Some(StoreRef { name: "cave".to_string(), kind: StoreKind::ClusterSecretStore }),
            refresh_interval: Some("1h".to_string()),
            refresh_policy: Some(RefreshPolicy::Periodic),
            target: Some(Target {
                name: Some("riddle".to_string()),
                creation_policy: Some(CreationPolicy::Owner),
                deletion_policy: Some(DeletionPolicy::Retain),
                immutable: Some(false),
                template: Some(Template {
                    r#type: Some("Opaque".to_string()),
                    metadata: Some(TemplateMetadata {
                        labels: map("rabbitmq.com/topology-operator", "true"),
                        annotations: map("note", "riddle"),
                    }),
                    data: map("url", "amqp://{{ .username }}:{{ .password }}@burrow"),
                }),
            }),
            data: vec![Data {
                secret_key: "password".to_string(),
                remote_ref: RemoteRef {
                    key: key(),
                    property: Some("password".to_string()),
                    version: Some("3".to_string()),
                },
            }],
            data_from: vec![DataFrom {
                extract: Some(Extract { key: key(), version: Some("3".to_string()) }),
                source_ref: Some(SourceRef { generator_ref: Some(generator()) }),
            }],
        },
    );
    secret.status = Some(ExternalSecretStatus {
        conditions: vec![condition("Ready", None)],
        refresh_time: Some(time()),
        synced_resource_version: Some("1-0a1b2c".to_string()),
        binding: Some(NamedRef::new("riddle")),
    });
    accepts_namespaced(&secret);
}

#[test]
fn a_push_secret() {
    let mut push = PushSecret::new(
        "riddle",
        PushSecretSpec {
            secret_store_refs: vec![StoreRef { name: "cave".to_string(), kind: StoreKind::ClusterSecretStore }],
            selector: Selector { secret: Some(NamedRef::new("riddle")), generator_ref: None },
            data: vec![PushData {
                conversion_strategy: PushConversion::ReverseUnicode,
                r#match: Match {
                    secret_key: Some("clouds.yaml".to_string()),
                    remote_ref: PushRemoteRef { remote_key: key(), property: Some("clouds.yaml".to_string()) },
                },
            }],
            update_policy: Some(UpdatePolicy::Replace),
            deletion_policy: Some(PushDeletionPolicy::Delete),
            refresh_interval: Some("1h".to_string()),
        },
    );
    push.status = Some(PushSecretStatus {
        conditions: vec![condition("Ready", None)],
        refresh_time: Some(time()),
        synced_resource_version: Some("1-0a1b2c".to_string()),
    });
    accepts_namespaced(&push);
    push.spec.selector = Selector { secret: None, generator_ref: Some(generator()) };
    accepts_namespaced(&push);
}

fn store_spec() -> SecretStoreSpec {
    let secret = |key: &str| SecretRef {
        name: Some("cave-tls".to_string()),
        namespace: Some("openstack".to_string()),
        key: Some(key.to_string()),
    };
    SecretStoreSpec {
        provider: Provider {
            vault: Some(Vault {
                server: "https://openbao.openbao-system:8200".to_string(),
                path: Some("kv-v2".to_string()),
                version: Some(KvVersion::V2),
                namespace: Some("tenant".to_string()),
                ca_bundle: Some(ByteString(b"-----BEGIN CERTIFICATE-----".to_vec())),
                ca_provider: Some(CaProvider {
                    r#type: CaProviderKind::Secret,
                    name: "cave-ca".to_string(),
                    key: Some("ca.crt".to_string()),
                    namespace: Some("openstack".to_string()),
                }),
                tls: Some(VaultTls {
                    cert_secret_ref: Some(secret("tls.crt")),
                    key_secret_ref: Some(secret("tls.key")),
                }),
                auth: Some(VaultAuth {
                    kubernetes: Some(KubernetesAuth {
                        mount_path: "kubernetes/control-plane".to_string(),
                        role: "eso-control-plane".to_string(),
                        service_account_ref: Some(ServiceAccountRef {
                            name: "eso".to_string(),
                            namespace: Some("external-secrets".to_string()),
                            audiences: vec!["openbao".to_string()],
                        }),
                    }),
                    app_role: Some(AppRole {
                        path: "approle".to_string(),
                        role_id: Some("cave".to_string()),
                        role_ref: Some(secret("role-id")),
                        secret_ref: secret("secret-id"),
                    }),
                    token_secret_ref: Some(secret("token")),
                }),
                check_and_set: Some(CheckAndSet { required: true }),
                read_your_writes: Some(true),
                headers: map("X-Note", "cave"),
            }),
        },
        retry_settings: Some(RetrySettings { max_retries: Some(5), retry_interval: Some("10s".to_string()) }),
    }
}

fn store_status() -> StoreStatus {
    StoreStatus { conditions: vec![condition("Ready", None)], capabilities: Some("ReadWrite".to_string()) }
}

#[test]
fn a_secret_store() {
    let mut store = SecretStore::new("cave", store_spec());
    store.status = Some(store_status());
    accepts_namespaced(&store);
}

#[test]
fn a_cluster_secret_store() {
    let selector = LabelSelector { match_labels: Some(map("openstack", "yes")), match_expressions: None };
    let mut store = ClusterSecretStore::new(
        "cave",
        ClusterSecretStoreSpec {
            store: store_spec(),
            conditions: vec![StoreCondition {
                namespace_selector: Some(selector),
                namespaces: vec!["openstack".to_string()],
                namespace_regexes: vec!["openstack-.*".to_string()],
            }],
        },
    );
    store.status = Some(store_status());
    accepts_cluster(&store);
}

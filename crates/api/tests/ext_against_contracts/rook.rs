use c5c3_api::ext::rook::*;

use crate::*;

#[test]
fn a_ceph_client() {
    let mut client = CephClient::new(
        "potter",
        CephClientSpec {
            caps: map("osd", "profile rbd pool=volumes, profile rbd pool=images"),
            name: Some("potter".to_string()),
            secret_name: Some("potter-key".to_string()),
            security: Some(CephClientSecurity {
                cephx: Some(Cephx {
                    key_rotation_policy: Some(KeyRotationPolicy::KeyGeneration),
                    key_generation: Some(2),
                    key_type: Some(CephxKeyType::Aes256k),
                }),
            }),
        },
    );
    client.status = Some(CephClientStatus {
        phase: Some("Ready".to_string()),
        observed_generation: Some(1),
        info: map("secretName", "potter-key"),
        cephx: Some(CephxStatus {
            key_generation: Some(2),
            key_type: Some("aes256k".to_string()),
            key_ceph_version: Some("20.2.0-0".to_string()),
        }),
    });
    accepts_namespaced(&client);
}

//! The objects of a user's credentials: its clouds.yaml, each credential with its secret, and the Secret that is delivered.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use c5c3_api::c5c3::{CredentialRotation, RotatedCredential};
use c5c3_api::orc::ApplicationCredential;
use c5c3_kit::{Child, Inputs, Ref, Wait, random_secret};
use c5c3_openstack::Cloud;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::DynamicObject;
use kube::core::{ApiResource, ObjectMeta};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use super::account::{Account, Names};

/// The cloud in every clouds.yaml of ours.
const CLOUD: &str = "openstack";

/// The key of a Secret with the secret of an application credential, as K-ORC has it.
pub(crate) const VALUE: &str = "value";

/// The content of a Secret.
pub(crate) type Data = BTreeMap<String, ByteString>;

/// The Secret by which K-ORC makes application credentials in the user's name.
pub(crate) fn user_clouds(account: &Account) -> Child {
    let Account { names, cloud, user, project, password } = account;
    let auth = [
        ("auth_url", cloud.auth_url.as_str()),
        ("user_id", user),
        ("password", password.expose_secret()),
        ("project_id", project),
    ];
    let mut data = data([("clouds.yaml", clouds_yaml(cloud, "password", &auth).as_str())]);
    data.extend(authority(cloud));
    secret(names, names.user_clouds(), data)
}

/// The content that services get.
pub(crate) fn delivered(cloud: &Cloud, id: &str, value: &SecretString) -> Data {
    let auth = [
        ("auth_url", cloud.auth_url.as_str()),
        ("application_credential_id", id),
        ("application_credential_secret", value.expose_secret()),
    ];
    let clouds = clouds_yaml(cloud, "v3applicationcredential", &auth);
    let mut data = data(auth);
    data.insert("clouds.yaml".into(), ByteString(clouds.into_bytes()));
    data.extend(authority(cloud));
    data
}

/// A Secret with this content.
pub(crate) fn secret(names: &Names, name: String, data: Data) -> Child {
    let metadata = ObjectMeta { name: Some(name), namespace: Some(names.namespace.clone()), ..ObjectMeta::default() };
    Child::new(&Secret { metadata, data: Some(data), type_: Some("Opaque".into()), ..Secret::default() })
}

/// The Secret with the secret of a credential. It is not generated again when Keystone has the credential already.
pub(crate) fn value(names: &Names, credential: &RotatedCredential) -> Child {
    let name = names.version(credential.version);
    let child = random_secret::child(&names.namespace, &name, &[], &[VALUE]);
    if credential.id.is_none() {
        return child;
    }
    let lost = Wait::on(&names.secret(name))
        .now("is lost")
        .because("Keystone does not show the secret of an application credential again")
        .look_at("another credential takes its place by itself")
        .with_reason("SecretLost");
    child.irreplaceable(lost)
}

/// The ApplicationCredential object of a version.
pub(crate) fn reference(names: &Names, credential: &RotatedCredential) -> Ref {
    Ref::namespaced::<ApplicationCredential>(&names.namespace, names.version(credential.version))
}

/// The credential in Keystone. Nothing of it can change, so one that exists stays as it was asked for.
pub(crate) fn application_credential(
    inputs: &Inputs<CredentialRotation>,
    names: &Names,
    credential: &RotatedCredential,
) -> Child {
    let reference = reference(names, credential);
    let live = inputs.get(&reference).map(|live| live.data["spec"]["resource"].clone());
    let resource = live.filter(Value::is_object).unwrap_or_else(|| resource(inputs, names, credential));
    let mut object = DynamicObject::new(&reference.name, &reference.resource).within(&names.namespace);
    object.data = json!({"spec": {
        "cloudCredentialsRef": {"secretName": names.user_clouds(), "cloudName": CLOUD},
        "resource": resource,
    }});
    Child::dynamic(ApiResource::erase::<ApplicationCredential>(&()), object)
        .because("it is what services sign in to Keystone with")
}

fn resource(inputs: &Inputs<CredentialRotation>, names: &Names, credential: &RotatedCredential) -> Value {
    let (rotation, name) = (&inputs.object, names.version(credential.version));
    let mut resource = json!({
        "name": unique(rotation, &name),
        "description": format!("made by CredentialRotation {}/{}", names.namespace, rotation.name_any()),
        "userRef": rotation.spec.target_service_user,
        "secretRef": name,
    });
    if let Some(expires) = &credential.expires_at {
        resource["expiresAt"] = json!(expires);
    }
    if rotation.spec.unrestricted {
        resource["unrestricted"] = true.into();
    }
    if !rotation.spec.roles.is_empty() {
        resource["roleRefs"] = json!(rotation.spec.roles);
    }
    resource
}

/// The name in Keystone. K-ORC adopts a credential of the same name, and nothing knows the secret of one that an older
/// CredentialRotation of this name has left behind.
fn unique(rotation: &CredentialRotation, name: &str) -> String {
    match rotation.uid().as_deref().and_then(|uid| uid.get(..8)) {
        Some(uid) => format!("{name}-{uid}"),
        None => name.to_owned(),
    }
}

/// Whether an ApplicationCredential has other rights than the spec asks for.
pub(crate) fn is_outdated(rotation: &CredentialRotation, live: &DynamicObject) -> bool {
    let resource = &live.data["spec"]["resource"];
    let roles = |value: &Value| value.as_array().cloned().unwrap_or_default();
    resource["unrestricted"].as_bool().unwrap_or_default() != rotation.spec.unrestricted
        || roles(&resource["roleRefs"]) != roles(&json!(rotation.spec.roles))
}

fn clouds_yaml(cloud: &Cloud, auth_type: &str, auth: &[(&str, &str)]) -> String {
    // A JSON string is a YAML string.
    let quoted = |value: &str| Value::from(value).to_string();
    let mut text = format!("clouds:\n  {CLOUD}:\n    auth_type: {auth_type}\n    interface: {}\n", cloud.interface);
    if let Some(region) = &cloud.region {
        let _ = writeln!(text, "    region_name: {}", quoted(region));
    }
    text.push_str("    auth:\n");
    for (key, value) in auth {
        let _ = writeln!(text, "      {key}: {}", quoted(value));
    }
    text
}

fn data<'a>(values: impl IntoIterator<Item = (&'a str, &'a str)>) -> Data {
    values.into_iter().map(|(key, value)| (key.to_owned(), ByteString(value.as_bytes().to_vec()))).collect()
}

fn authority(cloud: &Cloud) -> Option<(String, ByteString)> {
    cloud.ca.as_ref().map(|ca| ("cacert".to_owned(), ByteString(ca.as_bytes().to_vec())))
}

//! Objects of K-ORC, written with the fields that upstream's controller has.

use c5c3_kit::Child;
use kube::Resource;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use serde_json::{Value, json};

use super::super::cloud::Cloud;
use super::access::{ADMIN_CLOUDS, cloud_name, clouds_secret};

/// With which Secret an object's resource is reached.
#[derive(Clone, Copy)]
pub(super) enum As {
    /// K-ORC's own: the administrator's password at first, its application credential then.
    Korc,
    /// The administrator's password: what K-ORC's own user is kept with.
    Administrator,
}

impl As {
    fn reference(self, cloud: &Cloud) -> Value {
        let secret = match self {
            Self::Korc => clouds_secret(cloud),
            Self::Administrator => ADMIN_CLOUDS.to_owned(),
        };
        json!({"secretName": secret, "cloudName": cloud_name(cloud)})
    }
}

/// Something that is created, kept and deleted.
pub(super) fn managed<K: Resource<DynamicType = ()>>(cloud: &Cloud, by: As, name: &str, resource: &Value) -> Child {
    let spec = json!({"cloudCredentialsRef": by.reference(cloud), "managementPolicy": "managed", "resource": resource});
    child::<K>(cloud, name, &spec)
}

/// The same, but for its deletion: then only the object goes.
pub(super) fn detached<K: Resource<DynamicType = ()>>(cloud: &Cloud, by: As, name: &str, resource: &Value) -> Child {
    let mut child = managed::<K>(cloud, by, name, resource);
    child.object.data["spec"]["managedOptions"] = json!({"onDelete": "detach"});
    child
}

/// Something that exists, found by its name.
pub(super) fn import<K: Resource<DynamicType = ()>>(cloud: &Cloud, name: &str, filter: &Value) -> Child {
    let by = As::Korc.reference(cloud);
    let spec = json!({"cloudCredentialsRef": by, "managementPolicy": "unmanaged", "import": {"filter": filter}});
    child::<K>(cloud, name, &spec)
}

pub(in super::super) fn child<K: Resource<DynamicType = ()>>(cloud: &Cloud, name: &str, spec: &Value) -> Child {
    let resource = ApiResource::erase::<K>(&());
    let mut object = DynamicObject::new(name, &resource).within(&cloud.namespace);
    object.data = json!({ "spec": spec });
    Child::dynamic(resource, object)
}

/// A name of Keystone as part of the name of an object.
pub(super) fn slug(name: &str) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' };
    name.chars().map(plain).collect::<String>().trim_matches('-').to_owned()
}

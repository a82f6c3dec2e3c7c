//! AdmissionReview: what a webhook is told of a request, and what its answer says.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use c5c3_kinds::Resource;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::call::{Call, decode};
use crate::object::meta;
use crate::status::ApiError;
use crate::verbs;

/// The kinds of webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Mutating,
    Validating,
}

impl Kind {
    /// The resource that configures them.
    pub(super) fn plural(self) -> &'static str {
        match self {
            Self::Mutating => "mutatingwebhookconfigurations",
            Self::Validating => "validatingwebhookconfigurations",
        }
    }
}

/// A request to write, as all webhooks are told of it.
pub(super) struct Request<'a> {
    pub(super) call: &'a Call<'a>,
    /// CREATE, UPDATE, DELETE or CONNECT.
    pub(super) operation: &'a str,
    /// The object as it is stored.
    pub(super) old: Option<&'a Value>,
    pub(super) name: String,
    /// For a namespace that is itself. Empty for everything else that is in none.
    pub(super) namespace: String,
    pub(super) dry_run: bool,
}

impl<'a> Request<'a> {
    pub(super) fn new(
        call: &'a Call<'a>,
        operation: &'a str,
        object: &Value,
        old: Option<&'a Value>,
    ) -> Result<Self, ApiError> {
        let own = meta(if object.is_null() { old.unwrap_or(object) } else { object }, "name");
        let name = call.target.name.as_deref().unwrap_or(own).to_owned();
        let namespace = call.namespace().unwrap_or_default().to_owned();
        let mut request = Self { call, operation, old, name, namespace, dry_run: call.is_dry_run()? };
        if request.is_for_namespace() {
            request.namespace.clone_from(&request.name);
        }
        Ok(request)
    }

    /// Whether the request is about a namespace, and not about something in one.
    pub(super) fn is_for_namespace(&self) -> bool {
        let resource = &self.call.served.resource;
        resource.group.is_empty() && resource.plural == "namespaces"
    }

    pub(super) fn subresource(&self) -> &str {
        self.call.target.subresource.as_deref().unwrap_or_default()
    }

    /// What a webhook sees of an object: of one that is scaled, its scale.
    pub(super) fn shown(&self, object: &Value) -> Value {
        if self.subresource() == "scale" && object.is_object() {
            verbs::scale_of(self.call, object)
        } else {
            object.clone()
        }
    }

    /// What is shown, in the version of that resource.
    pub(super) fn in_version(&self, resource: &Resource, shown: &Value) -> Value {
        let mut shown = shown.clone();
        if self.call.is_about_own_kind() && shown.is_object() {
            c5c3_kinds::convert(resource, &resource.api_version(), &mut shown);
        }
        shown
    }

    /// The review to send to a webhook that knows the resource as `seen_as`, and the uid that the answer must have.
    pub(super) fn review(&self, seen_as: &Resource, shown: &Value) -> (String, Value) {
        let uid = uuid::Uuid::new_v4().to_string();
        let asked = &self.call.served.resource;
        let old = self.old.map_or(Value::Null, |old| self.in_version(seen_as, &self.shown(old)));
        let mut request = json!({
            "uid": uid, "operation": self.operation, "dryRun": self.dry_run, "options": self.options(),
            "kind": self.kind(seen_as), "resource": resource(seen_as),
            "requestKind": self.kind(asked), "requestResource": resource(asked),
            "userInfo": self.call.user, "object": self.in_version(seen_as, shown), "oldObject": old,
        });
        for (field, value) in [
            ("name", self.name.as_str()),
            ("namespace", self.namespace.as_str()),
            ("subResource", self.subresource()),
            ("requestSubResource", self.subresource()),
        ] {
            if !value.is_empty() {
                request[field] = value.into();
            }
        }
        (uid, json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}))
    }

    fn kind(&self, resource: &Resource) -> Value {
        match resource.subresource(self.subresource()).filter(|_| !self.call.is_about_own_kind()) {
            Some(below) => json!({"group": below.group, "version": below.version, "kind": below.kind}),
            None => json!({"group": resource.group, "version": resource.version, "kind": resource.kind}),
        }
    }

    /// The options of the request. A patch is an update, or the creation of what it is applied to; of a connection they
    /// are the object.
    fn options(&self) -> Value {
        let (kind, named, mut options) = match self.operation {
            "CONNECT" => return Value::Null,
            "CREATE" => ("CreateOptions", ["fieldManager", "fieldValidation"], json!({})),
            "UPDATE" => ("UpdateOptions", ["fieldManager", "fieldValidation"], json!({})),
            _ => {
                let sent = decode(&self.call.headers, &self.call.body).ok().filter(Value::is_object);
                ("DeleteOptions", ["propagationPolicy", "orphanDependents"], sent.unwrap_or_else(|| json!({})))
            }
        };
        for name in named {
            if let Some(value) = self.call.query.get(name) {
                options[name] = value.into();
            }
        }
        if self.dry_run {
            options["dryRun"] = json!(["All"]);
        }
        options["kind"] = kind.into();
        options["apiVersion"] = "meta.k8s.io/v1".into();
        options
    }
}

fn resource(resource: &Resource) -> Value {
    json!({"group": resource.group, "version": resource.version, "resource": resource.plural})
}

/// What a webhook says to a request.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    pub(super) allowed: bool,
    /// Why not.
    pub(super) status: Value,
    /// A JSON patch, not yet parsed.
    pub(super) patch: Option<Vec<u8>>,
    pub(super) warnings: Vec<String>,
}

impl Verdict {
    /// Reads an answer to the review with that uid.
    pub(super) fn parse(answer: &[u8], uid: &str, kind: Kind) -> Result<Self, String> {
        let answer: Value = serde_json::from_slice(answer)
            .map_err(|error| format!("failed to call webhook: the answer is not JSON: {error}"))?;
        Self::read(&answer, uid, kind).map_err(|why| format!("received invalid webhook response: {why}"))
    }

    fn read(answer: &Value, uid: &str, kind: Kind) -> Result<Self, String> {
        let (version, name) = (answer["apiVersion"].as_str(), answer["kind"].as_str());
        if (version, name) != (Some("admission.k8s.io/v1"), Some("AdmissionReview")) {
            let found = format!("{}, Kind={}", version.unwrap_or_default(), name.unwrap_or_default());
            return Err(format!("expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {found}"));
        }
        let response = &answer["response"];
        if !response.is_object() {
            return Err("webhook response was absent".to_owned());
        }
        if response["uid"] != uid {
            let found = response["uid"].as_str().unwrap_or_default();
            return Err(format!("expected response.uid={uid:?}, got {found:?}"));
        }
        let allowed = match &response["allowed"] {
            Value::Bool(allowed) => *allowed,
            Value::Null => false,
            other => return Err(format!("response.allowed is {other}, and must be true or false")),
        };
        let warnings = response["warnings"].as_array().into_iter().flatten();
        Ok(Self {
            allowed,
            status: response["status"].clone(),
            patch: patch(response, kind)?,
            warnings: warnings.filter_map(Value::as_str).map(ToOwned::to_owned).collect(),
        })
    }
}

fn patch(response: &Value, kind: Kind) -> Result<Option<Vec<u8>>, String> {
    let patch_type = response["patchType"].as_str().filter(|text| !text.is_empty());
    match (bytes(&response["patch"])?, patch_type) {
        (None, None) => Ok(None),
        (Some(_), _) if kind == Kind::Validating => Err("validating webhook may not return response.patch".to_owned()),
        (_, Some(_)) if kind == Kind::Validating => {
            Err("validating webhook may not return response.patchType".to_owned())
        }
        (Some(_), None) => Err("webhook returned response.patch but not response.patchType".to_owned()),
        (None, Some(_)) => Err("webhook returned response.patchType but not response.patch".to_owned()),
        (Some(patch), Some("JSONPatch")) => Ok(Some(patch)),
        (Some(_), Some(other)) => Err(format!("unsupported patch type {other:?}")),
    }
}

/// Bytes in JSON: base64, or a list of numbers, as Go reads both and kube-rs writes the latter. None if there are none.
fn bytes(value: &Value) -> Result<Option<Vec<u8>>, String> {
    let bytes = match value {
        Value::Null => Vec::new(),
        Value::String(text) => {
            STANDARD.decode(text).map_err(|error| format!("response.patch is not base64: {error}"))?
        }
        other => Vec::deserialize(other).map_err(|error| format!("response.patch holds no bytes: {error}"))?,
    };
    Ok((!bytes.is_empty()).then_some(bytes))
}

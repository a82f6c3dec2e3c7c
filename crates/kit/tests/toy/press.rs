//! The toy: a Press needs a Secret, writes its configuration, runs a Deployment, and leaves a note in another namespace.

use c5c3_api::problem;
use c5c3_kit::config::ConfigFiles;
use c5c3_kit::ini::Ini;
use c5c3_kit::{Child, Controller, Inputs, KindRef, Plan, Ref, Step, Verdict};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{CustomResource, ResourceExt};
use schemars::JsonSchema;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "toy.example.org", version = "v1", kind = "Press", plural = "presss", namespaced)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PressSpec {
    pub(crate) speed: i64,
    pub(crate) key_secret: String,
}

pub(crate) struct PressController;

pub(crate) struct ValidPress {
    speed: i64,
    key: SecretString,
}

impl Controller for PressController {
    type Kind = Press;
    type Valid = ValidPress;
    const NAME: &'static str = "press";
    const CONDITIONS: &'static [&'static str] = &["ConfigReady", "DeploymentReady"];
    const FINALIZER: Option<&'static str> = Some("toy.example.org/press-cleanup");
    const CROSS_NAMESPACE: bool = true;

    fn children(&self) -> Vec<KindRef> {
        vec![KindRef::of::<Secret>(), KindRef::of::<Deployment>(), KindRef::of::<ConfigMap>()]
    }

    fn needs(&self, inputs: &Inputs<Press>) -> Vec<Ref> {
        vec![key_secret(&inputs.object)]
    }

    fn validate(&self, inputs: &Inputs<Press>) -> Verdict<ValidPress> {
        let spec = &inputs.object.spec;
        if spec.speed < 1 {
            let fix = "use 1 or more";
            return Verdict::Invalid(vec![problem("spec.speed", format!("{} is too slow", spec.speed), fix)].into());
        }
        match inputs.secret(&key_secret(&inputs.object), "key") {
            Ok(key) => Verdict::Valid(ValidPress { speed: spec.speed, key }),
            Err(wait) => Verdict::Wait(vec![wait.because("the press is locked with it")]),
        }
    }

    fn plan(&self, valid: &ValidPress, inputs: &Inputs<Press>) -> Plan {
        assert!(valid.speed < 1000, "the press bursts");
        let (name, namespace) = (inputs.object.name_any(), inputs.object.namespace().unwrap());
        let mut ini = Ini::new();
        ini.set("press", "speed", valid.speed).unwrap().set("press", "key", valid.key.clone()).unwrap();
        let config = ConfigFiles::new(&namespace, format!("{name}-config")).file("press.conf", ini.render());
        let deployment: Deployment = serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"replicas": 1, "selector": {"matchLabels": {"press": name}}, "template": {
                "metadata": {"labels": {"press": name}},
                "spec": {"containers": [{"name": "press", "image": "press:1"}],
                         "volumes": [{"name": "config", "secret": {"secretName": config.name()}}]}}}
        }))
        .unwrap();
        let note: ConfigMap = serde_json::from_value(json!({
            "metadata": {"name": format!("{name}-note"), "namespace": "cellar"}, "data": {"speed": valid.speed.to_string()}
        }))
        .unwrap();
        Plan::new()
            .step(Step::new("ConfigReady").child(config.child()).child(Child::new(&note)).done("written"))
            .step(Step::new("DeploymentReady").child(Child::new(&deployment)).done("running"))
            .status("speed", valid.speed)
    }
}

fn key_secret(press: &Press) -> Ref {
    Ref::namespaced::<Secret>(press.namespace().unwrap(), &press.spec.key_secret)
}

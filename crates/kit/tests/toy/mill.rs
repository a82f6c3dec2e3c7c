//! Another toy: a Mill stands on a well and on a road, grinds when the well is there, and sells when there is a road too.

use c5c3_kit::{Child, Controller, Inputs, KindRef, Plan, Ref, Step, Verdict, random_secret};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Secret;
use kube::{CustomResource, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "toy.example.org", version = "v1", kind = "Mill", plural = "mills", namespaced)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MillSpec {
    pub(crate) sells: bool,
    pub(crate) stones: i64,
    pub(crate) keeps_key: bool,
}

pub(crate) struct MillController;

impl Controller for MillController {
    type Kind = Mill;
    type Valid = ();
    const NAME: &'static str = "mill";
    const CONDITIONS: &'static [&'static str] = &["GroundReady", "MillReady"];
    const FINALIZER: Option<&'static str> = Some("toy.example.org/mill-cleanup");

    fn children(&self) -> Vec<KindRef> {
        vec![KindRef::of::<Secret>(), KindRef::of::<Deployment>(), KindRef::of::<Job>()]
    }

    fn needs(&self, _: &Inputs<Mill>) -> Vec<Ref> {
        Vec::new()
    }

    fn validate(&self, _: &Inputs<Mill>) -> Verdict<()> {
        Verdict::Valid(())
    }

    fn plan(&self, (): &(), inputs: &Inputs<Mill>) -> Plan {
        let (namespace, spec) = (inputs.object.namespace().unwrap(), &inputs.object.spec);
        let key = random_secret::child(&namespace, "key", &[("holder", "miller")], &["teeth"]).kept(spec.keeps_key);
        let well = deployment(&namespace, "well", 1).last_of_its_kind();
        let mut plan = Plan::new()
            .step(Step::new("GroundReady").node("well", []).child(key).child(well))
            .step(Step::new("GroundReady").node("road", []).child(deployment(&namespace, "road", 1)))
            .step(Step::new("MillReady").node("stone", ["well"]).child(deployment(&namespace, "stone", spec.stones)));
        if spec.sells {
            let shop = deployment(&namespace, "shop", 1);
            plan = plan.step(Step::new("MillReady").node("shop", ["stone", "road"]).child(shop));
        } else {
            plan = plan.without_step("shop");
        }
        plan
    }

    fn teardown(&self) -> Vec<Vec<KindRef>> {
        vec![vec![KindRef::of::<Job>()], vec![KindRef::of::<Deployment>()], vec![KindRef::of::<Deployment>()]]
    }
}

fn deployment(namespace: &str, name: &str, replicas: i64) -> Child {
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"part": name}},
                 "template": {"metadata": {"labels": {"part": name}}}},
    }))
    .unwrap();
    Child::new(&deployment)
}

//! Looks at the objects of a Kustomization that have to be healthy.

use kube::Client;
use kube::core::GroupVersionKind;

use super::health::{Health, health};
use super::inventory::{self, Listed};
use super::items;
use super::kinds::{Entry, HealthExpression, Kustomization};
use crate::failure::Error;
use c5c3_kit::Ref;

/// How many objects are told at once.
const TOLD: usize = 5;

/// What the objects are that are not healthy.
#[derive(Debug, Default)]
pub(super) struct Unhealthy {
    failed: Vec<String>,
    waits: Vec<String>,
}

impl Unhealthy {
    /// What will not become healthy by itself, and why.
    pub(super) fn failed(&self) -> Option<String> {
        told(&self.failed)
    }

    /// What is on its way, and what it lacks.
    pub(super) fn waits(&self) -> Option<String> {
        told(&self.waits)
    }
}

fn told(objects: &[String]) -> Option<String> {
    let more = objects.len().saturating_sub(TOLD);
    let rest = if more > 0 { format!("; and {more} more") } else { String::new() };
    (!objects.is_empty()).then(|| objects[..objects.len() - more].join("; ") + &rest)
}

/// The objects that have to be healthy: with `wait` all that were applied, else those that are named.
pub(super) fn of(kustomization: &Kustomization, applied: &[Entry]) -> Vec<Listed> {
    let spec = &kustomization.spec;
    if spec.wait {
        return applied.iter().filter_map(inventory::listed).collect();
    }
    let named = spec.health_checks.iter().map(|check| {
        let (group, version) = check.api_version.split_once('/').unwrap_or(("", &check.api_version));
        let namespace = check.namespace.clone().or_else(|| kustomization.metadata.namespace.clone());
        Listed {
            kind: GroupVersionKind::gvk(group, version, &check.kind),
            namespace: namespace.unwrap_or_default(),
            name: check.name.clone(),
        }
    });
    named.collect()
}

/// Looks at them.
pub(super) async fn look(
    client: &Client,
    objects: &[Listed],
    expressions: &[HealthExpression],
) -> Result<Unhealthy, Error> {
    let mut unhealthy = Unhealthy::default();
    for object in objects {
        let at = format!("{}/{}/{}", object.kind.kind, object.namespace, object.name);
        match one(client, object, expressions).await? {
            Health::Current => {}
            Health::InProgress(why) => unhealthy.waits.push(format!("{at}: {why}")),
            Health::Failed(why) => unhealthy.failed.push(format!("{at}: {why}")),
        }
    }
    Ok(unhealthy)
}

async fn one(client: &Client, object: &Listed, expressions: &[HealthExpression]) -> Result<Health, Error> {
    let Some((resource, is_namespaced)) = items::served(client, &object.kind).await? else {
        return Ok(Health::InProgress(format!("the cluster has no kind {}", object.kind.kind)));
    };
    let namespace = is_namespaced.then(|| object.namespace.clone());
    let at = Ref { resource, namespace, name: object.name.clone() };
    let found = at.api(client.clone()).get_opt(&at.name).await.map_err(Error::api(format!("read {at}")))?;
    let found = found.map(serde_json::to_value).transpose();
    let found = found.map_err(|error| Error::Missing(format!("cannot read {at}: {error}")))?;
    Ok(health(found.as_ref(), expressions))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::object;

    #[test]
    fn all_that_was_applied_has_to_be_healthy_or_what_is_named() {
        let spec = |wait: bool| {
            json!({"interval": "1m", "prune": true, "sourceRef": {"kind": "GitRepository", "name": "cloud"}, "wait": wait,
                "healthChecks": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "heron"}]})
        };
        let applied = [Entry { id: "pond_wren__ConfigMap".into(), v: "v1".into() }];
        let names = |wait| {
            let objects = of(&object::<Kustomization>("cloud", "marsh", spec(wait)), &applied);
            objects.iter().map(|one| format!("{}/{}/{}", one.kind.kind, one.namespace, one.name)).collect::<Vec<_>>()
        };
        assert_eq!(names(true), ["ConfigMap/pond/wren"]);
        assert_eq!(names(false), ["Deployment/marsh/heron"]);
    }

    #[test]
    fn of_many_objects_some_are_told_and_the_others_counted() {
        let many: Vec<String> = (1..=7).map(|number| format!("Pod/marsh/{number}: is Pending")).collect();
        let said = told(&many).unwrap();
        assert!(
            said.contains("Pod/marsh/5") && !said.contains("Pod/marsh/6") && said.ends_with("; and 2 more"),
            "{said}"
        );
        assert_eq!(told(&[]), None);
    }
}

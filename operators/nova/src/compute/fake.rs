//! Fake hypervisors, for scale tests: nova-compute with Nova's fake driver. Its pods are like those of Nova's other workers, and need
//! nothing of the nodes that they run on.

use std::collections::BTreeMap;

use c5c3_api::blocks::Scheduling;
use c5c3_api::openstack::{FakeHypervisors, Nova, NovaCompute};
use c5c3_kit::config::ConfigFiles;
use c5c3_kit::{Child, Step};
use c5c3_service::pod::{self, Mount, Pod};
use c5c3_service::service_plan::Resolved;
use c5c3_service::{Service, ServicePlan};
use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec};
use k8s_openapi::api::core::v1::PodTemplateSpec;

use super::{STATE, node};
use crate::hypervisors;

/// The StatefulSet of each cell, with its configuration.
pub(super) fn children<S: Service<Kind = Nova>>(
    plan: &ServicePlan<'_, S>,
    compute: &NovaCompute,
    fake: &FakeHypervisors,
    step: Step,
) -> Step {
    let Ok(resolved) = plan.resolved else { return step.undecided([]) };
    let of_cell = |(cell, labels): (&str, BTreeMap<String, String>)| {
        // What cannot be written was refused when the main file was.
        let files = files(plan, resolved, cell)?;
        let scheduling =
            Scheduling { node_selector: labels, tolerations: compute.tolerations.clone(), ..Scheduling::default() };
        let component = format!("fake-{cell}");
        let template = template(plan, compute, &component, &scheduling, mounts(resolved, cell, &files));
        Some([files.child(), stateful_set(plan, &component, fake.replicas.get(), template)])
    };
    step.children(plan.parts.object.spec.cells_here().into_iter().filter_map(of_cell).flatten())
}

fn files<S: Service>(plan: &ServicePlan<'_, S>, resolved: &Resolved, cell: &str) -> Option<ConfigFiles> {
    let instance = &plan.parts.instance;
    let files = ConfigFiles::new(&instance.namespace, instance.named(&format!("fake-{cell}-config")))
        .file("compute.py", include_str!("compute.py").into())
        .file("fake.py", include_str!("fake.py").into());
    Some(files.file("nova.conf", hypervisors::fake_conf(resolved, cell).ok()?.render()))
}

fn mounts(resolved: &Resolved, cell: &str, files: &ConfigFiles) -> Vec<Mount> {
    let own = [
        Mount::secret("config", &files.name(), crate::config::FOLDER),
        // The identity of a fake hypervisor follows from its host name, so that nothing has to outlive its pod.
        Mount::scratch("state", STATE, "64Mi"),
    ];
    own.into_iter().chain(hypervisors::mounts(resolved, cell)).collect()
}

fn template<S: Service>(
    plan: &ServicePlan<'_, S>,
    compute: &NovaCompute,
    component: &str,
    scheduling: &Scheduling,
    mounts: Vec<Mount>,
) -> PodTemplateSpec {
    let instance = &plan.parts.instance;
    let mut template = Pod {
        instance,
        component,
        shared: &plan.parts.shared,
        containers: vec![node::fake_compute(&plan.parts.image, compute.resources.as_ref())],
        init_containers: Vec::new(),
        mounts,
        scheduling: Some(scheduling),
        service_account: None,
        annotations: BTreeMap::new(),
    }
    .template();
    if let Some(spec) = &mut template.spec {
        spec.topology_spread_constraints = Some(pod::spread(instance, component, None));
    }
    template
}

/// A StatefulSet, because Nova knows a hypervisor by its host name. A change of the image waits for what the pods need.
fn stateful_set<S: Service>(
    plan: &ServicePlan<'_, S>,
    component: &str,
    replicas: i32,
    template: PodTemplateSpec,
) -> Child {
    let instance = &plan.parts.instance;
    let metadata = instance.meta(instance.named(component), component);
    let spec = StatefulSetSpec {
        replicas: Some(replicas),
        selector: instance.selector(component),
        service_name: metadata.name.clone(),
        // They have names, not an order.
        pod_management_policy: Some("Parallel".into()),
        template,
        ..StatefulSetSpec::default()
    };
    Child::new(&StatefulSet { metadata, spec: Some(spec), ..StatefulSet::default() }).version(plan.parts.image.as_str())
}

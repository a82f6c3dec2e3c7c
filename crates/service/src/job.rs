//! Jobs that a service needs once: for its database, for its first objects.

use std::collections::BTreeMap;

use c5c3_api::blocks::Scheduling;
use c5c3_kit::{Child, job};
use k8s_openapi::api::core::v1::Container;

use crate::instance::Instance;
use crate::outside::Outside;
use crate::pod::{Mount, Pod, container};

/// How often a Job tries before it has failed.
const TRIES: i32 = 4;

/// Something that is run once, by one command after another.
#[derive(Clone, Debug)]
pub struct Run<'a> {
    /// Whose.
    pub instance: &'a Instance,
    /// What it is called, such as `db-sync`.
    pub what: &'a str,
    /// The image.
    pub image: &'a str,
    /// The commands. Each starts when the one before it has succeeded.
    pub commands: &'a [&'a [&'a str]],
    /// A server that has to answer before them, and the interpreter that asks it.
    pub outside: Option<(Outside, &'a str)>,
    /// The environment of all of them.
    pub env: &'a [(&'a str, &'a str)],
    /// Its folders.
    pub mounts: Vec<Mount>,
    /// Where its pod goes.
    pub scheduling: Option<&'a Scheduling>,
    /// What else it depends on: with another value it is run again.
    pub inputs: BTreeMap<String, String>,
}

impl Run<'_> {
    /// The Job.
    pub fn child(self) -> Child {
        let mut containers: Vec<Container> = self
            .commands
            .iter()
            .enumerate()
            .map(|(index, command)| {
                let last = index + 1 == self.commands.len();
                let name = if last { self.what.to_owned() } else { format!("{}-{}", self.what, index + 1) };
                container(&name, self.image, command, self.env)
            })
            .collect();
        let main = containers.pop().into_iter().collect();
        let asks = self.outside.as_ref().map(|(outside, python)| outside.container(self.image, python));
        containers.splice(0..0, asks);
        let pod = Pod {
            instance: self.instance,
            component: self.what,
            containers: main,
            init_containers: containers,
            mounts: self.mounts,
            scheduling: self.scheduling,
            service_account: None,
            annotations: self.inputs,
        };
        let mut template = pod.template();
        if let Some(spec) = &mut template.spec {
            spec.restart_policy = Some("Never".into());
        }
        let mut child = job::run_once(&self.instance.namespace, &self.instance.named(self.what), template, TRIES);
        child.object.metadata.labels.get_or_insert_default().extend(self.instance.labels(self.what));
        match self.outside {
            Some((outside, _)) => outside.explain(child),
            None => child,
        }
    }
}

//! The schemas of a service's databases: their migrations, those that bear no pod, and what ends an upgrade.

use c5c3_kit::{Step, Wait};
use serde_json::json;

use super::{Resolved, ServicePlan, is_complete};
use crate::job::Run;
use crate::migrations::Schemas;
use crate::record;
use crate::service::Service;
use crate::upgrade::{MigrationPhase, Offline};

impl<S: Service> ServicePlan<'_, S> {
    /// The Jobs of the schemas.
    pub(crate) fn schemas<'r>(&'r self, resolved: &'r Resolved) -> Schemas<'r> {
        let databases = &resolved.backing.databases;
        let mounts = databases.iter().flat_map(|opened| opened.server.mounts()).collect();
        // Where the schema is made is where an external database is met first.
        let servers = databases.iter().filter_map(|opened| opened.server.external()).collect();
        let about = |opened: &crate::database::DatabaseConnection| json!({"host": opened.address.host, "port": opened.address.port, "schemas": opened.server.schemas()});
        Schemas {
            migrations: &self.parts.description.migrations,
            conf: (S::CONF, &resolved.conf),
            identity: databases.iter().map(about).collect(),
            more: S::named_files(self.parts.object, &resolved.backing),
            run: Run { servers, ..self.run("schema", &[], mounts) },
            folder: S::FOLDER,
        }
    }

    pub(super) fn schema(&self) -> Step {
        let step = Step::new("DatabaseReady").done("the schema matches the version");
        let step = step.reasons("DatabaseSynced", "DBSyncInProgress");
        let Some(resolved) = self.known() else {
            return step.node("schema", ["database", "config", "dependencies"]).undecided([]);
        };
        let schemas = self.schemas(resolved);
        step.node("schema", ["record", "database", "dependencies"])
            .child(schemas.files().child())
            .children(schemas.before(self.migration_phase))
    }

    /// What runs while no pod does, in an upgrade with such migrations.
    pub(super) fn offline(&self) -> Option<Step> {
        if self.parts.description.migrations.offline.is_empty() {
            return None;
        }
        let step = Step::new("DatabaseReady").reasons("DatabaseSynced", "DBSyncInProgress");
        let step = step.done("the offline migrations are done");
        let stays = |now: &str| {
            let wait = Wait::on(&record::reference(&self.parts.instance)).condition("allows the offline migrations");
            wait.now(now).because("they bear no pod of the service").with_reason("UpgradeOffline")
        };
        match self.migration_phase {
            MigrationPhase::Sync => None,
            MigrationPhase::Expand => {
                let wait = stays("does not yet record that pods of the older release are stopped");
                Some(step.node("offline", ["record", "schema"]).childless().wait(wait))
            }
            MigrationPhase::Stop => {
                let running = self.parts.description.components.iter().filter_map(|component| {
                    self.parts.live(component, self.inputs)?;
                    let wait = Wait::on(&self.parts.workload(component)).condition("is gone with all of its pods");
                    Some(
                        wait.now("still has pods")
                            .because("the offline migrations bear none")
                            .with_reason("UpgradeOffline"),
                    )
                });
                let mut waits: Vec<Wait> = running.collect();
                if waits.is_empty() {
                    waits.push(stays("does not yet record that the offline migrations start"));
                }
                Some(waits.into_iter().fold(step.node("offline", []).childless(), Step::wait))
            }
            MigrationPhase::Offline | MigrationPhase::Contract => {
                let step = step.node("offline", ["record", "schema"]);
                let Some(resolved) = self.known() else { return Some(step.undecided([])) };
                Some(step.children(self.schemas(resolved).offline()))
            }
        }
    }

    /// How far the pods are out of the way of offline migrations; none for a service without such migrations.
    pub(crate) fn offline_state(&self) -> Option<Offline> {
        if self.parts.description.migrations.offline.is_empty() {
            return None;
        }
        let Some(resolved) = self.known() else { return Some(Offline::Expanding) };
        let expanded = self.schemas(resolved).before(MigrationPhase::Expand);
        Some(match expanded.is_none_or(|job| is_complete(self.inputs, &job)) {
            false => Offline::Expanding,
            true if self.parts.is_stopped(self.inputs) => Offline::Stopped,
            true => Offline::Expanded,
        })
    }

    /// What is left for the new release when all pods are of it.
    pub(super) fn contract(&self) -> Step {
        let last = self.parts.description.components.last().map_or("schema".into(), |component| component.step.clone());
        let step = Step::new("DatabaseReady")
            .node("contract", vec!["record".into(), last])
            .reasons("DatabaseSynced", "DBSyncInProgress");
        if self.migration_phase != MigrationPhase::Contract {
            return step.childless().done("");
        }
        let Some(resolved) = self.known() else { return step.undecided([]) };
        match self.schemas(resolved).after() {
            Some(job) => step.child(job).done("the schema of the older release is removed"),
            None => step.childless().done("the schema of the older release is removed"),
        }
    }

    /// Whether the Job after an upgrade has run, or there is none.
    pub(crate) fn contracted(&self) -> bool {
        let Some(resolved) = self.known() else { return false };
        self.schemas(resolved).after().is_none_or(|job| is_complete(self.inputs, &job))
    }
}

//! What an upgrade leads to that its plan does not hold yet, for who asks before the version is changed: the migrations to come,
//! and where there is no way back.

use c5c3_kit::preview::Ahead;

use crate::service::Service;
use crate::service_plan::ServicePlan;
use crate::upgrade::MigrationPhase;

impl<S: Service> ServicePlan<'_, S> {
    /// The rest of an upgrade, in order; nothing when there is none.
    pub(crate) fn ahead(&self) -> Vec<Ahead> {
        let Some(target) = &self.progress.target else { return Vec::new() };
        let Some(resolved) = self.known() else {
            return vec![Ahead::new(format!(
                "the migrations to {target}, which cannot be told before everything that it needs is there"
            ))];
        };
        let schemas = self.schemas(resolved);
        let phase = self.migration_phase;
        let mut ahead = Vec::new();
        if let Some(job) = schemas.offline() {
            if phase == MigrationPhase::Expand {
                ahead.push(Ahead::new("all pods are stopped, because the offline migrations bear none"));
            }
            if matches!(phase, MigrationPhase::Expand | MigrationPhase::Stop) {
                let what = "the offline migrations, which remove what the older release needs";
                ahead.push(Ahead::new(what).job(job).irreversible());
                ahead.push(Ahead::new(format!("pods of {target} start")));
            }
        }
        if phase != MigrationPhase::Contract {
            ahead.push(match schemas.after() {
                Some(job) => Ahead::new("the contract migrations, once all pods are of the new release").job(job),
                None => Ahead::new(format!("{target} is recorded, once all pods are of the new release")),
            });
            if let Some(last) = ahead.last_mut() {
                last.irreversible = true;
            }
        }
        if let Some(job) = schemas.before(MigrationPhase::Sync) {
            ahead.push(Ahead::new("the migrations of an installation, which find nothing left to do").job(job));
        }
        ahead
    }
}

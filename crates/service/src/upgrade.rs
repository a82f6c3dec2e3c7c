//! Which way a service goes from the version that runs to the one that is wanted. Pure: from what is recorded and what was
//! read, to what is to be done and recorded.
//!
//! ```text
//!  nothing ──► Install ──► Steady ──► Expanding ──► (pods replaced) ──► Contracting ──► Steady
//!                             ▲           │
//!                             └───────────┘ back to the old tag, as long as nothing was contracted
//! ```
//!
//! A service with offline migrations takes a longer way, on which its pods are stopped for a while:
//!
//! ```text
//!  Steady ──► Expanding ──► Stopping ──► (no pods) ──► Migrating ──► (new pods) ──► Contracting ──► Steady
//!     ▲           │            │
//!     └───────────┴────────────┘ back to the old tag, as long as nothing was migrated
//! ```
//!
//! `Migrating` and `Contracting` are recorded before anything is migrated or contracted, so that a way back which no longer
//! exists is refused even after a crash.

use c5c3_api::{Problem, problem};

use crate::image::Version;
use crate::release;

pub(crate) const EXPANDING: &str = "Expanding";
pub(crate) const STOPPING: &str = "Stopping";
pub(crate) const MIGRATING: &str = "Migrating";
const CONTRACTING: &str = "Contracting";

/// Whether the schema may already lack what the older release needs, so that there is no way back to it.
pub fn is_irreversible(phase: &str) -> bool {
    phase == MIGRATING || phase == CONTRACTING
}

/// How far a service is, as it is recorded; see [`crate::record`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The tag that runs, and whose schema the database has.
    pub installed: Option<String>,
    /// The tag that is being upgraded to.
    pub target: Option<String>,
    /// How far that is.
    pub phase: Option<String>,
}

/// What is to be done with the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MigrationPhase {
    /// Everything at once, before pods of the version start: there is no other release in use.
    Sync,
    /// What the new release adds; then pods of it, unless something is to be done offline.
    Expand,
    /// Pods of the old release stop, because something is to be done offline.
    Stop,
    /// What is to be done offline; then pods of the new release.
    Offline,
    /// As before, and then what only the old release used goes.
    Contract,
}

/// What is wanted, and what was seen of it.
#[derive(Clone, Copy, Debug)]
pub struct UpgradeState<'a> {
    /// Which service.
    pub service: &'a str,
    /// The wanted tag; none for an image by digest.
    pub wanted: Option<&'a str>,
    /// Whether all pods run the wanted image and are ready.
    pub rolled: bool,
    /// Whether the schema was contracted for it.
    pub contracted: bool,
    /// How far the pods are out of the way of offline migrations; none for a service without such migrations.
    pub offline: Option<Offline>,
}

/// How far the pods of a service are out of the way of its offline migrations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offline {
    /// The schema lacks what the new release adds: the pods still run.
    Expanding,
    /// The schema has what the new release adds, and there are pods.
    Expanded,
    /// There are no pods.
    Stopped,
}

/// The phase of the migrations, and the progress to write down. What is not ordered, such as a digest or a branch, is synchronised at once;
/// the last version that was known is remembered meanwhile, so that no release is skipped or taken back by way of it.
pub fn next_phase(before: &Progress, seen: UpgradeState<'_>) -> Result<(MigrationPhase, Progress), Problem> {
    let is_version = |tag: &str| Version::of(tag).is_some();
    let synced = || {
        let runs = seen.wanted.filter(|_| seen.rolled).map(ToOwned::to_owned);
        let known = before.installed.clone();
        let installed = runs.filter(|tag| is_version(tag) || !known.as_deref().is_some_and(is_version)).or(known);
        Ok((MigrationPhase::Sync, Progress { installed, ..Progress::default() }))
    };
    let recorded = before.phase.as_deref().unwrap_or_default();
    let contracting = recorded == CONTRACTING;
    let irreversible = is_irreversible(recorded);
    if let Some(target) = before.target.as_deref().filter(|target| irreversible && seen.wanted != Some(*target)) {
        let (field, wanted) = seen.wanted.map_or(("spec.image.digest", "another image"), |tag| ("spec.image.tag", tag));
        let which = if contracting { "contract" } else { "offline" };
        let what = format!(
            "cannot change to {wanted}: the {which} migrations of {target} remove what it needs from the schema"
        );
        let fix = format!(
            "set spec.image.tag to {target} until status.upgradePhase is gone, or restore a backup of the database"
        );
        return Err(problem(field, what, fix));
    }
    let (Some(installed), Some(wanted)) = (&before.installed, seen.wanted) else { return synced() };
    let (Some(from), Some(to)) = (Version::of(installed), Version::of(wanted)) else { return synced() };
    if to.major == from.major {
        return synced();
    }
    release::may_upgrade(seen.service, from, to)?;
    if contracting && seen.contracted {
        return Ok((MigrationPhase::Sync, Progress { installed: Some(wanted.to_owned()), ..Progress::default() }));
    }
    // What is done now was recorded before; what is recorded now is done the next time.
    let now = match recorded {
        CONTRACTING => MigrationPhase::Contract,
        MIGRATING => MigrationPhase::Offline,
        STOPPING if seen.offline.is_some() => MigrationPhase::Stop,
        _ => MigrationPhase::Expand,
    };
    let next = match (now, seen.offline) {
        (MigrationPhase::Contract, _) => CONTRACTING,
        (MigrationPhase::Offline, _) | (MigrationPhase::Expand, None) if seen.rolled => CONTRACTING,
        (MigrationPhase::Offline, _) | (MigrationPhase::Stop, Some(Offline::Stopped)) => MIGRATING,
        (MigrationPhase::Stop, _) | (MigrationPhase::Expand, Some(Offline::Expanded | Offline::Stopped)) => STOPPING,
        (MigrationPhase::Expand | MigrationPhase::Sync, _) => EXPANDING,
    };
    let progress =
        Progress { installed: Some(installed.clone()), target: Some(wanted.to_owned()), phase: Some(next.into()) };
    Ok((now, progress))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(installed: &str, target: &str, phase: &str) -> Progress {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Progress { installed: some(installed), target: some(target), phase: some(phase) }
    }

    fn seen(wanted: &str, rolled: bool, contracted: bool) -> UpgradeState<'_> {
        UpgradeState { service: "keystone", wanted: Some(wanted), rolled, contracted, offline: None }
    }

    fn offline(wanted: &str, rolled: bool, offline: Offline) -> UpgradeState<'_> {
        UpgradeState { offline: Some(offline), ..seen(wanted, rolled, false) }
    }

    #[test]
    fn an_upgrade_expands_rolls_writes_ahead_contracts_and_is_done() {
        let mut progress = at("", "", "");
        let mut walk = |wanted, rolled, contracted| {
            let (migration_phase, next) = next_phase(&progress, seen(wanted, rolled, contracted)).unwrap();
            progress = next.clone();
            (migration_phase, next)
        };
        assert_eq!(walk("27.0.0", false, false), (MigrationPhase::Sync, at("", "", "")));
        assert_eq!(walk("27.0.0", true, false), (MigrationPhase::Sync, at("27.0.0", "", "")));
        assert_eq!(walk("28.0.0", false, false), (MigrationPhase::Expand, at("27.0.0", "28.0.0", "Expanding")));
        // Written down first, done the next time.
        assert_eq!(walk("28.0.0", true, false), (MigrationPhase::Expand, at("27.0.0", "28.0.0", "Contracting")));
        assert_eq!(walk("28.0.0", true, false), (MigrationPhase::Contract, at("27.0.0", "28.0.0", "Contracting")));
        assert_eq!(walk("28.0.0", true, true), (MigrationPhase::Sync, at("28.0.0", "", "")));
    }

    #[test]
    fn pods_stop_before_something_is_migrated_offline_and_start_after_it() {
        let mut progress = at("27.0.0", "", "");
        let mut walk = |rolled, state| {
            let (migration_phase, next) = next_phase(&progress, offline("28.0.0", rolled, state)).unwrap();
            progress = next;
            (migration_phase, progress.phase.clone().unwrap_or_default())
        };
        let is = |phase, recorded: &str| (phase, recorded.to_owned());
        assert_eq!(walk(false, Offline::Expanding), is(MigrationPhase::Expand, EXPANDING));
        assert_eq!(walk(false, Offline::Expanded), is(MigrationPhase::Expand, STOPPING));
        assert_eq!(walk(false, Offline::Expanded), is(MigrationPhase::Stop, STOPPING));
        assert_eq!(walk(false, Offline::Stopped), is(MigrationPhase::Stop, MIGRATING));
        assert_eq!(walk(false, Offline::Stopped), is(MigrationPhase::Offline, MIGRATING));
        assert_eq!(walk(false, Offline::Expanded), is(MigrationPhase::Offline, MIGRATING), "new pods come");
        assert_eq!(walk(true, Offline::Expanded), is(MigrationPhase::Offline, CONTRACTING));
        assert_eq!(walk(true, Offline::Expanded), is(MigrationPhase::Contract, CONTRACTING));
        let done =
            next_phase(&progress, UpgradeState { contracted: true, ..offline("28.0.0", true, Offline::Expanded) });
        assert_eq!(done.unwrap(), (MigrationPhase::Sync, at("28.0.0", "", "")));
    }

    #[test]
    fn an_upgrade_with_offline_migrations_can_be_taken_back_until_they_start() {
        for phase in [EXPANDING, STOPPING] {
            let back = next_phase(&at("27.0.0", "28.0.0", phase), offline("27.0.0", false, Offline::Stopped)).unwrap();
            assert_eq!(back, (MigrationPhase::Sync, at("27.0.0", "", "")), "{phase}");
        }
        let migrating = at("27.0.0", "28.0.0", MIGRATING);
        let refused = next_phase(&migrating, offline("27.0.0", false, Offline::Stopped)).unwrap_err();
        assert!(refused.what.contains("the offline migrations of 28.0.0"), "{refused:?}");
    }

    #[test]
    fn there_is_a_way_back_until_something_is_contracted() {
        let back = next_phase(&at("27.0.0", "28.0.0", "Expanding"), seen("27.0.0", false, false)).unwrap();
        assert_eq!(back, (MigrationPhase::Sync, at("27.0.0", "", "")));
        let refused = next_phase(&at("27.0.0", "28.0.0", "Contracting"), seen("27.0.0", false, false)).unwrap_err();
        assert!(refused.what.contains("cannot change to 27.0.0") && refused.fix.contains("28.0.0"));
        let digest = UpgradeState { service: "kestrel", wanted: None, rolled: false, contracted: false, offline: None };
        let refused = next_phase(&at("27.0.0", "28.0.0", "Contracting"), digest).unwrap_err();
        assert!(refused.path.contains("digest") && refused.fix.contains("28.0.0"), "{refused:?}");
    }

    #[test]
    fn a_release_may_be_skipped_between_two_slurp_releases() {
        let (migration_phase, progress) = next_phase(&at("27.0.0", "", ""), seen("29.0.0", false, false)).unwrap();
        assert_eq!((migration_phase, progress), (MigrationPhase::Expand, at("27.0.0", "29.0.0", "Expanding")));
    }

    #[test]
    fn releases_are_neither_skipped_nor_taken_back() {
        assert!(next_phase(&at("26.0.0", "", ""), seen("28.0.0", false, false)).unwrap_err().fix.contains("27.x"));
        assert!(next_phase(&at("28.0.0", "", ""), seen("27.1.0", false, false)).unwrap_err().what.contains("older"));
    }

    #[test]
    fn what_is_not_ordered_is_synchronised_at_once_and_the_last_version_is_remembered() {
        for (installed, wanted, after) in [
            ("28.0.0", Some("28.0.1-p2"), "28.0.1-p2"),
            ("stable-2025.2", Some("28.0.0"), "28.0.0"),
            ("stable-2025.2", Some("a1b2c3d"), "a1b2c3d"),
            ("stable-2025.2", None, "stable-2025.2"),
            ("", Some("a1b2c3d"), "a1b2c3d"),
            ("28.0.0", Some("a1b2c3d"), "28.0.0"),
            ("28.0.0", None, "28.0.0"),
            ("", None, ""),
        ] {
            let seen = UpgradeState { service: "kestrel", wanted, rolled: true, contracted: false, offline: None };
            let found = next_phase(&at(installed, "", ""), seen).unwrap();
            assert_eq!(found, (MigrationPhase::Sync, at(after, "", "")), "{installed} {wanted:?}");
        }
    }

    #[test]
    fn a_digest_is_no_way_around_a_release() {
        let digest = UpgradeState { service: "kestrel", wanted: None, rolled: true, contracted: false, offline: None };
        let (_, after) = next_phase(&at("26.0.0", "", ""), digest).unwrap();
        assert!(next_phase(&after, seen("28.0.0", false, false)).unwrap_err().fix.contains("27.x"));
        assert!(next_phase(&after, seen("25.0.0", false, false)).unwrap_err().what.contains("older"));
    }
}

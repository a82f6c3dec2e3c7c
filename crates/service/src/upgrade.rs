//! Which way a service goes from the version that runs to the one that is wanted. Pure: from what the status says and what
//! was read, to what is to be done and said.
//!
//! ```text
//!  nothing ──► Install ──► Steady ──► Expanding ──► (pods replaced) ──► Contracting ──► Steady
//!                             ▲           │
//!                             └───────────┘ back to the old tag, as long as nothing was contracted
//! ```
//!
//! `Contracting` is written to the status before anything is contracted, so that a way back which is no longer there is
//! refused even after a crash.

use c5c3_api::{Problem, problem};

use crate::image::Version;

const EXPANDING: &str = "Expanding";
const CONTRACTING: &str = "Contracting";

/// How far a service is, as its status says.
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
pub enum Course {
    /// Everything at once, before pods of the version start: there is no other release in use.
    Sync,
    /// What the new release adds; then pods of it.
    Expand,
    /// As before, and then what only the old release used goes.
    Contract,
}

/// What is wanted, and what was seen of it.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The wanted tag; none for an image by digest.
    pub wanted: Option<&'a str>,
    /// Whether all pods run the wanted image and are ready.
    pub rolled: bool,
    /// Whether the schema was contracted for it.
    pub contracted: bool,
}

/// The course, and the progress to write down. What is not ordered, such as a digest or a branch, is synchronised at once.
pub fn course(before: &Progress, seen: Seen<'_>) -> Result<(Course, Progress), Problem> {
    let synced = |tag: Option<&str>| {
        let installed = if seen.rolled { tag.map(ToOwned::to_owned) } else { before.installed.clone() };
        Ok((Course::Sync, Progress { installed, ..Progress::default() }))
    };
    let (Some(installed), Some(wanted)) = (&before.installed, seen.wanted) else { return synced(seen.wanted) };
    let contracting = before.phase.as_deref() == Some(CONTRACTING);
    if let Some(target) = before.target.as_deref().filter(|target| contracting && *target != wanted) {
        let what = format!("cannot go back to {wanted}: the database has lost what {target} does not use");
        return Err(problem(
            "spec.image.tag",
            what,
            format!("set it to {target}, or restore a backup of the database"),
        ));
    }
    let (Some(from), Some(to)) = (Version::of(installed), Version::of(wanted)) else { return synced(Some(wanted)) };
    match i64::from(to.major) - i64::from(from.major) {
        0 => synced(Some(wanted)),
        1 if contracting && seen.contracted => {
            Ok((Course::Sync, Progress { installed: Some(wanted.to_owned()), ..Progress::default() }))
        }
        1 => {
            let phase = if contracting || seen.rolled { CONTRACTING } else { EXPANDING };
            let progress = Progress {
                installed: Some(installed.clone()),
                target: Some(wanted.to_owned()),
                phase: Some(phase.into()),
            };
            Ok((if contracting { Course::Contract } else { Course::Expand }, progress))
        }
        difference if difference < 0 => Err(problem(
            "spec.image.tag",
            format!("is older than {installed}, which the database has the schema of"),
            format!("set it to {installed}, or restore a backup of the database under another object"),
        )),
        _ => Err(problem(
            "spec.image.tag",
            format!("skips releases: {installed} runs, and an upgrade goes one release at a time"),
            format!("upgrade to {}.x first", from.major + 1),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(installed: &str, target: &str, phase: &str) -> Progress {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Progress { installed: some(installed), target: some(target), phase: some(phase) }
    }

    fn seen(wanted: &str, rolled: bool, contracted: bool) -> Seen<'_> {
        Seen { wanted: Some(wanted), rolled, contracted }
    }

    #[test]
    fn an_upgrade_expands_rolls_writes_ahead_contracts_and_is_done() {
        let mut progress = at("", "", "");
        let mut walk = |wanted, rolled, contracted| {
            let (course, next) = course(&progress, seen(wanted, rolled, contracted)).unwrap();
            progress = next.clone();
            (course, next)
        };
        assert_eq!(walk("27.0.0", false, false), (Course::Sync, at("", "", "")));
        assert_eq!(walk("27.0.0", true, false), (Course::Sync, at("27.0.0", "", "")));
        assert_eq!(walk("28.0.0", false, false), (Course::Expand, at("27.0.0", "28.0.0", "Expanding")));
        // Written down first, done the next time.
        assert_eq!(walk("28.0.0", true, false), (Course::Expand, at("27.0.0", "28.0.0", "Contracting")));
        assert_eq!(walk("28.0.0", true, false), (Course::Contract, at("27.0.0", "28.0.0", "Contracting")));
        assert_eq!(walk("28.0.0", true, true), (Course::Sync, at("28.0.0", "", "")));
    }

    #[test]
    fn there_is_a_way_back_until_something_is_contracted() {
        let back = course(&at("27.0.0", "28.0.0", "Expanding"), seen("27.0.0", false, false)).unwrap();
        assert_eq!(back, (Course::Sync, at("27.0.0", "", "")));
        let refused = course(&at("27.0.0", "28.0.0", "Contracting"), seen("27.0.0", false, false)).unwrap_err();
        assert!(refused.what.contains("cannot go back") && refused.fix.contains("28.0.0"));
    }

    #[test]
    fn releases_are_neither_skipped_nor_taken_back() {
        assert!(course(&at("26.0.0", "", ""), seen("28.0.0", false, false)).unwrap_err().fix.contains("27.x"));
        assert!(course(&at("28.0.0", "", ""), seen("27.1.0", false, false)).unwrap_err().what.contains("older"));
    }

    #[test]
    fn what_is_not_ordered_or_no_release_is_synchronised_at_once() {
        for (installed, wanted) in [("28.0.0", "28.0.1-p2"), ("stable-2025.2", "28.0.0"), ("28.0.0", "a1b2c3d")] {
            let (way, progress) = course(&at(installed, "", ""), seen(wanted, true, false)).unwrap();
            assert_eq!((way, progress), (Course::Sync, at(wanted, "", "")));
        }
        let by_digest = course(&at("28.0.0", "", ""), Seen { wanted: None, rolled: true, contracted: false }).unwrap();
        assert_eq!(by_digest, (Course::Sync, at("", "", "")));
    }
}

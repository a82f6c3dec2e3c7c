//! Defaults: where they may stand, and that they are themselves valid.

use super::spot::Spot;
use crate::problem::{Problem, ProblemKind, Problems};
use crate::schema::Schema;
use crate::words::show;

pub(super) fn check(spot: &Spot<'_>, problems: &mut Problems) {
    let Some(default) = spot.schema.get("default").filter(|value| !value.is_null()) else {
        return;
    };
    if spot.inside_root_meta {
        let what = "cannot be set for apiVersion, kind and metadata";
        problems.push(spot.problem("default", ProblemKind::Forbidden, what, "remove it"));
        return;
    }
    // A schema that does not compile is reported as such; nothing can be said about its default.
    let Ok(schema) = Schema::compile(spot.schema) else {
        return;
    };
    let found = schema.unknown_below(default).into_iter().chain(schema.validate(default, None));
    for problem in found {
        let here = spot.path.field("default");
        let path = if problem.path.is_empty() { here.to_string() } else { here.tail(&problem.path).to_string() };
        let what = format!("the default {} is not valid: {}", show(default), problem.what);
        problems.push(Problem::new(path, problem.kind, what, problem.fix));
    }
}

//! Whether Kubernetes would install a schema. Works on the JSON rather than on a compiled schema, so that one bad rule
//! or pattern does not hide what else is wrong.

mod budget;
mod costing;
mod defaults;
mod junctors;
mod lists;
mod rules;
mod spot;
mod structure;
mod typing;

use serde_json::Value;

use crate::compile::{self, CompileError};
use crate::problem::{Problem, ProblemKind, Problems};
use budget::Budget;
use spot::{Spot, walk};

/// Everything to object to in a CRD version's `openAPIV3Schema`: [`lint_structure`] and then [`lint_cost`].
/// Paths lead into the schema: `properties.spec.properties.cells.items`.
pub fn lint(open_api_v3_schema: &Value) -> Problems {
    let mut problems = lint_structure(open_api_v3_schema);
    problems.extend(lint_cost(open_api_v3_schema));
    problems
}

/// What a real API server refuses when the CRD is installed, whatever the objects: see "Specifying a structural
/// schema" and "Validation rules" in Kubernetes' documentation. That rules are of the right types is part of it. A
/// genuine, working CRD has none of these.
pub fn lint_structure(open_api_v3_schema: &Value) -> Problems {
    let mut problems = Problems::new();
    walk(&Spot::root(open_api_v3_schema), &mut |spot| {
        structure::check(spot, &mut problems);
        junctors::check(spot, &mut problems);
        lists::check(spot, &mut problems);
        defaults::check(spot, &mut problems);
        rules::check(spot, &mut problems);
    });
    // The checks above know the mistakes people make; the compiler also knows a keyword of the wrong JSON type.
    if problems.is_empty()
        && let Err(CompileError::NotStructural { at, what }) = compile::compile(open_api_v3_schema)
    {
        problems.push(Problem::new(at, ProblemKind::Invalid, what, ""));
    }
    problems
}

/// What a real API server refuses for its cost: rules that, run over the largest values that the schema allows, would
/// exceed its budget. The estimate is made as the API server makes it, down to the numbers that Kubernetes' tests pin; a
/// genuine, working CRD stays within it.
pub fn lint_cost(open_api_v3_schema: &Value) -> Problems {
    let mut problems = Problems::new();
    let mut budget = Budget::default();
    walk(&Spot::root(open_api_v3_schema), &mut |spot| budget.add(spot, &mut problems));
    budget.close(&mut problems);
    problems
}

//! Whether Kubernetes would install a schema, and whether it would then be happy with it. Works on the JSON rather than
//! on a compiled schema, so that one bad rule or pattern does not hide what else is wrong.

mod bounds;
mod defaults;
mod expression;
mod functions;
mod junctors;
mod lists;
mod rules;
mod spot;
mod structure;

use serde_json::Value;

use crate::compile::{self, CompileError};
use crate::problem::{Problem, ProblemKind, Problems};
use spot::{Spot, walk};

/// Everything to object to in a CRD version's `openAPIV3Schema`: [`lint_structure`] and then [`lint_hygiene`].
/// Paths lead into the schema: `properties.spec.properties.cells.items`.
pub fn lint(open_api_v3_schema: &Value) -> Problems {
    let mut problems = lint_structure(open_api_v3_schema);
    problems.extend(lint_hygiene(open_api_v3_schema));
    problems
}

/// What a real API server refuses when the CRD is installed, whatever the objects: see "Specifying a structural
/// schema" and "Validation rules" in Kubernetes' documentation. A genuine, working CRD has none of these.
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

/// What a real API server may refuse for its cost: rules that run over lists, maps or strings without an upper bound.
/// Its estimate is a number: it takes some schemas that this does not, and refuses bounds that are there but huge.
pub fn lint_hygiene(open_api_v3_schema: &Value) -> Problems {
    let mut problems = Problems::new();
    walk(&Spot::root(open_api_v3_schema), &mut |spot| {
        bounds::check(spot, &mut problems);
    });
    problems
}

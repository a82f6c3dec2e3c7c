//! Whether rules can be afforded. The API server refuses a CRD with a rule that may cost more than ten million, or
//! with rules that may cost more than a hundred million together; a rule below a list costs as often as the list has
//! items.

use super::costing::{Estimate, estimate};
use super::rules::{RULES, compile};
use super::spot::{Spot, list};
use super::typing::{Decls, REQUEST};
use crate::problem::{Problem, ProblemKind, Problems};

/// What one expression may cost, in cel-go's units.
const EXPRESSION: u64 = 10_000_000;
/// What all of a schema's together may.
const SCHEMA: u64 = 100_000_000;

/// What has been spent on a schema.
#[derive(Default)]
pub(super) struct Budget {
    spent: u64,
    /// Each expression's path and cost.
    expressions: Vec<(String, u64)>,
}

impl Budget {
    /// Adds the rules of one node, and reports those that are too expensive by themselves.
    pub(super) fn add(&mut self, spot: &Spot<'_>, problems: &mut Problems) {
        let rules = list(spot.schema, RULES);
        if rules.is_empty() {
            return;
        }
        let Some((decls, root)) = Decls::of(spot.schema, spot.is_resource(), &spot.path) else {
            return;
        };
        let often = spot.times.bound.unwrap_or(REQUEST / (decls.get(root).least + 1));
        let here = spot.path.field(RULES);
        for (i, rule) in rules.iter().enumerate() {
            let path = here.index(i);
            for keyword in ["rule", "messageExpression"] {
                let Some(checked) = compile(rule, keyword, &decls, root).filter(|checked| checked.faults.is_empty())
                else {
                    continue;
                };
                let Estimate { cost, unbounded, unknown } = estimate(&checked, &decls, root);
                // A message is made once, however often its rule runs.
                let times = if keyword == "rule" { often } else { 1 };
                let total = cost.saturating_mul(times);
                let path = path.field(keyword).to_string();
                if total > EXPRESSION {
                    let mut open: Vec<(String, &str)> =
                        unbounded.iter().filter_map(|id| decls.get(*id).open.clone()).collect();
                    if times > 1 {
                        open.extend(spot.times.open.iter().cloned());
                    }
                    problems.push(too_much(&path, cost, times, &open, unknown));
                }
                self.spent = self.spent.saturating_add(total);
                self.expressions.push((path, total));
            }
        }
    }

    /// Reports rules that are affordable one by one but not together.
    pub(super) fn close(mut self, problems: &mut Problems) {
        if self.spent <= SCHEMA {
            return;
        }
        self.expressions.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
        // As many, and as dear, as the API server names.
        let dearest = self.expressions.iter().take(4).filter(|(_, cost)| *cost >= SCHEMA / 100);
        let dearest: Vec<String> = dearest.map(|(path, cost)| format!("{path} ({cost})")).collect();
        let what = format!("all rules together are estimated to cost {}, more than {SCHEMA}", self.spent);
        let fix = format!("make the dearest cheaper: {}", dearest.join(", "));
        problems.push(Problem::new("", ProblemKind::Forbidden, what, fix));
    }
}

fn too_much(path: &str, cost: u64, times: u64, open: &[(String, &str)], unknown: bool) -> Problem {
    let total = cost.saturating_mul(times);
    let each = if times > 1 { format!(" ({cost} for each of {times})") } else { String::new() };
    let what = format!("is estimated to cost {total}{each}, more than {EXPRESSION}");
    let bounds: Vec<String> = open.iter().map(|(place, keyword)| format!("{keyword} to {place:?}")).collect();
    let fix = match bounds.as_slice() {
        _ if unknown => {
            "what functions, optionals and filter() give has no known size; read the schema's own fields".to_owned()
        }
        [] => "simplify it, or lower the bounds of what it reads".to_owned(),
        bounds => format!("add {}", bounds.join(", ")),
    };
    Problem::new(path, ProblemKind::Forbidden, what, fix)
}

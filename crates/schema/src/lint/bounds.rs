//! Rules over things without an upper bound. The API server multiplies a rule's cost by the largest list that a request
//! could hold and refuses the CRD when that is too much; bounds make the estimate small and the rule certain to fit.

use serde_json::Value;

use super::expression::study;
use super::spot::{Spot, list};
use crate::cel;
use crate::problem::{Problem, ProblemKind, Problems};

pub(super) fn check(spot: &Spot<'_>, problems: &mut Problems) {
    let here = spot.path.field("x-kubernetes-validations");
    for (i, rule) in list(spot.schema, "x-kubernetes-validations").iter().enumerate() {
        let rule_path = here.index(i);
        let mut say = |keyword: &str, what: String, fix: String| {
            problems.push(Problem::new(&rule_path.field(keyword), ProblemKind::Forbidden, what, fix));
        };
        if let Some((above, keyword)) = &spot.unbounded {
            let what = format!("runs for every entry of {above:?}, of which there is no limit");
            say("rule", what, format!("add {keyword} to {above:?}"));
        }
        for keyword in ["rule", "messageExpression"] {
            let Some(Ok(parsed)) = rule.get(keyword).and_then(Value::as_str).map(cel::parse) else {
                continue;
            };
            let optional_old = rule.get("optionalOldSelf") == Some(&Value::Bool(true));
            for found in study(&parsed, spot.schema, spot.is_resource(), optional_old).unbounded {
                let what = format!("{} {}, which has no limit", found.what, found.name);
                say(keyword, what, format!("add {} to it", found.keyword));
            }
        }
    }
}

//! What calling a function costs, and how large a result it has.

use kube_cel::cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue};

use super::estimate::Estimator;
use super::size::{Size, scaled};
use crate::lint::typing::Type;

/// Going through a character.
const TEXT: f64 = 0.1;
/// A character of a regular expression: one part of it is taken to have four.
const PATTERN: f64 = 0.25;
/// Making the list of a result.
const LIST: u64 = 10;
/// The longest pattern of Kubernetes' named formats.
const FORMAT_PATTERN: f64 = 128.0 * PATTERN;
/// A network address has 4 or 16 bytes.
const ADDRESS: Size = Size { min: 4, max: 16 };

/// A cost and, where more is known than the type says, the result's size.
type Cost = (u64, Option<Size>);

impl Estimator<'_> {
    /// One overload, its arguments included but not its target.
    pub(super) fn overload(&mut self, expression: &IdedExpr, call: &CallExpr, id: &str, costs: &[u64]) -> Cost {
        let args = costs.iter().fold(0, |sum: u64, one| sum.saturating_add(*one));
        match (id, costs) {
            ("logical_and" | "logical_or", _) => return (args, None),
            ("conditional", [test, yes, no]) => {
                let size = self.size(&call.args[1]).or(self.size(&call.args[2]));
                let entries = self.entries_of(&call.args[1]).zip(self.entries_of(&call.args[2]));
                self.set_entries(expression, entries.map(|(yes, no)| yes.or(no)));
                return (test.saturating_add(*yes.max(no)), Some(size));
            }
            _ => {}
        }
        let known = self.extension(call, id).or_else(|| self.kubernetes(call, id));
        let (cost, size) = known.or_else(|| self.language(expression, call, id)).unwrap_or((1, None));
        (cost.saturating_add(args), size)
    }

    /// CEL's lists and sets.
    fn extension(&self, call: &CallExpr, id: &str) -> Option<Cost> {
        let listed = |factor: f64, size: Size| Some((size.at(factor).saturating_add(1 + LIST), Some(size)));
        let target = call.target.as_deref().map(|target| self.size(target));
        let arg = |at: usize| call.args.get(at).map(|arg| self.size(arg));
        match id {
            "sets_contains" | "sets_intersects" => Some((arg(0)?.times(arg(1)?).at(1.0).saturating_add(1), None)),
            "sets_equivalent" => Some((arg(0)?.times(arg(1)?).at(2.0).saturating_add(1), None)),
            "list_slice" => {
                let [start, end] = [number(call, 0).unwrap_or(0), number(call, 1).unwrap_or(target?.max)];
                listed(1.0, Size::fixed(end.saturating_sub(start)))
            }
            #[expect(clippy::cast_precision_loss, reason = "a depth is a small number or as good as endless")]
            "list_flatten" if call.args.len() == 1 => listed(number(call, 0).unwrap_or(u64::MAX) as f64, target?),
            "list_flatten" | "list_reverse" => listed(1.0, target?),
            "lists_range" => listed(1.0, Size::fixed(number(call, 0).unwrap_or(u64::MAX))),
            "list_distinct" => listed(2.0, target?.times(target?)),
            "list_sort" => listed(self.comparing(call.target.as_deref()?), target?.times(target?)),
            "list_sort_by" => listed(self.comparing(call.args.first()?), arg(0)?.times(arg(0)?)),
            _ => None,
        }
    }

    /// What comparing two elements of a list costs.
    fn comparing(&self, list: &IdedExpr) -> f64 {
        match self.checked.type_of(list) {
            Type::List(of) if matches!(**of, Type::String | Type::Bytes) => 2.0 + TEXT,
            _ => 2.0,
        }
    }

    /// The functions whose costs Kubernetes sets.
    fn kubernetes(&self, call: &CallExpr, id: &str) -> Option<Cost> {
        let target = call.target.as_deref();
        let size = target.map(|target| self.size(target));
        let arg = |at: usize| call.args.get(at).map(|arg| self.size(arg));
        match (call.func_name.as_str(), size) {
            ("isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf", Some(size)) => {
                Some((self.through(target?, size), None))
            }
            ("url", None) => Some((arg(0)?.at(TEXT), arg(0))),
            ("lowerAscii" | "upperAscii" | "substring" | "trim", Some(size)) => Some((size.at(TEXT), Some(size))),
            ("replace", Some(size)) => Some((size.at(2.0 * TEXT), Some(replaced(size, arg(0)?, arg(1)?)))),
            ("split", Some(size)) => {
                let most = number(call, 1).unwrap_or(size.max);
                Some((size.at(2.0 * TEXT), Some(Size { min: 0, max: most })))
            }
            ("join", Some(size)) => {
                let joined = self.joined(target?, size, arg(0));
                Some((joined.at(TEXT), Some(joined)))
            }
            ("find" | "findAll", Some(size)) => {
                let cost = size.plus(Size::fixed(1)).at(TEXT).saturating_mul(arg(0)?.at(PATTERN));
                Some((cost, Some(Size { min: 0, max: size.max })))
            }
            ("ip", Some(_)) => Some((1, None)),
            ("cidr" | "ip" | "isIP" | "isCIDR" | "quantity" | "isQuantity" | "semver" | "isSemver", None) => {
                Some((arg(0)?.at(TEXT), None))
            }
            ("ip.isCanonical", _) => Some((arg(0)?.at(2.0 * TEXT), None)),
            ("containsIP" | "containsCIDR", Some(_)) => {
                let parsed = if id == "contains_text" { arg(0)?.at(TEXT) } else { 0 };
                let masked = if call.func_name == "containsCIDR" { ADDRESS.at(TEXT) + 1 } else { 0 };
                Some((ADDRESS.plus(ADDRESS).at(TEXT).saturating_add(masked).saturating_add(parsed), None))
            }
            ("validate", Some(_)) => Some((scaled(arg(0)?.at(TEXT), FORMAT_PATTERN), None)),
            ("_==_", None) => self.library_equality(call),
            _ => None,
        }
    }

    /// Going once through a list, and through its texts, or through a text.
    fn through(&self, target: &IdedExpr, size: Size) -> u64 {
        match self.checked.type_of(target) {
            Type::List(of) => {
                let text = matches!(**of, Type::String | Type::Bytes);
                let each = if text { self.item_size(target).at(TEXT).saturating_add(1) } else { 1 };
                size.max.saturating_mul(each)
            }
            _ => size.at(TEXT),
        }
    }

    fn item_size(&self, list: &IdedExpr) -> Size {
        let mut route = self.route(list);
        if route.is_empty() {
            return self.any_size();
        }
        route.push("@items".to_owned());
        self.size_at(&route).unwrap_or(self.any_size())
    }

    fn joined(&self, list: &IdedExpr, size: Size, separator: Option<Size>) -> Size {
        let items = size.times(self.item_size(list));
        let gaps = Size { min: size.min.saturating_sub(1), max: size.max.saturating_sub(1) };
        separator.map_or(items, |separator| items.plus(separator.times(gaps)))
    }

    /// Kubernetes' own types compare at a fixed price.
    fn library_equality(&self, call: &CallExpr) -> Option<Cost> {
        let [left, right] = call.args.as_slice() else {
            return None;
        };
        let Type::Library(name) = self.checked.type_of(left) else {
            return None;
        };
        let same = self.checked.type_of(left) == self.checked.type_of(right);
        let cost = if *name == "kubernetes.URL" { self.size(right).at(TEXT).max(1) } else { 1 };
        same.then_some((cost, None))
    }

    /// CEL's own functions and operators.
    fn language(&mut self, expression: &IdedExpr, call: &CallExpr, id: &str) -> Option<Cost> {
        let target = call.target.as_deref().map(|target| self.size(target));
        let arg = |at: usize| call.args.get(at).map(|arg| self.size(arg));
        match id {
            "string_format" => Some((target?.at(TEXT), None)),
            "string_to_bytes" => {
                let size = arg(0)?;
                Some((size.at(TEXT), Some(Size { min: size.min, max: size.max.saturating_mul(4) })))
            }
            "bytes_to_string" => {
                let size = arg(0)?;
                Some((size.at(TEXT), Some(Size { min: size.min / 4, max: size.max })))
            }
            "strings_quote" => {
                let size = arg(0)?;
                let quoted =
                    Size { min: size.min.saturating_add(2), max: size.max.saturating_mul(2).saturating_add(2) };
                Some((size.at(TEXT), Some(quoted)))
            }
            "starts_with_string" | "ends_with_string" => Some((arg(0)?.at(TEXT), None)),
            "in_list" => Some((arg(1)?.at(1.0), None)),
            "matches_string" => {
                let text = target?.plus(Size::fixed(1)).at(TEXT);
                Some((text.saturating_mul(arg(0)?.at(PATTERN)), None))
            }
            "contains_string" => Some((target?.at(TEXT).saturating_mul(arg(0)?.at(TEXT)), None)),
            "add_string" | "add_bytes" | "add_list" => {
                let size = arg(0)?.plus(arg(1)?);
                let entries = self.entries_of(&call.args[0]).zip(self.entries_of(&call.args[1]));
                self.set_entries(expression, entries.map(|(left, right)| left.or(right)));
                Some((if id == "add_list" { 1 } else { size.at(TEXT) }, Some(size)))
            }
            "compare_string" | "compare_bytes" | "equals" | "not_equals" => {
                Some((scaled(arg(0)?.max.min(arg(1)?.max), TEXT), None))
            }
            _ => None,
        }
    }
}

/// How long a text can become when parts of it are replaced.
fn replaced(text: Size, old: Size, new: Size) -> Size {
    let most = |count: u64, kept: u64| count.saturating_mul(new.max).saturating_add(kept);
    let max = match old.min {
        // An empty text is found before, between and after all characters.
        0 => most(text.max.saturating_add(1), text.max),
        old if new.max <= old => text.max,
        old => most(text.max.div_ceil(old), 0),
    };
    let least = |count: u64, kept: u64| count.saturating_mul(new.min).saturating_add(kept);
    let min = match old.max {
        0 => least(text.min.saturating_add(1), text.min),
        old if old <= new.min => text.min,
        old => least(text.min.div_ceil(old), 0),
    };
    Size { min, max }
}

/// An argument that is a number written out.
fn number(call: &CallExpr, at: usize) -> Option<u64> {
    match &call.args.get(at)?.expr {
        Expr::Literal(LiteralValue::Int(number)) => u64::try_from(*number.inner()).ok(),
        _ => None,
    }
}

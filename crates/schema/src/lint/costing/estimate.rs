//! Walks a checked expression and adds up what its parts cost at most.

use std::cell::RefCell;
use std::collections::HashMap;

use kube_cel::cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr};

use super::size::{Entries, Size};
use crate::lint::typing::{Checked, Decls, GATHERED, Id, Kind, Type};

/// What making a list or a map costs.
const LIST: u64 = 10;
const MAP: u64 = 30;

/// What an expression costs.
pub(in crate::lint) struct Estimate {
    pub(in crate::lint) cost: u64,
    /// The declarations without a bound whose bound would make it cheaper.
    pub(in crate::lint) unbounded: Vec<Id>,
    /// It is dear for something that it makes itself, of which no size is known.
    pub(in crate::lint) unknown: bool,
}

/// Something of any size to treat as small, to learn whether that would help.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pretence {
    Nothing,
    Declared(Id),
    Unknown,
}

/// A size that makes no rule dear.
const SMALL: u64 = 4;

/// Estimates what it costs to run an expression once.
pub(in crate::lint) fn estimate(checked: &Checked, decls: &Decls, root: Id) -> Estimate {
    let run = |pretence| {
        let mut estimator = Estimator::new(checked, decls, root, pretence);
        let cost = estimator.cost(&checked.expression);
        (cost, estimator.met.into_inner())
    };
    let (cost, met) = run(Pretence::Nothing);
    let unbounded = met.into_iter().filter(|id| run(Pretence::Declared(*id)).0 < cost).collect();
    Estimate { cost, unbounded, unknown: run(Pretence::Unknown).0 < cost }
}

/// A step from a value to one inside it, by the names that cel-go gives them.
type Route = Vec<String>;

/// What is known of a variable that the expression itself makes.
#[derive(Clone)]
struct Local {
    name: String,
    route: Route,
    size: Option<Size>,
    entries: Option<Entries>,
}

pub(super) struct Estimator<'a> {
    pub(super) checked: &'a Checked,
    decls: &'a Decls,
    root: Id,
    pretence: Pretence,
    /// The declarations without a bound that were met.
    met: RefCell<Vec<Id>>,
    routes: HashMap<u64, Route>,
    sizes: HashMap<u64, Size>,
    entries: HashMap<u64, Entries>,
    locals: Vec<Local>,
}

impl<'a> Estimator<'a> {
    fn new(checked: &'a Checked, decls: &'a Decls, root: Id, pretence: Pretence) -> Self {
        Self {
            checked,
            decls,
            root,
            pretence,
            met: RefCell::default(),
            routes: HashMap::new(),
            sizes: HashMap::new(),
            entries: HashMap::new(),
            locals: Vec::new(),
        }
    }

    pub(super) fn cost(&mut self, expression: &IdedExpr) -> u64 {
        match &expression.expr {
            Expr::Ident(name) => {
                let route = self.local(name).map_or_else(|| vec![name.clone()], |local| local.route.clone());
                self.routes.insert(expression.id, route);
                1
            }
            Expr::Select(select) => self.select(expression.id, select),
            Expr::Call(call) => self.call(expression, call),
            Expr::List(list) => {
                let cost = list.elements.iter().fold(LIST, |sum, one| sum.saturating_add(self.cost(one)));
                let value = self.covering(&mut list.elements.iter());
                self.entries.insert(expression.id, Entries { list: true, key: Size::fixed(1), value });
                cost
            }
            Expr::Map(map) => {
                let pairs: Vec<(&IdedExpr, &IdedExpr)> = map
                    .entries
                    .iter()
                    .filter_map(|entry| match &entry.expr {
                        EntryExpr::MapEntry(entry) => Some((&entry.key, &entry.value)),
                        EntryExpr::StructField(_) => None,
                    })
                    .collect();
                let both = pairs.iter().flat_map(|(key, value)| [key, value]);
                let cost = both.fold(MAP, |sum, one| sum.saturating_add(self.cost(one)));
                let key = self.covering(&mut pairs.iter().map(|pair| pair.0));
                let value = self.covering(&mut pairs.iter().map(|pair| pair.1));
                self.entries.insert(expression.id, Entries { list: false, key, value });
                cost
            }
            Expr::Comprehension(c) if is_bind(c) => self.bind(expression.id, c),
            Expr::Comprehension(c) => self.comprehension(expression.id, c),
            Expr::Literal(_) | Expr::Struct(_) | Expr::Unspecified => 0,
        }
    }

    /// A size that covers those of all elements; nothing is of size 0.
    fn covering(&self, elements: &mut dyn Iterator<Item = &IdedExpr>) -> Size {
        elements.map(|one| self.size(one)).reduce(Size::or).unwrap_or(Size::fixed(0))
    }

    fn select(&mut self, id: u64, select: &SelectExpr) -> u64 {
        let operand = self.cost(&select.operand);
        if select.test {
            return operand;
        }
        let mut route = self.route(&select.operand);
        route.push(select.field.clone());
        self.routes.insert(id, route);
        let held = matches!(self.checked.type_of(&select.operand), Type::Map(..) | Type::Object(_));
        operand.saturating_add(u64::from(held))
    }

    fn call(&mut self, expression: &IdedExpr, call: &CallExpr) -> u64 {
        if call.func_name == "dyn"
            && let [arg] = call.args.as_slice()
        {
            let cost = self.cost(arg).saturating_add(1);
            self.same_size(expression.id, arg);
            return cost;
        }
        let costs: Vec<u64> = call.args.iter().map(|arg| self.cost(arg)).collect();
        let target = call.target.as_deref().map_or(0, |target| self.cost(target));
        let mut most = 0;
        let mut size: Option<Size> = None;
        for id in self.checked.overloads(expression) {
            let (cost, result) = self.overload(expression, call, id, &costs);
            most = most.max(cost);
            size = match (size, result) {
                (Some(before), Some(result)) => Some(before.or(result)),
                (before, result) => before.or(result),
            };
            let inside = match *id {
                "index_list" => Some("@items"),
                "index_map" => Some("@values"),
                _ => None,
            };
            if let (Some(step), Some(operand)) = (inside, call.args.first()) {
                let mut route = self.route(operand);
                route.push(step.to_owned());
                self.routes.insert(expression.id, route);
                size = self.entries_of(operand).map(|entries| entries.value);
            }
            size = size.or_else(|| self.known_size(expression));
        }
        if let Some(size) = size {
            self.sizes.insert(expression.id, size);
        }
        target.saturating_add(most)
    }

    fn comprehension(&mut self, id: u64, c: &ComprehensionExpr) -> u64 {
        let before = self.cost(&c.iter_range).saturating_add(self.cost(&c.accu_init));
        let depth = self.locals.len();
        self.push_value(&c.accu_var, &c.accu_init);
        match &c.iter_var2 {
            Some(second) => {
                self.push_element(&c.iter_var, &c.iter_range, true);
                self.push_element(second, &c.iter_range, false);
            }
            None => self.push_element(&c.iter_var, &c.iter_range, !self.is_list(&c.iter_range)),
        }
        let once = self.cost(&c.loop_cond).saturating_add(self.cost(&c.loop_step));
        self.locals.truncate(depth + 1);
        let after = self.cost(&c.result);
        self.locals.truncate(depth);
        let rounds = self.size(&c.iter_range);
        match &c.accu_init.expr {
            Expr::Literal(_) => self.same_size(id, &c.accu_init),
            Expr::List(_) | Expr::Map(_) => {
                self.sizes.insert(id, rounds);
                if let Some(entries) = self.entries_of(&c.loop_step) {
                    self.entries.insert(id, entries);
                }
            }
            _ => {}
        }
        before.saturating_add(after).saturating_add(rounds.max.saturating_mul(once))
    }

    fn bind(&mut self, id: u64, c: &ComprehensionExpr) -> u64 {
        let before = self.cost(&c.iter_range).saturating_add(self.cost(&c.accu_init));
        self.push_value(&c.accu_var, &c.accu_init);
        let body = self.cost(&c.result);
        self.locals.pop();
        self.same_size(id, &c.result);
        before.saturating_add(body)
    }

    fn push_value(&mut self, name: &str, value: &IdedExpr) {
        let (route, size, entries) = (self.route(value), self.known_size(value), self.entries_of(value));
        self.locals.push(Local { name: name.to_owned(), route, size, entries });
    }

    /// A loop's variable: the keys of a map or indices of a list, or else the values or items.
    fn push_element(&mut self, name: &str, range: &IdedExpr, key: bool) {
        let step = match (key, self.is_list(range)) {
            (true, true) => "@indices",
            (true, false) => "@keys",
            (false, true) => "@items",
            (false, false) => "@values",
        };
        let mut route = self.route(range);
        route.push(step.to_owned());
        let size = self.entries_of(range).map(|entries| if key { entries.key } else { entries.value });
        self.locals.push(Local { name: name.to_owned(), route, size, entries: None });
    }

    fn is_list(&self, range: &IdedExpr) -> bool {
        match self.entries_of(range) {
            Some(entries) => entries.list,
            None => matches!(self.checked.type_of(range), Type::List(_)),
        }
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.iter().rev().find(|local| local.name == name)
    }

    fn local_of(&self, expression: &IdedExpr) -> Option<&Local> {
        match &expression.expr {
            Expr::Ident(name) => self.local(name),
            _ => None,
        }
    }

    pub(super) fn route(&self, expression: &IdedExpr) -> Route {
        match self.local_of(expression) {
            Some(local) => local.route.clone(),
            None => self.routes.get(&expression.id).cloned().unwrap_or_default(),
        }
    }

    pub(super) fn entries_of(&self, expression: &IdedExpr) -> Option<Entries> {
        self.entries.get(&expression.id).copied().or_else(|| self.local_of(expression)?.entries)
    }

    pub(super) fn set_entries(&mut self, expression: &IdedExpr, entries: Option<Entries>) {
        if let Some(entries) = entries {
            self.entries.insert(expression.id, entries);
        }
    }

    fn same_size(&mut self, id: u64, as_of: &IdedExpr) {
        if let Some(size) = self.known_size(as_of) {
            self.sizes.insert(id, size);
        }
        if let Some(entries) = self.entries_of(as_of) {
            self.entries.insert(id, entries);
        }
    }

    pub(super) fn size(&self, expression: &IdedExpr) -> Size {
        self.known_size(expression).unwrap_or(self.any_size())
    }

    /// The size of what no size is known of.
    pub(super) fn any_size(&self) -> Size {
        Size { min: 0, max: if self.pretence == Pretence::Unknown { SMALL } else { u64::MAX } }
    }

    fn known_size(&self, expression: &IdedExpr) -> Option<Size> {
        let noted = self.sizes.get(&expression.id).copied().or_else(|| literal_size(&expression.expr));
        noted
            .or_else(|| self.size_at(&self.route(expression)))
            .or_else(|| is_scalar(self.checked.type_of(expression)).then(|| Size::fixed(1)))
            .or_else(|| self.local_of(expression)?.size)
    }

    /// The size that the schema allows at the end of a route. As in Kubernetes, every route is taken to begin at the
    /// rule's own place, even that of a variable which holds something else.
    pub(super) fn size_at(&self, route: &[String]) -> Option<Size> {
        let (_, steps) = route.split_first()?;
        let mut at = self.root;
        for (i, step) in steps.iter().enumerate() {
            at = match (&self.decls.get(at).kind, step.as_str()) {
                (Kind::List(inner) | Kind::Map(inner), "@items" | "@values") => *inner,
                // Keys count as of no size at all.
                (Kind::Map(_), "@keys") if i + 1 == steps.len() => return Some(Size::fixed(0)),
                (Kind::Object(fields), name) => *fields.get(name)?,
                _ => return None,
            };
        }
        let decl = self.decls.get(at);
        if self.pretence == Pretence::Declared(at) {
            return Some(Size { min: 0, max: decl.most.min(SMALL) });
        }
        if decl.open.is_some() && !self.met.borrow().contains(&at) {
            self.met.borrow_mut().push(at);
        }
        Some(Size { min: 0, max: decl.most })
    }
}

fn is_bind(c: &ComprehensionExpr) -> bool {
    let never = matches!(&c.loop_cond.expr, Expr::Literal(LiteralValue::Boolean(go_on)) if !go_on.inner());
    never && c.accu_var != GATHERED && matches!(&c.iter_range.expr, Expr::List(list) if list.elements.is_empty())
}

fn literal_size(expression: &Expr) -> Option<Size> {
    Some(Size::fixed(match expression {
        Expr::Literal(LiteralValue::String(text)) => text.inner().chars().count() as u64,
        Expr::Literal(LiteralValue::Bytes(bytes)) => bytes.inner().len() as u64,
        Expr::Literal(_) => 1,
        Expr::List(list) => list.elements.len() as u64,
        Expr::Map(map) => map.entries.len() as u64,
        _ => return None,
    }))
}

fn is_scalar(one: &Type) -> bool {
    match one {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => true,
        Type::Optional(held) => is_scalar(held),
        _ => false,
    }
}

//! What can be said about a CEL expression without running it: which parts of the schema it reads, whether those exist,
//! and whether what it loops over is bounded. A light stand-in for the type checker of a real API server.

use kube_cel::cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators};
use serde_json::Value;

use super::functions;
use super::spot::{META, entries, flag, has, text};
use crate::cel::unescape;
use crate::words;

/// What was found.
#[derive(Default)]
pub(super) struct Findings {
    /// What the expression uses that does not exist, each with a fix.
    pub(super) unknown: Vec<(String, String)>,
    /// What it reads in full although it may be of any size.
    pub(super) unbounded: Vec<Unbounded>,
}

#[derive(PartialEq, Eq)]
pub(super) struct Unbounded {
    /// As the rule writes it: `self.cells`.
    pub(super) name: String,
    /// The keyword that would bound it.
    pub(super) keyword: &'static str,
    pub(super) what: &'static str,
}

/// The part of the schema that an expression stands for.
#[derive(Clone)]
enum Shape<'a> {
    Schema {
        schema: &'a Value,
        name: String,
        resource: bool,
    },
    /// A resource's metadata, of which rules see the names only.
    Meta,
    /// Anything the schema does not describe: literals, results of functions, int-or-strings.
    Unknown,
}

pub(super) fn study(expression: &IdedExpr, schema: &Value, resource: bool, optional_old: bool) -> Findings {
    let mut study = Study { findings: Findings::default(), variables: Vec::new() };
    let itself = |name: &str| Shape::Schema { schema, name: name.to_owned(), resource };
    study.variables.push(("self".to_owned(), itself("self")));
    // An optional's fields are reached through functions, which are not followed.
    let old = if optional_old { Shape::Unknown } else { itself("oldSelf") };
    study.variables.push(("oldSelf".to_owned(), old));
    study.shape(expression);
    study.findings
}

struct Study<'a> {
    findings: Findings,
    /// What is in scope, innermost last.
    variables: Vec<(String, Shape<'a>)>,
}

impl<'a> Study<'a> {
    fn shape(&mut self, expression: &IdedExpr) -> Shape<'a> {
        match &expression.expr {
            Expr::Ident(name) => self.variable(name),
            Expr::Select(select) => {
                let operand = self.shape(&select.operand);
                let field = self.field(&operand, &select.field);
                if select.test { Shape::Unknown } else { field }
            }
            Expr::Call(call) => self.call(call),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::List(list) => {
                for element in &list.elements {
                    self.shape(element);
                }
                Shape::Unknown
            }
            Expr::Map(map) => {
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        self.shape(&entry.key);
                        self.shape(&entry.value);
                    }
                }
                Shape::Unknown
            }
            Expr::Literal(_) | Expr::Struct(_) | Expr::Unspecified => Shape::Unknown,
        }
    }

    fn variable(&mut self, name: &str) -> Shape<'a> {
        if let Some((_, shape)) = self.variables.iter().rev().find(|(known, _)| known == name) {
            return shape.clone();
        }
        let types = ["bool", "bytes", "double", "int", "list", "map", "null_type", "string", "uint", "google"];
        if !name.starts_with(['@', '#']) && !types.contains(&name) {
            self.unknown(format!("{name} is not a variable"), "use self or oldSelf".to_owned());
        }
        Shape::Unknown
    }

    fn field(&mut self, operand: &Shape<'a>, field: &str) -> Shape<'a> {
        let (schema, name, resource) = match operand {
            Shape::Unknown => return Shape::Unknown,
            Shape::Meta => {
                if !matches!(field, "name" | "generateName") {
                    let what = format!("metadata.{field} is not visible to rules");
                    self.unknown(what, "use metadata.name or metadata.generateName only".to_owned());
                }
                return Shape::Unknown;
            }
            Shape::Schema { schema, name, resource } => (*schema, name, *resource),
        };
        if resource && META.contains(&field) {
            return if field == "metadata" { Shape::Meta } else { Shape::Unknown };
        }
        if let Some(child) = child(schema, field, &format!("{name}.{field}")) {
            return child;
        }
        // Without a type, or as a map of anything, the schema has nothing to say.
        let dynamic = text(schema, "type").is_none() || schema.get("additionalProperties") == Some(&Value::Bool(true));
        if !dynamic {
            let known: Vec<&str> = entries(schema, "properties").map(|(name, _)| name.as_str()).collect();
            let fix = match words::closest(field, &known) {
                Some(guess) if guess == field => format!("write it escaped, as __{field}__"),
                Some(guess) => format!("did you mean {guess:?}?"),
                None => "add it to the schema or correct the rule".to_owned(),
            };
            self.unknown(format!("{name} has no field {field:?}"), fix);
        }
        Shape::Unknown
    }

    fn call(&mut self, call: &CallExpr) -> Shape<'a> {
        let name = call.func_name.as_str();
        if !functions::is_known(name) {
            self.unknown(format!("{name}() is not a function"), "see the CEL libraries of Kubernetes".to_owned());
        }
        let depth = self.variables.len();
        if functions::is_macro(name, call.args.len()) {
            self.bind_macro(call);
        }
        let target = match call.target.as_deref() {
            Some(IdedExpr { expr: Expr::Ident(space), .. })
                if functions::is_namespace(space) && !self.variables.iter().any(|(name, _)| name == space) =>
            {
                None
            }
            target => target.map(|target| self.shape(target)),
        };
        let args: Vec<Shape<'a>> = call.args.iter().map(|arg| self.shape(arg)).collect();
        self.variables.truncate(depth);
        for shape in target.iter().chain(&args) {
            self.reads(name, shape);
        }
        match (name, call.args.as_slice()) {
            // `a.?b` has become `a[?"b"]`.
            (operators::OPT_INDEX, [_, index]) if literal(index).is_some() => {
                self.field(&args[0], literal(index).unwrap_or_default())
            }
            (operators::INDEX | operators::OPT_INDEX, [_, index]) => element(&args[0], index),
            (operators::CONDITIONAL, [_, _, _]) => args[1].clone(),
            ("orValue" | "or" | "value", _) => target.unwrap_or(Shape::Unknown),
            _ => Shape::Unknown,
        }
    }

    /// A macro that the parser left alone binds the names it begins with.
    fn bind_macro(&mut self, call: &CallExpr) {
        let names = call.args.iter().map_while(|arg| match &arg.expr {
            Expr::Ident(name) => Some((name.clone(), Shape::Unknown)),
            _ => None,
        });
        self.variables.extend(names.take(call.args.len().saturating_sub(1)));
    }

    /// Notes an unbounded string or list that a function goes through.
    fn reads(&mut self, function: &str, shape: &Shape<'a>) {
        let Shape::Schema { schema, .. } = shape else {
            return;
        };
        match text(schema, "type") {
            Some("string") if functions::reads_strings(function) => self.bounded(shape, "reads"),
            Some("array") if functions::reads_lists(function) || function == operators::IN => {
                self.bounded(shape, "goes through");
            }
            _ => {}
        }
    }

    fn comprehension(&mut self, c: &ComprehensionExpr) -> Shape<'a> {
        let range = self.shape(&c.iter_range);
        let start = self.shape(&c.accu_init);
        self.bounded(&range, "goes through");
        let depth = self.variables.len();
        self.variables.push((c.accu_var.clone(), start));
        let is_map = matches!(&range, Shape::Schema { schema, .. } if text(schema, "type") == Some("object"));
        let item = if is_map { Shape::Unknown } else { any_element(&range) };
        self.variables.push((c.iter_var.clone(), item));
        self.shape(&c.loop_cond);
        self.shape(&c.loop_step);
        let result = self.shape(&c.result);
        self.variables.truncate(depth);
        // What `filter` leaves is still of the list's shape.
        if keeps_items(c) { range } else { result }
    }

    fn bounded(&mut self, shape: &Shape<'a>, what: &'static str) {
        let Shape::Schema { schema, name, .. } = shape else {
            return;
        };
        let keyword = match text(schema, "type") {
            Some("string") if !is_short(schema) => "maxLength",
            Some("array") => "maxItems",
            Some("object") if has(schema, "additionalProperties") => "maxProperties",
            _ => return,
        };
        let found = Unbounded { name: name.clone(), keyword, what };
        if schema.get(keyword).is_none() && !self.findings.unbounded.contains(&found) {
            self.findings.unbounded.push(found);
        }
    }

    fn unknown(&mut self, what: String, fix: String) {
        if !self.findings.unknown.iter().any(|(known, _)| *known == what) {
            self.findings.unknown.push((what, fix));
        }
    }
}

/// Strings that are short whatever `maxLength` says.
fn is_short(schema: &Value) -> bool {
    has(schema, "enum") || matches!(text(schema, "format"), Some("date" | "date-time" | "datetime" | "duration"))
}

fn child<'a>(schema: &'a Value, field: &str, name: &str) -> Option<Shape<'a>> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let child = match properties.and_then(|map| map.get(unescape(field, map.keys())?)) {
        Some(child) => child,
        None => schema.get("additionalProperties").filter(|schema| schema.is_object())?,
    };
    Some(described(child, name.to_owned()))
}

fn described(schema: &Value, name: String) -> Shape<'_> {
    let resource = flag(schema, "x-kubernetes-embedded-resource");
    if text(schema, "type").is_some() { Shape::Schema { schema, name, resource } } else { Shape::Unknown }
}

fn element<'a>(operand: &Shape<'a>, index: &IdedExpr) -> Shape<'a> {
    match (operand, literal(index)) {
        (Shape::Schema { schema, name, .. }, Some(key)) => {
            child(schema, key, &format!("{name}[{key:?}]")).unwrap_or(Shape::Unknown)
        }
        _ => any_element(operand),
    }
}

/// What any item of a list or any value of a map is.
fn any_element<'a>(operand: &Shape<'a>) -> Shape<'a> {
    let Shape::Schema { schema, name, .. } = operand else {
        return Shape::Unknown;
    };
    let below = schema.get("items").or_else(|| schema.get("additionalProperties"));
    below.filter(|below| below.is_object()).map_or(Shape::Unknown, |below| described(below, format!("{name}[]")))
}

fn literal(expression: &IdedExpr) -> Option<&str> {
    match &expression.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner()),
        _ => None,
    }
}

/// `filter` adds the item itself, `map` something made of it.
fn keeps_items(c: &ComprehensionExpr) -> bool {
    let Expr::Call(step) = &c.loop_step.expr else {
        return false;
    };
    let Some(Expr::Call(add)) = step.args.get(1).map(|arg| &arg.expr) else {
        return false;
    };
    let added = add.args.get(1).map(|arg| &arg.expr);
    let itself = |one: &IdedExpr| matches!(&one.expr, Expr::Ident(name) if *name == c.iter_var);
    add.func_name == operators::ADD && matches!(added, Some(Expr::List(list)) if list.elements.iter().all(itself))
}

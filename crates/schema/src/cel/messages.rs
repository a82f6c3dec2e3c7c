//! `Object{spec: Object.spec{replicas: 3}}`, `JSONPatch{op: "add"}`: the messages that mutations are written as, read as
//! the maps that they stand for. Types are not checked: what is made is judged as an object when it is written.

use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedEntryExpr, IdedExpr, LiteralValue, MapEntryExpr, MapExpr};

use super::rewrite::within;

/// Makes maps of the messages that a mutation may make; others stay.
pub(super) fn as_maps(expression: &mut IdedExpr) {
    within(expression, as_maps);
    let Expr::Struct(made) = &mut expression.expr else { return };
    if is_known(&made.type_name) {
        let entries = std::mem::take(&mut made.entries).into_iter().map(as_entry).collect();
        expression.expr = Expr::Map(MapExpr { entries });
    }
}

fn is_known(name: &str) -> bool {
    let name = name.trim_start_matches('.');
    name == "JSONPatch" || name == "Object" || name.starts_with("Object.")
}

fn as_entry(entry: IdedEntryExpr) -> IdedEntryExpr {
    let IdedEntryExpr { id, expr } = entry;
    let EntryExpr::StructField(field) = expr else { return IdedEntryExpr { id, expr } };
    let key = IdedExpr { id, expr: Expr::Literal(LiteralValue::String(field.field.into())) };
    let (value, optional) = (field.value, field.optional);
    IdedEntryExpr { id, expr: EntryExpr::MapEntry(MapEntryExpr { key, value, optional }) }
}

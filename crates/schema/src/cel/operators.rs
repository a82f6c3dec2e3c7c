//! Operators on values that are there: the strict ones, which fail when an operand does.

use std::cmp::Ordering;
use std::sync::Arc;

use kube_cel::cel::common::ast::operators;
use kube_cel::cel::objects::{Key, OptionalValue};
use kube_cel::cel::{ExecutionError, Value as Cel};

use super::run::Answer;

const UNARY: [&str; 2] = [operators::LOGICAL_NOT, operators::NEGATE];

const BINARY: [&str; 14] = [
    operators::ADD,
    operators::SUBSTRACT,
    operators::MULTIPLY,
    operators::DIVIDE,
    operators::MODULO,
    operators::EQUALS,
    operators::NOT_EQUALS,
    operators::LESS,
    operators::LESS_EQUALS,
    operators::GREATER,
    operators::GREATER_EQUALS,
    operators::IN,
    operators::INDEX,
    operators::OPT_INDEX,
];

pub(super) fn is_unary(name: &str) -> bool {
    UNARY.contains(&name)
}

pub(super) fn is_binary(name: &str) -> bool {
    BINARY.contains(&name)
}

/// Whether an operator goes through its operands.
pub(super) fn compares(name: &str) -> bool {
    use operators::{EQUALS, GREATER, GREATER_EQUALS, IN, LESS, LESS_EQUALS, NOT_EQUALS};
    [EQUALS, NOT_EQUALS, LESS, LESS_EQUALS, GREATER, GREATER_EQUALS, IN].contains(&name)
}

/// The operand that decides how long a comparison takes: the shorter one, or the list that is searched.
pub(super) fn shorter<'v>(name: &str, left: &'v Cel, right: &'v Cel) -> &'v Cel {
    let top = |value: &Cel| size(Some(value)).unwrap_or(0);
    if name == operators::IN || top(right) < top(left) { right } else { left }
}

pub(super) fn unary(name: &str, value: Cel) -> Answer {
    match (name, value) {
        (operators::LOGICAL_NOT, Cel::Bool(value)) => Ok(Cel::Bool(!value)),
        (operators::NEGATE, Cel::Int(value)) => {
            value.checked_neg().map(Cel::Int).ok_or_else(|| ExecutionError::Overflow("minus", 0.into(), value.into()))
        }
        (operators::NEGATE, Cel::Float(value)) => Ok(Cel::Float(-value)),
        _ => Err(ExecutionError::NoSuchOverload),
    }
}

pub(super) fn binary(name: &str, left: Cel, right: Cel) -> Answer {
    match name {
        operators::ADD => match (left, right) {
            (Cel::Bytes(mut left), Cel::Bytes(right)) => {
                Arc::make_mut(&mut left).extend_from_slice(&right);
                Ok(Cel::Bytes(left))
            }
            (left, right) => left + right,
        },
        operators::SUBSTRACT => left - right,
        operators::MULTIPLY => left * right,
        operators::DIVIDE => left / right,
        operators::MODULO => left % right,
        operators::EQUALS => Ok(Cel::Bool(left == right)),
        operators::NOT_EQUALS => Ok(Cel::Bool(left != right)),
        operators::IN => contains(&right, left),
        operators::INDEX => match &left {
            Cel::Opaque(_) => Ok(optional(held(left).and_then(|held| item(&held, right).ok()))),
            _ => item(&left, right),
        },
        operators::OPT_INDEX => {
            let base = if matches!(left, Cel::Opaque(_)) { held(left) } else { Some(left) };
            Ok(optional(base.and_then(|base| item(&base, right).ok())))
        }
        _ => compare(name, &left, &right).map(Cel::Bool),
    }
}

fn compare(name: &str, left: &Cel, right: &Cel) -> Result<bool, ExecutionError> {
    let is_nan = |value: &Cel| matches!(value, Cel::Float(float) if float.is_nan());
    if is_nan(left) || is_nan(right) {
        return Ok(false);
    }
    let order = match (left, right) {
        (Cel::Bytes(left), Cel::Bytes(right)) => left.cmp(right),
        _ => left.partial_cmp(right).ok_or(ExecutionError::NoSuchOverload)?,
    };
    Ok(match name {
        operators::LESS => order == Ordering::Less,
        operators::LESS_EQUALS => order != Ordering::Greater,
        operators::GREATER => order == Ordering::Greater,
        _ => order != Ordering::Less,
    })
}

fn contains(within: &Cel, value: Cel) -> Answer {
    match within {
        Cel::List(items) => Ok(Cel::Bool(items.contains(&value))),
        Cel::Map(map) => {
            let key: Result<Key, Cel> = value.try_into();
            Ok(Cel::Bool(key.is_ok_and(|key| map.map.contains_key(&key))))
        }
        _ => Err(ExecutionError::NoSuchOverload),
    }
}

/// An item of a list by its index, or of a map by its key.
fn item(of: &Cel, by: Cel) -> Answer {
    match (of, by) {
        (Cel::List(items), by) => {
            let index = match &by {
                Cel::Int(index) => usize::try_from(*index).ok(),
                Cel::UInt(index) => usize::try_from(*index).ok(),
                _ => return Err(ExecutionError::UnsupportedListIndex(by)),
            };
            index.and_then(|index| items.get(index)).cloned().ok_or(ExecutionError::IndexOutOfBounds(by))
        }
        (Cel::Map(map), by) => {
            let key: Key = by.try_into().map_err(ExecutionError::UnsupportedMapIndex)?;
            let missing = || ExecutionError::NoSuchKey(Arc::new(spoken(&key)));
            map.map.get(&key).cloned().ok_or_else(missing)
        }
        _ => Err(ExecutionError::NoSuchOverload),
    }
}

fn spoken(key: &Key) -> String {
    match key {
        Key::Int(key) => key.to_string(),
        Key::Uint(key) => key.to_string(),
        Key::Bool(key) => key.to_string(),
        Key::String(key) => key.to_string(),
    }
}

/// An optional that holds that value, or none.
pub(super) fn optional(value: Option<Cel>) -> Cel {
    Cel::Opaque(Arc::new(value.map_or_else(OptionalValue::none, OptionalValue::of)))
}

/// What an optional holds; of anything else, itself.
pub(super) fn held(value: Cel) -> Option<Cel> {
    match &value {
        Cel::Opaque(opaque) => match opaque.downcast_ref::<OptionalValue>() {
            Some(optional) => optional.value().cloned(),
            None => Some(value),
        },
        _ => Some(value),
    }
}

/// How many characters, bytes, items or entries there are.
pub(super) fn size(value: Option<&Cel>) -> Option<i64> {
    let size = match value? {
        Cel::String(text) => text.chars().count(),
        Cel::Bytes(bytes) => bytes.len(),
        Cel::List(items) => items.len(),
        Cel::Map(map) => map.map.len(),
        _ => return None,
    };
    i64::try_from(size).ok()
}

/// What functions cost that do more than go through their operands once.
pub(super) fn surcharge(name: &str, target: Option<&Cel>, args: &[Cel]) -> u64 {
    let length = |value: Option<&Cel>| match value {
        Some(Cel::String(text)) => text.len() as u64,
        Some(Cel::List(items)) => items.len() as u64,
        _ => 0,
    };
    let mut operands = target.into_iter().chain(args);
    let (first, second) = (length(operands.next()), length(operands.next()));
    match name {
        "matches" | "find" | "findAll" => (first + 1).div_ceil(10).saturating_mul(second.div_ceil(4)),
        "contains" | "indexOf" | "lastIndexOf" => first.div_ceil(10).saturating_mul(second.div_ceil(10)),
        // Each occurrence can be replaced by something long, and each character is an occurrence of nothing.
        "replace" => first.saturating_mul(length(args.get(1))).div_ceil(10),
        "join" => first.saturating_mul(second).div_ceil(10),
        "equivalent" | "intersects" => first.saturating_mul(second),
        "distinct" => first.saturating_mul(first),
        "range" => args
            .iter()
            .find_map(|arg| if let Cel::Int(count) = arg { u64::try_from(*count).ok() } else { None })
            .unwrap_or(0),
        _ => 0,
    }
}

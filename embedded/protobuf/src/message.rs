//! Messages as JSON objects, by the table.

use serde_json::map::Entry;
use serde_json::{Map, Value};

use crate::table::{Field, Message, Shape, TABLE, Type};
use crate::wire::{Datum, fields, packed};
use crate::{DecodeError, MAX_DEPTH, value};

/// Reads a message into an object. A field that comes twice is merged, as protobuf asks.
pub(crate) fn read_into(
    object: &mut Map<String, Value>,
    message: &Message,
    bytes: &[u8],
    depth: usize,
) -> Result<(), DecodeError> {
    if depth >= MAX_DEPTH {
        return Err(DecodeError::TooDeep);
    }
    for field in fields(bytes) {
        let (number, datum) = field?;
        let Some(field) = message.field(number) else { continue };
        match (field.name, field.kind) {
            (Some(name), _) => read_field(object, name, field, (number, datum), depth)?,
            (None, Type::Message(place)) => {
                read_into(object, TABLE.message(place), message_bytes(number, datum)?, depth + 1)?;
            }
            (None, _) => {}
        }
    }
    Ok(())
}

fn read_field(
    object: &mut Map<String, Value>,
    name: &str,
    field: &Field,
    (number, datum): (u64, Datum<'_>),
    depth: usize,
) -> Result<(), DecodeError> {
    match field.shape {
        Shape::One => match field.kind {
            Type::Message(place) => {
                let inner = entry(object, name, Value::Object(Map::new()));
                if let Value::Object(inner) = inner {
                    read_into(inner, TABLE.message(place), message_bytes(number, datum)?, depth + 1)?;
                }
            }
            kind => match single(kind, number, datum, depth)? {
                Some(value) if !(field.omits_zero && is_zero(&value)) => {
                    object.insert(name.to_owned(), value);
                }
                _ => {
                    object.remove(name);
                }
            },
        },
        Shape::List => {
            let Value::Array(list) = entry(object, name, Value::Array(Vec::new())) else { return Ok(()) };
            match (field.kind, datum) {
                (Type::Integer | Type::Boolean, Datum::Bytes(numbers)) => {
                    for item in packed(numbers) {
                        list.extend(single(field.kind, number, Datum::Varint(item?), depth)?);
                    }
                }
                (kind, datum) => list.extend(single(kind, number, datum, depth)?),
            }
        }
        Shape::Map => {
            let Value::Object(map) = entry(object, name, Value::Object(Map::new())) else { return Ok(()) };
            let (key, value) = map_entry(field.kind, message_bytes(number, datum)?, depth)?;
            map.insert(key, value);
        }
    }
    Ok(())
}

/// A map's entry is a message of its key and its value; either is missing if it is empty.
fn map_entry(kind: Type, bytes: &[u8], depth: usize) -> Result<(String, Value), DecodeError> {
    let (mut key, mut value) = ("", None);
    for field in fields(bytes) {
        match field? {
            (1, Datum::Bytes(text)) => key = value::text(text)?,
            (2, datum) => value = single(kind, 2, datum, depth)?,
            _ => {}
        }
    }
    let value = match (value, kind) {
        (Some(value), _) => Some(value),
        (None, Type::Integer | Type::Boolean) => single(kind, 2, Datum::Varint(0), depth)?,
        (None, _) => single(kind, 2, Datum::Bytes(&[]), depth)?,
    };
    Ok((key.to_owned(), value.unwrap_or_default()))
}

/// One value of a type; none if it says nothing.
fn single(kind: Type, number: u64, datum: Datum<'_>, depth: usize) -> Result<Option<Value>, DecodeError> {
    match (kind, datum) {
        (Type::Integer, Datum::Varint(value)) => Ok(Some(value.cast_signed().into())),
        (Type::Boolean, Datum::Varint(value)) => Ok(Some((value != 0).into())),
        (Type::Double, Datum::Fixed64(bytes)) => value::double(f64::from_le_bytes(bytes)).map(Some),
        (Type::Message(place), Datum::Bytes(bytes)) => {
            let mut inner = Map::new();
            read_into(&mut inner, TABLE.message(place), bytes, depth + 1)?;
            Ok(Some(Value::Object(inner)))
        }
        (Type::Choice(place), Datum::Bytes(bytes)) => choice(TABLE.message(place), bytes, depth + 1).map(Some),
        (Type::Leaf(leaf), Datum::Bytes(bytes)) => value::read(leaf, bytes, depth + 1),
        (_, datum) => Err(mismatch(number, datum)),
    }
}

/// The JSON of a message that stands for one of several types, such as a schema or a boolean. Go always writes a plain
/// boolean, so one that is missing is false, and an empty list is not set.
fn choice(message: &Message, bytes: &[u8], depth: usize) -> Result<Value, DecodeError> {
    let mut fields = Map::new();
    read_into(&mut fields, message, bytes, depth)?;
    let chosen = message.fields().iter().rev().filter_map(|field| field.name).find_map(|name| fields.remove(name));
    let is_boolean = message.fields().iter().any(|field| field.kind == Type::Boolean);
    Ok(chosen.unwrap_or(if is_boolean { Value::Bool(false) } else { Value::Null }))
}

/// The value under a name, made if there is none.
fn entry<'a>(object: &'a mut Map<String, Value>, name: &str, empty: Value) -> &'a mut Value {
    match object.entry(name) {
        Entry::Occupied(entry) => entry.into_mut(),
        Entry::Vacant(entry) => entry.insert(empty),
    }
}

fn message_bytes(number: u64, datum: Datum<'_>) -> Result<&[u8], DecodeError> {
    match datum {
        Datum::Bytes(bytes) => Ok(bytes),
        other => Err(mismatch(number, other)),
    }
}

fn mismatch(field: u64, datum: Datum<'_>) -> DecodeError {
    DecodeError::WireType { field, wire_type: datum.wire_type() }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Bool(value) => !value,
        Value::Number(value) => value.as_i64() == Some(0),
        Value::String(value) => value.is_empty(),
        _ => false,
    }
}

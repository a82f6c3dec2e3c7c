//! The types whose JSON is not the shape of their message: times, quantities, embedded JSON.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::Value;

use crate::table::Leaf;
use crate::wire::{Datum, fields};
use crate::{DecodeError, MAX_DEPTH, envelope, is_protobuf};

/// The value in a field's bytes; none if it says nothing, as an unset time does.
pub(crate) fn read(leaf: Leaf, bytes: &[u8], depth: usize) -> Result<Option<Value>, DecodeError> {
    match leaf {
        Leaf::Text => Ok(Some(text(bytes)?.into())),
        Leaf::Bytes => Ok(Some(STANDARD.encode(bytes).into())),
        Leaf::Texts => texts(bytes).map(Some),
        Leaf::Time | Leaf::MicroTime if bytes.is_empty() => Ok(None),
        Leaf::Time => time(bytes, "%Y-%m-%dT%H:%M:%SZ").map(Some),
        Leaf::MicroTime => time(bytes, "%Y-%m-%dT%H:%M:%S.%6fZ").map(Some),
        Leaf::Quantity => quantity(bytes).map(Some),
        Leaf::IntOrString => int_or_string(bytes).map(Some),
        Leaf::Json => json(bytes, depth),
        Leaf::AnyValue => any_value(bytes).map(Some),
    }
}

/// A text.
pub(crate) fn text(bytes: &[u8]) -> Result<&str, DecodeError> {
    std::str::from_utf8(bytes).map_err(|_| DecodeError::NotUtf8)
}

fn texts(bytes: &[u8]) -> Result<Value, DecodeError> {
    let mut list = Vec::new();
    for field in fields(bytes) {
        if let (1, Datum::Bytes(item)) = field? {
            list.push(text(item)?.into());
        }
    }
    Ok(Value::Array(list))
}

/// A time in UTC. What the format does not show is cut off, as upstream does so that both encodings read alike.
fn time(bytes: &[u8], format: &str) -> Result<Value, DecodeError> {
    let (mut seconds, mut nanoseconds) = (0, 0);
    for field in fields(bytes) {
        match field? {
            (1, Datum::Varint(value)) => seconds = value.cast_signed(),
            (2, Datum::Varint(value)) => nanoseconds = value.cast_signed(),
            _ => {}
        }
    }
    let beyond = || DecodeError::Time(seconds);
    let nanoseconds = i32::try_from(nanoseconds).ok().filter(|n| (0..1_000_000_000).contains(n)).ok_or_else(beyond)?;
    let time = Timestamp::new(seconds, nanoseconds).map_err(|_| beyond())?;
    Ok(time.strftime(format).to_string().into())
}

fn quantity(bytes: &[u8]) -> Result<Value, DecodeError> {
    let mut quantity = "0";
    for field in fields(bytes) {
        if let (1, Datum::Bytes(value)) = field? {
            quantity = text(value)?;
        }
    }
    Ok(quantity.into())
}

fn int_or_string(bytes: &[u8]) -> Result<Value, DecodeError> {
    let (mut is_text, mut number, mut words) = (false, 0, "");
    for field in fields(bytes) {
        match field? {
            (1, Datum::Varint(value)) => is_text = value != 0,
            (2, Datum::Varint(value)) => number = value.cast_signed(),
            (3, Datum::Bytes(value)) => words = text(value)?,
            _ => {}
        }
    }
    Ok(if is_text { words.into() } else { number.into() })
}

/// A number as Go writes it: without a fraction if it has none.
pub(crate) fn double(number: f64) -> Result<Value, DecodeError> {
    // Every whole number of this size has one form, as a fraction and as an integer.
    const WHOLE: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() <= WHOLE {
        #[allow(clippy::cast_possible_truncation)] // It has no fraction, and is within 53 bits.
        return Ok((number as i64).into());
    }
    serde_json::Number::from_f64(number).map(Value::Number).ok_or(DecodeError::Malformed("a number is not finite"))
}

fn any_value(bytes: &[u8]) -> Result<Value, DecodeError> {
    let mut raw: &[u8] = b"null";
    for field in fields(bytes) {
        if let (1, Datum::Bytes(value)) = field? {
            raw = if value.is_empty() { b"null" } else { value };
        }
    }
    serde_json::from_slice(raw).map_err(|error| DecodeError::Json(error.to_string()))
}

/// JSON, or an object in an envelope of its own.
fn json(bytes: &[u8], depth: usize) -> Result<Option<Value>, DecodeError> {
    let mut raw: &[u8] = &[];
    for field in fields(bytes) {
        if let (1, Datum::Bytes(value)) = field? {
            raw = value;
        }
    }
    if raw.is_empty() {
        return Ok(None);
    }
    if is_protobuf(raw) {
        return if depth < MAX_DEPTH { envelope::open(raw, depth).map(Some) } else { Err(DecodeError::TooDeep) };
    }
    serde_json::from_slice(raw).map(Some).map_err(|error| DecodeError::Json(error.to_string()))
}

//! The envelope: magic bytes, then which kind it is, then the kind's message.

use serde_json::{Map, Value};

use crate::table::TABLE;
use crate::wire::{Datum, fields};
use crate::{CONTENT_TYPE, DecodeError, message, value};

/// What every body starts with.
pub(crate) const MAGIC: &[u8] = b"k8s\0";

/// Upstream's `runtime.Unknown`.
#[derive(Default)]
struct Envelope<'a> {
    api_version: &'a str,
    kind: &'a str,
    message: &'a [u8],
    encoding: &'a str,
    content_type: &'a str,
}

/// The object in a body that is `depth` messages within another.
pub(crate) fn open(body: &[u8], depth: usize) -> Result<Value, DecodeError> {
    let envelope = read(body.strip_prefix(MAGIC).ok_or(DecodeError::NotKubernetes)?)?;
    if let Some(foreign) = foreign(&envelope) {
        return Err(DecodeError::Encoding(foreign));
    }
    let Envelope { api_version, kind, .. } = envelope;
    let message = TABLE
        .kind(api_version, kind)
        .ok_or_else(|| DecodeError::UnknownKind { api_version: api_version.to_owned(), kind: kind.to_owned() })?;
    let mut object = Map::new();
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    message::read_into(&mut object, message, envelope.message, depth)?;
    Ok(Value::Object(object))
}

fn read(bytes: &[u8]) -> Result<Envelope<'_>, DecodeError> {
    let mut envelope = Envelope::default();
    for field in fields(bytes) {
        match field? {
            (1, Datum::Bytes(type_meta)) => {
                for field in fields(type_meta) {
                    match field? {
                        (1, Datum::Bytes(text)) => envelope.api_version = value::text(text)?,
                        (2, Datum::Bytes(text)) => envelope.kind = value::text(text)?,
                        _ => {}
                    }
                }
            }
            (2, Datum::Bytes(message)) => envelope.message = message,
            (3, Datum::Bytes(text)) => envelope.encoding = value::text(text)?,
            (4, Datum::Bytes(text)) => envelope.content_type = value::text(text)?,
            _ => {}
        }
    }
    Ok(envelope)
}

/// What the envelope carries instead of plain protobuf.
fn foreign(envelope: &Envelope<'_>) -> Option<String> {
    if !envelope.encoding.is_empty() {
        return Some(format!("content encoded as {:?}", envelope.encoding));
    }
    let plain = envelope.content_type.is_empty() || envelope.content_type == CONTENT_TYPE;
    (!plain).then(|| format!("content of type {:?}", envelope.content_type))
}

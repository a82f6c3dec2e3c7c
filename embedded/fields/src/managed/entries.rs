//! `managedFields` on the wire.

use serde_json::{Map, Value};

use super::{Operation, Owner, Owners};
use crate::set::FieldSet;

/// The entries of an object; `Null` if it has none.
pub(crate) fn entries_of(object: &Value) -> &Value {
    &object["metadata"]["managedFields"]
}

/// Takes the entries out of an object.
pub(crate) fn take_entries(object: &mut Value) -> Value {
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    metadata.and_then(|metadata| metadata.remove("managedFields")).unwrap_or(Value::Null)
}

/// Puts entries into an object that has metadata; no entries are no field.
pub(crate) fn put_entries(object: &mut Value, entries: Value) {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        match entries {
            Value::Array(ref list) if !list.is_empty() => drop(metadata.insert("managedFields".to_owned(), entries)),
            _ => drop(metadata.remove("managedFields")),
        }
    }
}

/// Whether a client asks to forget all ownership: an empty list, or a list of one empty entry.
pub(crate) fn is_reset(entries: &Value) -> bool {
    match entries.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([Value::Object(entry)]) => entry.is_empty(),
        _ => false,
    }
}

impl Owners {
    /// Reads the entries of an object. `Err` says what is wrong with them.
    pub(crate) fn read(entries: &Value) -> Result<Self, String> {
        let mut owners = Self::default();
        let entries = match entries {
            Value::Null => return Ok(owners),
            Value::Array(entries) => entries,
            _ => return Err("managedFields must be a list".to_owned()),
        };
        for (i, entry) in entries.iter().enumerate() {
            owners.put(read_entry(i, entry)?);
        }
        Ok(owners)
    }

    /// The entries as they are written into an object. `before` are those that the owners were read from.
    pub(crate) fn write(&self, before: &Value) -> Value {
        let before = before.as_array().map_or(&[][..], Vec::as_slice);
        let mut entries: Vec<Value> = self.0.iter().map(|owner| write_entry(owner, before)).collect();
        sort(&mut entries);
        Value::Array(entries)
    }
}

/// Gives the entry of an owner another time.
pub(crate) fn date_entry(object: &mut Value, owner: &Owner, time: &str) {
    let Some(Value::Array(entries)) = object.pointer_mut("/metadata/managedFields") else { return };
    if let Some(entry) = entries.iter_mut().find(|entry| is_of(entry, owner)) {
        entry["time"] = Value::from(time);
    }
    sort(entries);
}

fn is_of(entry: &Value, owner: &Owner) -> bool {
    let text = |name: &str| entry[name].as_str().unwrap_or_default();
    text("operation") == owner.operation.as_str()
        && text("manager") == owner.manager
        && text("subresource") == owner.subresource
        && (owner.operation == Operation::Apply || text("apiVersion") == owner.api_version)
}

/// The order of the real server: appliers first, then by time, name, version and subresource.
fn sort(entries: &mut [Value]) {
    const BY: [&str; 5] = ["operation", "time", "manager", "apiVersion", "subresource"];
    entries.sort_by(|a, b| BY.map(|name| a[name].as_str()).cmp(&BY.map(|name| b[name].as_str())));
}

fn read_entry(i: usize, entry: &Value) -> Result<Owner, String> {
    let text = |name: &str| match &entry[name] {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.clone()),
        _ => Err(format!("{name} must be a string in managed fields entry {i}")),
    };
    let operation = match text("operation")?.as_str() {
        "Apply" => Operation::Apply,
        "Update" => Operation::Update,
        _ => return Err("operation must be `Apply` or `Update`".to_owned()),
    };
    let api_version = text("apiVersion")?;
    if api_version.is_empty() {
        return Err("apiVersion must not be empty".to_owned());
    }
    match text("fieldsType")?.as_str() {
        "FieldsV1" => {}
        "" => return Err(format!("missing fieldsType in managed fields entry {i}")),
        other => return Err(format!("invalid fieldsType {other:?} in managed fields entry {i}")),
    }
    let time = Some(text("time")?).filter(|time| !time.is_empty());
    if let Some(time) = time.as_deref().filter(|time| !is_plain_utc(time)) {
        return Err(format!("time {time:?} in managed fields entry {i} is not of the form 2006-01-02T15:04:05Z"));
    }
    let fields = FieldSet::from_fields_v1(&entry["fieldsV1"]).map_err(|why| why.to_string())?;
    let (manager, subresource) = (text("manager")?, text("subresource")?);
    Ok(Owner { manager, operation, api_version, subresource, time, fields, as_read: true })
}

/// The form in which the server writes times, and in which they sort as text.
fn is_plain_utc(time: &str) -> bool {
    time.len() == 20
        && time.bytes().zip("0000-00-00T00:00:00Z".bytes()).all(|(byte, form)| match form {
            b'0' => byte.is_ascii_digit(),
            _ => byte == form,
        })
}

fn write_entry(owner: &Owner, before: &[Value]) -> Value {
    let mut entry = Map::new();
    let mut put = |name: &str, value: &str| {
        if !value.is_empty() {
            entry.insert(name.to_owned(), Value::from(value));
        }
    };
    put("manager", &owner.manager);
    put("operation", owner.operation.as_str());
    put("apiVersion", &owner.api_version);
    put("time", owner.time.as_deref().unwrap_or_default());
    put("fieldsType", "FieldsV1");
    put("subresource", &owner.subresource);
    let read_from = before.iter().find(|entry| owner.as_read && is_of(entry, owner));
    let fields = read_from.map_or_else(|| owner.fields.to_fields_v1(), |entry| entry["fieldsV1"].clone());
    entry.insert("fieldsV1".to_owned(), fields);
    Value::Object(entry)
}

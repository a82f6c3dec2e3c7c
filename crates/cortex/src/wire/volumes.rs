//! What Cinder and Manila send of a volume or a share: its size and its owner, wherever their releases put them.

use serde_json::Value;

use super::{WireError, amount, text};
use crate::request::{Domain, Request};
use crate::resources::Resources;

pub(super) fn read(domain: Domain, spec: &Value) -> Result<Request, WireError> {
    // Cinder's objects have a namespace as Nova's do.
    let data = |value: &Value| {
        let inner = value.as_object().and_then(|fields| fields.iter().find(|(name, _)| name.ends_with("_object.data")));
        inner.map_or_else(|| value.clone(), |(_, inner)| inner.clone())
    };
    let spec = data(spec);
    let (properties, id) = match domain {
        Domain::Manila => ("share_properties", "share_id"),
        _ => ("volume_properties", "volume_id"),
    };
    let properties = spec.get(properties).map_or(Value::Null, data);
    let size = match properties.get("size") {
        Some(_) => amount(&properties, "size")?,
        None => amount(&spec, "size")?,
    };
    let either = |name: &str| text(&spec, name).or_else(|| text(&properties, name));
    Ok(Request {
        name: either("display_name"),
        project: either("project_id").unwrap_or_default(),
        zone: either("availability_zone"),
        resources: Resources { disk_gib: size, ..Resources::default() },
        ..Request::new(domain, either(id).unwrap_or_default())
    })
}

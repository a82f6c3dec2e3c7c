//! The two versions of OpenAPI, and how a schema is said in each.

use serde_json::{Map, Value, json};

use crate::schema::REF_PREFIX;

/// A version of OpenAPI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Swagger 2.0.
    V2,
    /// OpenAPI 3.0.
    V3,
}

/// What Swagger 2.0 cannot say, or what upstream leaves out there.
const NOT_IN_V2: &[&str] = &["oneOf", "anyOf", "allOf", "not", "nullable", "default"];

impl Dialect {
    /// A reference to a definition.
    pub(super) fn reference(self, name: &str) -> Value {
        match self {
            Self::V2 => json!({"$ref": format!("#/definitions/{name}")}),
            Self::V3 => json!({"$ref": format!("{REF_PREFIX}{name}")}),
        }
    }

    /// A definition of that name, which is written for version 3, in this version.
    pub(super) fn definition(self, name: &str, schema: &Value) -> Value {
        let description = &schema["description"];
        let two_types = |first: &str, second: &str| json!([{"type": first}, {"type": second}]);
        let short = name.rsplit('.').next().unwrap_or(name);
        match (short, self) {
            ("IntOrString", Self::V2) => {
                json!({"description": description, "type": "string", "format": "int-or-string"})
            }
            ("IntOrString", Self::V3) => {
                json!({"description": description, "format": "int-or-string", "oneOf": two_types("integer", "string")})
            }
            ("Quantity", Self::V2) => json!({"description": description, "type": "string"}),
            ("Quantity", Self::V3) => json!({"description": description, "oneOf": two_types("string", "number")}),
            ("JSON" | "JSONSchemaPropsOrArray" | "JSONSchemaPropsOrBool" | "JSONSchemaPropsOrStringArray", _)
                if name.starts_with("io.k8s.") =>
            {
                json!({"description": description})
            }
            _ => self.schema(schema),
        }
    }

    /// A schema in this version. In version 3 what stands beside a reference would be ignored, so it is wrapped.
    pub(super) fn schema(self, schema: &Value) -> Value {
        let Value::Object(fields) = schema else { return schema.clone() };
        let mut out = Map::new();
        for (key, value) in fields {
            match (key.as_str(), value) {
                ("$ref", Value::String(target)) => {
                    let reference = self.reference(target.strip_prefix(REF_PREFIX).unwrap_or(target));
                    if self == Self::V3 && fields.len() > 1 {
                        out.insert("allOf".to_owned(), json!([reference]));
                    } else {
                        out.insert(key.clone(), reference["$ref"].clone());
                    }
                }
                ("properties", Value::Object(properties)) => {
                    let properties = properties.iter().map(|(name, schema)| (name.clone(), self.schema(schema)));
                    out.insert(key.clone(), Value::Object(properties.collect()));
                }
                ("items" | "additionalProperties" | "not", Value::Object(_)) => {
                    out.insert(key.clone(), self.schema(value));
                }
                _ => {
                    out.insert(key.clone(), value.clone());
                }
            }
        }
        if self == Self::V2 {
            out.retain(|key, _| !NOT_IN_V2.contains(&key.as_str()));
        }
        Value::Object(out)
    }

    /// A parameter of a request.
    pub(super) fn parameter(self, place: &str, name: &str, kind: &str, description: &str) -> Value {
        let mut parameter = json!({"in": place, "name": name, "description": description, "required": place == "path"});
        match self {
            Self::V2 => {
                parameter["type"] = json!(kind);
                parameter["uniqueItems"] = json!(true);
            }
            Self::V3 => parameter["schema"] = json!({"type": kind, "uniqueItems": true}),
        }
        if place != "path"
            && let Some(fields) = parameter.as_object_mut()
        {
            fields.remove("required");
        }
        parameter
    }

    /// Puts the body of a request, in these content types, into an operation.
    pub(super) fn set_body(self, operation: &mut Value, schema: &Value, content_types: &[&str]) {
        match self {
            Self::V2 => {
                operation["consumes"] = json!(content_types);
                let body = json!({"in": "body", "name": "body", "required": true, "schema": schema});
                if let Some(parameters) = operation["parameters"].as_array_mut() {
                    parameters.push(body);
                }
            }
            Self::V3 => {
                let content: Map<String, Value> =
                    content_types.iter().map(|kind| ((*kind).to_owned(), json!({"schema": schema}))).collect();
                operation["requestBody"] = json!({"content": content, "required": true});
            }
        }
    }

    /// The answer to a request.
    pub(super) fn response(self, description: &str, schema: &Value) -> Value {
        match self {
            Self::V2 => json!({"description": description, "schema": schema}),
            Self::V3 => json!({"description": description, "content": {"application/json": {"schema": schema}}}),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_beside_a_reference_is_kept_in_both_versions() {
        let schema = json!({"$ref": format!("{REF_PREFIX}a.B"), "description": "d"});
        assert_eq!(Dialect::V2.schema(&schema), json!({"$ref": "#/definitions/a.B", "description": "d"}));
        assert_eq!(
            Dialect::V3.schema(&schema),
            json!({"allOf": [{"$ref": "#/components/schemas/a.B"}], "description": "d"})
        );
        let bare = json!({"$ref": format!("{REF_PREFIX}a.B")});
        assert_eq!(Dialect::V3.schema(&bare), bare);
    }

    #[test]
    fn a_property_may_be_called_like_a_keyword() {
        let schema =
            json!({"type": "object", "properties": {"default": {"type": "string"}, "not": {"type": "string"}}});
        assert_eq!(Dialect::V2.schema(&schema), schema);
    }
}

//! The schemas of VIM API v1, generated from the types, and the document that carries them.

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use crate::report::Report;

use super::{Accepted, EventBatch, Instruction, JobResult, Problem};

/// The `OpenAPI` 3.1 document of VIM API v1, as it stands in the repository.
pub const DOCUMENT: &str = include_str!("../../vim-api-v1.openapi.json");

/// Every schema of the API by name, as `components.schemas` of the document holds them.
#[must_use]
pub fn schemas() -> Map<String, Value> {
    let settings = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into());
    let mut generator = SchemaGenerator::new(settings);
    generator.subschema_for::<Report>();
    generator.subschema_for::<Instruction>();
    generator.subschema_for::<EventBatch>();
    generator.subschema_for::<JobResult>();
    generator.subschema_for::<Problem>();
    generator.subschema_for::<Accepted>();
    let mut schemas = generator.take_definitions(true);
    schemas.sort_keys();
    schemas
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_holds_the_schemas_of_the_types() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/vim-api-v1.openapi.json");
        let text = std::fs::read_to_string(path).unwrap();
        let mut document: Value = serde_json::from_str(&text).unwrap();
        document["components"]["schemas"] = Value::Object(schemas());
        let mut expected = serde_json::to_string_pretty(&document).unwrap();
        expected.push('\n');
        if std::env::var_os("UPDATE_EXPECTED").is_some() {
            std::fs::write(path, &expected).unwrap();
        } else {
            assert!(
                text == expected,
                "{path} is not what the types say; UPDATE_EXPECTED=1 rewrites it"
            );
        }
    }

    #[test]
    fn no_two_types_share_a_name() {
        let numbered: Vec<String> =
            schemas().keys().filter(|name| name.ends_with(char::is_numeric)).cloned().collect();
        assert!(numbered.is_empty(), "schemars numbers types of one name: {numbered:?}");
    }

    #[test]
    fn every_reference_in_the_document_leads_somewhere() {
        fn walk(value: &Value, document: &Value) {
            match value {
                Value::Object(map) => {
                    if let Some(Value::String(to)) = map.get("$ref") {
                        let pointer = to.strip_prefix('#').unwrap();
                        assert!(document.pointer(pointer).is_some(), "{to}");
                    }
                    map.values().for_each(|inner| walk(inner, document));
                }
                Value::Array(list) => list.iter().for_each(|inner| walk(inner, document)),
                _ => {}
            }
        }
        let mut document: Value = serde_json::from_str(DOCUMENT).unwrap();
        document["components"]["schemas"] = Value::Object(schemas());
        walk(&document, &document);
    }
}

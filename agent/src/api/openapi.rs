//! The `OpenAPI` document of VIM API v1, and the JSON Schemas in it.
//!
//! A test in this file generates the schemas from the types and compares them with the document, so the program contains
//! the document but not the generator.

use std::collections::BTreeSet;
use std::io::Read as _;

use anyhow::Context as _;
use flate2::read::DeflateDecoder;
use serde_json::{Map, Value, json};

/// The document as `build.rs` packs it: without white space between its tokens.
const PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/openapi.deflate"));
/// More than the document needs, in bytes.
const MAX_BYTES: u64 = 16 << 20;

/// The prefix of references to schemas in the document, and in a JSON Schema of its own.
const IN_DOCUMENT: &str = "#/components/schemas/";
const IN_SCHEMA: &str = "#/$defs/";

/// The `OpenAPI` 3.1 document of VIM API v1, as in the repository.
///
/// # Errors
/// If the binary is damaged.
pub fn document() -> anyhow::Result<Value> {
    let mut text = Vec::new();
    let reader = DeflateDecoder::new(PACKED);
    reader.take(MAX_BYTES).read_to_end(&mut text).context("unpacking the OpenAPI document")?;
    serde_json::from_slice(&text).context("reading the OpenAPI document")
}

/// The JSON Schema called `name` (`Report`, `Instruction`, `EventBatch`, `Result`), with every schema
/// that it refers to.
///
/// # Errors
/// If the document has no such schema.
pub fn schema(name: &str) -> anyhow::Result<Value> {
    let document = document()?;
    let all = document["components"]["schemas"].as_object();
    let all = all.context("the OpenAPI document contains no schemas")?;
    let missing = || format!("the OpenAPI document contains no schema called {name}");
    let root = all.get(name).with_context(missing)?;
    let mut needed = BTreeSet::new();
    references(root, all, &mut needed);
    let mut definitions = all.clone();
    definitions.retain(|name, _| needed.contains(name));
    let mut schema =
        json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "title": name});
    if let (Some(schema), Some(root)) = (schema.as_object_mut(), root.as_object()) {
        schema.extend(root.clone());
        schema.insert("$defs".to_owned(), Value::Object(definitions));
    }
    let text = serde_json::to_string(&schema)?.replace(IN_DOCUMENT, IN_SCHEMA);
    Ok(serde_json::from_str(&text)?)
}

/// Adds the names of all schemas that `value` refers to, directly or indirectly.
fn references(value: &Value, all: &Map<String, Value>, names: &mut BTreeSet<String>) {
    for reference in value.to_string().split(IN_DOCUMENT).skip(1) {
        let name = reference.split('"').next().unwrap_or_default();
        if names.insert(name.to_owned())
            && let Some(schema) = all.get(name)
        {
            references(schema, all, names);
        }
    }
}

#[cfg(test)]
mod tests {
    use schemars::SchemaGenerator;
    use schemars::generate::SchemaSettings;

    use super::*;
    use crate::api::{
        Accepted, BootReport, EventBatch, Instruction, JobResult, NeighbourReport, Problem,
    };
    use crate::report::Report;

    /// Every schema of the API by name, from the types.
    fn schemas() -> Map<String, Value> {
        let settings = SchemaSettings::draft2020_12()
            .with(|settings| settings.definitions_path = "/components/schemas".into());
        let mut generator = SchemaGenerator::new(settings);
        generator.subschema_for::<Report>();
        generator.subschema_for::<Instruction>();
        generator.subschema_for::<EventBatch>();
        generator.subschema_for::<JobResult>();
        generator.subschema_for::<Problem>();
        generator.subschema_for::<Accepted>();
        generator.subschema_for::<NeighbourReport>();
        generator.subschema_for::<BootReport>();
        let mut schemas = generator.take_definitions(true);
        schemas.sort_keys();
        schemas
    }

    #[test]
    fn document_contains_the_schemas_of_the_types() {
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
                "{path} does not match the types; UPDATE_EXPECTED=1 rewrites it"
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
    fn every_reference_in_the_document_resolves() {
        let mut document = document().unwrap();
        document["components"]["schemas"] = Value::Object(schemas());
        for reference in document.to_string().split("\"$ref\":\"#").skip(1) {
            let pointer = reference.split('"').next().unwrap();
            assert!(document.pointer(pointer).is_some(), "{pointer}");
        }
    }
}

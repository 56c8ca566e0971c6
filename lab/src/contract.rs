//! The contract: `agent/vim-api-v1.openapi.json` (`OpenAPI` 3.1), to which each request and each instruction must conform.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context, anyhow, bail};
use hyper::Method;
use hyper::header::HeaderMap;
use jsonschema::Validator;
use serde_json::{Value, json};

use crate::http::{Refusal, header, percent_decoded};

/// The document, compiled in.
pub(crate) const DOCUMENT: &str = include_str!("../../agent/vim-api-v1.openapi.json");

/// The document's operations and schemas, compiled.
#[derive(Debug)]
pub(crate) struct Contract {
    operations: Vec<Operation>,
    /// The schema of instructions.
    pub(crate) instruction: Schema,
}

/// One method on one path.
#[derive(Debug)]
pub(crate) struct Operation {
    /// `operationId`, e.g. `postReport`.
    pub(crate) id: String,
    method: Method,
    /// The path's parts; a parameter keeps its braces.
    path: Vec<String>,
    parameters: Vec<Parameter>,
    /// Schema per media type; empty when the operation has no body.
    bodies: BTreeMap<String, Schema>,
}

#[derive(Debug)]
struct Parameter {
    name: String,
    /// `path`, `header` or `query`.
    place: String,
    is_required: bool,
    schema: Schema,
}

/// A schema in the document.
pub(crate) struct Schema {
    /// Last part of its `$ref`, e.g. `Report`.
    name: String,
    /// The schema together with the document's components.
    root: Value,
    validator: Validator,
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Schema({})", self.name)
    }
}

/// An operation that was found for a request, with the path's parameters by name.
#[derive(Debug)]
pub(crate) struct Match<'a> {
    /// The operation.
    pub(crate) operation: &'a Operation,
    /// The path's parameters, percent-decoded.
    pub(crate) path: BTreeMap<String, String>,
}

impl Contract {
    /// Reads an `OpenAPI` document.
    ///
    /// # Errors
    /// When it is not JSON, or a schema in it is invalid.
    pub(crate) fn read(document: &str) -> anyhow::Result<Self> {
        let document: Value = serde_json::from_str(document).context("reading the document")?;
        let mut operations = Vec::new();
        for (path, item) in entries(&document["paths"]) {
            for (method, operation) in entries(item) {
                if matches!(method.as_str(), "get" | "post" | "put" | "delete" | "patch") {
                    let operation = read_operation(&document, path, method, item, operation)
                        .with_context(|| format!("reading {method} {path}"))?;
                    operations.push(operation);
                }
            }
        }
        let instruction = json!({"$ref": "#/components/schemas/Instruction"});
        let instruction = read_schema(&document, &instruction).context("reading Instruction")?;
        Ok(Self { operations, instruction })
    }

    /// Finds the operation for a request.
    ///
    /// # Errors
    /// 404 for a path that the document does not have, 405 for a method.
    pub(crate) fn find(&self, method: &Method, path: &str) -> Result<Match<'_>, Refusal> {
        let mut methods = Vec::new();
        for operation in &self.operations {
            let Some(path) = operation.path_parameters(path) else { continue };
            if operation.method == *method {
                return Ok(Match { operation, path });
            }
            methods.push(operation.method.as_str());
        }
        if methods.is_empty() {
            let message = format!("path {path:?} is not part of VIM API v1");
            return Err(Refusal::new(404, "PATH_UNKNOWN", message));
        }
        let message = format!("{path:?} accepts {}, found {method}", methods.join(", "));
        Err(Refusal::new(405, "METHOD", message))
    }
}

impl Match<'_> {
    /// Checks path, query and headers against the document.
    ///
    /// # Errors
    /// 400 with the name of the parameter, the found and the expected value.
    pub(crate) fn check_head(&self, head: &HeaderMap, query: Option<&str>) -> Result<(), Refusal> {
        let refuse = |message| Err(Refusal::new(400, "PARAMETER", message));
        let parameters = &self.operation.parameters;
        for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let name = pair.split('=').next().unwrap_or_default();
            if !parameters.iter().any(|p| p.place == "query" && p.name == name) {
                return refuse(format!("this operation has no query parameter {name:?}"));
            }
        }
        for Parameter { name, place, is_required, schema } in parameters {
            let found = match place.as_str() {
                "path" => self.path.get(name).cloned(),
                "header" => header(head, name).map(str::to_owned),
                _ => crate::http::query(query, name),
            };
            let Some(found) = found else {
                if *is_required {
                    return refuse(format!("required parameter {name} is missing"));
                }
                continue;
            };
            if let Some(fault) = schema.faults(&Value::String(found)).first() {
                return refuse(format!("{name}{fault}"));
            }
        }
        Ok(())
    }

    /// Returns true if the operation accepts a body with `Content-Encoding: gzip`.
    pub(crate) fn takes_gzip(&self) -> bool {
        let named = |p: &Parameter| p.name.eq_ignore_ascii_case("content-encoding");
        self.operation.parameters.iter().any(named)
    }

    /// Checks the body's type and content against the document; `None` when the operation has no body.
    ///
    /// # Errors
    /// 415 for another type, 400 for a body that is not JSON or not expected, 422 for JSON that
    /// violates the schema.
    pub(crate) fn check_body(
        &self,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<Option<Value>, Refusal> {
        let bodies = &self.operation.bodies;
        if bodies.is_empty() && body.is_empty() {
            return Ok(None);
        }
        if bodies.is_empty() {
            return Err(Refusal::new(400, "BODY_UNASKED", "this operation has no body"));
        }
        let content_type = header(headers, "content-type").unwrap_or_default();
        let media_type = content_type.split(';').next().unwrap_or_default().trim();
        let Some(schema) = bodies.get(&media_type.to_ascii_lowercase()) else {
            let expected = bodies.keys().cloned().collect::<Vec<_>>().join(" or ");
            let message = format!("content-type {content_type:?}, expected {expected}");
            return Err(Refusal::new(415, "CONTENT_TYPE", message));
        };
        let value: Value = serde_json::from_slice(body)
            .map_err(|error| Refusal::new(400, "JSON", format!("the body is not JSON: {error}")))?;
        let faults = schema.faults(&value);
        if faults.is_empty() {
            return Ok(Some(value));
        }
        let message = format!("{}{}", schema.name, faults.join(&format!("; {}", schema.name)));
        Err(Refusal::new(422, schema.code(), message))
    }
}

impl Operation {
    /// The path's parameters if the path matches this operation.
    fn path_parameters(&self, path: &str) -> Option<BTreeMap<String, String>> {
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        if parts.len() != self.path.len() {
            return None;
        }
        let mut parameters = BTreeMap::new();
        for (part, pattern) in parts.iter().zip(&self.path) {
            let name = pattern.strip_prefix('{').and_then(|name| name.strip_suffix('}'));
            if let Some(name) = name {
                parameters.insert(name.to_owned(), percent_decoded(part)?);
            } else if part != pattern {
                return None;
            }
        }
        Some(parameters)
    }
}

impl Schema {
    /// At most five faults, each ` at PATH: found …, expected …`.
    pub(crate) fn faults(&self, value: &Value) -> Vec<String> {
        let describe = |error: jsonschema::ValidationError| {
            let path = error.instance_path.to_string();
            let place = if path.is_empty() { String::new() } else { format!(" at {path}") };
            let (found, expected) = (cut(&error.instance), self.expectation(&error));
            format!("{place}: found {found}, expected {expected}")
        };
        self.validator.iter_errors(value).take(5).map(describe).collect()
    }

    /// Describes the schema's expectation at this place.
    fn expectation(&self, error: &jsonschema::ValidationError) -> String {
        use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
        match &error.kind {
            Kind::Type { kind: TypeKind::Single(kind) } => format!("type {kind}"),
            Kind::Type { kind: TypeKind::Multiple(kinds) } => {
                let kinds: Vec<String> = kinds.iter().map(|kind| kind.to_string()).collect();
                format!("type {}", kinds.join(" or "))
            }
            Kind::Required { property } => format!("key {property} in it"),
            Kind::Enum { options } => format!("one of {options}"),
            Kind::Constant { expected_value } => expected_value.to_string(),
            Kind::Pattern { pattern } => format!("text of the form {pattern}"),
            Kind::Format { format } => format!("a {format}"),
            Kind::Minimum { limit } => format!("at least {limit}"),
            Kind::Maximum { limit } => format!("at most {limit}"),
            Kind::MinLength { limit } => format!("at least {limit} characters"),
            Kind::MaxLength { limit } => format!("at most {limit} characters"),
            Kind::AnyOf { .. } | Kind::OneOfNotValid { .. } | Kind::OneOfMultipleValid { .. } => {
                format!("one of {}", self.forms(&error.schema_path.to_string()).join(", "))
            }
            _ => format!("a value that fits {} of the API document", error.schema_path),
        }
    }

    /// The forms that an `anyOf` or `oneOf` lists: values, kinds, or the keys that an object must have.
    fn forms(&self, path: &str) -> Vec<String> {
        let mut place = &self.root;
        for part in path.split('/').skip(1) {
            place = match place["$ref"].as_str().and_then(|target| target.strip_prefix('#')) {
                Some(target) if part == "$ref" => self.root.pointer(target).unwrap_or(place),
                _ => place.get(part).unwrap_or(&Value::Null),
            };
        }
        let forms = place.as_array().map_or(&[][..], Vec::as_slice);
        forms.iter().map(form).collect()
    }

    /// The Problem's code for a body that does not fit.
    fn code(&self) -> &'static str {
        match self.name.as_str() {
            "Report" => "REPORT_INVALID",
            "EventBatch" => "EVENTS_INVALID",
            "Result" => "RESULT_INVALID",
            _ => "BODY_INVALID",
        }
    }
}

/// Describes one of several forms.
fn form(schema: &Value) -> String {
    let keys = || schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    if !schema["const"].is_null() {
        return schema["const"].to_string();
    }
    if let Some(values) = schema["enum"].as_array() {
        return values.iter().map(Value::to_string).collect::<Vec<_>>().join(", ");
    }
    if keys().next().is_some() {
        return format!("an object with {}", keys().collect::<Vec<_>>().join(" and "));
    }
    referred(schema).or(schema["type"].as_str()).unwrap_or("another form").to_owned()
}

/// Returns the name of the component that a schema refers to.
fn referred(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.rsplit('/').next()
}

/// The found value, short enough for a message.
fn cut(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= 80 {
        return text;
    }
    let head: String = text.chars().take(77).collect();
    format!("{head}…")
}

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn read_operation(
    document: &Value,
    path: &str,
    method: &str,
    item: &Value,
    operation: &Value,
) -> anyhow::Result<Operation> {
    let both = [&item["parameters"], &operation["parameters"]];
    let parameters = both.into_iter().filter_map(Value::as_array).flatten();
    let mut bodies = BTreeMap::new();
    for (media_type, content) in entries(&operation["requestBody"]["content"]) {
        bodies.insert(media_type.clone(), read_schema(document, &content["schema"])?);
    }
    Ok(Operation {
        id: operation["operationId"].as_str().unwrap_or_default().to_owned(),
        method: method.to_ascii_uppercase().parse()?,
        path: path.trim_start_matches('/').split('/').map(str::to_owned).collect(),
        parameters: parameters.map(|p| read_parameter(document, p)).collect::<Result<_, _>>()?,
        bodies,
    })
}

fn read_parameter(document: &Value, parameter: &Value) -> anyhow::Result<Parameter> {
    let text = |key: &str| parameter[key].as_str().unwrap_or_default().to_owned();
    let place = text("in");
    if !["path", "header", "query"].contains(&place.as_str()) {
        bail!("a parameter in {place:?}, expected path, header or query");
    }
    Ok(Parameter {
        name: text("name"),
        place,
        is_required: parameter["required"] == json!(true),
        schema: read_schema(document, &parameter["schema"])?,
    })
}

/// Combines a schema with the whole document's components, so that its references resolve.
fn read_schema(document: &Value, schema: &Value) -> anyhow::Result<Schema> {
    let mut root = schema.clone();
    let object = root.as_object_mut().ok_or_else(|| anyhow!("a schema that is no object"))?;
    object.insert("components".to_owned(), document["components"].clone());
    let validator = jsonschema::options()
        .with_draft(jsonschema::Draft::Draft202012)
        .should_validate_formats(true)
        .build(&root)
        .map_err(|error| anyhow!("a schema: {error}"))?;
    Ok(Schema { name: referred(schema).unwrap_or_default().to_owned(), root, validator })
}

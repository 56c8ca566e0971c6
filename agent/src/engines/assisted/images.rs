//! The step `container-image-availability`: this agent runs no containers, so no image is available to it.

use serde_json::{Value, json};

use super::step::Step;
use super::tasks::Around;

/// Most images of one step.
const MAX_IMAGES: usize = 256;

/// Answers for every image that it is not available.
pub(super) fn availability(step: &Step, _: &Around) -> Result<Value, String> {
    let request = step.json(0)?;
    let images = request.get("images").and_then(Value::as_array).ok_or("it names no images")?;
    let images: Vec<Value> = images
        .iter()
        .filter_map(Value::as_str)
        .take(MAX_IMAGES)
        .map(|name| json!({"name": name, "result": "failure"}))
        .collect();
    Ok(json!({"images": images}))
}

//! What people call a machine: vendor and product as on its front, and its serial number.

use probes::dmi::{Product, is_placeholder};

use crate::clean;

/// The longest single value.
const MAX_VALUE_CHARS: usize = 40;
/// The longest node id.
const MAX_ID_CHARS: usize = 90;

/// A line for vendor and product and one for the serial number, as far as they are known; without a serial number the node id.
pub(crate) fn machine_name(product: Option<&Product>, node_id: &str) -> String {
    let value = |of: fn(&Product) -> &Option<String>| {
        let found = of(product?).as_deref()?;
        let is_known = !found.trim().is_empty() && !is_placeholder(found);
        is_known.then(|| clean::text(found, MAX_VALUE_CHARS))
    };
    let model = [value(|product| &product.vendor), value(|product| &product.name)];
    let model = model.into_iter().flatten().collect::<Vec<_>>().join(" ");
    let serial = value(|product| &product.serial).map(|serial| format!("serial {serial}"));
    let name = serial.unwrap_or_else(|| format!("node {}", clean::text(node_id, MAX_ID_CHARS)));
    if model.is_empty() { name } else { format!("{model}\n{name}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn machine_is_named_by_what_is_known() {
        let product = |value: serde_json::Value| serde_json::from_value(value).unwrap();
        let name = |value| machine_name(Some(&product(value)), "uuid-1");
        let whole = json!({"vendor": "Dell Inc.", "name": "R650", "serial": "S1"});
        assert_eq!(name(whole), "Dell Inc. R650\nserial S1");
        let unset = json!({"name": "R650", "serial": "To Be Filled By O.E.M."});
        assert_eq!(name(unset), "R650\nnode uuid-1");
        assert_eq!(machine_name(None, "uuid-1"), "node uuid-1");
    }
}

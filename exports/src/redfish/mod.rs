//! A Redfish service's documents (DMTF DSP0266, schemas DSP8010): one computer system with its parts, as one object of
//! documents by their `@odata.id`. Laid out as files below a web server they are a service that `sushy` reads.
//!
//! The system is on, since it has made its report. A part has no `Health`: the report's findings judge more than one
//! word can say.

mod parts;
mod pcie;
mod storage;

use probes::collect::Inventory;
use probes::firmware::BootMode;
use serde_json::{Map, Value, json};

use crate::object::object;

const ROOT: &str = "/redfish/v1";
const SYSTEMS: &str = "/redfish/v1/Systems";
const SYSTEM: &str = "/redfish/v1/Systems/1";

/// The documents.
#[must_use]
pub fn documents(inventory: &Inventory) -> Value {
    let mut tree = Tree::default();
    let system = system(inventory);
    tree.put(SYSTEM, "ComputerSystem.v1_20_0.ComputerSystem", system);
    tree.put(
        ROOT,
        "ServiceRoot.v1_15_0.ServiceRoot",
        object([
            ("Id", "RootService".into()),
            ("Name", "Root Service".into()),
            ("Systems", reference(SYSTEMS)),
        ]),
    );
    tree.collect(SYSTEMS, "ComputerSystem", &[SYSTEM.to_owned()]);
    parts::processors(&mut tree, inventory);
    parts::memory(&mut tree, inventory);
    parts::ethernet_interfaces(&mut tree, inventory);
    storage::storage(&mut tree, inventory);
    pcie::devices(&mut tree, inventory);
    Value::Object(tree.documents)
}

/// The documents by their `@odata.id`.
#[derive(Debug, Default)]
struct Tree {
    documents: Map<String, Value>,
}

impl Tree {
    /// Adds a document.
    fn put(&mut self, path: &str, schema: &str, fields: Value) {
        let mut document = Map::new();
        document.insert("@odata.id".into(), path.into());
        document.insert("@odata.type".into(), format!("#{schema}").into());
        if let Value::Object(fields) = fields {
            document.extend(fields);
        }
        self.documents.insert(path.to_owned(), Value::Object(document));
    }

    /// Adds a collection; one without members is a document too.
    fn collect(&mut self, path: &str, schema: &str, members: &[String]) {
        let references: Vec<Value> = members.iter().map(|path| reference(path)).collect();
        let kind = format!("{schema}Collection");
        let fields = json!({
            "Name": format!("{schema} Collection"),
            "Members@odata.count": references.len(),
            "Members": references,
        });
        self.put(path, &format!("{kind}.{kind}"), fields);
    }

    /// Adds documents and the collection of them below the system; returns nothing, since the system names it.
    fn put_all(&mut self, name: &str, schema: &str, version: &str, parts: Vec<(String, Value)>) {
        let folder = format!("{SYSTEM}/{name}");
        let mut members = Vec::new();
        for (id, fields) in parts {
            let path = format!("{folder}/{id}");
            self.put(&path, &format!("{schema}.{version}.{schema}"), fields);
            members.push(path);
        }
        self.collect(&folder, schema, &members);
    }
}

/// A link to another document.
fn reference(path: &str) -> Value {
    json!({"@odata.id": path})
}

/// The text as a part of a path.
fn id_of(text: &str) -> String {
    text.replace(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_' | '.'), "-")
}

fn system(inventory: &Inventory) -> Value {
    let product = inventory.product.as_ref();
    let os = inventory.os.as_ref();
    let mode = inventory.firmware.as_ref().and_then(|firmware| firmware.boot_mode);
    let mode = mode.map(|mode| match mode {
        BootMode::Uefi => "UEFI",
        BootMode::Bios => "Legacy",
    });
    let kind = os.and_then(|os| os.virtualization.as_deref());
    let kind = kind.map(|name| if name == "none" { "Physical" } else { "Virtual" });
    let chassis = inventory.chassis.as_ref();
    let pcie = pcie::paths(inventory);
    object([
        ("Id", "1".into()),
        ("Name", "System".into()),
        ("SystemType", kind.into()),
        ("Manufacturer", product.and_then(|product| product.vendor.clone()).into()),
        ("Model", product.and_then(|product| product.name.clone()).into()),
        ("SKU", product.and_then(|product| product.sku.clone()).into()),
        ("SerialNumber", product.and_then(|product| product.serial.clone()).into()),
        ("UUID", product.and_then(|product| product.uuid.clone()).into()),
        ("AssetTag", chassis.and_then(|chassis| chassis.asset_tag.clone()).into()),
        ("HostName", os.and_then(|os| os.hostname.clone()).into()),
        ("BiosVersion", inventory.bios.as_ref().and_then(|bios| bios.version.clone()).into()),
        ("PowerState", "On".into()),
        ("Boot", object([("BootSourceOverrideMode", mode.into())])),
        ("ProcessorSummary", parts::processor_summary(inventory)),
        ("MemorySummary", parts::memory_summary(inventory)),
        ("Processors", reference(&format!("{SYSTEM}/Processors"))),
        ("Memory", reference(&format!("{SYSTEM}/Memory"))),
        ("Storage", reference(&format!("{SYSTEM}/Storage"))),
        ("EthernetInterfaces", reference(&format!("{SYSTEM}/EthernetInterfaces"))),
        ("PCIeDevices", pcie.iter().map(|path| reference(path)).collect()),
        ("PCIeDevices@odata.count", pcie.len().into()),
    ])
}

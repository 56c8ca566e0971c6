//! A node's `instance_info` as an order: image, disk, Ignition config.
//!
//! The keys are those of the step `install_coreos` in `OpenShift`'s ironic-agent-image, and of Metal3's `customDeploy`.

use formats::command_line;
use formats::text::is_key_name;
use serde_json::{Map, Value, json};
use tracing::warn;

use super::steps::{ARGUMENTS, INSTALL, StepOrder};
use crate::act::say::Say;
use crate::act::{BootOrder, Code, DiskChoice, Failure, IgnitionSource, ImageSource, Order};
use crate::api::{Install, mistyped};
use crate::clean;
use crate::strict_json;

/// Host names that a live image has if it got none.
const NO_NAMES: [&str; 4] = ["", "localhost", "localhost.localdomain", "(none)"];

/// The config of an instance without one.
const EMPTY_CONFIG: &str = r#"{"ignition":{"version":"3.0.0"}}"#;

/// The order of a step; warns of the parts that are ignored. `hostname` is that of the live image.
///
/// # Errors
/// `INSTRUCTION_INVALID`: something in `instance_info` or the step's arguments cannot be used.
pub(super) fn instance(
    step: &StepOrder,
    hostname: &str,
    is_insecure_allowed: bool,
) -> Result<Order, Failure> {
    let info = step.node.get("instance_info").unwrap_or(&Value::Null);
    let drive = configdrive(info)?;
    let part = |key: &str| drive.and_then(|drive| drive.get(key)).unwrap_or(&Value::Null);
    let meta_data = part("meta_data");
    let image = image(info, is_insecure_allowed)?;
    let copy_network = is_true(meta_data, "coreos_copy_network")?;
    let hints = root_device(&step.node)?.cloned();
    let inline = Some(ignition(part("user_data"), hostname)?);
    let order = Order {
        ignition: IgnitionSource { inline, ..IgnitionSource::default() },
        image,
        disk: hints.map(|hints| DiskChoice { hints: Some(hints), ..DiskChoice::default() }),
        append_kargs: words(meta_data, "coreos_append_karg")?,
        copy_network,
        ..arguments(step)?
    };
    let has_network = part("network_data").as_object().is_some_and(|data| !data.is_empty());
    if has_network && !copy_network {
        warn!(
            "network_data of the config drive is ignored: CoreOS does not read it; set coreos_copy_network in meta_data \
             to install the live image's network profiles"
        );
    }
    Ok(order)
}

fn invalid(message: impl Into<Say>) -> Failure {
    Failure::new(Code::InstructionInvalid, message)
}

/// The arguments of the step, which are keys of `install` in VIM API v1.
fn arguments(step: &StepOrder) -> Result<Order, Failure> {
    let given = step
        .arguments()
        .map_err(|message| invalid(message).advise("correct the step's args in Ironic"))?;
    let install = |keys: &Map<String, Value>| {
        let mut keys = keys.clone();
        keys.insert("ignition".to_owned(), json!({}));
        serde_json::from_value::<Install>(Value::Object(keys))
    };
    for (key, found) in &given {
        let Some((_, meaning)) = ARGUMENTS.iter().find(|(known, _)| known == key) else {
            let shown =
                if is_key_name(key) { clean::quoted(key, 64) } else { "of this name".to_owned() };
            let message = format!("the step {INSTALL} has no argument {shown}");
            let known = ARGUMENTS.map(|(name, _)| name).join(", ");
            return Err(invalid(message).advise(format!("use one of {known}")));
        };
        if let Err(error) = install(&Map::from_iter([(key.clone(), found.clone())])) {
            let expected = format!("{meaning}{}", mistyped::near_word(&error.to_string()));
            return Err(wrong(&format!("the step's argument {key}"), found, &expected));
        }
    }
    // Ironic sets the boot device itself, through the BMC.
    let whole = install(&given).map(|keys| Order {
        boot_order: keys.boot_order.unwrap_or(BootOrder::Keep),
        ..Order::from(keys)
    });
    whole.map_err(|error| invalid(mistyped::fault(&[], &Value::Null, &error.to_string())))
}

fn configdrive(info: &Value) -> Result<Option<&Map<String, Value>>, Failure> {
    match info.get("configdrive") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(drive)) => Ok(Some(drive)),
        Some(Value::String(text)) if text.is_empty() => Ok(None),
        Some(_) => Err(invalid("the config drive is an image or an address, expected an object")
            .advise("pass configdrive as JSON with meta_data and user_data, which holds the Ignition config")),
    }
}

/// The root device hints of the instance or, if it has none, of the node.
///
/// # Errors
/// `INSTRUCTION_INVALID`: hints that are not an object. They mean some disk, and that is not the other one.
pub(super) fn root_device(node: &Value) -> Result<Option<&Map<String, Value>>, Failure> {
    for part in ["instance_info", "properties"] {
        match node.get(part).and_then(|part| part.get("root_device")) {
            None | Some(Value::Null) => {}
            Some(Value::Object(hints)) if hints.is_empty() => {}
            Some(Value::Object(hints)) => return Ok(Some(hints)),
            Some(found) => {
                return Err(wrong(&format!("{part}.root_device"), found, "an object with hints"));
            }
        }
    }
    Ok(None)
}

/// A value that cannot be used, which may be a secret in the wrong place. It may not count as absent: then something else
/// would be installed than was asked for.
fn wrong(name: &str, found: &Value, expected: &str) -> Failure {
    let found = mistyped::type_of(found);
    invalid(format!("{name} holds {found}, expected {expected}"))
        .advise("correct it in Ironic and deploy the node again")
}

fn image(info: &Value, is_insecure_allowed: bool) -> Result<Option<ImageSource>, Failure> {
    let text = |key: &str| match info.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str()).filter(|text| !text.is_empty())),
        Some(found) => Err(wrong(key, found, "text")),
    };
    let Some(source) = text("image_source")? else { return Ok(None) };
    if !source.starts_with("http://") && !source.starts_with("https://") {
        return Err(invalid("image_source is not an http or https address").advise(
            "give the address of a raw CoreOS image, or no image_source for the live image's own",
        ));
    }
    let algorithm = text("image_os_hash_algo")?.map(str::to_ascii_lowercase);
    let digest = text("image_os_hash_value")?.or(text("image_checksum")?).unwrap_or_default();
    let is_hex = digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    let hash = match (algorithm.as_deref(), digest.len()) {
        (None | Some("sha256"), 64) if is_hex => Some(format!("sha256-{digest}")),
        (None | Some("sha512"), 128) if is_hex => Some(format!("sha512-{digest}")),
        // image_checksum may be the address of a file with digests, which is as good as the image's.
        (Some(name @ ("sha256" | "sha512")), 1..) if !digest.contains("://") => {
            let n_digits = if name == "sha256" { 64 } else { 128 };
            let expected = format!("{n_digits} hexadecimal digits of {name}");
            return Err(wrong("the digest of the image", &digest.into(), &expected));
        }
        // MD5 and SHA-1 prove nothing.
        _ => None,
    };
    Ok(Some(ImageSource {
        url: Some(source.to_owned()),
        insecure: is_insecure_allowed || hash.is_some(),
        hash,
        ..ImageSource::default()
    }))
}

/// The Ignition config as text, with a file for the host name.
fn ignition(user_data: &Value, hostname: &str) -> Result<String, Failure> {
    let text = match user_data {
        Value::Null => EMPTY_CONFIG.to_owned(),
        Value::String(text) if text.trim().is_empty() => EMPTY_CONFIG.to_owned(),
        Value::String(text) => text.clone(),
        Value::Object(_) => user_data.to_string(),
        _ => return Err(invalid("user_data of the config drive is neither text nor an object")),
    };
    // What is not JSON is refused by the checks of the config, which say where it is wrong.
    let Ok(given) = serde_json::from_str::<Value>(&text) else { return Ok(text) };
    let mut config = given.clone();
    if !NO_NAMES.contains(&hostname) {
        // The live image's own name: one of another form is not worth an install.
        ignition::hostname::add_hostname(&mut config, hostname).ok();
    }
    // The text as it came, unless something was added: digests that people compare stay the same.
    if config == given {
        return Ok(text);
    }
    // A config that is written again would lose a key that occurs twice.
    strict_json::parse(text.as_bytes()).map_err(|why| {
        let message = format!("the Ignition config in user_data {why}");
        Failure::new(Code::IgnitionInvalid, message).advise("correct user_data of the config drive")
    })?;
    Ok(config.to_string())
}

/// Kernel arguments: a list, or one text with several.
fn words(meta_data: &Value, key: &str) -> Result<Vec<String>, Failure> {
    let texts = match meta_data.get(key) {
        None | Some(Value::Null) => &[][..],
        Some(Value::Array(texts)) => texts,
        Some(text) => std::slice::from_ref(text),
    };
    let mut words = Vec::new();
    for text in texts {
        let text = text.as_str().ok_or_else(|| wrong(key, text, "text, or a list of texts"))?;
        words.extend(command_line::arguments(text).map(|argument| argument.written.to_owned()));
    }
    Ok(words)
}

fn is_true(meta_data: &Value, key: &str) -> Result<bool, Failure> {
    let found = meta_data.get(key).unwrap_or(&Value::Null);
    match (found, found.as_str().map(str::to_ascii_lowercase).as_deref()) {
        (Value::Null | Value::Bool(false), _) | (_, Some("" | "false")) => Ok(false),
        (Value::Bool(true), _) | (_, Some("true")) => Ok(true),
        _ => Err(wrong(key, found, "true or false")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::ironic::steps::Kind;
    use crate::engines::vim::order::tests::of;

    fn order(info: &Value, args: &Value) -> StepOrder {
        let node =
            json!({"instance_info": info, "properties": {"root_device": {"serial": "s== P"}}});
        let step = json!({"step": INSTALL, "args": args});
        StepOrder { kind: Kind::Deploy, step, node, mismatch: None }
    }

    fn install(info: &Value) -> Order {
        instance(&order(info, &json!({})), "node-1", false).unwrap()
    }

    #[test]
    fn metal3s_instance_becomes_an_order() {
        let order = install(&json!({
            "root_device": {"name": "s== /dev/vda", "size": ">= 10"},
            "image_source": "https://h/rhcos.raw.gz",
            "image_os_hash_algo": "sha256", "image_os_hash_value": "ab".repeat(32),
            "configdrive": {
                "meta_data": {"coreos_append_karg": ["a=b c=\"d e\"", "f"], "coreos_copy_network": true},
                "user_data": "{\"ignition\":{\"version\":\"3.2.0\"}}",
                "network_data": {"links": []},
            },
        }));
        let hash = format!("sha256-{}", "ab".repeat(32));
        let expected = of(&json!({
            "ignition": {"inline": order.ignition.inline},
            "disk": {"hints": {"name": "s== /dev/vda", "size": ">= 10"}},
            "image": {"url": "https://h/rhcos.raw.gz", "insecure": true, "hash": hash},
            "append_kargs": ["a=b", "c=\"d e\"", "f"],
            "copy_network": true,
            "boot_order": "keep",
        }));
        assert_eq!(order, expected);
        let config: Value = serde_json::from_str(&order.ignition.inline.unwrap()).unwrap();
        assert_eq!(config["storage"]["files"][0]["contents"]["source"], "data:,node-1");
    }

    #[test]
    fn without_an_image_the_live_images_own_is_installed_on_the_nodes_root_device() {
        let order = install(&json!({}));
        assert!(order.image.is_none());
        assert_eq!(order.disk, of(&json!({"disk": {"hints": {"serial": "s== P"}}})).disk);
    }

    #[test]
    fn image_needs_a_signature_unless_its_digest_is_known_or_the_configuration_allows_it() {
        let url = "http://h/i.raw";
        for (checksum, is_allowed, insecure, has_hash) in [
            (None, false, false, false),
            (Some("ab".repeat(16)), false, false, false),
            (None, true, true, false),
            (Some("ab".repeat(64)), false, true, true),
        ] {
            let info = json!({"image_source": url, "image_checksum": checksum});
            let found = image(&info, is_allowed).unwrap().unwrap();
            assert_eq!(found.url.as_deref(), Some(url));
            assert_eq!((found.insecure, found.hash.is_some()), (insecure, has_hash), "{info}");
        }
    }

    #[test]
    fn what_cannot_be_used_is_refused_with_advice_and_a_secret_in_it_is_not_shown() {
        let image = |digest: &str, algorithm: &str| json!({"image_source": "http://h/i", "image_os_hash_algo": algorithm, "image_os_hash_value": digest});
        let meta_data = |meta_data: Value| json!({"configdrive": {"meta_data": meta_data}});
        let secret = "$6$canary$0123456789abcdef";
        let infos = [
            json!({"configdrive": secret}),
            json!({"configdrive": {"user_data": [secret]}}),
            // The node has other hints, and the live image its own image.
            json!({"root_device": secret}),
            json!({"image_source": secret}),
            json!({"image_source": [secret]}),
            json!({"image_source": 5}),
            json!({"image_source": "q".repeat(300_000)}),
            image(&"ab".repeat(32), "sha512"),
            image(&"xy".repeat(32), "SHA256"),
            image(secret, "sha256"),
            json!({"image_source": "http://h/i", "image_checksum": [1]}),
            meta_data(json!({"coreos_append_karg": ["a", 1]})),
            meta_data(json!({"coreos_append_karg": {"a": secret}})),
            meta_data(json!({"coreos_copy_network": 1})),
            meta_data(json!({"coreos_copy_network": secret})),
        ];
        let args = [
            json!({"disk": "/dev/sda"}),
            json!({"verify": secret}),
            json!({"save_partlabel": secret}),
            json!({secret: 1}),
            json!({"k".repeat(300_000): 1}),
            json!(secret),
        ];
        let infos = infos.iter().map(|info| order(info, &json!({})));
        for order in infos.chain(args.iter().map(|args| order(&json!({}), args))) {
            let failure = instance(&order, "", false).unwrap_err();
            let text = failure.to_string();
            let is_of_user_data = text.contains("user_data");
            assert!(failure.code == Code::InstructionInvalid, "{text:.80}");
            assert!(failure.advice.is_some() || is_of_user_data, "{text:.80}");
            assert!(text.len() < 1000 && !text.contains("canary"), "{text:.1000}");
        }
    }

    #[test]
    fn config_is_unchanged_unless_the_host_name_is_added() {
        let text = "{ \"ignition\": {\"version\": \"3.4.0\"} }";
        assert_eq!(ignition(&json!(text), "localhost").unwrap(), text);
        let named =
            r#"{"ignition":{"version":"3.4.0"},"storage":{"files":[{"path":"/etc/hostname"}]}}"#;
        assert_eq!(ignition(&json!(named), "node-1").unwrap(), named);
        assert_eq!(ignition(&json!("not JSON"), "node-1").unwrap(), "not JSON");
        let twice = r#"{"ignition":{"version":"3.2.0"},"passwd":{},"passwd":{}}"#;
        assert_eq!(ignition(&json!(twice), "localhost").unwrap(), twice);
        let failure = ignition(&json!(twice), "node-1").unwrap_err();
        assert!(failure.to_string().contains("passwd"), "{failure}");
        assert!(ignition(&json!(text), "node-1").unwrap().contains("data:,node-1"));
        assert!(!ignition(&json!(text), "node 1;").unwrap().contains("hostname"));
    }
}

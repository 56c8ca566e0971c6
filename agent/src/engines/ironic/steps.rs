//! The steps that the agent offers to Ironic, and the form of their results.

use serde_json::{Map, Value, json};

use crate::clean;

/// The name and version under which the steps are offered.
const MANAGER: &str = "RunCoreosInstaller";
const MANAGER_VERSION: &str = "1";
/// The largest step, in bytes of JSON: the list of commands repeats it.
const MAX_STEP_BYTES: usize = 64 * 1024;
/// The longest details of an error, in characters. Ironic keeps 4096 bytes.
pub(super) const MAX_DETAILS_CHARS: usize = 2000;
/// The step that installs.
pub(super) const INSTALL: &str = "install_coreos";
/// The step that erases.
pub(super) const ERASE: &str = "erase_devices_metadata";
/// The priority of the step that erases, that of ironic-python-agent for Metal3.
const ERASE_PRIORITY: u8 = 10;

/// Advice on a step or command of a deployment of another kind: `direct` writes images with steps of its own.
pub(super) const USE_CUSTOM_AGENT: &str = "set the node's deploy interface to custom-agent (openstack baremetal node set \
     NODE --deploy-interface custom-agent), and deploy it with the step install_coreos";

/// The arguments of the step that installs: keys of `install` in VIM API v1.
pub(super) const ARGUMENTS: [(&str, &str); 14] = [
    ("existing_data", "which data on the disk may be overwritten: refuse, coreos or wipe"),
    ("override", "list of what is allowed on an identified disk whose existing data is wiped"),
    (
        "block_on",
        "least severity of findings that prevents the install: critical, warning or never",
    ),
    ("block_also", "findings that prevent the install too, as CODE or CODE@PART"),
    ("block_except", "findings that never prevent the install, in the same form"),
    ("verify", "how much of the disk is compared with the image: full (the default) or sample"),
    ("on_unproved", "what happens to a disk that fails its verification: erase or keep"),
    (
        "boot_order",
        "place of the disk in the firmware's boot order: disk, network or keep (the default)",
    ),
    ("save_partlabel", "partitions to keep, by label"),
    ("save_partindex", "partitions to keep, by number or range"),
    ("delete_kargs", "kernel arguments to remove from the installed system"),
    ("platform", "Ignition platform of the installed system"),
    ("console", "consoles of the installed system"),
    ("confirm", "whether the installed system writes its first two boots into the node's extra"),
];

/// The kind of operation that a step belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Deploy,
    Clean,
    Service,
}

impl Kind {
    pub(super) const ALL: [Self; 3] = [Self::Deploy, Self::Clean, Self::Service];

    /// The word in commands and keys.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Deploy => "deploy",
            Self::Clean => "clean",
            Self::Service => "service",
        }
    }
}

/// A step that Ironic orders.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct StepOrder {
    pub(super) kind: Kind,
    /// The step as received; the result repeats it.
    pub(super) step: Value,
    /// The whole node.
    pub(super) node: Value,
    /// Why the step is not the one that this agent offers.
    pub(super) mismatch: Option<String>,
}

impl StepOrder {
    /// The order in the parameters of a command.
    ///
    /// # Errors
    /// A message if a parameter is missing.
    pub(super) fn parse(kind: Kind, mut params: Value) -> Result<Self, String> {
        let mismatch = check_version(kind, &params).err();
        let mut object = |key: &str| {
            let found = params.get_mut(key).map(Value::take).filter(Value::is_object);
            found.ok_or_else(|| format!("the command has no {key}"))
        };
        let (step, node) = (object("step")?, object("node")?);
        let n_bytes = step.to_string().len();
        if n_bytes > MAX_STEP_BYTES {
            return Err(format!("the step has {n_bytes} bytes, expected at most {MAX_STEP_BYTES}"));
        }
        Ok(Self { kind, step, node, mismatch })
    }

    pub(super) fn name(&self) -> &str {
        self.step.get("step").and_then(Value::as_str).unwrap_or_default()
    }

    /// The arguments of the step.
    ///
    /// # Errors
    /// A message if they are not an object.
    pub(super) fn arguments(&self) -> Result<Map<String, Value>, String> {
        match self.step.get("args") {
            None | Some(Value::Null) => Ok(Map::new()),
            Some(Value::Object(arguments)) => Ok(arguments.clone()),
            // They are not repeated: they may contain secrets.
            Some(_) => Err("the arguments of the step are not an object".to_owned()),
        }
    }

    /// The result of a step that succeeded.
    pub(super) fn result(&self, mut result: Value) -> Value {
        clean::json(&mut result);
        let kind = self.kind.as_str();
        json!({(format!("{kind}_result")): result, (format!("{kind}_step")): self.step})
    }
}

/// The answer to `get_deploy_steps` and its like.
///
/// Without a clean step Ironic would make an uncleaned node available, so there always is one.
pub(super) fn offered(kind: Kind) -> Value {
    let step = |name: &str, priority: u8, arguments: &[(&str, &str)]| {
        let about = |text| json!({"description": text, "required": false});
        let arguments: Map<String, Value> =
            arguments.iter().map(|(name, text)| ((*name).to_owned(), about(text))).collect();
        json!({
            "step": name, "priority": priority, "interface": "deploy", "reboot_requested": false,
            "abortable": true, "argsinfo": arguments,
        })
    };
    let steps = match kind {
        Kind::Deploy => vec![step(INSTALL, 0, &ARGUMENTS)],
        Kind::Clean => vec![step(ERASE, ERASE_PRIORITY, &[])],
        Kind::Service => Vec::new(),
    };
    json!({
        (format!("{}_steps", kind.as_str())): {MANAGER: steps},
        "hardware_manager_version": {MANAGER: MANAGER_VERSION},
    })
}

/// Checks that Ironic means the steps that this agent offers. A mismatch is an ordinary failure: to the status that
/// ironic-python-agent has for it, Ironic responds with the next step.
///
/// # Errors
/// A message with the mismatch.
fn check_version(kind: Kind, params: &Value) -> Result<(), String> {
    let key = format!("{}_version", kind.as_str());
    match params.get(&key) {
        None | Some(Value::Null) => Ok(()),
        Some(found) if *found == json!({MANAGER: MANAGER_VERSION}) => Ok(()),
        Some(found) => Err(format!(
            "the steps were read from another agent, {}, not {MANAGER} {MANAGER_VERSION}; start again, so that Ironic reads \
             them from this one",
            clean::text(&found.to_string(), 200)
        )),
    }
}

/// The error of a command that failed. Ironic shows `details` and cuts its end off, so the code comes first.
pub(super) fn error(kind: Kind, details: &str) -> Value {
    let (name, word) = match kind {
        Kind::Clean => ("CleaningError", "Clean"),
        Kind::Deploy => ("DeploymentError", "Deploy"),
        Kind::Service => ("ServicingError", "Service"),
    };
    let details = clean::text(details, MAX_DETAILS_CHARS);
    json!({"type": name, "code": 500, "message": format!("{word} step failed"), "details": details})
}

/// The error of a command that was running when the agent ended.
pub(super) fn lost(command: &str) -> Value {
    let kind = Kind::ALL.into_iter().find(|kind| command.contains(kind.as_str()));
    error(
        kind.unwrap_or(Kind::Deploy),
        "AGENT_BUG: the agent ended in the middle of the step, and a disk may be half written; what to do: do not boot it; \
         deploy or clean the node again, and report the bug with the log of this boot",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_have_the_keys_that_ironic_requires_and_cleaning_always_has_one() {
        for (kind, n) in [(Kind::Deploy, 1), (Kind::Clean, 1), (Kind::Service, 0)] {
            let answer = offered(kind);
            let steps = answer[format!("{}_steps", kind.as_str())][MANAGER].as_array().unwrap();
            assert_eq!(steps.len(), n);
            for key in ["step", "priority", "interface"] {
                assert!(steps.iter().all(|step| !step[key].is_null()), "{key}");
            }
            assert!(answer["hardware_manager_version"].is_object());
        }
    }

    #[test]
    fn another_version_of_the_steps_is_an_ordinary_failure() {
        let own = offered(Kind::Deploy)["hardware_manager_version"].clone();
        assert!(check_version(Kind::Deploy, &json!({"deploy_version": own})).is_ok());
        assert!(check_version(Kind::Deploy, &json!({})).is_ok());
        let other = json!({"deploy_version": {"Generic": "1.2"}});
        let why = check_version(Kind::Deploy, &other).unwrap_err();
        assert!(why.contains("another agent"));
        assert_eq!(error(Kind::Deploy, &why)["type"], "DeploymentError");
    }

    #[test]
    fn error_is_short_and_contains_no_secret() {
        let text = format!("http://user:hunter2@h/x?sig=abc {}", "x".repeat(300_000));
        let details = error(Kind::Deploy, &text)["details"].as_str().unwrap().to_owned();
        assert!(details.chars().count() <= MAX_DETAILS_CHARS, "{}", details.len());
        assert!(!details.contains("hunter2") && !details.contains("abc"), "{details:.60}");
        let order = StepOrder::parse(
            Kind::Deploy,
            json!({"step": {"args": ["hunter2"]}, "node": {}, "deploy_version": {"x": "z".repeat(9999)}}),
        );
        let order = order.unwrap();
        assert!(order.mismatch.as_ref().unwrap().len() < 1000);
        assert!(!order.arguments().unwrap_err().contains("hunter2"));
    }

    #[test]
    fn step_is_repeated_as_it_was_received() {
        let step =
            json!({"interface": "deploy", "step": "install_coreos", "args": {}, "priority": 80});
        let order = StepOrder::parse(Kind::Deploy, json!({"step": step, "node": {}})).unwrap();
        assert_eq!(order.result(Value::Null)["deploy_step"], step);
        assert!(StepOrder::parse(Kind::Deploy, json!({"step": step})).is_err());
        let large = json!({"step": {"step": "x".repeat(70_000)}, "node": {}});
        assert!(StepOrder::parse(Kind::Deploy, large).unwrap_err().contains("70"));
    }
}

//! Fills the template with the settings: the result is the tree of a Butane config that still contains the comments.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use formats::digest::sha512;
use serde_json::{Map, Value, json};

use super::translate::text_url;
use super::{
    AgentBinary, FileSource, HOLDING_UNIT, LiveError, Secret, Settings, Target, UNIT, gzip, yaml,
};

/// The template; its head explains `when`, `each`, `why` and `{{…}}`.
const TEMPLATE: &str = include_str!("../../templates/live.yaml");
const CONFIG_DIR: &str = "/etc/run-coreos-installer";

/// The settings by their names in the template; absent settings are left out.
type Values = Map<String, Value>;

/// Makes the Butane tree of `settings`; `why` keys are still in it.
pub(super) fn expand(settings: &Settings) -> Result<Value, LiveError> {
    settings.check()?;
    // A constant, which every test of this module parses.
    let template: Value = yaml_serde::from_str(TEMPLATE).unwrap_or_default();
    Ok(fill(&template, &values(settings)).unwrap_or_default())
}

fn values(settings: &Settings) -> Values {
    let ended = |text: &Option<String>| text.as_deref().map(ended);
    let secret = |secret: &Option<Secret>| secret.as_ref().map(|it| self::ended(it.reveal()));
    // In version 1.0.0 of Butane's variant fcos, which makes spec 3.0.0, the CA for Ignition has no `inline`.
    let is_inline = settings.spec.has_inline_ca();
    let (agent_source, agent_hash) = agent(settings);
    let has_login = !settings.ssh_keys.is_empty() || settings.password_hash.is_some();
    // In a unit's command, % and $ are special (systemd.service(5), COMMAND LINES).
    let metadata = settings.network_metadata.as_ref();
    let metadata = metadata.map(|url| url.replace('%', "%%").replace('$', "$$"));
    present(json!({
        "butane_version": settings.spec.butane(),
        "unit": if settings.hold_logins { HOLDING_UNIT } else { UNIT },
        "vim": settings.vim,
        // Exactly as given: its digest is compared with the installed one.
        "target": match &settings.install {
            Some(Target::Embedded(config)) => Some(config.reveal()),
            _ => None,
        },
        "hosts": hosts(settings),
        "agent_config": yaml::document(&agent_config(settings)),
        "hostname": settings.hostname.as_ref().map(|name| format!("{name}\n")),
        "ca": ended(&settings.ca),
        "ca_text": ended(&settings.ca).filter(|_| is_inline),
        "ca_url": ended(&settings.ca).filter(|_| !is_inline).map(|ca| text_url(&ca)),
        "client_cert": ended(&settings.client_cert),
        "client_key": secret(&settings.client_key),
        "token": secret(&settings.token),
        "password_hash": settings.password_hash.as_ref().map(Secret::reveal),
        "autologin": settings.autologin.then_some(true),
        "proxy": proxy(settings),
        "ssh_keys": Some(&settings.ssh_keys).filter(|keys| !keys.is_empty()),
        "core_login": has_login.then_some(true),
        "iso_path": match &settings.agent {
            AgentBinary::OnIso(path) => Some(path),
            _ => None,
        },
        "agent_source": agent_source,
        "agent_hash": agent_hash,
        "metadata": metadata,
        "mirror_ca": ended(&settings.mirror_ca),
        "files": files(settings),
        "links": nodes(settings, |source| match source {
            FileSource::Link(target) => Some(json!({"target": target})),
            _ => None,
        }),
        "folders": nodes(settings, |source| (*source == FileSource::Folder).then(|| json!({}))),
        "units": units(settings),
        "network": settings.network,
    }))
}

/// The fields of an object that are not null.
fn present(mut object: Value) -> Values {
    let mut fields = object.as_object_mut().map(std::mem::take).unwrap_or_default();
    fields.retain(|_, value| !value.is_null());
    fields
}

/// A file's text ends with a newline.
fn ended(text: &str) -> String {
    format!("{}\n", text.trim_end_matches('\n'))
}

/// The lines after those of localhost: an empty line and one line per address of the VIM.
fn hosts(settings: &Settings) -> String {
    let names = settings.all_vim_names().join(" ");
    let line = |address: &std::net::IpAddr| format!("{address} {names}");
    let lines: Vec<String> = settings.vim_addresses.iter().map(line).collect();
    if lines.is_empty() { String::new() } else { format!("\n\n{}", lines.join("\n")) }
}

fn agent(settings: &Settings) -> (Option<String>, Option<String>) {
    match &settings.agent {
        AgentBinary::InImage | AgentBinary::OnIso(_) => (None, None),
        AgentBinary::Fetched { url, hash } => (Some(url.clone()), Some(hash.to_ascii_lowercase())),
        AgentBinary::Embedded(bytes) => (Some(data_url(bytes)), Some(sha512(bytes))),
    }
}

fn files(settings: &Settings) -> Vec<Values> {
    let one = |file: &super::ExtraFile| {
        let (source, is_gzip, hash) = match &file.source {
            FileSource::Content(bytes) => (data_url(bytes), true, Some(sha512(bytes))),
            FileSource::Url { url, hash, is_gzip } => {
                (url.clone(), *is_gzip, hash.as_ref().map(|hash| hash.to_ascii_lowercase()))
            }
            FileSource::Link(_) | FileSource::Folder => return None,
        };
        Some(present(json!({
            "path": file.path, "mode": format!("{:04o}", file.mode), "source": source,
            "compression": is_gzip.then_some("gzip"), "hash": hash,
        })))
    };
    settings.files.iter().filter_map(one).collect()
}

/// The links or the folders among the files.
fn nodes(settings: &Settings, of: fn(&FileSource) -> Option<Value>) -> Vec<Value> {
    let with_path = |file: &super::ExtraFile| {
        let mut node = of(&file.source)?;
        node["path"] = file.path.clone().into();
        Some(node)
    };
    settings.files.iter().filter_map(with_path).collect()
}

fn units(settings: &Settings) -> Vec<Values> {
    let one = |unit: &super::Unit| {
        let is_enabled = unit.text.lines().any(|line| line.trim() == "[Install]");
        let enabled = is_enabled.then_some(true);
        present(json!({"name": unit.name, "contents": unit.text, "enabled": enabled}))
    };
    settings.units.iter().map(one).collect()
}

/// The proxy of Ignition itself; the agent has its own setting. Absent in spec 3.0, whose Ignition would ignore it.
fn proxy(settings: &Settings) -> Option<Values> {
    let url = settings.proxy.as_ref().filter(|_| settings.spec.has_proxy())?.reveal();
    let no_proxy = Some(&settings.no_proxy).filter(|hosts| !hosts.is_empty());
    Some(present(json!({"http_proxy": url, "https_proxy": url, "no_proxy": no_proxy})))
}

/// Compressed bytes as a data URL.
fn data_url(bytes: &[u8]) -> String {
    format!("data:;base64,{}", STANDARD.encode(gzip(bytes)))
}

/// The agent's configuration file.
fn agent_config(settings: &Settings) -> Value {
    let file = |is_there: bool, name: &str| is_there.then(|| format!("{CONFIG_DIR}/{name}"));
    let ignition = match &settings.install {
        Some(Target::Url(url)) => Some(url.clone()),
        target => file(target.is_some(), "target.ign"),
    };
    let mut config = present(json!({
        "vim": settings.vim,
        "ignition": ignition,
        "allow_plain_http": settings.allow_plain_http.then_some(true),
        "ca_file": file(settings.ca.is_some(), "ca.pem"),
        "token_file": file(settings.token.is_some(), "token"),
        "client_cert_file": file(settings.client_cert.is_some(), "client.pem"),
        "client_key_file": file(settings.client_key.is_some(), "client.key"),
    }));
    config.extend(settings.agent_options.iter().map(|(key, values)| {
        let value = match &values[..] {
            [value] => value.clone().into(),
            values => values.to_vec().into(),
        };
        (key.clone(), value)
    }));
    config.into()
}

/// Fills one node of the template; `None` if it consists of a setting that is absent.
fn fill(node: &Value, values: &Values) -> Option<Value> {
    match node {
        Value::String(text) => fill_text(text, values),
        Value::Array(members) => {
            let list: Vec<Value> =
                members.iter().flat_map(|member| fill_member(member, values)).collect();
            (!list.is_empty()).then_some(list.into())
        }
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(key, _)| !["when", "each"].contains(&key.as_str()));
            let filled = |(key, value): (&String, _)| Some((key.clone(), fill(value, values)?));
            let map: Values = fields.filter_map(filled).collect();
            (!map.is_empty()).then_some(map.into())
        }
        other => Some(other.clone()),
    }
}

/// Fills a list member: not at all, once, or once for every member of a setting.
fn fill_member(node: &Value, values: &Values) -> Vec<Value> {
    let name = |key| node.get(key).and_then(Value::as_str);
    if name("when").is_some_and(|name| !values.contains_key(name)) {
        return Vec::new();
    }
    let Some(name) = name("each") else { return fill(node, values).into_iter().collect() };
    let all = values.get(name).and_then(Value::as_array).into_iter().flatten();
    all.filter_map(|each| fill(node, each.as_object()?)).collect()
}

/// Replaces every `{{name}}` in the template's text once; the inserted text is not scanned again. `None`, so that the entry is
/// left out, if a name has no value.
fn fill_text(text: &str, values: &Values) -> Option<Value> {
    let whole = text.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}"));
    if let Some(name) = whole {
        return values.get(name).cloned();
    }
    let mut pieces = text.split("{{");
    let mut filled = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (name, after) = piece.split_once("}}")?;
        filled.push_str(values.get(name)?.as_str()?);
        filled.push_str(after);
    }
    Some(filled.into())
}

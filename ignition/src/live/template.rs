//! Fills the template with the settings: the result is the tree of a Butane config that still contains the comments.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::translate::text_url;
use super::{AgentBinary, FileSource, LiveError, Settings, Target, UNIT, gzip, yaml};
use crate::digest;

/// The template; its head explains `when`, `each`, `why` and `{{…}}`.
const TEMPLATE: &str = include_str!("../../templates/live.yaml");
const CONFIG_DIR: &str = "/etc/run-coreos-installer";

/// The settings by their names in the template; absent settings are left out.
type Values = BTreeMap<String, Value>;

/// Makes the Butane tree of `settings`; `why` keys are still in it.
pub(super) fn expand(settings: &Settings) -> Result<Value, LiveError> {
    settings.check()?;
    let broken = |err: yaml_serde::Error| LiveError::Template(err.to_string());
    let template: Value = yaml_serde::from_str(TEMPLATE).map_err(broken)?;
    Ok(fill(&template, &values(settings))?.unwrap_or(Value::Null))
}

fn values(settings: &Settings) -> Values {
    let mut values = Values::new();
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            values.insert(name.to_owned(), value);
        }
    };
    let text = |text: &str| Some(Value::from(text));
    set("butane_version", text(&settings.spec.butane()));
    set("unit", text(UNIT));
    set("vim", settings.vim.clone().map(Value::from));
    if let Some(Target::Embedded(config)) = &settings.install {
        // Exactly as given: its digest is compared with the installed one.
        set("target", text(config.reveal()));
    }
    set("hosts", text(&hosts(settings)));
    set("agent_config", text(&yaml::document(&agent_config(settings))));
    set("hostname", settings.hostname.as_ref().map(|name| format!("{name}\n").into()));
    set("ca", settings.ca.as_deref().map(ended));
    set_ca(settings, &mut set);
    set("client_cert", settings.client_cert.as_deref().map(ended));
    set("client_key", settings.client_key.as_ref().map(|key| ended(key.reveal())));
    set("token", settings.token.as_ref().map(|token| ended(token.reveal())));
    set("password_hash", settings.password_hash.as_ref().map(|hash| hash.reveal().into()));
    set("autologin", settings.autologin.then_some(Value::Bool(true)));
    set("proxy", proxy(settings));
    let keys = &settings.ssh_keys;
    set("ssh_keys", (!keys.is_empty()).then(|| keys.clone().into()));
    let has_login = !keys.is_empty() || settings.password_hash.is_some();
    set("core_login", has_login.then_some(Value::Bool(true)));
    if let AgentBinary::OnIso(path) = &settings.agent {
        set("iso_path", text(path));
    }
    let (source, hash) = agent(settings);
    set("agent_source", source);
    set("agent_hash", hash);
    // In a unit's command, % and $ are special (systemd.service(5), COMMAND LINES).
    let metadata = settings.network_metadata.as_ref();
    set("metadata", metadata.map(|url| url.replace('%', "%%").replace('$', "$$").into()));
    set("mirror_ca", settings.mirror_ca.as_deref().map(ended));
    set("files", Some(files(settings)));
    set("units", Some(units(settings)));
    set("network", Some(network(settings)));
    values
}

/// The CA for Ignition. In version 1.0.0 of Butane's variant fcos, which makes spec 3.0.0, it has no `inline`.
fn set_ca(settings: &Settings, set: &mut impl FnMut(&str, Option<Value>)) {
    let Some(ca) = &settings.ca else { return };
    let ca = format!("{}\n", ca.trim_end_matches('\n'));
    if settings.spec.has_inline_ca() {
        set("ca_text", Some(ca.into()));
    } else {
        set("ca_url", Some(text_url(&ca).into()));
    }
}

/// A file's text ends with a newline.
fn ended(text: &str) -> Value {
    format!("{}\n", text.trim_end_matches('\n')).into()
}

/// What follows the localhost lines: an empty line and one line per address of the VIM.
fn hosts(settings: &Settings) -> String {
    let names = settings.all_vim_names().join(" ");
    let line = |address: &std::net::IpAddr| format!("{address} {names}");
    let lines: Vec<String> = settings.vim_addresses.iter().map(line).collect();
    if lines.is_empty() { String::new() } else { format!("\n\n{}", lines.join("\n")) }
}

fn agent(settings: &Settings) -> (Option<Value>, Option<Value>) {
    match &settings.agent {
        AgentBinary::InImage | AgentBinary::OnIso(_) => (None, None),
        AgentBinary::Fetched { url, hash } => {
            (Some(url.clone().into()), Some(hash.to_ascii_lowercase().into()))
        }
        AgentBinary::Embedded(bytes) => {
            (Some(data_url(bytes).into()), Some(digest::sha512(bytes).into()))
        }
    }
}

fn files(settings: &Settings) -> Value {
    let one = |file: &super::ExtraFile| {
        let mut fields = json!({"path": file.path, "mode": format!("{:04o}", file.mode)});
        match &file.source {
            FileSource::Content(bytes) => {
                fields["source"] = data_url(bytes).into();
                fields["compression"] = "gzip".into();
                fields["hash"] = digest::sha512(bytes).into();
            }
            FileSource::Url { url, hash, is_gzip } => {
                fields["source"] = url.clone().into();
                if *is_gzip {
                    fields["compression"] = "gzip".into();
                }
                if let Some(hash) = hash {
                    fields["hash"] = hash.to_ascii_lowercase().into();
                }
            }
        }
        fields
    };
    settings.files.iter().map(one).collect()
}

fn units(settings: &Settings) -> Value {
    let one = |unit: &super::Unit| {
        let mut fields = json!({"name": unit.name, "contents": unit.text});
        if unit.text.lines().any(|line| line.trim() == "[Install]") {
            fields["enabled"] = true.into();
        }
        fields
    };
    settings.units.iter().map(one).collect()
}

fn network(settings: &Settings) -> Value {
    let keyfiles = settings.network.iter();
    keyfiles.map(|keyfile| json!({"name": keyfile.name, "text": keyfile.text})).collect()
}

/// The proxy of Ignition itself; the agent has its own setting. Absent in spec 3.0, whose Ignition would ignore it.
fn proxy(settings: &Settings) -> Option<Value> {
    let url = settings.proxy.as_ref().filter(|_| settings.spec.has_proxy())?.reveal();
    let mut fields = json!({"http_proxy": url, "https_proxy": url});
    if !settings.no_proxy.is_empty() {
        fields["no_proxy"] = settings.no_proxy.clone().into();
    }
    Some(fields)
}

/// Compressed bytes as a data URL.
fn data_url(bytes: &[u8]) -> String {
    format!("data:;base64,{}", STANDARD.encode(gzip(bytes)))
}

/// The agent's configuration file.
fn agent_config(settings: &Settings) -> Value {
    let mut config = Map::new();
    let mut set = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            config.insert(key.to_owned(), value);
        }
    };
    let file = |is_there: bool, name: &str| is_there.then(|| format!("{CONFIG_DIR}/{name}").into());
    set("vim", settings.vim.clone().map(Value::from));
    set(
        "ignition",
        match &settings.install {
            Some(Target::Url(url)) => Some(url.clone().into()),
            target => file(target.is_some(), "target.ign"),
        },
    );
    set("allow_plain_http", settings.allow_plain_http.then_some(Value::Bool(true)));
    set("ca_file", file(settings.ca.is_some(), "ca.pem"));
    set("token_file", file(settings.token.is_some(), "token"));
    set("client_cert_file", file(settings.client_cert.is_some(), "client.pem"));
    set("client_key_file", file(settings.client_key.is_some(), "client.key"));
    set("vim_key", settings.vim_key.clone().map(Value::from));
    for (key, values) in &settings.agent_options {
        set(
            key,
            Some(match &values[..] {
                [value] => value.clone().into(),
                values => values.to_vec().into(),
            }),
        );
    }
    config.into()
}

/// Fills one node of the template; `None` if it consists of a setting that is absent.
fn fill(node: &Value, values: &Values) -> Result<Option<Value>, LiveError> {
    match node {
        Value::String(text) => fill_text(text, values),
        Value::Array(members) => {
            let mut list = Vec::new();
            for member in members {
                fill_member(member, values, &mut list)?;
            }
            Ok((!list.is_empty()).then_some(Value::Array(list)))
        }
        Value::Object(fields) => {
            let mut map = Map::new();
            for (key, value) in
                fields.iter().filter(|(key, _)| !["when", "each"].contains(&key.as_str()))
            {
                if let Some(value) = fill(value, values)? {
                    map.insert(key.clone(), value);
                }
            }
            Ok((!map.is_empty()).then_some(Value::Object(map)))
        }
        other => Ok(Some(other.clone())),
    }
}

/// Adds a list member: not at all, once, or once for every member of a setting.
fn fill_member(node: &Value, values: &Values, list: &mut Vec<Value>) -> Result<(), LiveError> {
    if let Some(name) = node.get("when").and_then(Value::as_str)
        && !values.contains_key(name)
    {
        return Ok(());
    }
    let Some(name) = node.get("each").and_then(Value::as_str) else {
        list.extend(fill(node, values)?);
        return Ok(());
    };
    for each in values.get(name).and_then(Value::as_array).into_iter().flatten() {
        let fields = each.as_object().cloned().unwrap_or_default();
        list.extend(fill(node, &fields.into_iter().collect())?);
    }
    Ok(())
}

/// Replaces every `{{name}}` in the template's text once; the inserted text is not scanned again.
fn fill_text(text: &str, values: &Values) -> Result<Option<Value>, LiveError> {
    let whole = text.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}"));
    if let Some(name) = whole {
        return Ok(values.get(name).cloned());
    }
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((name, after)) = after.split_once("}}") else {
            return Err(LiveError::Template(format!("{{{{ without }}}} in {text:?}")));
        };
        let Some(value) = values.get(name).and_then(Value::as_str) else {
            return Err(LiveError::Template(format!("no text for {{{{{name}}}}}")));
        };
        filled.push_str(before);
        filled.push_str(value);
        rest = after;
    }
    filled.push_str(rest);
    Ok(Some(filled.into()))
}

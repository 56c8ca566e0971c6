//! A secret in the wrong place of an instruction is shown nowhere.

use std::fs;

use run_coreos_installer::exit_status::ExitStatus;
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use super::machine::{IGNITION, Machine};
use super::mock::{Mock, Reply, Request, instruction_to_install};

/// What `work` returns, and all that it logs on its own thread.
pub(crate) fn logged<T>(work: impl FnOnce() -> T) -> (T, String) {
    let file = NamedTempFile::new().unwrap();
    let log = file.reopen().unwrap();
    let builder = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE);
    let subscriber = builder.with_writer(move || log.try_clone().unwrap()).finish();
    let done = tracing::subscriber::with_default(subscriber, work);
    (done, fs::read_to_string(file.path()).unwrap())
}

const CANARY: &str = "$6$canary$0123456789abcdef";

/// A key of the instruction, a value with a secret in place of `S` or an Ignition config in place of `C`, and the place
/// that the refusal names.
const SHAPES: &str = r#"
/install "C" install holds text, expected an object
/install ["C"] install holds a list, expected an object
/install [{"inline":"C"}] a list
/install/disk "C" install.disk holds text, expected an object
/install/append_kargs "C" install.append_kargs holds text, expected a list
/install/append_kargs ["C",1] an item of install.append_kargs holds a whole number
/install/verify "S" install.verify is not one of
/install/copy_network "S" install.copy_network holds text, expected true or false
/install/S 1 install has an unknown key of 26 characters
/install/C 1 install has an unknown key of 68 characters
/install/ignition "C" install.ignition holds text
/install/ignition ["C"] install.ignition holds a list, expected an object
/install/ignition ["http://127.0.0.1:1/",null,"S"] install.ignition holds a list, expected an object
/install/ignition {"url":"C"} install.ignition.url: the address does not begin with http:// or https://
/install/ignition {"url":"S"} install.ignition.url: the address does not begin with
/install/ignition {"url":"http://h/\u0020S"} install.ignition.url: the address contains a space
/install/ignition {"inline":"{}","hash":"S"} install.ignition.hash has another form
/install/ignition {"inline":"{}","hash":"sha512-S"} install.ignition.hash has another form
/install/ignition {"inline":"{\"ignition\":{\"version\":\"S\"}}"} $.ignition.version is another text
/install/ignition {"inline":"S"} the Ignition config
/install/image {"url":"S"} install.image.url: the address does not begin with
/install/image {"url":"http://127.0.0.1:1/","hash":"S"} install.image.hash has another form
/install/image {"stream":{"url":"C"}} install.image.stream.url: the address does not begin with
/install/image {"stream":["S"]} install.image.stream holds a list, expected an object
/install/disk {"device":"S"} install.disk.device has another form
/install/disk {"device":"C"} install.disk.device has another form
/install/disk {"hints":{"S":1}} the hint "…" is unknown
/install/disk {"hints":{"size":"S"}} the hint size has another form
/install/disk {"hints":{"rotational":"C"}} the hint rotational has another form
/install/disk {"hints":{"serial":["S"]}} the hint serial holds another type
/install/image {"sector_bytes":"C"} install.image.sector_bytes holds text
/install/disk {"if_several":{"S":1}} install.disk.if_several
/install/block_on "S" install.block_on is not one of
/expect {"severity":"S"} expect: severity is …
/expect {"dimm":{"size":"S"}} dimm: size is …
/expect {"dimm":{"S":1}} dimm: … is not a known key
/expect {"S":1,"S":2} has the key "expect.…" twice
/on_refusal "S" on_refusal is not one of
/action "S" action is not one of
/api_version "S" api_version is not "1"
/node_id "S" node_id has another form
/reason ["S"] reason holds a list, expected text
/retry_after_s "S" retry_after_s holds text
"#;

/// The instruction of a row.
fn shape(pointer: &str, value: &str) -> String {
    let config = json!({"passwd": {"users": [{"passwordHash": CANARY}]}}).to_string();
    let mut instruction = instruction_to_install(&json!({"ignition": {"inline": IGNITION}}));
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let key = key.replace('S', CANARY).replace('C', &config);
    instruction.pointer_mut(parent).unwrap()[key] = json!("here");
    let config = Value::from(config).to_string();
    let value = value.replace("\"C\"", &config).replace('S', CANARY);
    instruction.to_string().replacen("\"here\"", &value, 1)
}

#[test]
fn secret_in_the_wrong_place_of_an_instruction_is_shown_nowhere() {
    for row in SHAPES.trim().lines() {
        let [pointer, value, place] = row.splitn(3, ' ').collect::<Vec<_>>()[..] else { panic!() };
        let text = shape(pointer, value);
        assert!(text.contains("canary"), "{text}");
        let body = text.into_bytes();
        let mock =
            Mock::vim(move |_, _| Reply::bytes(&body).and("Content-Type", "application/json"));
        let mut machine = Machine::new(&mock.url);
        let (ended, log) = logged(|| machine.run());
        assert_eq!(ended.exit_status, ExitStatus::Untouched, "{row}");
        let result = mock.result();
        assert!(result["message"].as_str().unwrap().contains(place), "{row}: {result:#}");
        assert!(log.contains(result["code"].as_str().unwrap()), "{log}");
        let posted: Vec<Value> = mock.requests("").iter().map(Request::json).collect();
        for shown in [log, json!(posted).to_string()] {
            assert!(!shown.contains("canary") && !shown.contains("passwordH"), "{row}: {shown}");
        }
    }
}

//! The data for ironic-inspector, against a server that answers as it does in its worst moments.

use std::sync::Arc;
use std::time::Duration;

use run_coreos_installer::clock::Clock;
use run_coreos_installer::engines::inspector::{self, Inspector};
use run_coreos_installer::exit_status::ExitStatus;
use run_coreos_installer::job::{self, Survey};
use serde_json::{Value, json};

use super::ironic::{UUID, document};
use super::machine::Machine;
use super::mock::{Mock, Reply};

fn accepted() -> Reply {
    Reply::json(200, &json!({"uuid": UUID}))
}

fn refused(status: u16, text: &str) -> Reply {
    Reply::json(status, &json!({"error": {"message": text}}))
}

fn unknown() -> Reply {
    refused(400, "Look up error: Could not find a node for attributes {}")
}

/// Posts to this address; the UUID or the error.
fn post(url: &str) -> Result<String, String> {
    let mut machine = Machine::new(url);
    machine.settings.vim.deadline = Some(Duration::from_mins(10));
    let clock: Arc<dyn Clock> = machine.clock.clone();
    let client = inspector::client(&machine.settings.vim, &clock, &machine.stop).unwrap();
    inspector::inspect(&client, &document(None)).map_err(|error| format!("{error:#}"))
}

fn engine<'a>(
    machine: &Machine,
    survey: &'a mut dyn FnMut() -> Value,
) -> anyhow::Result<Inspector<'a>> {
    Inspector::new(&machine.settings.vim, machine.node(machine.clock.clone()), Survey(survey))
}

/// Runs the engine until the server has a request.
fn run(machine: &Machine, mock: &Mock, survey: &mut dyn FnMut() -> Value) -> ExitStatus {
    let seen = mock.clone();
    machine.stops_when(move || !seen.requests("/v1/continue").is_empty());
    job::run(&mut engine(machine, survey).unwrap())
}

#[test]
fn address_may_contain_the_path_and_the_document_is_posted_as_it_is() {
    let mock = Mock::start(|_, _| accepted());
    for end in ["", "/", "/v1", "/v1/continue", "/v1/continue/"] {
        assert_eq!(post(&format!("{}{end}", mock.url)), Ok(UUID.into()), "{end}");
    }
    for request in mock.requests("") {
        assert_eq!((request.path.as_str(), request.json()), ("/v1/continue", document(None)));
        assert_eq!(request.header("content-encoding"), None);
    }
}

#[test]
fn server_that_fails_or_names_no_node_is_tried_again() {
    let portal = || Reply::With(200, vec![], b"<html>".to_vec());
    for first in [|| refused(409, "locked"), || Reply::status(503), || Reply::Close, portal] {
        let mock = Mock::start(move |_, n| if n < 2 { first() } else { accepted() });
        assert_eq!(post(&mock.url), Ok(UUID.into()));
        assert_eq!(mock.requests("/v1/continue").len(), 3);
    }
}

#[test]
fn unknown_node_after_a_failed_answer_means_that_the_data_may_have_arrived() {
    for first in [|| Reply::Close, || Reply::status(500)] {
        let mock = Mock::start(move |_, n| if n == 0 { first() } else { unknown() });
        let why = post(&mock.url).unwrap_err();
        assert!(why.contains("has probably processed an earlier try"), "{why}");
    }
    let mock = Mock::start(|_, _| unknown());
    let why = post(&mock.url).unwrap_err();
    assert!(why.contains("02:00:00:00:00:01") && why.contains("start the introspection"), "{why}");
    assert_eq!(mock.requests("/v1/continue").len(), 1);
}

#[test]
fn inspector_that_does_not_respond_is_given_up_in_time() {
    let why = post("http://127.0.0.1:1").unwrap_err();
    assert!(why.contains("the time limit has passed"), "{why}");
}

#[test]
fn machine_stays_on_until_it_is_powered_off_and_no_disk_was_touched() {
    let mock = Mock::start(|_, _| accepted());
    let machine = Machine::new(&mock.url);
    let status = run(&machine, &mock, &mut || document(Some("192.0.2.1")));
    assert_eq!(status, ExitStatus::Untouched);
    assert!(machine.is_untouched("sda"));
}

#[test]
fn refused_data_are_not_reported() {
    let mock = Mock::start(|_, _| refused(400, "Ramdisk reported error: x"));
    let machine = Machine::new(&mock.url);
    let status = run(&machine, &mock, &mut || document(Some("192.0.2.1")));
    assert_eq!(status, ExitStatus::NotReported);
}

#[test]
fn hardware_is_read_again_until_a_port_has_an_address_but_not_forever() {
    for (n_without, n_expected) in [(3, 4), (1000, 13)] {
        let mock = Mock::start(|_, _| accepted());
        let machine = Machine::new(&mock.url);
        let mut n_surveys = 0;
        run(&machine, &mock, &mut || {
            n_surveys += 1;
            document((n_surveys > n_without).then_some("192.0.2.1"))
        });
        assert_eq!(n_surveys, n_expected);
    }
}

#[test]
fn missing_address_is_an_error_of_the_configuration() {
    let mut machine = Machine::new("");
    machine.settings.vim.url = None;
    let error = engine(&machine, &mut || panic!("the hardware is read")).unwrap_err();
    assert!(error.to_string().contains("the address of ironic-inspector is missing"), "{error:#}");
}

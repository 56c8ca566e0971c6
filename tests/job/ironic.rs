//! Inspection data for Ironic, against a server that answers as Ironic does in its worst moments; and which engines refuse a
//! dry run.

use std::sync::Arc;

use run_coreos_installer::clock::Clock;
use run_coreos_installer::engines::assisted::{self, Assisted};
use run_coreos_installer::engines::inspector::Inspector;
use run_coreos_installer::engines::ironic::api::Api;
use run_coreos_installer::engines::ironic::inspection::{Inspected, inspect};
use run_coreos_installer::engines::ironic::{self, Ironic};
use run_coreos_installer::job::Survey;
use run_coreos_installer::signals::Stop;
use serde_json::{Value, json};

use super::machine::Machine;
use super::mock::{Mock, Reply};

pub(crate) const UUID: &str = "f2a4b2d6-95f3-4dbb-a343-a7b6d0bbbb01";

fn accepted() -> Reply {
    Reply::json(202, &json!({"uuid": UUID}))
}

fn refused(status: u16, text: &str) -> Reply {
    let inner = json!({"faultcode": "Client", "faultstring": text}).to_string();
    Reply::json(status, &json!({"error_message": inner}))
}

/// A machine with one port.
pub(crate) fn document(address: Option<&str>) -> Value {
    json!({"inventory": {"interfaces": [
        {"name": "eth0", "mac_address": "02:00:00:00:00:01", "ipv4_address": address}
    ]}})
}

/// Posts to these addresses.
fn post(urls: &str) -> Inspected {
    let machine = Machine::new(urls);
    let clock: Arc<dyn Clock> = machine.clock.clone();
    let api = Api::new(&machine.settings.vim, &clock, &Stop::default()).unwrap();
    inspect(&api, &document(None)).unwrap()
}

#[test]
fn document_is_posted_as_it_is_and_names_the_node() {
    let mock = Mock::start(|_, _| accepted());
    let found = post(&format!("{}/v1/", mock.url));
    assert_eq!(found, Inspected::Accepted(Some(UUID.into())));
    let requests = mock.requests("/v1/continue_inspection");
    assert_eq!(requests.len(), 1);
    let request = &requests[0];
    assert_eq!(request.path, "/v1/continue_inspection");
    // Ironic decompresses nothing, and with a version it answers in another form.
    for absent in ["content-encoding", "authorization", "x-openstack-ironic-api-version"] {
        assert_eq!(request.header(absent), None, "{absent}");
    }
    assert_eq!(request.json(), document(None));
}

#[test]
fn locked_node_and_failing_server_are_tried_again() {
    for status in [409, 500, 503] {
        let mock =
            Mock::start(move |_, n| if n < 2 { refused(status, "later") } else { accepted() });
        assert_eq!(post(&mock.url), Inspected::Accepted(Some(UUID.into())), "{status}");
        assert_eq!(mock.requests("inspection").len(), 3);
    }
}

#[test]
fn missing_node_after_a_lost_answer_means_that_the_data_may_have_arrived() {
    let mock =
        Mock::start(|_, n| if n == 0 { Reply::Close } else { refused(404, "could not be found") });
    assert!(matches!(post(&mock.url), Inspected::MaybeDelivered(_)));
    let mock = Mock::start(|_, _| refused(404, "could not be found"));
    let Inspected::NotExpected(why) = post(&mock.url) else { panic!() };
    assert!(why.contains("02:00:00:00:00:01") && why.contains("add a port"), "{why}");
}

#[test]
fn refused_document_is_posted_once_and_ironics_text_is_shown() {
    let text = "Schema error for data: 'inventory' is a required property";
    let mock = Mock::start(move |_, _| refused(400, text));
    let Inspected::Refused(why) = post(&mock.url) else { panic!() };
    assert!(why.contains(text) && why.contains("report the bug"), "{why}");
    assert_eq!(mock.requests("inspection").len(), 1);
}

#[test]
fn next_address_is_tried_if_the_first_does_not_respond_or_is_a_proxy_without_its_server() {
    let proxy = Mock::start(|_, _| Reply::status(503));
    for first in ["http://127.0.0.1:1", &proxy.url] {
        let mock = Mock::start(|_, _| accepted());
        let found = post(&format!("{first},{}", mock.url));
        assert_eq!(found, Inspected::Accepted(Some(UUID.into())));
        assert_eq!(mock.requests("inspection").len(), 1);
    }
    assert_eq!(proxy.requests("inspection").len(), 1);
}

#[test]
fn dry_run_is_an_error_of_the_configuration_of_every_engine_but_that_of_a_vim() {
    let mut machine = Machine::new("http://127.0.0.1:1");
    machine.settings.is_dry_run = true;
    let server = || machine.settings.vim.clone();
    let node = || machine.node(machine.clock.clone());
    let mut of_ironic = || -> anyhow::Result<ironic::Surveyed> { panic!("the hardware is read") };
    let mut of_inspector = || -> Value { panic!("the hardware is read") };
    let mut of_host = || -> anyhow::Result<assisted::Surveyed> { panic!("the hardware is read") };
    let (node_settings, host) = (ironic::Settings::new(server()), assisted::Settings::new(UUID));
    for error in [
        Ironic::new(node_settings, node(), Survey(&mut of_ironic)).unwrap_err(),
        Inspector::new(&server(), node(), Survey(&mut of_inspector)).unwrap_err(),
        Assisted::new(host, server(), node(), Survey(&mut of_host)).unwrap_err(),
    ] {
        assert!(error.to_string().contains("dry-run needs --backend vim"), "{error:#}");
    }
}

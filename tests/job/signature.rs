//! Answers over plain HTTP: with `--vim-key` only what the VIM has signed for this very request counts.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use run_coreos_installer::exit_status::ExitStatus;
use run_coreos_installer::http::signature::VimKey;
use rustls::SignatureScheme;
use rustls::crypto::ring::sign::any_eddsa_type;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::sign::SigningKey;
use serde_json::{Value, json};

use super::machine::{IGNITION, Machine};
use super::mock::{Mock, Reply, Request};
use super::secrets::logged;

type Key = Arc<dyn SigningKey>;

fn key(seed: u8) -> Key {
    const PKCS8: [u8; 16] = [48, 46, 2, 1, 0, 48, 5, 6, 3, 43, 101, 112, 4, 34, 4, 32];
    any_eddsa_type(&PrivatePkcs8KeyDer::from([&PKCS8[..], &[seed; 32]].concat())).unwrap()
}

/// A machine that obeys this key.
fn machine(mock: &Mock, key: &Key) -> Machine {
    let mut machine = Machine::new(&mock.url);
    let public = STANDARD.encode(key.public_key().unwrap());
    machine.settings.vim.vim_key = Some(VimKey::parse(&public).unwrap());
    machine
}

/// The reply with a signature for this request of `node`.
fn signed(key: &Key, request: &Request, node: &str, reply: Reply) -> Reply {
    let Reply::With(status, headers, body) = &reply else { panic!("only a whole reply is signed") };
    let of =
        |name: &str| headers.iter().find(|(known, _)| known == name).map_or("", |(_, text)| text);
    let method = if request.path.contains("/instruction") { "GET" } else { "POST" };
    let (path, nonce) = (&request.path, request.header("rci-nonce").unwrap());
    let (kind, location, after) = (of("Content-Type"), of("Location"), of("Retry-After"));
    let lines = format!(
        "RCI-ANSWER-1\n{method}\n{path}\n{node}\n{nonce}\n{status}\n{kind}\n{location}\n{after}\n"
    );
    let signer = key.choose_scheme(&[SignatureScheme::ED25519]).unwrap();
    let signature = signer.sign(&[lines.as_bytes(), body].concat()).unwrap();
    reply.and("RCI-Signature", &STANDARD.encode(signature))
}

/// The reply with another status or body, as somebody on the way may change it.
fn changed(reply: Reply, new_status: u16, from: &str, to: &str) -> Reply {
    let Reply::With(_, headers, body) = reply else { panic!("only a whole reply is changed") };
    Reply::With(new_status, headers, String::from_utf8(body).unwrap().replace(from, to).into())
}

type Forge = fn(&Key, &Request) -> Reply;

/// Replies that nobody but somebody on the way would give: each orders a reboot or a long wait.
const FORGERIES: [Forge; 9] = [
    |_, _| Reply::action("reboot"),
    |_, request| signed(&key(9), request, "mac-02", Reply::action("reboot")),
    |key, request| signed(key, request, "mac-03", Reply::action("reboot")),
    |key, request| {
        let other = Request { path: "/v1/nodes/mac-02/result".into(), ..request.clone() };
        signed(key, &other, "mac-02", Reply::action("reboot"))
    },
    |key, request| {
        let headers = vec![("rci-nonce".to_owned(), "00".repeat(16))];
        let earlier = Request { headers, ..request.clone() };
        signed(key, &earlier, "mac-02", Reply::action("reboot"))
    },
    |key, request| {
        changed(signed(key, request, "mac-02", Reply::action("stop")), 200, "stop", "reboot")
    },
    |key, request| {
        let refused = changed(Reply::action("reboot"), 500, "", "");
        changed(signed(key, request, "mac-02", refused), 200, "", "")
    },
    |key, request| signed(key, request, "mac-02", Reply::status(503)).and("Retry-After", "3600"),
    |_, _| Reply::status(503).and("Retry-After", "3600"),
];

#[test]
fn only_what_the_vim_has_signed_for_this_request_is_obeyed() {
    for (name, forge) in FORGERIES.into_iter().enumerate() {
        let key = key(7);
        let own = Arc::clone(&key);
        let mock = Mock::start(move |request, n| match request.path.as_str() {
            "/v1/reports" if n < 2 => forge(&own, request),
            "/v1/reports" => signed(&own, request, "mac-02", Reply::action("stop")),
            _ => signed(&own, request, "mac-02", Reply::status(204)),
        });
        let mut machine = machine(&mock, &key);
        let (ended, log) = logged(|| machine.run());
        assert_eq!(ended.exit_status, ExitStatus::Untouched, "{name}: {log}");
        let reports = mock.requests("/v1/reports");
        let nonce = |at: usize| reports[at].header("rci-nonce").unwrap().to_owned();
        assert!(reports.len() == 3 && nonce(0) != nonce(1) && nonce(0).len() == 32, "{name}");
        let slept = machine.slept();
        assert!(slept[..2].iter().all(|wait| *wait <= Duration::from_mins(1)), "{name}: {slept:?}");
        assert_eq!(log.matches("are not signed with the key in --vim-key").count(), 1, "{log}");
        assert_eq!(log.matches("are signed with the key in --vim-key again").count(), 1, "{log}");
    }
}

#[test]
fn unsigned_answer_neither_makes_a_node_report_again_nor_takes_its_result() {
    let key = key(7);
    let own = Arc::clone(&key);
    let mock = Mock::start(move |request, n| {
        let accepted = json!({"node_id": "node-7"});
        let reply = match (request.path.as_str(), n) {
            ("/v1/reports", _) => {
                let accepted = Reply::json(202, &accepted).and("Retry-After", "5");
                let accepted = accepted.and("Location", "/v1/nodes/node-7/instruction?turn=1");
                return signed(&own, request, "mac-02", accepted);
            }
            ("/v1/nodes/node-7/instruction?turn=1", 0) => return Reply::status(404),
            ("/v1/nodes/node-7/result", 0) => return Reply::status(204),
            (path, _) if path.ends_with("/instruction?turn=1") => Reply::action("explode"),
            _ => Reply::status(204),
        };
        signed(&own, request, "node-7", reply)
    });
    let mut machine = machine(&mock, &key);
    assert_eq!(machine.run().exit_status, ExitStatus::Untouched);
    assert_eq!(mock.requests("/v1/reports").len(), 1);
    assert_eq!(mock.requests("/instruction?turn=1").len(), 2);
    assert_eq!(mock.codes(), ["ACTION_UNKNOWN", "ACTION_UNKNOWN"]);
}

#[test]
fn signed_instruction_names_no_file_that_anybody_on_the_way_could_replace() {
    let key = key(7);
    let hash = format!("sha256-{}", "0".repeat(64));
    let (plain, safe) = ("http://127.0.0.1:1/a", "https://127.0.0.1:1/a");
    let inline = json!({"inline": IGNITION});
    let image = |image: Value| json!({"ignition": inline, "image": image});
    for (install, refused) in [
        (json!({"ignition": {"url": plain}}), "install.ignition"),
        (json!({"ignition": {"url": "HTTP://127.0.0.1:1/a"}}), "install.ignition"),
        (image(json!({"url": plain, "insecure": true})), "install.image"),
        (image(json!({"stream": {"url": plain}})), "install.image"),
        (json!({"ignition": {"url": plain, "hash": hash}}), ""),
        (json!({"ignition": {"url": safe}}), ""),
        (image(json!({"url": plain})), ""),
        (image(json!({"url": plain, "insecure": true, "hash": hash})), ""),
        (image(json!({"stream": {"url": safe}})), ""),
    ] {
        let (own, order) = (Arc::clone(&key), install.clone());
        let mock = Mock::start(move |request, _| match request.path.as_str() {
            "/v1/reports" => signed(&own, request, "mac-02", Reply::install(&order)),
            _ => signed(&own, request, "mac-02", Reply::status(204)),
        });
        assert_eq!(machine(&mock, &key).run().exit_status, ExitStatus::Untouched);
        let result = mock.result();
        let message = result["message"].as_str().unwrap();
        let is_refused = message.contains("is fetched over plain HTTP without a hash");
        assert_eq!(is_refused, !refused.is_empty(), "{install}: {message}");
        if is_refused {
            assert_eq!(result["code"], "INSTRUCTION_INVALID");
            assert!(message.starts_with(refused), "{install}: {message}");
        }
    }
}

//! VIM API v1: `/v1/…`, each request checked against the `OpenAPI` document before it is carried out.

use formats::hex::hex;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::http::{Answer, Refusal, Request, gunzip, header, no_content};
use crate::lab::Lab;
use crate::orders::{Order, known_name, order, renamed};

/// Answers a request below `/v1`.
///
/// # Errors
/// 4xx for a request that violates the document, 500 when the database fails.
pub(crate) fn answer(lab: &Lab, request: &Request) -> Result<Answer, Refusal> {
    let found = lab.contract.find(&request.method, &request.path);
    // An installed system has neither the token nor the certificate of its node.
    if !found.as_ref().is_ok_and(|found| found.operation.id == "putBoot") {
        admit(lab, request)?;
    }
    let found = found?;
    found.check_head(&request.headers, request.query.as_deref())?;
    let body = match header(&request.headers, "content-encoding") {
        None | Some("identity") => request.body.clone(),
        Some("gzip") if found.takes_gzip() => gunzip(&request.body, lab.options.max_body_bytes)?,
        Some(other) => {
            let message = format!("content-encoding {other:?}, expected what the API lists");
            return Err(Refusal::new(415, "CONTENT_ENCODING", message));
        }
    };
    let value = found.check_body(&request.headers, &body)?;
    let value = value.unwrap_or(Value::Null);
    let node = match found.path.get("id") {
        Some(id) => known_name(lab, id)?,
        None => known_name(lab, value["node_id"].as_str().unwrap_or_default())?,
    };
    let operation = found.operation.id.as_str();
    match operation {
        "postReport" => {
            once(lab, request, operation, &body, || report(lab, request, &node, &value))
        }
        "getInstruction" => instruction(lab, request, &node, &found.path["id"]),
        "putNeighbours" => neighbours(lab, &node, &value),
        "putBoot" => boot(lab, request, &node, &found.path["n"], &value),
        "postEvents" => events(lab, &node, &value),
        "postResult" => {
            once(lab, request, operation, &body, || result(lab, &node, &found.path["id"], &value))
        }
        other => Err(Refusal::new(501, "OPERATION", format!("{other:?} is not implemented"))),
    }
}

/// Checks a request's token and certificate.
fn admit(lab: &Lab, request: &Request) -> Result<(), Refusal> {
    if lab.options.require_client_certificate && !request.has_client_certificate {
        let message = "no client certificate from this VIM's CA, expected one over HTTPS";
        return Err(Refusal::new(403, "CLIENT_CERTIFICATE", message));
    }
    let Some(token) = &lab.token else { return Ok(()) };
    match bearer(request) {
        Some(given) if given == token => Ok(()),
        Some(_) => Err(Refusal::new(401, "TOKEN", "wrong bearer token")),
        None => {
            Err(Refusal::new(401, "TOKEN", "no bearer token, expected authorization: Bearer …"))
        }
    }
}

/// The bearer token of a request.
fn bearer(request: &Request) -> Option<&str> {
    let (scheme, token) = header(&request.headers, "authorization")?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Carries out a request once per Idempotency-Key.
fn once(
    lab: &Lab,
    request: &Request,
    operation: &str,
    body: &[u8],
    act: impl FnOnce() -> Result<Order, Refusal>,
) -> Result<Answer, Refusal> {
    let Some(key) = header(&request.headers, "idempotency-key") else {
        return act().map(Order::answer);
    };
    // The path is part of the key: the same key for another node is another request.
    let mut digest = Sha256::new();
    digest.update(&request.path);
    digest.update([0]);
    digest.update(body);
    let digest = hex(&digest.finalize());
    match lab.store.kept(operation, key)? {
        Some((kept, _)) if kept != digest => {
            let message = format!("idempotency-key {key:?} was used before with another body");
            Err(Refusal::new(422, "IDEMPOTENCY_KEY", message))
        }
        Some((_, kept)) => serde_json::from_value::<Order>(kept)
            .map(Order::answer)
            .map_err(|error| Refusal::new(500, "STORE", error.to_string())),
        None => {
            let order = act()?;
            let kept = serde_json::to_value(&order).unwrap_or_default();
            lab.store.keep(operation, key, &digest, &kept)?;
            Ok(order.answer())
        }
    }
}

fn report(lab: &Lab, request: &Request, node: &str, report: &Value) -> Result<Order, Refusal> {
    lab.store.add_report(node, report)?;
    lab.forget_polls(node);
    let reported = report["node_id"].as_str().unwrap_or(node);
    // Only the 202 that accepts a report can give the node another id.
    if node == reported {
        order(lab, reported, &request.base)
    } else {
        renamed(lab, reported, node)
    }
}

fn instruction(lab: &Lab, request: &Request, node: &str, id: &str) -> Result<Answer, Refusal> {
    let known = lab.store.node(node)?.ok_or_else(|| unknown(node))?;
    lab.store.touch(node)?;
    order(lab, known.reported_name().unwrap_or(id), &request.base).map(Order::answer)
}

fn unknown(node: &str) -> Refusal {
    Refusal::new(404, "NODE_UNKNOWN", format!("node {node:?} has not reported yet"))
}

fn neighbours(lab: &Lab, node: &str, supplement: &Value) -> Result<Answer, Refusal> {
    if !lab.store.add_neighbours(node, &supplement["neighbours"])? {
        return Err(unknown(node));
    }
    Ok(no_content())
}

/// A boot of an installed system, whose token is that of its install.
fn boot(
    lab: &Lab,
    request: &Request,
    node: &str,
    n: &str,
    boot: &Value,
) -> Result<Answer, Refusal> {
    let token = bearer(request).map(|token| format!("sha256-{}", hex(&Sha256::digest(token))));
    if lab.store.add_boot(node, &token.unwrap_or_default(), n, boot)? {
        return Ok(no_content());
    }
    let message = format!("no result of node {node:?} has the digest of this bearer token");
    Err(Refusal::new(401, "TOKEN", message))
}

fn events(lab: &Lab, node: &str, batch: &Value) -> Result<Answer, Refusal> {
    let events = batch["events"].as_array().map_or(&[][..], Vec::as_slice);
    lab.store.add_events(node, events)?;
    Ok(no_content())
}

fn result(lab: &Lab, node: &str, id: &str, result: &Value) -> Result<Order, Refusal> {
    let named = result["node_id"].as_str().unwrap_or_default();
    if named != id && known_name(lab, named)? != node {
        let message =
            format!("Result at /node_id: found {named:?}, expected {id:?} as in the path");
        return Err(Refusal::new(422, "RESULT_INVALID", message));
    }
    lab.store.add_result(node, result)?;
    Ok(Order::no_content())
}

//! Requests of Ironic, with limits on the sender and size of a body, and answers in JSON.

use std::io::{self, Read, Write};
use std::sync::MutexGuard;

use serde_json::{Value, json};

use super::commands::Commands;
use crate::clean;
use crate::http::server::{Head, read_head, send_head};

/// The longest body: a node with an Ignition config of the greatest size, in JSON inside of JSON.
const MAX_BODY_BYTES: usize = 24 * 1024 * 1024;
/// The longest text of a fault, in characters.
const MAX_FAULT_CHARS: usize = 1000;

/// A response.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Value,
}

impl Answer {
    pub(super) fn ok(body: Value) -> Self {
        Self { status: 200, body }
    }

    /// An error as ironic-python-agent gives it. Ironic reads `faultstring` of every error without checking.
    pub(super) fn fault(status: u16, text: impl Into<String>) -> Self {
        let code = if status >= 500 { "Server" } else { "Client" };
        let text = clean::text(&text.into(), MAX_FAULT_CHARS);
        Self { status, body: json!({"faultcode": code, "faultstring": text}) }
    }
}

/// The permission to send a large body, which only one request has at a time.
pub(super) type Permit<'a> = Option<MutexGuard<'a, ()>>;

/// Head, body and permit of a request.
type Request<'a> = (Head, Vec<u8>, Permit<'a>);

/// Reads a request and has it answered. `arrived` is called between the two. Also returns whether all of the request was read.
pub(super) fn receive(
    stream: &mut (impl Read + Write),
    commands: &Commands,
    arrived: impl FnOnce(),
) -> io::Result<(Answer, bool)> {
    let request = read(stream, commands)?;
    arrived();
    Ok(match request {
        Ok((head, body, permit)) => (commands.answer(&head, body, permit), true),
        Err(answer) => (answer, false),
    })
}

fn read<'h>(
    stream: &mut (impl Read + Write),
    commands: &'h Commands,
) -> io::Result<Result<Request<'h>, Answer>> {
    let (head, mut body) = match read_head(stream)? {
        Ok(read) => read,
        Err((status, why)) => return Ok(Err(Answer::fault(status, why))),
    };
    let n_bytes = head.body_bytes.unwrap_or_default();
    let permit = match commands.admit(&head) {
        Ok(permit) => permit,
        Err(answer) => return Ok(Err(answer)),
    };
    if head.is_chunked {
        return Ok(Err(Answer::fault(411, "the request needs Content-Length")));
    }
    if n_bytes > MAX_BODY_BYTES {
        let most = format!("the body has {n_bytes} bytes, expected at most {MAX_BODY_BYTES}");
        return Ok(Err(Answer::fault(413, most)));
    }
    if head.expects_continue && n_bytes > 0 {
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        stream.flush()?;
    }
    body.truncate(n_bytes);
    let missing = n_bytes - body.len();
    let n_read = Read::by_ref(stream).take(missing as u64).read_to_end(&mut body)?;
    if n_read < missing {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Ok((head, body, permit)))
}

/// Sends an answer.
pub(super) fn send(stream: &mut impl Write, answer: &Answer) -> io::Result<()> {
    let body = answer.body.to_string();
    send_head(stream, answer.status, "application/json", Some(body.len() as u64))?;
    stream.write_all(body.as_bytes())?;
    stream.flush()
}

#[cfg(test)]
mod tests {
    use std::net::Shutdown;
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc::channel;

    use super::*;
    use crate::act::System;
    use crate::engines::ironic::journal::Journal;
    use crate::engines::ironic::journal::tests::session;
    use crate::engines::ironic::logs::Logs;

    fn answer_to(commands: &Commands, request: &str) -> String {
        let (mut client, mut server) = UnixStream::pair().unwrap();
        client.write_all(request.as_bytes()).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let (answer, _) = receive(&mut server, commands, || {}).unwrap();
        send(&mut server, &answer).unwrap();
        server.shutdown(Shutdown::Write).unwrap();
        let mut response = String::new();
        client.read_to_string(&mut response).unwrap();
        response
    }

    #[test]
    fn body_is_read_whole_and_no_further_and_what_is_no_request_gets_a_fault_in_json() {
        let fault = "\"faultstring\":";
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(folder.path());
        journal.begin(session("good"), None).unwrap();
        let commands = Commands::new(journal, channel().0, Logs::default(), System::default());
        let good = "POST /v1/commands/?agent_token=good HTTP/1.1\r\n";
        for (request, status, part) in [
            // With the last byte it is not JSON.
            (format!("{good}content-length: 4\r\n\r\nnullX"), "400", "needs a name"),
            ("hello\r\n\r\n".into(), "400", fault),
            // The body of a request without the token is not kept.
            (
                "POST /v1/commands HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\nxxx".into(),
                "401",
                fault,
            ),
            (format!("{good}Transfer-Encoding: chunked\r\n\r\n"), "411", fault),
            (format!("{good}Content-Length: 99999999999\r\n\r\n"), "413", fault),
        ] {
            let answer = answer_to(&commands, &request);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{request}: {answer}");
            assert!(answer.contains(part) && answer.contains("Connection: close"), "{answer}");
        }
    }
}

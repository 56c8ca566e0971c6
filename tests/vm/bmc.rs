//! A simulated management controller for QEMU's `ipmi-bmc-extern`, whose sensors and event log a test chooses: QEMU's own
//! controller has no readings and an empty log. Framing: `OpenIPMI`'s protocol for virtual machines, as in QEMU's
//! `hw/ipmi/ipmi_bmc_extern.c`; commands: IPMI 2.0, appendix G.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::ipmi;

/// How long QEMU may take to listen.
const START_LIMIT: Duration = Duration::from_mins(1);
/// Ends a message.
const END_MESSAGE: u8 = 0xa0;
/// Ends a command to the controller's hardware, such as a reset.
const END_COMMAND: u8 = 0xa1;
/// The next byte has bit 4 set and would otherwise be one of these three.
const ESCAPE: u8 = 0xaa;

/// Network function and command (IPMI 2.0, 28.5).
const CHASSIS_IDENTIFY: (u8, u8) = (0x00, 0x04);
/// Seconds for which the light of the chassis was asked to blink, one entry for each request.
pub(crate) type Identified = Arc<Mutex<Vec<u8>>>;

/// The sensor whose record is [`ipmi::sensor_records`]' first: a raw reading of 35 is 58 °C, its upper critical threshold is 47 °C.
const INLET: u8 = 3;
/// The second power supply there.
const SECOND_SUPPLY: u8 = 7;
/// The sensor that logs memory errors of one slot.
const DIMM: u8 = 0x40;
/// The slot.
pub(crate) const DIMM_SENSOR: &str = "DIMM_B2";

/// Serves the guest whose QEMU will listen on `socket`, until it ends. QEMU has to be the server: it crashes if its device
/// finds an open connection.
/// What Chassis Identify is asked for goes into `identified`: how long the light blinks.
pub(crate) fn serve(socket: PathBuf, identified: Identified) {
    std::thread::spawn(move || {
        let mut until = Instant::now() + START_LIMIT;
        while Instant::now() < until {
            if let Ok(stream) = UnixStream::connect(&socket) {
                // The connection breaks when the guest ends, which may be started once more.
                answer_all(stream, &identified).ok();
                until = Instant::now() + START_LIMIT;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    });
}

/// Answers every message: sequence number, network function, command, data, checksum.
fn answer_all(mut stream: UnixStream, identified: &Identified) -> std::io::Result<()> {
    let (mut message, mut is_escaped, mut byte) = (Vec::new(), false, [0]);
    while stream.read(&mut byte)? == 1 {
        match byte[0] {
            END_MESSAGE => {
                if let [sequence, function, command, data @ .., _] = message.as_slice() {
                    if (function >> 2, *command) == CHASSIS_IDENTIFY {
                        let mut all = identified.lock().unwrap_or_else(PoisonError::into_inner);
                        all.extend(data.first());
                    }
                    let mut reply = vec![*sequence, function | 4, *command];
                    reply.extend(reply_to(function >> 2, *command, data));
                    stream.write_all(&framed(reply))?;
                }
                message.clear();
            }
            END_COMMAND => message.clear(),
            ESCAPE => is_escaped = true,
            plain => {
                message.push(if std::mem::take(&mut is_escaped) { plain & !0x10 } else { plain });
            }
        }
    }
    Ok(())
}

/// Appends the byte that makes the sum 0, escapes what has a meaning, and ends the message.
fn framed(mut reply: Vec<u8>) -> Vec<u8> {
    reply.push(reply.iter().fold(0, |sum, byte| sum.wrapping_sub(*byte)));
    let mut bytes = Vec::new();
    for byte in reply {
        if [END_MESSAGE, END_COMMAND, ESCAPE].contains(&byte) {
            bytes.extend([ESCAPE, byte | 0x10]);
        } else {
            bytes.push(byte);
        }
    }
    bytes.push(END_MESSAGE);
    bytes
}

/// Completion code and data.
fn reply_to(function: u8, command: u8, data: &[u8]) -> Vec<u8> {
    let (records, events) = (sensor_records(), event_log());
    let found = match (function, command) {
        // Get Device ID: firmware 2.10, IPMI 2.0, with sensors, repository, log; Dell.
        (0x06, 0x01) => Some(vec![0x20, 0x81, 2, 0x10, 2, 0x87, 0xa2, 2, 0, 0, 1, 0, 0, 0, 0]),
        // Global enables and message flags, which the driver sets, reads and clears.
        CHASSIS_IDENTIFY | (0x06, 0x2e | 0x30) => Some(Vec::new()),
        (0x06, 0x2f | 0x31) => Some(vec![0]),
        // Information about the repository and the log: version, number of entries, free space, two times.
        (0x0a, 0x20) => Some(information(records.len())),
        (0x0a, 0x40) => Some(information(events.len())),
        (0x0a, 0x22 | 0x42) => Some(vec![1, 0]),
        (0x0a, 0x23 | 0x43) => part(if command == 0x23 { &records } else { &events }, data),
        // The reading, "scanned", and the thresholds or states that apply.
        (0x04, 0x2d) => match data.first() {
            Some(&INLET) => Some(vec![35, 0xc0, 0x18, 0x80]),
            // Present, and failed.
            Some(&SECOND_SUPPLY) => Some(vec![0, 0xc0, 0x03, 0x80]),
            _ => Some(vec![0, 0xc0, 0x01, 0x80]),
        },
        _ => None,
    };
    match found {
        Some(data) => [vec![0], data].concat(),
        // Invalid command.
        None => vec![0xc1],
    }
}

fn information(n: usize) -> Vec<u8> {
    let mut data = vec![0x51, u8::try_from(n).unwrap_or(u8::MAX), 0, 0, 0x10];
    data.extend([0; 8]);
    data.push(0x02);
    data
}

/// Get SDR and Get SEL Entry: reservation, number, offset and length; the number of the next one precedes the bytes.
fn part(entries: &[Vec<u8>], request: &[u8]) -> Option<Vec<u8>> {
    let &[_, _, low, high, offset, n_bytes] = request else { return None };
    let number = u16::from_le_bytes([low, high]);
    let at = match number {
        0 => 0,
        u16::MAX => entries.len() - 1,
        _ => entries.iter().position(|entry| entry.starts_with(&[low, high]))?,
    };
    let next = entries.get(at + 1).map_or([0xff; 2], |entry| [entry[0], entry[1]]);
    let rest = entries[at].get(usize::from(offset)..)?;
    let taken = &rest[..rest.len().min(usize::from(n_bytes))];
    Some([&next, taken].concat())
}

/// The records of QEMU's own controller, and one for the sensor that only logs.
fn sensor_records() -> Vec<Vec<u8>> {
    let bytes = ipmi::sensor_records();
    let mut rest = bytes.as_slice();
    let mut records = Vec::new();
    while let Some(record) = rest.get(4).and_then(|length| rest.get(..5 + usize::from(*length))) {
        records.push(record.to_owned());
        rest = &rest[record.len()..];
    }
    // Event-only (43.3): the BMC's sensor at DIMM 4, which has memory states.
    let mut body = vec![0x20, 0, DIMM, 0x20, 4, 0x0c, 0x6f, 1, 0, 0, 0];
    body.push(0xc0 | u8::try_from(DIMM_SENSOR.len()).unwrap_or_default());
    body.extend(DIMM_SENSOR.bytes());
    let number = u8::try_from(records.len() + 1).unwrap_or(u8::MAX);
    let length = u8::try_from(body.len()).unwrap_or(u8::MAX);
    records.push([&[number, 0, 0x51, 3, length], body.as_slice()].concat());
    records
}

/// Two uncorrectable errors of the DIMM and the failure of a power supply (32.1).
fn event_log() -> Vec<Vec<u8>> {
    let entry = |number: u8, kind: u8, sensor: u8| {
        let mut bytes = vec![number, 0, 2];
        bytes.extend((0x6700_0000_u32 + 3600 * u32::from(number)).to_le_bytes());
        // From the controller, version 4; sensor-specific state 1: uncorrectable error, or failure detected.
        bytes.extend([0x20, 0, 4, kind, sensor, 0x6f, 1, 0xff, 0xff]);
        bytes
    };
    vec![entry(1, 0x0c, DIMM), entry(2, 0x0c, DIMM), entry(3, 0x08, SECOND_SUPPLY)]
}

//! The records of the controller's repository (IPMI 2.0, chapter 33).

use formats::bytes::array;
use formats::ipmi::record::{self, Locator, Record};

use super::ask::{Controller, ONLY_FIRST, follow, incomplete};
use crate::sys::ipmi::IpmiCommand;

/// A large machine has about 400.
const LIMIT_RECORDS: usize = 1000;
const LIMIT_SENSORS: usize = 1500;
/// Parts of this size pass through every system interface.
const PART_BYTES: u8 = 16;
const HEADER_BYTES: usize = 5;

/// The records of the repository that this program uses.
#[derive(Debug, Default)]
pub(super) struct Repository {
    /// The sensors, in the order of the records.
    pub(super) records: Vec<Record>,
    /// The FRU devices, likewise.
    pub(super) locators: Vec<Locator>,
}

/// Reads all records.
pub(super) fn repository(controller: &Controller) -> Repository {
    let mut found = Repository::default();
    let Some(info) = controller.data_or_problem(IpmiCommand::SensorRecordsInfo) else {
        return found;
    };
    let n_records = array(&info, 1).map(|bytes| usize::from(u16::from_le_bytes(bytes)));
    if n_records == Some(0) {
        return found;
    }
    let mut n_read = 0;
    let mut reader = Reader { controller, is_whole: true };
    let is_complete = follow(0, LIMIT_RECORDS, |id| {
        let (next, bytes) = reader.read(id)?;
        n_read += 1;
        found.records.extend(record::parse(&bytes));
        found.locators.extend(record::locator(&bytes));
        Some(next)
    });
    if found.records.len() > LIMIT_SENSORS {
        found.records.truncate(LIMIT_SENSORS);
        let what = format!("more than {LIMIT_SENSORS} sensors");
        controller.machine.problem("ipmi/sdr", what, ONLY_FIRST);
    }
    if !is_complete {
        let n_all = n_records.unwrap_or_default().max(n_read);
        incomplete(controller.machine, "ipmi/sdr", "", n_read, n_all);
    }
    found
}

/// Reads records whole, or in parts once the controller has refused a whole one.
struct Reader<'a> {
    controller: &'a Controller<'a>,
    is_whole: bool,
}

impl Reader<'_> {
    /// The number of the next record, and the bytes of this one.
    fn read(&mut self, id: u16) -> Option<(u16, Vec<u8>)> {
        if self.is_whole {
            let command =
                IpmiCommand::SensorRecord { id, offset: 0, n_bytes: 0xff, reservation: 0 };
            let answer = self.controller.ask(&command)?;
            let found = (answer.code == 0).then(|| split(answer.data)).flatten();
            if let Some((next, bytes)) = found.filter(|(_, bytes)| is_whole(bytes)) {
                return Some((next, bytes));
            }
            self.is_whole = false;
        }
        // A reservation ends when the controller writes a record; it is renewed once.
        self.read_parts(id).or_else(|| self.read_parts(id))
    }

    fn read_parts(&self, id: u16) -> Option<(u16, Vec<u8>)> {
        let reservation = self.controller.data(IpmiCommand::ReserveSensorRecords)?;
        let reservation = u16::from_le_bytes(*reservation.first_chunk::<2>()?);
        let part = |offset: usize, n_bytes: usize| {
            let offset = u8::try_from(offset).ok()?;
            let n_bytes = u8::try_from(n_bytes).ok()?;
            let command = IpmiCommand::SensorRecord { id, offset, n_bytes, reservation };
            split(self.controller.data(command)?)
        };
        let (next, mut bytes) = part(0, HEADER_BYTES)?;
        let end = HEADER_BYTES + usize::from(*bytes.get(4)?);
        while bytes.len() < end {
            let (_, more) = part(bytes.len(), usize::from(PART_BYTES).min(end - bytes.len()))?;
            if more.is_empty() {
                return None;
            }
            bytes.extend(more);
        }
        Some((next, bytes))
    }
}

fn is_whole(record: &[u8]) -> bool {
    record.get(4).is_some_and(|length| record.len() >= HEADER_BYTES + usize::from(*length))
}

fn split(mut data: Vec<u8>) -> Option<(u16, Vec<u8>)> {
    let next = u16::from_le_bytes(*data.first_chunk::<2>()?);
    Some((next, data.split_off(2)))
}

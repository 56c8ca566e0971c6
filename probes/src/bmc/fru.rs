//! Field replaceable units: data of the board, the power supplies and other parts that the controller
//! stores or fetches (IPMI 2.0, chapter 34; Platform Management FRU Information
//! Storage Definition 1.0, revision 1.3).

use std::time::Duration;

use formats::fru::area::{self, Fault, FruBoard, FruChassis, FruPowerSupply, FruProduct};
use formats::ipmi::names;
use formats::ipmi::record::Locator;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ask::{Controller, ONLY_FIRST, incomplete};
use crate::machine::Machine;
use crate::sys::ipmi::{FruArea, FruPart, IpmiCommand};

/// A part takes about ten commands. Power supplies are on a slow bus and are read first.
const BUDGET: Duration = Duration::from_secs(4);
/// A blade chassis has some dozens.
const LIMIT_FRUS: usize = 64;
/// Power supply (table 43-13).
const POWER_SUPPLY: u8 = 0x0a;
/// No such command, no such device, and not in this state (table 5-2).
const NOT_PRESENT: [u8; 3] = [0xc1, 0xcb, 0xd5];

/// A replaceable part with the content of its memory. A part without any text is omitted.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Fru {
    /// The number of its device at the controller; 0 is the controller's own board, or the machine.
    pub id: u8,
    /// Its name in the controller's records (SDR type 11h), e.g. `PSU1_FRU`.
    pub name: Option<String>,
    /// Its type according to these records, e.g. `power supply 1` (IPMI 2.0, table 43-13).
    pub entity: Option<String>,
    /// Data of the chassis (chapter 10 of the storage definition).
    pub chassis: Option<FruChassis>,
    /// Data of the board (chapter 11).
    pub board: Option<FruBoard>,
    /// Data of the product (chapter 12).
    pub product: Option<FruProduct>,
    /// Data of the power supply (18.1); read only if the records call the part one.
    pub power_supply: Option<FruPowerSupply>,
}

/// Reads the FRU devices that `locators` name, and device 0; by number.
pub(super) fn frus(machine: &Machine, locators: &[Locator]) -> Vec<Fru> {
    let controller = Controller::new(machine, BUDGET);
    let mut devices = devices(locators);
    if devices.len() > LIMIT_FRUS {
        devices.truncate(LIMIT_FRUS);
        machine.problem("ipmi/fru", format!("more than {LIMIT_FRUS} devices"), ONLY_FIRST);
    }
    let mut frus = Vec::new();
    let mut n_read = 0;
    for locator in &devices {
        let Ok(found) = fru(&controller, locator) else { break };
        n_read += 1;
        frus.extend(found);
    }
    // If the controller never responded, no device is known to exist, so none is missing.
    if n_read < devices.len() && (n_read > 0 || !locators.is_empty()) {
        incomplete(machine, "ipmi/fru", "", n_read, devices.len());
    }
    frus.sort_by_key(|fru| fru.id);
    frus
}

/// Each device once, power supplies first, as time may run out before all are read.
fn devices(locators: &[Locator]) -> Vec<Locator> {
    let mut devices = vec![Locator::default()];
    for locator in locators {
        match devices.iter_mut().find(|known| known.device == locator.device) {
            Some(known) if known.name.is_none() => *known = locator.clone(),
            Some(_) => {}
            None => devices.push(locator.clone()),
        }
    }
    devices.sort_by_key(|locator| (locator.entity != POWER_SUPPLY, locator.device));
    devices
}

/// The controller does not respond, or its time has run out.
struct Silent;

/// `None` for a device without data.
fn fru(controller: &Controller, locator: &Locator) -> Result<Option<Fru>, Silent> {
    let info = controller.ask(&IpmiCommand::FruInfo { device: locator.device }).ok_or(Silent)?;
    let mut device = Device { controller, id: locator.device, size: 0, is_by_word: false };
    let (0, Some(&[low, high, access])) = (info.code, info.data.first_chunk::<3>()) else {
        if !NOT_PRESENT.contains(&info.code) {
            let found = format!("completion code {:02x} and {} bytes", info.code, info.data.len());
            device.problem("info", found, "code 00 and 3 bytes, or that the part is not there");
        }
        return Ok(None);
    };
    (device.size, device.is_by_word) = (u16::from_le_bytes([low, high]), access & 1 == 1);
    let Some(bytes) = device.read(FruPart::Header, 0)? else { return Ok(None) };
    let header = device.parsed(FruPart::Header, &bytes, area::header);
    let Some([chassis, board, product, records]) = header else { return Ok(None) };
    let records = if locator.entity == POWER_SUPPLY { records } else { 0 };
    let fru = Fru {
        id: locator.device,
        name: locator.name.clone(),
        entity: names::entity(locator.entity, locator.entity_instance),
        chassis: device.area(FruPart::Chassis, chassis, area::chassis)?,
        board: device.area(FruPart::Board, board, area::board)?,
        product: device.area(FruPart::Product, product, area::product)?,
        power_supply: device.area(FruPart::Records, records, area::power_supply)?,
    };
    let is_blank = fru.chassis.is_none() && fru.board.is_none() && fru.product.is_none();
    Ok((!is_blank || fru.power_supply.is_some()).then_some(fru))
}

/// A parser of one part, which also names what is wrong with its bytes.
type Parse<T> = fn(&[u8], &mut Vec<Fault>) -> Option<T>;

/// The memory of one part.
struct Device<'a> {
    controller: &'a Controller<'a>,
    id: u8,
    size: u16,
    is_by_word: bool,
}

impl Device<'_> {
    /// The area at `start`, in units of 8 bytes; 0 where there is none.
    fn area<T>(&self, part: FruPart, start: u8, parse: Parse<T>) -> Result<Option<T>, Silent> {
        let start = u16::from(start) * 8;
        if start == 0 {
            return Ok(None);
        }
        if start >= self.size {
            let found = format!("an area at byte {start}");
            self.problem(&part.name(), found, "one within the memory");
            return Ok(None);
        }
        let bytes = self.read(part, start)?;
        Ok(bytes.and_then(|bytes| self.parsed(part, &bytes, parse)))
    }

    /// `None` where the controller refuses: the part is not plugged in, or not now.
    fn read(&self, part: FruPart, start: u16) -> Result<Option<Vec<u8>>, Silent> {
        let (size, is_by_word) = (self.size, self.is_by_word);
        let question =
            FruArea { device: self.id, part, start, size, is_by_word, end: self.controller.end };
        let answer = self.controller.ask(&question).ok_or(Silent)?;
        if answer.code != 0 && !(answer.data.is_empty() && NOT_PRESENT.contains(&answer.code)) {
            let found =
                format!("completion code {:02x} behind {} bytes", answer.code, answer.data.len());
            self.problem(&part.name(), found, "the whole part");
        }
        Ok(Some(answer.data).filter(|bytes| !bytes.is_empty()))
    }

    fn parsed<T>(&self, part: FruPart, bytes: &[u8], parse: Parse<T>) -> Option<T> {
        let mut faults = Vec::new();
        let parsed = parse(bytes, &mut faults);
        for (found, expected) in faults {
            self.problem(&part.name(), found, expected);
        }
        parsed
    }

    fn problem(&self, part: &str, found: String, expected: &str) {
        let path = format!("ipmi/fru/{:02x}/{part}", self.id);
        self.controller.machine.problem(&path, found, expected);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::bytes::{area, seal, supply_record};
    use crate::testing::{has, problems, tree_of_bytes};
    use serde_json::json;

    const NONE: [&str; 0] = [];
    const INFO: &[u8] = &[0, 0, 1, 0];

    fn header(areas: [u8; 4]) -> Vec<u8> {
        let mut bytes = [&[1, 0], &areas[..], &[0, 0]].concat();
        seal(&mut bytes);
        answer(&bytes)
    }

    fn answer(bytes: &[u8]) -> Vec<u8> {
        [&[0], bytes].concat()
    }

    fn supply(device: u8, name: &str) -> Locator {
        let name = Some(name.to_owned());
        Locator { device, entity: POWER_SUPPLY, entity_instance: device, name }
    }

    fn product() -> Vec<u8> {
        answer(&area(&[1, 0, 0], &[b"DELTA", b"PSU 750W", b"0PJMDN", b"A00", b"CN179720"]))
    }

    #[test]
    fn power_supply_and_board_have_part_and_serial_numbers() {
        let board = answer(&area(&[1, 0, 0, 0, 0, 0], &[b"ASUS", b"Z12PP", b"S2R0", b"90SB"]));
        let body = [&750_u16.to_le_bytes()[..], &[0; 22]].concat();
        let machine = tree_of_bytes(&[
            ("kernel/ipmi/fru/00/info", INFO),
            ("kernel/ipmi/fru/00/header", &header([0, 1, 0, 9])),
            ("kernel/ipmi/fru/00/board", &board),
            ("kernel/ipmi/fru/02/info", INFO),
            ("kernel/ipmi/fru/02/header", &header([0, 0, 1, 8])),
            ("kernel/ipmi/fru/02/product", &product()),
            ("kernel/ipmi/fru/02/records", &answer(&supply_record(&body, 0x82))),
            ("kernel/ipmi/fru/03/info", &[0xcb]),
        ]);
        let frus = frus(&machine, &[supply(2, "PSU1_FRU"), supply(3, "PSU2_FRU")]);
        has(&frus[0].board, &json!({"serial": "S2R0"}));
        has(&frus[1], &json!({"name": "PSU1_FRU", "entity": "power supply 2"}));
        has(&frus[1].product, &json!({"part_number": "0PJMDN", "serial": "CN179720"}));
        has(&frus[1].power_supply, &json!({"capacity_watts": 750}));
        assert_eq!((frus.len(), frus[0].id), (2, 0), "an empty bay is no part");
        assert_eq!(problems(&machine), NONE);
    }

    #[test]
    fn power_supplies_are_read_before_the_controller_goes_silent() {
        let machine = tree_of_bytes(&[
            ("kernel/ipmi/fru/02/info", INFO),
            ("kernel/ipmi/fru/02/header", &header([0, 0, 1, 0])),
            ("kernel/ipmi/fru/02/product", &product()),
        ]);
        let found = frus(&machine, &[supply(2, "PSU1_FRU")]);
        assert_eq!((found.len(), found[0].id), (1, 2));
        assert_eq!(problems(&machine), ["/ipmi/fru: 1 of 2 read"]);
        let no_controller = tree_of_bytes(&[]);
        assert!(frus(&no_controller, &[]).is_empty());
        assert_eq!(problems(&no_controller), NONE);
    }

    #[test]
    fn invalid_area_is_a_problem_and_keeps_the_rest() {
        let mut cut = product();
        (cut[0], cut[1 + 2]) = (0xff, 0);
        let machine = tree_of_bytes(&[
            ("kernel/ipmi/fru/00/info", INFO),
            ("kernel/ipmi/fru/00/header", &header([0, 99, 1, 0])),
            ("kernel/ipmi/fru/00/product", &cut[..22]),
        ]);
        let frus = frus(&machine, &[]);
        has(&frus[0].product, &json!({"manufacturer": "DELTA", "serial": null}));
        let expected = [
            "/ipmi/fru/00/board: an area at byte 792",
            "/ipmi/fru/00/product: completion code ff behind 21 bytes",
            "/ipmi/fru/00/product: 21 of 40 bytes",
            "/ipmi/fru/00/product: a field beyond the end",
        ];
        assert_eq!(problems(&machine), expected);
    }

    #[test]
    fn refusal_is_a_problem_unless_the_device_is_absent_and_so_are_too_many_devices() {
        let machine = tree_of_bytes(&[
            ("kernel/ipmi/fru/00/info", &[0xcb]),
            ("kernel/ipmi/fru/02/info", &[0xff]),
            ("kernel/ipmi/fru/03/info", &[0, 0]),
        ]);
        assert!(frus(&machine, &[supply(2, "PSU1_FRU"), supply(3, "PSU2_FRU")]).is_empty());
        let expected = [
            "/ipmi/fru/02/info: completion code ff and 0 bytes",
            "/ipmi/fru/03/info: completion code 00 and 1 bytes",
        ];
        assert_eq!(problems(&machine), expected);
        let many: Vec<Locator> = (0..100).map(|device| supply(device, "PSU")).collect();
        let machine = tree_of_bytes(&[("kernel/ipmi/fru/00/info", &[0xcb])]);
        assert!(frus(&machine, &many).is_empty());
        let expected = ["/ipmi/fru: more than 64 devices", "/ipmi/fru: 1 of 64 read"];
        assert_eq!(problems(&machine), expected);
    }

    #[test]
    fn device_named_by_several_records_is_read_once() {
        let list = devices(&[supply(0, "Board"), supply(7, "A"), supply(7, "B")]);
        let found: Vec<_> = list.iter().map(|d| (d.device, d.name.as_deref())).collect();
        assert_eq!(found, [(0, Some("Board")), (7, Some("A"))]);
    }
}

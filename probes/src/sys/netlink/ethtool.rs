//! ethtool's facts about the ports (`uapi/linux/ethtool_netlink.h`, `Documentation/networking/ethtool-netlink.rst`),
//! for all ports at once where possible.

use std::io;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::SockProtocol;

use super::super::{Fixed, Question, ethtool, get_or_try};
use super::{Gathered, RouteDump, attribute, dump, push, request, text_attribute, wire};

/// Length of `struct genlmsghdr`.
const GENERIC_HEADER_BYTES: usize = 4;
/// `NLA_F_NESTED`.
const NESTED: u16 = 0x8000;
/// Any `ETHTOOL_A_…_HEADER`, and in it the interface's name and the flags.
const HEADER: u16 = NESTED | 1;
const HEADER_NAME: u16 = 2;
const HEADER_FLAGS: u16 = 3;
/// `ETHTOOL_FLAG_COMPACT_BITSETS`.
const COMPACT: u32 = 1;
/// Limits, in time and ports, for completing port by port a dump that ended early.
const ONE_BY_ONE_LIMIT: Duration = Duration::from_secs(3);
const LIMIT_PORTS: usize = 512;
/// `IFNAMSIZ`.
const NAME_BYTES: usize = 16;

/// Lists that ethtool has for all ports at once, by the kernel's names and numbers of their requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EthtoolDump {
    /// `ETHTOOL_MSG_LINKINFO_GET`: the connector.
    LinkInfo = 2,
    /// `ETHTOOL_MSG_LINKMODES_GET`: autonegotiation, supported modes, speed, duplex.
    LinkModes = 4,
    /// `ETHTOOL_MSG_LINKSTATE_GET`: the link, and why it is down.
    LinkState = 6,
    /// `ETHTOOL_MSG_WOL_GET`: events that wake the machine.
    Wol = 9,
    /// `ETHTOOL_MSG_FEATURES_GET`: offloads; this and those below since Linux 5.7.
    Features = 11,
    /// `ETHTOOL_MSG_PRIVFLAGS_GET`: switches specific to a driver.
    PrivFlags = 13,
    /// `ETHTOOL_MSG_RINGS_GET`: descriptors.
    Rings = 15,
    /// `ETHTOOL_MSG_CHANNELS_GET`: queues.
    Channels = 17,
    /// `ETHTOOL_MSG_EEE_GET`: Energy Efficient Ethernet.
    Eee = 23,
    /// `ETHTOOL_MSG_TSINFO_GET`: the clock for time stamps.
    TsInfo = 25,
    /// `ETHTOOL_MSG_FEC_GET`: forward error correction, Linux 5.13.
    Fec = 29,
    /// `ETHTOOL_MSG_RSS_GET`: how packets are distributed over queues; as a dump since Linux 6.12.
    Rss = 38,
}

impl Question for EthtoolDump {
    /// The kernel's name of the request, in lower case.
    fn name(&self) -> String {
        format!("genetlink/ethtool/{self:?}").to_lowercase()
    }

    fn ask_live(&self) -> io::Result<Vec<u8>> {
        let family = family()?;
        let gathered = dump(SockProtocol::NetlinkGeneric, family, &self.payload(None))?;
        self.finish(gathered, link_names, |name| {
            request(SockProtocol::NetlinkGeneric, family, &self.payload(Some(name)))
        })
    }
}

impl EthtoolDump {
    /// Completes a dump that ended early, and removes passwords.
    fn finish(
        self,
        gathered: Gathered,
        names: impl Fn() -> Vec<String>,
        ask: impl Fn(&str) -> io::Result<Vec<u8>>,
    ) -> io::Result<Vec<u8>> {
        let mut answer = gathered.answer;
        if gathered.errno != 0 {
            complete(&mut answer, gathered.errno, &names(), ask)?;
        }
        if self == EthtoolDump::Wol {
            // A capture is shared with others; a password must not be.
            const SOPASS: u16 = 3;
            blank(&mut answer, SOPASS);
        }
        Ok(answer)
    }

    /// The request for one port, or for all.
    fn payload(self, interface: Option<&str>) -> Vec<u8> {
        // Each port has its own names of private flags; a compact set would contain only bits.
        let flags = if self == EthtoolDump::PrivFlags { 0 } else { COMPACT };
        let name = interface.map(|name| text_attribute(HEADER_NAME, name)).unwrap_or_default();
        let header = [name, attribute(HEADER_FLAGS, &flags.to_ne_bytes())].concat();
        generic(self as u8, &[attribute(HEADER, &header)])
    }
}

/// A request of the generic netlink: the number of the command and version 1, then attributes.
fn generic(command: u8, attributes: &[Vec<u8>]) -> Vec<u8> {
    [&[command, 1, 0, 0], attributes.concat().as_slice()].concat()
}

/// Overwrites the values of the attributes `kind` with zeros.
fn blank(answer: &mut [u8], kind: u16) {
    for span in wire::spans(answer, GENERIC_HEADER_BYTES, kind) {
        answer.get_mut(span).into_iter().for_each(|value| value.fill(0));
    }
}

/// Asks one by one for the ports that a dump omitted because one before them failed. Ends the answer with an
/// `NLMSG_ERROR` with number and name for each port that fails by itself, and the `NLMSG_DONE` of the
/// dump.
///
/// A port whose answer does not fit into an empty buffer ends a dump with `EMSGSIZE`, such as the table of
/// 2048 entries of [`EthtoolDump::Rss`]; the kernel removes the partial message (`genlmsg_cancel`). A
/// request for that port alone gets the space it needs, and then nothing is missing.
fn complete(
    answer: &mut Vec<u8>,
    errno: i32,
    names: &[String],
    ask: impl Fn(&str) -> io::Result<Vec<u8>>,
) -> io::Result<()> {
    let end = Instant::now() + ONE_BY_ONE_LIMIT;
    let listed: Vec<String> = wire::messages(answer).filter_map(port_name).collect();
    let mut is_whole = errno == Errno::EMSGSIZE as i32 && (1..=LIMIT_PORTS).contains(&names.len());
    for name in names.iter().filter(|name| !listed.contains(name)).take(LIMIT_PORTS) {
        if Instant::now() > end {
            is_whole = false;
            break;
        }
        match ask(name) {
            Ok(one) => wire::messages(&one).try_for_each(|message| push(answer, message))?,
            Err(error) => match error.raw_os_error() {
                Some(code) if code == Errno::EOPNOTSUPP as i32 => {}
                Some(code) => push_errno(answer, wire::ERROR, code, name)?,
                // After one timeout the ports after it would time out too.
                None => {
                    is_whole = false;
                    break;
                }
            },
        }
    }
    if is_whole { Ok(()) } else { push_errno(answer, wire::DONE, errno, "") }
}

/// Appends a message with an error, and the name of the port that it is about.
fn push_errno(answer: &mut Vec<u8>, kind: u16, errno: i32, name: &str) -> io::Result<()> {
    let payload = [&errno.saturating_neg().to_ne_bytes(), name.as_bytes()].concat();
    push(answer, wire::Message { kind, flags: 0, payload: &payload })
}

/// Reasons that the answer to an [`EthtoolDump`] is incomplete: the error that ended the dump, and the error of each
/// port that failed by itself.
pub fn failures(answer: &[u8]) -> Vec<(Option<String>, io::Error)> {
    let failure = |message: wire::Message| {
        let name = match message.kind {
            wire::DONE => None,
            wire::ERROR => {
                let name = message.payload.get(4..)?;
                Some(formats::text::to_nul(&name[..name.len().min(NAME_BYTES)])?)
            }
            _ => return None,
        };
        let code = message.errno();
        (code != 0).then(|| (name, io::Error::from_raw_os_error(code)))
    };
    wire::messages(answer).filter_map(failure).take(LIMIT_PORTS).collect()
}

/// The name of the interface in the header of an answer.
pub fn port_name(message: wire::Message) -> Option<String> {
    let header = wire::find(message.body(GENERIC_HEADER_BYTES), HEADER & !NESTED)?;
    wire::find(header.value, HEADER_NAME)?.text()
}

/// The names of all links; empty on an error.
fn link_names() -> Vec<String> {
    const LINK_HEADER_BYTES: usize = 16;
    const IFLA_IFNAME: u16 = 3;
    let links = RouteDump::Link.ask_live().unwrap_or_default();
    let name =
        |message: wire::Message| wire::find(message.body(LINK_HEADER_BYTES), IFLA_IFNAME)?.text();
    wire::messages(&links).filter_map(name).collect()
}

/// The names of the bits in [`EthtoolDump::Features`] for the running kernel: `ETHTOOL_MSG_STRSET_GET` of
/// `ETH_SS_FEATURES`.
pub const FEATURE_NAMES: Fixed =
    Fixed { name: "genetlink/ethtool/features-names", ask: ask_feature_names };

fn ask_feature_names() -> io::Result<Vec<u8>> {
    const STRSET_GET: u8 = 1;
    const ETH_SS_FEATURES: u32 = 4;
    let set = attribute(NESTED | 1, &attribute(1, &ETH_SS_FEATURES.to_ne_bytes()));
    let header = attribute(HEADER, &attribute(HEADER_FLAGS, &0_u32.to_ne_bytes()));
    let payload = generic(STRSET_GET, &[header, attribute(NESTED | 2, &set)]);
    request(SockProtocol::NetlinkGeneric, family()?, &payload)
}

/// Asks for a piece of the memory of the module in a port: `ETHTOOL_MSG_MODULE_EEPROM_GET`
/// (Linux 5.13), or ioctl in older kernels. The answer is that piece. Needs root, and takes
/// milliseconds on the module's slow bus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleEeprom {
    /// The interface's name.
    pub interface: String,
    /// Address on the bus: 0x50, or 0x51 for the diagnostics of an SFP.
    pub address: u8,
    /// Page in the upper half.
    pub page: u8,
    /// First byte, 0 to 255.
    pub offset: u8,
    /// Number of bytes, within one half.
    pub length: u8,
}

impl Question for ModuleEeprom {
    fn name(&self) -> String {
        format!(
            "ethtool/{}/module/{:02x}-{:02x}-{:02x}-{:02x}",
            self.interface, self.address, self.page, self.offset, self.length
        )
    }

    fn ask_live(&self) -> io::Result<Vec<u8>> {
        match self.ask_netlink() {
            Err(error) if error.raw_os_error().is_some_and(is_too_old) && self.page == 0 => {
                let start = u32::from(self.offset) + if self.address == 0x51 { 256 } else { 0 };
                ethtool::module_eeprom(&self.interface, start, u32::from(self.length))
            }
            result => result,
        }
    }
}

/// True if the kernel does not know the message, or does not have ethtool over netlink at all.
fn is_too_old(code: i32) -> bool {
    matches!(Errno::from_raw(code), Errno::EOPNOTSUPP | Errno::ENOENT | Errno::EPROTONOSUPPORT)
}

impl ModuleEeprom {
    fn ask_netlink(&self) -> io::Result<Vec<u8>> {
        const MODULE_EEPROM_GET: u8 = 31;
        const DATA: u16 = 7;
        let attributes = [
            attribute(HEADER, &text_attribute(HEADER_NAME, &self.interface)),
            attribute(2, &u32::from(self.offset).to_ne_bytes()),
            attribute(3, &u32::from(self.length).to_ne_bytes()),
            attribute(4, &[self.page]),
            attribute(5, &[0]),
            attribute(6, &[self.address]),
        ];
        let payload = generic(MODULE_EEPROM_GET, &attributes);
        let answer = request(SockProtocol::NetlinkGeneric, family()?, &payload)?;
        let body = wire::messages(&answer).next().map(|message| message.body(GENERIC_HEADER_BYTES));
        let data = body.and_then(|body| wire::find(body, DATA)).ok_or(Errno::ENODATA)?;
        Ok(data.value.to_vec())
    }
}

/// The number of the generic netlink family `ethtool`, which stays the same while the kernel runs.
fn family() -> io::Result<u16> {
    static FAMILY: OnceLock<u16> = OnceLock::new();
    get_or_try(&FAMILY, ask_family).copied()
}

/// Asks for the number (`CTRL_CMD_GETFAMILY`).
fn ask_family() -> io::Result<u16> {
    const CONTROLLER: u16 = 16;
    const GET_FAMILY: u8 = 3;
    const FAMILY_ID: u16 = 1;
    let payload = generic(GET_FAMILY, &[text_attribute(2, "ethtool")]);
    let answer = request(SockProtocol::NetlinkGeneric, CONTROLLER, &payload)?;
    let mut bodies = wire::messages(&answer).map(|message| message.body(GENERIC_HEADER_BYTES));
    let id = bodies.find_map(|body| wire::find(body, FAMILY_ID)?.u16());
    id.ok_or(Errno::ENOENT.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::bytes::{message, survives_any_bytes};

    fn port(name: &str) -> Vec<u8> {
        message(20, &generic(4, &[attribute(HEADER, &text_attribute(HEADER_NAME, name))]))
    }

    #[test]
    fn ports_after_a_faulty_one_are_asked_one_by_one_and_the_faulty_one_is_named() {
        let mut answer = port("eno1");
        let names = ["lo", "eno1", "eno2", "eno3"].map(str::to_owned);
        let ask = |name: &str| match name {
            "lo" => Err(Errno::EOPNOTSUPP.into()),
            "eno2" => Err(Errno::ENODEV.into()),
            "eno3" => Ok(port(name)),
            _ => panic!("{name} has answered already"),
        };
        complete(&mut answer, Errno::ENODEV as i32, &names, ask).unwrap();
        let ports = wire::messages(&answer).filter(|message| message.kind == 20);
        assert_eq!(ports.filter_map(port_name).collect::<Vec<_>>(), ["eno1", "eno3"]);
        let failures = failures(&answer).into_iter();
        let failures: Vec<_> = failures.map(|(name, error)| (name, error.raw_os_error())).collect();
        let code = Some(Errno::ENODEV as i32);
        assert_eq!(failures, [(Some("eno2".to_owned()), code), (None, code)]);
        survives_any_bytes(&answer, |bytes| drop(super::failures(bytes)));
    }

    #[test]
    fn port_without_answer_ends_the_requests_and_the_dump_stays_marked_as_incomplete() {
        let mut answer = port("eno1");
        let names = ["eno2", "eno3"].map(str::to_owned);
        let n_asked = std::cell::Cell::new(0);
        let ask = |_: &str| {
            n_asked.set(n_asked.get() + 1);
            Err(super::super::too_slow())
        };
        complete(&mut answer, Errno::EIO as i32, &names, ask).unwrap();
        assert_eq!((n_asked.get(), failures(&answer).len()), (1, 1));
    }

    #[test]
    fn table_too_large_for_a_dump_is_requested_alone() {
        let names = ["lo", "eno1", "eno2"].map(str::to_owned);
        let ask = |name: &str| match name {
            "lo" => Err(Errno::EOPNOTSUPP.into()),
            _ => Ok(port(name)),
        };
        let mut answer = Vec::new();
        complete(&mut answer, Errno::EMSGSIZE as i32, &names, ask).unwrap();
        let ports: Vec<String> = wire::messages(&answer).filter_map(port_name).collect();
        assert_eq!((ports.len(), failures(&answer).len()), (2, 0));
        let mut late = Vec::new();
        let too_late = |_: &str| Err(super::super::too_slow());
        complete(&mut late, Errno::EMSGSIZE as i32, &names, too_late).unwrap();
        assert_eq!(failures(&late).len(), 1);
    }

    #[test]
    fn password_of_wake_on_lan_is_not_kept() {
        let header = attribute(HEADER, &[]);
        let modes = attribute(NESTED | 2, &[1, 2, 3]);
        let body = |password: &[u8]| {
            message(20, &generic(9, &[header.clone(), modes.clone(), attribute(3, password)]))
        };
        let answer = [body(b"secret"), body(b"hidden")].concat();
        let finished = |dump: EthtoolDump, errno: i32| {
            let gathered = Gathered { answer: answer.clone(), errno, ..Gathered::default() };
            dump.finish(gathered, || vec!["eno2".to_owned()], |_| Ok(body(b"asked!"))).unwrap()
        };
        let blank = [body(&[0; 6]), body(&[0; 6])].concat();
        assert_eq!(finished(EthtoolDump::Wol, 0), blank);
        assert_eq!(finished(EthtoolDump::LinkModes, 0), answer);
        let cut = finished(EthtoolDump::Wol, Errno::EIO as i32);
        assert!(cut.starts_with(&[blank, body(&[0; 6])].concat()));
        survives_any_bytes(&answer, |bytes| {
            super::blank(&mut bytes.to_vec(), 3);
        });
    }

    #[test]
    fn running_kernel_answers_for_one_port_as_it_does_in_the_list() {
        let (Ok(all), Ok(family)) = (EthtoolDump::Features.ask_live(), family()) else {
            return crate::skipped::skipped("the kernel has no ethtool over netlink");
        };
        for message in wire::messages(&all).filter(|message| message.kind == family) {
            let name = port_name(message).unwrap();
            let payload = EthtoolDump::Features.payload(Some(&name));
            let one = request(SockProtocol::NetlinkGeneric, family, &payload).unwrap();
            let payloads: Vec<&[u8]> = wire::messages(&one).map(|one| one.payload).collect();
            assert_eq!(payloads, [message.payload], "{name}");
        }
    }
}

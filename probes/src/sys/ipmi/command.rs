//! The commands that may be sent, with their numbers and names (IPMI 2.0, appendix G).

/// The controller that is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// The management controller itself.
    Bmc,
    /// Another controller, to which it forwards the command over a bus (IPMB).
    Satellite {
        /// The bus, 0 to 11.
        channel: u8,
        /// Its address there, e.g. 2Ch; the lowest bit is 0.
        address: u8,
    },
}

impl Target {
    /// Folder of its sensors in a capture, below `ipmi`.
    pub fn folder(self) -> String {
        match self {
            Target::Bmc => "sensor".to_owned(),
            Target::Satellite { channel, address } => format!("sensor/{channel}-{address:02x}"),
        }
    }
}

/// A command that only reads; its answer is the completion code and the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IpmiCommand {
    /// Get Device ID (20.1).
    DeviceId,
    /// Get Device GUID (20.8): that of the controller.
    DeviceGuid,
    /// Get System GUID (22.14): that of the machine, according to the controller.
    SystemGuid,
    /// Get Channel Info (22.24).
    ChannelInfo {
        /// 0 to 15.
        channel: u8,
    },
    /// Get LAN Configuration Parameters (23.2).
    LanParameter {
        /// 0 to 15.
        channel: u8,
        /// The parameter's number, table 23-4.
        parameter: u8,
        /// Number of one of several values, e.g. of the IPv6 addresses.
        set: u8,
    },
    /// Get SDR Repository Info (33.9).
    SensorRecordsInfo,
    /// Reserve SDR Repository (33.11): a number that is required to read part of a record. Its
    /// only effect is that another reader of parts has to start again.
    ReserveSensorRecords,
    /// Get SDR (33.12).
    SensorRecord {
        /// The record's number, 0 for the first.
        id: u16,
        /// Offset of the first byte; other than 0 needs a reservation.
        offset: u8,
        /// Number of bytes; 255 for all.
        n_bytes: u8,
        /// The number from [`IpmiCommand::ReserveSensorRecords`]; 0 without a reservation.
        reservation: u16,
    },
    /// Get Sensor Reading (35.14).
    SensorReading {
        /// The controller that has the sensor.
        target: Target,
        /// Logical unit of the controller, 0 to 3.
        lun: u8,
        /// The sensor's number.
        number: u8,
    },
    /// Get SEL Info (31.2).
    EventLogInfo,
    /// Get SEL Entry (31.5), whole.
    EventLogEntry {
        /// The entry's number; 0 for the first, 0xFFFF for the last.
        id: u16,
    },
    /// Get FRU Inventory Area Info (34.1).
    FruInfo {
        /// The device's number.
        device: u8,
    },
    /// Read FRU Data (34.2); asked in parts by [`super::FruArea`].
    FruData {
        /// The device's number.
        device: u8,
        /// Offset of the first byte or word.
        offset: u16,
        /// Number of bytes or words.
        count: u8,
    },
}

impl IpmiCommand {
    /// The controller that the command is for, and its logical unit.
    pub(super) fn target(self) -> (Target, u8) {
        match self {
            IpmiCommand::SensorReading { target, lun, .. } => (target, lun & 0x03),
            _ => (Target::Bmc, 0),
        }
    }

    /// The name under which a capture keeps the answer, without the reservation, which differs each time; network
    /// function, command and data.
    pub(super) fn message(self) -> (String, u8, u8, Vec<u8>) {
        const SENSOR: u8 = 0x04;
        const APPLICATION: u8 = 0x06;
        const STORAGE: u8 = 0x0a;
        const TRANSPORT: u8 = 0x0c;
        let (name, netfn, command, data) = match self {
            IpmiCommand::DeviceId => ("device_id".to_owned(), APPLICATION, 0x01, vec![]),
            IpmiCommand::DeviceGuid => ("device_guid".to_owned(), APPLICATION, 0x08, vec![]),
            IpmiCommand::SystemGuid => ("system_guid".to_owned(), APPLICATION, 0x37, vec![]),
            IpmiCommand::ChannelInfo { channel } => {
                (format!("channel/{channel}/info"), APPLICATION, 0x42, vec![channel & 0x0f])
            }
            IpmiCommand::LanParameter { channel, parameter, set } => {
                let data = vec![channel & 0x0f, parameter, set, 0];
                (format!("channel/{channel}/lan/{parameter}.{set}"), TRANSPORT, 0x02, data)
            }
            IpmiCommand::SensorRecordsInfo => ("sdr/info".to_owned(), STORAGE, 0x20, vec![]),
            IpmiCommand::ReserveSensorRecords => {
                ("sdr/reservation".to_owned(), STORAGE, 0x22, vec![])
            }
            IpmiCommand::SensorRecord { id, offset, n_bytes, reservation } => {
                let numbers = [reservation.to_le_bytes(), id.to_le_bytes(), [offset, n_bytes]];
                (format!("sdr/{id:04x}.{offset}-{n_bytes}"), STORAGE, 0x23, numbers.concat())
            }
            IpmiCommand::SensorReading { target, lun, number } => {
                (format!("{}/{lun}.{number:02x}", target.folder()), SENSOR, 0x2d, vec![number])
            }
            IpmiCommand::EventLogInfo => ("event_log/info".to_owned(), STORAGE, 0x40, vec![]),
            IpmiCommand::EventLogEntry { id } => {
                let [low, high] = id.to_le_bytes();
                (format!("event_log/{id:04x}"), STORAGE, 0x43, vec![0, 0, low, high, 0, 0xff])
            }
            IpmiCommand::FruInfo { device } => {
                (format!("fru/{device:02x}/info"), STORAGE, 0x10, vec![device])
            }
            IpmiCommand::FruData { device, offset, count } => {
                let [low, high] = offset.to_le_bytes();
                let name = format!("fru/{device:02x}/{offset}-{count}");
                (name, STORAGE, 0x11, vec![device, low, high, count])
            }
        };
        (format!("ipmi/{name}"), netfn, command, data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_name_of_its_own() {
        let record = |reservation| IpmiCommand::SensorRecord {
            id: 0x1234,
            offset: 16,
            n_bytes: 16,
            reservation,
        };
        let satellite = Target::Satellite { channel: 0, address: 0x2c };
        let reading = |target| IpmiCommand::SensorReading { target, lun: 1, number: 0x30 };
        let lan = IpmiCommand::LanParameter { channel: 1, parameter: 59, set: 2 };
        let data = IpmiCommand::FruData { device: 3, offset: 0x102, count: 16 };
        for (command, name, netfn, number, bytes) in [
            (lan, "ipmi/channel/1/lan/59.2", 0x0c, 0x02, &[1, 59, 2, 0][..]),
            (record(7), "ipmi/sdr/1234.16-16", 0x0a, 0x23, &[7, 0, 0x34, 0x12, 16, 16]),
            (record(8), "ipmi/sdr/1234.16-16", 0x0a, 0x23, &[8, 0, 0x34, 0x12, 16, 16]),
            (reading(Target::Bmc), "ipmi/sensor/1.30", 0x04, 0x2d, &[0x30]),
            (reading(satellite), "ipmi/sensor/0-2c/1.30", 0x04, 0x2d, &[0x30]),
            (data, "ipmi/fru/03/258-16", 0x0a, 0x11, &[3, 2, 1, 16]),
        ] {
            assert_eq!(command.message(), (name.to_owned(), netfn, number, bytes.to_vec()));
        }
        assert_eq!(reading(satellite).target(), (satellite, 1));
    }
}

//! NVMe: what a controller reports about its health, security and locks.

use formats::disk_security;
use formats::health::nvme;
use formats::text::to_nul as text;

use crate::block::controller::is_volume_model;
use crate::machine::Machine;
use crate::sys::nvme::{NvmePage, NvmeQuestion};

use super::{Answers, locks};

pub(super) fn read(machine: &Machine, controller: &str, is_readable: bool) -> Answers {
    let question = |page: NvmePage| NvmeQuestion { controller: controller.to_owned(), page };
    let log = if is_readable { machine.ask(&question(NvmePage::Health)) } else { None };
    let identify = machine.ask(&question(NvmePage::Identify)).unwrap_or_default();
    let health = log.and_then(|log| match nvme::parse(&log, &identify) {
        Ok(health) => Some(health),
        Err(found) => {
            let path = format!("kernel/nvme/{controller}/health");
            machine.problem(&path, found, "a health log of 512 bytes that the controller fills");
            None
        }
    });
    let security = disk_security::of_nvme(&identify);
    let has = security.as_ref().is_some_and(|known| known.has_trusted_commands == Some(true));
    // Some controllers present their drives as a volume.
    let model = identify.get(24..64).and_then(text).unwrap_or_default();
    let is_asked = has && !is_volume_model(&model);
    let tcg = if is_asked { locks::of_nvme(machine, controller) } else { None };
    Answers { health, security, tcg, bay: None }
}

#[cfg(test)]
mod tests {
    use crate::testing::bytes::nvme_log;
    use crate::testing::disk_at;

    #[test]
    fn log_of_zeros_as_in_clouds_is_a_problem_and_no_fact() {
        let path = "pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1";
        let machine = disk_at(path, &[("kernel/nvme/nvme0/health", [0_u8; 512])]);
        assert_eq!(crate::block::block(&machine).disks[0].health, None);
        assert_eq!(machine.problems()[0].found, "nothing but zeros");
    }

    #[test]
    fn namespace_has_the_health_of_its_controller() {
        let mut identify = vec![0; 4096];
        identify[266..268].copy_from_slice(&343_u16.to_le_bytes());
        let path = "pci0000:00/0000:01:00.0/nvme/nvme1/nvme3n1";
        let files =
            [("kernel/nvme/nvme1/health", nvme_log()), ("kernel/nvme/nvme1/identify", identify)];
        let health = crate::block::block(&disk_at(path, &files)).disks.remove(0).health.unwrap();
        assert_eq!((health.power_cycles, health.critical_temperature_celsius), (Some(7), None));
        assert_eq!(health.warning_temperature_celsius, Some(70));
    }
}

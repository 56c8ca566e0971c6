//! Confidential computing: whether this machine can host guests whose memory it cannot read, and
//! whether it is such a guest. From the parameters of KVM's modules
//! (`Documentation/admin-guide/kernel-parameters.txt`), the devices in `/sys/class/misc`, and
//! `/sys/firmware/uv` of s390 (`Documentation/ABI/testing/sysfs-firmware-uv`). What the CPU could do
//! is listed in `cpu.flags` (`sme`, `sev`, `sev_es`, `sev_snp`, `tdx_host_platform`, `sgx`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;

const AMD: &str = "sys/module/kvm_amd/parameters";
const INTEL: &str = "sys/module/kvm_intel/parameters";
const ULTRAVISOR: &str = "sys/firmware/uv";

/// Protection of memory by encryption, from the host or its operator. A host's values are there only once KVM's
/// module is loaded.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ConfidentialComputing {
    /// True if it hosts guests with AMD SEV.
    pub is_sev_host: Option<bool>,
    /// True if it hosts guests with AMD SEV-ES.
    pub is_sev_es_host: Option<bool>,
    /// True if it hosts guests with AMD SEV-SNP.
    pub is_sev_snp_host: Option<bool>,
    /// True if it hosts guests with Intel TDX.
    pub is_tdx_host: Option<bool>,
    /// True if it hosts guests with Intel SGX enclaves or runs enclaves itself.
    pub has_sgx: Option<bool>,
    /// True if it hosts guests with IBM Secure Execution.
    pub is_secure_execution_host: Option<bool>,
    /// As what guest it runs itself: `sev-snp`, `tdx`, `secure-execution`; `None` where it is none
    /// or does not know it.
    pub guest: Option<String>,
}

/// Reads what there is; `None` where nothing says anything.
pub fn confidential_computing(machine: &Machine) -> Option<ConfidentialComputing> {
    let devices = machine.names("sys/class/misc");
    let has = |name: &str| devices.iter().any(|device| device == name);
    let uv = |name: &str| machine.flag(&format!("{ULTRAVISOR}/{name}"));
    let guests = [("sev-guest", "sev-snp"), ("tdx_guest", "tdx")];
    let guest = guests.into_iter().find(|(device, _)| has(device)).map(|(_, guest)| guest);
    let by_ultravisor = || (uv("prot_virt_guest") == Some(true)).then_some("secure-execution");
    let found = ConfidentialComputing {
        is_sev_host: machine.flag(&format!("{AMD}/sev")),
        is_sev_es_host: machine.flag(&format!("{AMD}/sev_es")),
        is_sev_snp_host: machine.flag(&format!("{AMD}/sev_snp")),
        is_tdx_host: machine.flag(&format!("{INTEL}/tdx")),
        has_sgx: (has("sgx_enclave") || has("sgx_vepc")).then_some(true),
        is_secure_execution_host: uv("prot_virt_host"),
        guest: guest.or_else(by_ultravisor).map(str::to_owned),
    };
    (found != ConfidentialComputing::default()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{tree, tree_in};

    #[test]
    fn a_host_says_what_its_modules_allow() {
        let machine = tree_in(&[
            ("sys/module/kvm_amd/parameters", &[("sev", "Y"), ("sev_es", "1"), ("sev_snp", "N")]),
            ("sys/class/misc/kvm", &[("dev", "10:232")]),
        ]);
        let found = confidential_computing(&machine).unwrap();
        assert_eq!((found.is_sev_host, found.is_sev_es_host), (Some(true), Some(true)));
        assert_eq!((found.is_sev_snp_host, found.is_tdx_host), (Some(false), None));
        assert_eq!((found.guest, found.has_sgx), (None, None));
    }

    #[test]
    fn a_guest_is_known_by_the_device_through_which_it_proves_itself() {
        let guest = |file: &str, content: &str| {
            confidential_computing(&tree(&[(file, content)])).and_then(|found| found.guest)
        };
        assert_eq!(guest("sys/class/misc/sev-guest/dev", "10:1\n").as_deref(), Some("sev-snp"));
        assert_eq!(guest("sys/class/misc/tdx_guest/dev", "10:1\n").as_deref(), Some("tdx"));
        let s390 = guest("sys/firmware/uv/prot_virt_guest", "1\n");
        assert_eq!(s390.as_deref(), Some("secure-execution"));
        assert_eq!(guest("sys/class/misc/kvm/dev", "10:232\n"), None);
    }
}

//! Which platforms Ignition supports: with another one, a boot that runs Ignition ends in the emergency shell.
//!
//! Source: Ignition `docs/supported-platforms.md` and `internal/platform`.

use crate::text::shown;

/// The ids, in the order of the alphabet.
const PLATFORMS: &str = "akamai aliyun applehv aws azure azurestack brightbox cloudstack custom digitalocean exoscale \
     file gcp hetzner hyperv ibmcloud kubevirt metal nutanix nvidiabluefield openstack oraclecloud packet powervs \
     proxmoxve qemu scaleway upcloud virtualbox vmware vultr zvm";

/// A warning for an id that Ignition does not know. A newer Ignition may know more, so it is no error.
#[must_use]
pub fn warning(platform: &str) -> Option<String> {
    (!PLATFORMS.split(' ').any(|known| known == platform)).then(|| {
        format!(
            "platform is {}, expected one that Ignition supports, e.g. metal or packet: with any other the boot ends \
             in the emergency shell",
            shown(platform)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_id_that_ignition_does_not_know_gets_a_warning() {
        for known in ["akamai", "metal", "packet", "qemu", "zvm"] {
            assert_eq!(warning(known), None, "{known}");
        }
        for unknown in ["paket", "", "Metal", "metal packet"] {
            assert!(warning(unknown).unwrap().starts_with(&format!("platform is \"{unknown}\"")));
        }
    }
}

//! Platforms that Ignition supports: with another one, a boot that runs Ignition ends in the emergency shell.
//!
//! Source: Ignition `docs/supported-platforms.md` and `internal/platform`.

use crate::text::shown;

/// The ids, in the order of the alphabet.
const PLATFORMS: &str = "akamai aliyun applehv aws azure azurestack brightbox cloudstack custom digitalocean exoscale \
     file gcp hetzner hyperv ibmcloud kubevirt metal nutanix nvidiabluefield openstack oraclecloud packet powervs \
     proxmoxve qemu scaleway upcloud virtualbox vmware vultr zvm";

/// A warning for an id that Ignition does not know. A newer Ignition may know more, so it is not an error.
pub fn warning(platform: &str) -> Option<String> {
    (!PLATFORMS.split(' ').any(|known| known == platform)).then(|| {
        format!(
            "platform is {}, expected one that Ignition supports, e.g. metal or packet: with any other the boot ends \
             in the emergency shell",
            shown(platform)
        )
    })
}

/// A warning for an installed system whose first boot would wait for the network forever.
///
/// On Packet alone Ignition posts the end of each stage to the metadata server (`PostStatus` in
/// `internal/providers/packet/packet.go`), and repeats this without limit. It asks for a network only if its config
/// needs one. `arguments` are the kernel arguments of the first boot.
pub fn network_warning<'a>(
    platform: Option<&str>,
    may_fetch: bool,
    mut arguments: impl Iterator<Item = &'a str>,
) -> Option<String> {
    // Any argument about the network may start it: which ones do differs between versions of dracut.
    let is_network =
        |argument: &str| argument.starts_with("ip=") || argument.starts_with("rd.neednet");
    let is_stuck = platform == Some("packet") && !may_fetch && !arguments.any(is_network);
    is_stuck.then(|| {
        "platform is packet, on which Ignition waits without limit until it can report to the metadata server, and this \
         config starts no network, as it fetches nothing: the first boot may never end; set firstboot_args \
         (--firstboot-args) to \"rd.neednet=1 ip=dhcp\""
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_without_a_network_for_the_first_boot_gets_a_warning() {
        let warning = |platform, may_fetch, arguments: &str| {
            network_warning(platform, may_fetch, arguments.split_whitespace())
        };
        let text = warning(Some("packet"), false, "console=ttyS1 quiet").unwrap();
        assert!(text.contains("rd.neednet=1 ip=dhcp"), "{text}");
        for (platform, may_fetch, arguments) in [
            (None, false, ""),
            (Some("metal"), false, ""),
            (Some("packet"), true, ""),
            (Some("packet"), false, "rd.neednet=1 ip=dhcp"),
            (Some("packet"), false, "ip=bond0:dhcp"),
        ] {
            assert_eq!(warning(platform, may_fetch, arguments), None, "{platform:?} {arguments}");
        }
    }

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

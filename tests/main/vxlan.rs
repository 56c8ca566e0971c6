//! The tunnel of the VIM document, section 1.3, between two network namespaces that have only the underlay in common. The node's end
//! is made with the values of the profile that `live-config` writes; the kernel's VXLAN stands in for that of `NetworkManager`.

use std::process::Command;

use crate::readme::programs;
use crate::skipped::skipped;
use crate::util::{remove_own_variables, scratch, write};

/// Arguments: the addresses of the underlay, at the VIM and at the node. The VIM listens at an address that only the route of the
/// profile reaches.
const SCRIPT: &str = r#"
vim=$1 node=$2 url='http://[fd02:9a00::10]:8080'
nodad=; case $vim in *:*) nodad=nodad ;; esac
unshare --net sleep 300 &
peer=$!
trap 'kill $(jobs -p) 2>/dev/null' EXIT
until [ "$(readlink /proc/$peer/ns/net)" != "$(readlink /proc/$$/ns/net)" ]; do sleep 0.05; done
at_node() { nsenter -t "$peer" -n "$@"; }
run-coreos-installer live-config --vim "$url" --allow-plain-http --agent-in-image \
    --network network.yaml --network-dir network >/dev/null
value() { sed -n "/^\[$1\]/,/^\$/s/^$2=//p" network/vxlan42.nmconnection; }

ip link set lo up
at_node ip link set lo up
ip link add eth1 type veth peer name mgmt0 netns "$peer"
ip address add "$vim" dev eth1 $nodad
at_node ip address add "$node" dev mgmt0 $nodad
ip link set eth1 up
at_node ip link set mgmt0 up
ip route add "$node" dev eth1
at_node ip route add "$vim" dev mgmt0
ip address add fd02:9a00::10/128 dev lo nodad
lab-vim --listen '[::]:8080' --ignition config.ign 2>lab-vim.log &
curl -s --retry 60 --retry-delay 1 --retry-connrefused "$url/" >/dev/null
if at_node curl -s -m 2 "$url/" >/dev/null; then exit 1; fi

ip link add name vxlan42 type vxlan id 42 dev eth1 remote "$node" local "$vim" dstport 4789
ip -6 address add fd02:9a04::1/64 dev vxlan42 nodad
ip link set up vxlan42
at_node ip link add name vxlan42 type vxlan id "$(value vxlan id)" dev "$(value vxlan parent)" \
    remote "$(value vxlan remote)" local "$(value vxlan local)" dstport "$(value vxlan destination-port)"
at_node ip -6 address add "$(value ipv6 address1)" dev vxlan42 nodad
at_node ip link set up vxlan42
IFS=, read -r to via < <(value ipv6 route1)
at_node ip -6 route add "$to" via "$via" dev vxlan42
at_node timeout 60 run-coreos-installer report --vim "$url" --allow-plain-http --lldp-wait 0
grep -q 'fd02:9a04::2 POST /v1/reports 200' lab-vim.log
echo the report has arrived
"#;

#[test]
fn report_reaches_the_vim_through_the_tunnel_of_the_profile_over_ipv6_and_ipv4() {
    let probe = "ip link add type vxlan id 1 remote ::1 dev lo dstport 4789";
    let is_possible = Command::new("unshare").args(["--net", "sh", "-c", probe]).output();
    if !is_possible.is_ok_and(|output| output.status.success()) {
        return skipped("no VXLAN can be made: it needs root, ip and the kernel's module");
    }
    let programs = programs("vxlan-programs");
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let document = ["2602:807:9000:8::10b", "2602:807:900e:141:0:1866:dae6:4674"];
    for [vim, node] in [document, ["192.0.2.1", "192.0.2.2"]] {
        let folder = scratch("vxlan");
        let network = format!(
            "interfaces:\n- {{name: mgmt0, ipv4: {{dhcp: true}}, ipv6: {{dhcp: true, autoconf: true}}}}\n\
             - name: vxlan42\n  type: vxlan\n\
             \x20 vxlan: {{base-iface: mgmt0, id: 42, remote: '{vim}', local: '{node}', destination-port: 4789}}\n\
             \x20 ipv6: {{enabled: true, address: [{{ip: 'fd02:9a04::2', prefix-length: 64}}]}}\n\
             routes: {{config: [{{destination: 'fd02:9a00::/64', next-hop-address: 'fd02:9a04::1', \
             next-hop-interface: vxlan42}}]}}\n"
        );
        write(&folder.join("network.yaml"), network);
        write(&folder.join("config.ign"), "{\"ignition\":{\"version\":\"3.4.0\"}}");
        let mut command = Command::new("unshare");
        remove_own_variables(&mut command);
        let output = command
            .args(["--net", "bash", "-euo", "pipefail", "-c", SCRIPT, "tunnel", vim, node])
            .current_dir(&folder)
            .env("PATH", &path)
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(printed.ends_with("the report has arrived\n"), "{vim}: {output:?}");
    }
}

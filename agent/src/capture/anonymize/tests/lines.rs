//! Secrets that are replaced by position on the command line and in other text.

use super::*;

const LINE: &str = "proc/cmdline";

/// Returns the anonymised command line, after a check that it contains none of the `secrets`.
fn command_line(line: &str, secrets: &[&str], kept: &[&str]) -> String {
    let [secrets, kept] = [secrets, kept].map(|texts| texts.iter().map(|text| text.as_bytes()));
    let (secrets, kept) = (secrets.collect::<Vec<_>>(), kept.collect::<Vec<_>>());
    text(&hidden(&[(LINE, line.as_bytes())], &json!({}), &secrets, &kept), LINE)
}

#[test]
fn a_secret_of_the_command_line_that_could_be_a_word_or_a_number_is_hidden_there() {
    let line = command_line(
        "rd.token=correcthorsebattery inst.vncpassword=swordfish rd.iscsi.password=12345678 \
         systemd.hostname=compute ip=10.9.8.7::10.9.8.1:255.255.255.0:controller:eno1:none \
         rci.vim=http://deploy/cfg?key=abcdefghijklm&arch=x86_64 console=ttyS0 \
         rd.other_password=console \"rd.passphrase=two words\" inst.pw=abc quiet",
        &["correcthorsebattery", "swordfish", "12345678", "compute", "controller", "deploy"],
        &[":255.255.255.0:", ":eno1:none ", " console=ttyS0 ", "/cfg?key="],
    );
    for secret in ["abcdefghijklm", "10.9.8", "=console", "two", "=abc"] {
        assert!(!line.contains(secret), "{secret} in {line}");
    }
    assert!(line.starts_with("rd.token=") && line.ends_with(" quiet"), "{line}");
}

#[test]
fn what_the_report_leaves_out_of_the_command_line_an_anonymised_capture_hides_too() {
    let jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w";
    let node = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b";
    for line in [
        "x.sshpw=Gehe1mnis a",
        "x.credential=Gehe1mnis a",
        "ignition.auth=Gehe1mnis",
        "site.cookie=Gehe1mnis",
        "x.authority=Gehe1mnis",
        "rootflags=username=a,password=Gehe1mnis rw",
        "ignition.config.url=https://x/y?token=Gehe1mnis",
        "ignition.config.url=https://x/y#Gehe1mnis",
        "vim=https://me:Gehe1mnis@h/x",
        "proxy=me:Gehe1mnis@proxy:3128",
        "netroot=iscsi:me:Gehe1mnis@192.0.2.1::::iqn.x",
        &format!("site.id={jwt} quiet"),
        &format!("u=https://h/boot/{jwt}/x"),
        &format!("node={node}"),
    ] {
        let reported = formats::command_line::without_secrets(line);
        for secret in ["Gehe1mnis", jwt, node] {
            assert!(!reported.contains(secret), "the report: {reported}");
        }
        command_line(line, &["Gehe1mnis", jwt, node], &[]);
    }
}

#[test]
fn where_two_secrets_overlap_all_of_both_is_hidden() {
    let key = "dGhpc0lzQVNlY3JldDEyMzQ1";
    for line in ["rd.token=KEY/geheim quiet", "netroot=iscsi:me:KEY/geheim@192.0.2.1::::iqn.x"] {
        command_line(&line.replace("KEY", key), &[key, "geheim"], &[]);
    }
}

#[test]
fn every_form_of_a_secret_or_host_on_the_command_line_is_hidden_and_the_rest_stays() {
    for case in include_str!("lines.txt").split("\n\n").skip(1) {
        let mut lines = case.lines().filter(|line| !line.starts_with('#'));
        let line = lines.next().unwrap();
        let (hidden, kept): (Vec<&str>, Vec<&str>) = lines.partition(|text| text.starts_with("- "));
        assert!(kept.iter().all(|text| text.starts_with("+ ")) && !kept.is_empty(), "{case}");
        let texts = |of: Vec<&'static str>| of.iter().map(|text| &text[2..]).collect::<Vec<_>>();
        command_line(line, &texts(hidden), &texts(kept));
    }
}

#[test]
fn a_server_without_a_domain_is_hidden_on_the_command_line_and_in_the_mounts() {
    let line = b"root=nfs:filer:/x nfsroot=server:/y netroot=nbd:storage:root ntp.server=fd00:7::1 \
                 ip=eno1:dhcp:1500:0c:42:a1:de:ad:be pxe.from=bob:builder@10.7.8.9 root=live:/dev/x";
    let mounts = b"36 35 0:45 / /filer rw - nfs filer:/x rw,addr=10.7.8.9\n";
    let files = [(LINE, &line[..]), ("proc/self/mountinfo", mounts)];
    let secrets = parts(":filer|server:|storage|fd00|0c:42:a1:de|bob|builder|10.7");
    let kept =
        parts(" root=live:/dev/x|ip=eno1:dhcp:1500:0c:42:a1:|root=nfs:|ntp.server=2001:db8:");
    let files = hidden(&files, &json!({}), &secrets, &kept);
    let (line, mounts) = (text(&files, LINE), text(&files, "proc/self/mountinfo"));
    assert!(!mounts.contains("filer:/") && mounts.contains(" /filer rw - nfs "), "{mounts}");
    let server = line.strip_prefix("root=nfs:").unwrap().split(':').next().unwrap();
    assert!(mounts.contains(&format!(" {server}:/x ")), "{server} in {mounts}");
}

#[test]
fn a_server_that_only_the_list_of_mounts_names_is_replaced() {
    let mounts = b"36 35 0:45 / /mnt rw - nfs filer:/x rw,addr=10.7.8.9\n\
                   37 35 0:46 / /b rw - cifs //store/share rw,username=bob,domain=corp\n\
                   38 35 0:47 / /c rw - nfs4 nas.acme.example:/x rw,clientaddr=10.7.8.8\n\
                   39 35 0:48 / /d rw - cgroup cgroup rw,name=systemd\n\
                   40 35 8:1 / /store rw - ext4 /dev/sda1 rw\n";
    let secrets = parts("filer|//store|bob|corp|acme|nas.|10.7.8");
    let kept = parts(" /store rw - ext4 /dev/sda1 rw\n|/share rw,username=|,name=systemd\n");
    for path in ["proc/self/mountinfo", "proc/mounts"] {
        hidden(&[(path, mounts)], &json!({}), &secrets, &kept);
    }
}

#[test]
fn what_the_name_of_a_line_or_file_says_is_secret_is_hidden_and_the_rest_stays() {
    // The path of a file, its content, the secrets hidden in it, and the values kept.
    for (path, content, secrets, kept) in [
        (
            "proc/sysinfo",
            &b"Type:   2817\nSequence Code:        00000000000EAA14\nLPAR Name:            R17 \n\
             VM00 Name:            GUEST\nVM00 Control Program: z/VM    6.1.0   \n"[..],
            "EAA14|R17 |GUEST",
            "VM00 Control Program: z/VM    6.1.0   \n",
        ),
        (
            "sys/class/fc_host/host7/symbolic_name",
            b"Emulex LPe16002 FV11.4 HN:dbserver17.corp.acme.com OS:Linux\n",
            "dbserver17|acme",
            "Emulex LPe16002 FV11.4 HN:| OS:Linux\n",
        ),
        // The machine's own address, even if it ends with 0.
        (
            "proc/net/fib_trie",
            b"Local:\n  +-- 10.1.84.0/26 2 0 2\n     |-- 10.1.84.0\n        /32 host LOCAL\n     \
             |-- 10.6.255.255\n        /32 link BROADCAST\n     |-- 127.0.0.1\n",
            "10.1.84.|10.6.",
            "-- 127.0.0.1\n|/26 2 0 2\n",
        ),
        (DMI, b"\xde\x05\x03\0\x01BYYE0i\0\0", "BYYE0", "i\0\0"),
        (
            DMI,
            b"\xde\x05\x03\0\x01DSN:50026B767C01850A\0Disk S/N: Q77\0\0",
            "767C01850A",
            "DSN:|Disk S/N: ",
        ),
    ] {
        let report = json!({"chassis": {"serial": "BYYE0"}});
        let found = hidden(&[(path, content)], &report, &parts(secrets), &parts(kept));
        assert!(path.ends_with("trie") || found[path].len() == content.len(), "{path}");
    }
    let board = "sys/firmware/devicetree/base/serial-number";
    let cpuinfo = b"Revision\t: a22082\nSerial\t\t: 00000000acf9d788\n";
    let files = [("proc/cpuinfo", &cpuinfo[..]), (board, b"00000000acf9d788\0")];
    let files = hidden(&files, &json!({}), &[b"acf9d788"], &[b"a22082"]);
    let serial = text(&files, board);
    assert!(text(&files, "proc/cpuinfo").contains(serial.trim_end_matches('\0')), "{serial}");
}

#[test]
fn a_lease_loses_its_addresses_names_domains_and_identifiers() {
    let dhclient = b"lease {\n  interface \"eno1\";\n  fixed-address 10.31.7.20;\n  \
                     option domain-name-servers 10.31.7.2,10.31.7.3;\n  \
                     option host-name \"controller\";\n  option domain-name \"corp.example\";\n  \
                     option domain-search \"lab.example.\", \"dev.example.\";\n  \
                     option subnet-mask 255.255.255.0;\n  option root-path \"filer:/export\";\n}\n\
                     default-duid \"\\000\\001\\)\\247cef\";\nlease6 {\n  option dhcp6.client-id \
                     0:1:0:1:29:a7:c3:f2:3c:ec:ef:11:22:30;\n}\n";
    let networkd = b"ADDRESS=10.31.7.20\nROUTER=10.31.7.1 10.31.8.1\nDNS=10.31.7.2 10.31.9.3\n\
                     HOSTNAME=controller\nDOMAIN_SEARCH_LIST=lab.example dev.example\n\
                     CLIENTID=ffb6220feb00020000ab11d2a4c3d1e5f60718\nLIFETIME=3600\n";
    let link = b"DHCP6_CLIENT_IAID=0x1\nDHCP6_CLIENT_DUID=DUID-LLT:0001000129a7c3f23cecef112230\n";
    let manager = b"[ip4]\nnext-server=10.31.7.5\ndomain-name=corp.example\n";
    let lease = "run/systemd/netif/leases/2";
    let files = [
        ("var/lib/dhclient/dhclient.leases", &dhclient[..]),
        (lease, networkd),
        ("run/systemd/netif/links/2", link),
        ("run/NetworkManager/devices/2", manager),
    ];
    let secrets = parts(
        "10.31.|controller|corp|lab.|dev.|filer|ab11d2a4c3d1e5f60718|cecef112230|c3:f2:3c:ec|247cef",
    );
    let kept = parts("lease {\n  interface \"eno1\";|subnet-mask 255.255.255.0;");
    let report = json!({"serial": "3600", "dhcp6_clients": [{"interface": "eno1", "duid": "0001000129a7c3f23cecef112230"}]});
    let files = hidden(&files, &report, &secrets, &kept);
    assert!(text(&files, lease).ends_with("LIFETIME=3600\n"));
    assert!(text(&files, "run/systemd/netif/links/2").contains("DUID-LLT:"));
}

#[test]
fn what_names_remote_disks_arrays_and_accelerators_is_hidden() {
    let report = json!({
        "disks": [{"target": {"portal": "10.44.8.5:3260"}}, {"target": {"portal": "san:3260"}}],
        "contents": [{"kind": "linux_raid_member", "label": "oldhost77.acme:0"}],
    });
    let unique = format!("{:016x}\n", 1_801_979_520_617_338_022_u64);
    let (device, multipath) =
        ("sys/bus/pci/devices/0000:03:00.0/unique_id", "sys/block/dm-0/dm/uuid");
    let node = "sys/class/kfd/kfd/topology/nodes/1/properties";
    let nvme = "sys/class/nvme/nvme0/address";
    let files = [
        (nvme, &b"traddr=10.44.7.7,trsvcid=4420,src_addr=10.44.7.9\n"[..]),
        ("run/udev/data/b8:0", b"E:ID_PATH=ip-10.44.8.5:3260-iscsi-x\nE:MD_NAME=raider:7\n"),
        ("kernel/disk/sda/4096-4096", b"\xfc\x4e\x2b\xa9oldhost77.acme:0\0\0"),
        ("kernel/disk/sdb/4096-4096", b"\xfc\x4e\x2b\xa9raider:7\0\0"),
        (node, b"unique_id 1801979520617338022\n"),
        (device, unique.as_bytes()),
        (multipath, b"mpath-1IBM     IPR-0   5EC2590000000080\n"),
    ];
    let texts = "10.44.|oldhost77|acme|raider|1801979520617338022|5EC2590000000080|";
    let secrets = texts.to_owned() + unique.trim();
    let files = hidden(&files, &report, &parts(&secrets), &[b",trsvcid=4420,src_addr="]);
    let decimal = text(&files, node);
    let number: u64 = decimal.trim().strip_prefix("unique_id ").unwrap().parse().unwrap();
    assert_eq!(format!("{number:016x}\n"), text(&files, device), "one number in both forms");
    assert!(text(&files, multipath).starts_with("mpath-1IBM     IPR-0   "));
}

#[test]
fn the_domain_and_the_words_of_an_iscsi_name_are_hidden_and_stay_the_same_everywhere() {
    let name = "iqn.2009-06.com.corp.storage:backup-pool:lun";
    let by_path = format!("ip-10.9.8.7:3260-iscsi-{name}-lun-1");
    let report =
        json!({"far_end": {"target": name, "path": format!("/dev/disk/by-path/{by_path}")}});
    let session = "sys/class/iscsi_session/session1/targetname";
    let files = [
        (session, format!("{name}\n")),
        (LINE, format!("netroot=iscsi:10.9.8.7::3260:1:{name} quiet\n")),
        ("run/udev/data/b8:0", format!("S:disk/by-path/{by_path}\n")),
    ];
    let files: Vec<(&str, &[u8])> = files.iter().map(|(p, text)| (*p, text.as_bytes())).collect();
    let secrets = parts("com.|corp|storage|backup|pool");
    let files = hidden(&files, &report, &secrets, &[b"iqn.2009-06."]);
    let found = text(&files, session).trim().to_owned();
    assert!(found.len() == name.len() && !found.contains("com"), "{found}");
    let udev = text(&files, "run/udev/data/b8:0");
    assert!(udev.ends_with(&format!(":3260-iscsi-{found}-lun-1\n")), "{found} {udev}");
    assert!(text(&files, LINE).ends_with(&format!(":{found} quiet\n")), "{found}");
}

#[test]
fn the_names_of_volumes_and_their_groups_are_hidden_and_stay_the_same_everywhere() {
    let mounts = b"22 1 253:0 / / rw - xfs /dev/mapper/vg--acme-payroll rw\n";
    let udev = b"E:DM_NAME=vg--acme-payroll\nE:DM_VG_NAME=vg-acme\nE:DM_LV_NAME=payroll\n";
    let files = [
        ("sys/block/dm-0/dm/name", &b"vg--acme-payroll\n"[..]),
        ("sys/block/dm-0/dm/uuid", b"LVM-x\n"),
        ("sys/block/dm-1/dm/uuid", b"mpath-3600508b1001c4d41aabbccddeeff0011\n"),
        ("sys/block/dm-1/dm/name", b"mpatha-part\n"),
        (LINE, b"root=/dev/mapper/vg--acme-payroll rd.lvm.lv=vg-acme/payroll quiet\n"),
        ("proc/self/mountinfo", mounts),
        ("run/udev/data/b253:0", udev),
    ];
    let files = hidden(&files, &json!({}), &parts("acme|payroll"), &[]);
    let name = text(&files, "sys/block/dm-0/dm/name").trim().to_owned();
    let (group, own) = name.rsplit_once('-').unwrap();
    let single = group.replace("--", "-");
    assert_eq!(single.len(), "vg-acme".len());
    let line = format!("root=/dev/mapper/{name} rd.lvm.lv={single}/{own} quiet\n");
    assert_eq!(text(&files, LINE), line);
    assert!(text(&files, "proc/self/mountinfo").contains(&format!("/dev/mapper/{name} ")));
    let udev = format!("E:DM_NAME={name}\nE:DM_VG_NAME={single}\nE:DM_LV_NAME={own}\n");
    assert_eq!(text(&files, "run/udev/data/b253:0"), udev);
    assert_eq!(text(&files, "sys/block/dm-1/dm/name"), "mpatha-part\n");
}

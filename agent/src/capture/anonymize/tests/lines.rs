//! What is replaced on the command line because of where it is.

use super::*;

/// The anonymised command line, after a check that it contains none of the `secrets`.
fn command_line(line: &str, secrets: &[&str]) -> String {
    let files = recorded(&[("proc/cmdline", line.as_bytes())]);
    let line = text(&anonymous(&files, &json!({})), "proc/cmdline");
    for secret in secrets {
        assert!(!line.to_lowercase().contains(&secret.to_lowercase()), "{secret} in {line}");
    }
    line
}

#[test]
fn a_secret_of_the_command_line_that_could_be_a_word_or_a_number_is_hidden_there() {
    let line = command_line(
        "rd.token=correcthorsebattery inst.vncpassword=swordfish rd.iscsi.password=12345678 \
         systemd.hostname=compute ip=10.9.8.7::10.9.8.1:255.255.255.0:controller:eno1:none \
         rci.vim=http://deploy/cfg?key=abcdefghijklm&arch=x86_64 console=ttyS0 \
         rd.other_password=console \"rd.passphrase=two words\" inst.pw=abc quiet",
        &[
            "correcthorsebattery",
            "swordfish",
            "12345678",
            "compute",
            "controller",
            "deploy",
            "abcdefghijklm",
            "10.9.8",
            "=console",
            "two",
            "=abc",
        ],
    );
    assert!(line.starts_with("rd.token=") && line.ends_with(" quiet"), "{line}");
    assert!(line.contains(":255.255.255.0:") && line.contains(":eno1:none "), "{line}");
    assert!(line.contains(" console=ttyS0 ") && line.contains("/cfg?key="), "{line}");
}

#[test]
fn the_first_argument_does_not_make_a_secret_of_the_rest_of_the_line() {
    let line = command_line("rd.token=s3cr3tvalue quiet console=ttyS0,115200", &["s3cr3tvalue"]);
    assert!(line.ends_with(" quiet console=ttyS0,115200"), "{line}");
}

#[test]
fn what_the_report_leaves_out_of_the_command_line_an_anonymised_capture_hides_too() {
    let jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w";
    for (line, secret) in [
        ("x.sshpw=Gehe1mnis a", "Gehe1mnis"),
        ("x.credential=Gehe1mnis a", "Gehe1mnis"),
        ("ignition.auth=Gehe1mnis", "Gehe1mnis"),
        ("site.cookie=Gehe1mnis", "Gehe1mnis"),
        ("x.authority=Gehe1mnis", "Gehe1mnis"),
        ("rootflags=username=a,password=Gehe1mnis rw", "Gehe1mnis"),
        ("ignition.config.url=https://x/y?token=Gehe1mnis", "Gehe1mnis"),
        ("ignition.config.url=https://x/y#Gehe1mnis", "Gehe1mnis"),
        ("vim=https://me:Gehe1mnis@h/x", "Gehe1mnis"),
        ("proxy=me:Gehe1mnis@proxy:3128", "Gehe1mnis"),
        ("netroot=iscsi:me:Gehe1mnis@192.0.2.1::::iqn.x", "Gehe1mnis"),
        (&format!("site.id={jwt} quiet"), jwt),
        (&format!("u=https://h/boot/{jwt}/x"), jwt),
        (
            "node=9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
            "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
        ),
    ] {
        let reported = formats::command_line::without_secrets(line);
        assert!(!reported.contains(secret), "the report: {reported}");
        command_line(line, &[secret]);
    }
}

#[test]
fn where_two_secrets_overlap_all_of_both_is_hidden() {
    let key = "dGhpc0lzQVNlY3JldDEyMzQ1";
    for line in ["rd.token=KEY/geheim quiet", "netroot=iscsi:me:KEY/geheim@192.0.2.1::::iqn.x"] {
        command_line(&line.replace("KEY", key), &[key, "geheim"]);
    }
}

#[test]
fn every_form_of_a_secret_or_host_on_the_command_line_is_hidden() {
    let line = command_line(
        "netroot=iscsi:chapuser:Ch4pS3cret@10.44.5.6::3260:1:iqn.2009-06.example:disk-4711 \
         inst.sshpw=opensesame rd.luks.key=/secret-file:UUID=11112222-3333-4444-8555-666677778888 \
         ignition.auth=Basic:dXNlcjpwYXNzd29yZA== root=nfs:filer7.corp.example:/x \
         nfsroot=nas.corp.example:/x,vers=4.2 systemd.unit=multi-user.target \
         a.urls=http://one.corp.example/x,https://bob:builder@two.corp.example:8443/y?t=Zq8xYw77 \
         rci.vim=http://[FD02:9A04::0001]:8080 nameserver=FD02:9A04:0::0002 initrd=\\live.img",
        &[
            "chapuser",
            "Ch4pS3cret",
            "10.44.5.6",
            "opensesame",
            "secret-file",
            "11112222",
            "dXNlcjpwYXNzd29yZA",
            "filer7",
            "nas.corp",
            "corp",
            "bob",
            "builder",
            "Zq8xYw77",
            "FD02",
            "9A04",
        ],
    );
    assert!(line.contains("netroot=iscsi:") && line.contains("::3260:1:iqn.2009-06."), "{line}");
    assert!(line.contains(":/x,vers=4.2 systemd.unit=multi-user.target "), "{line}");
    assert!(line.contains("rci.vim=http://[2001:db8:") && line.contains("]:8080 "), "{line}");
    assert!(line.contains("initrd=\\live.img") && line.contains("ignition.auth=Basic:"), "{line}");
}

#[test]
fn a_server_without_a_domain_is_hidden_on_the_command_line_and_in_the_mounts() {
    let files = recorded(&[
        (
            "proc/cmdline",
            b"root=nfs:filer:/x nfsroot=server:/y netroot=nbd:storage:root ntp.server=fd00:7::1 \
              ip=eno1:dhcp:1500:0c:42:a1:de:ad:be pxe.from=bob:builder@10.7.8.9 root=live:/dev/x",
        ),
        ("proc/self/mountinfo", b"36 35 0:45 / /filer rw - nfs filer:/x rw,addr=10.7.8.9\n"),
    ]);
    let files = anonymous(&files, &json!({}));
    let line = text(&files, "proc/cmdline");
    for secret in ["filer", "server:", "storage", "fd00", "0c:42:a1:de", "bob", "builder", "10.7"] {
        assert!(!line.contains(secret), "{secret} in {line}");
    }
    assert!(line.contains(" root=live:/dev/x") && line.contains("ip=eno1:dhcp:1500:0c:42:a1:"));
    assert!(line.contains("root=nfs:") && line.contains("ntp.server=2001:db8:"), "{line}");
    let mounts = text(&files, "proc/self/mountinfo");
    assert!(!mounts.contains("filer:/") && mounts.contains(" /filer rw - nfs "), "{mounts}");
    let server = line.strip_prefix("root=nfs:").unwrap().split(':').next().unwrap();
    assert!(mounts.contains(&format!(" {server}:/x ")), "{server} in {mounts}");
}

#[test]
fn a_command_line_without_secrets_stays() {
    let line = "BOOT_IMAGE=(hd0,gpt2)/ostree/vmlinuz-5.14.0-70.el9.x86_64 quiet crashkernel=512M@64M \
                libata.force=1.00:3.0Gbps coreos.liveiso=fedora-coreos-42.20250101 pci=realloc \
                module_blacklist=nouveau audit=1 vconsole.keymap=de intel_iommu=on \
                systemd.mask=foo.service memmap=4G!12G";
    assert_eq!(command_line(line, &[]), line);
}

#[test]
fn the_port_the_volumes_and_the_disk_that_only_the_command_line_names_are_hidden() {
    let line = command_line(
        "ifname=eth0:b8:ce:f6:00:77:aa rd.lvm.lv=customervg/rootvol rd.lvm.vg=secretvg \
         root=/dev/mapper/acmevg-acmeroot resume=/dev/disk/by-id/ata-ST4000_Z1Z0ABCD9-part2 quiet",
        &["00:77:aa", "customervg", "rootvol", "secretvg", "acme", "Z1Z0ABCD9"],
    );
    assert!(line.starts_with("ifname=eth0:b8:ce:f6:"), "{line}");
    assert!(line.contains("/by-id/ata-ST4000_") && line.ends_with("-part2 quiet"), "{line}");
}

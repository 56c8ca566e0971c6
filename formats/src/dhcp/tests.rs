//! Leases of every client, and damaged files.

use super::*;

#[test]
fn damaged_files_give_no_lease() {
    for text in ["", "ADDRESS=", "ADDRESS=0.0.0.0", "ADDRESS=192.0.2", "address=192.0.2.1", "="] {
        assert_eq!(key_values(text), None, "{text}");
    }
    for text in ["", "}", "lease {\n}", "lease {\ninterface \"a\";\nfixed-address x;\n}", "{{{"] {
        assert!(dhclient(text).is_empty(), "{text}");
    }
    let too_long = format!("DUID-LL:{}", "0".repeat(258));
    for text in ["", "DUID-LL:", "DUID-LL:abc", "DUID-LL:00zz11", "0003:0001", &too_long] {
        assert_eq!(duid(text), None, "{text}");
    }
}

const LEASES: &str = "default-duid \"\\000\\003\";\nlease {\n  interface \"eno1\";\n  \
    fixed-address 192.0.2.7;\n}\nlease6 {\n  interface \"eno1\";\n  ia-na 20:da:42:4e {\n    \
    starts 1389279341;\n    iaaddr 2001:db8::100 {\n      starts 1;\n      preferred-life 7200;\n      \
    max-life 7500;\n    }\n    iaaddr 2001:0DB8::0101 {\n      max-life x;\n    }\n  }\n  option \
    dhcp6.client-id 0:3:0:1:2:0:0:0:0:1;\n}\n";

#[test]
fn each_address_of_a_lease6_block_is_one_lease() {
    let leases = dhclient6(LEASES);
    let found: Vec<_> = leases
        .iter()
        .map(|lease| (lease.interface.as_str(), lease.address.as_str(), lease.lease_s))
        .collect();
    let expected = [("eno1", "2001:db8::100", Some(7500)), ("eno1", "2001:db8::101", None)];
    assert_eq!(found, expected);
    for text in ["", "}}}", "lease6 {\niaaddr 2001:db8::1 {\n", "iaaddr 2001:db8::1 {", "{{{"] {
        assert!(dhclient6(text).is_empty(), "{text}");
    }
    assert!(dhclient6("lease6 {\ninterface \"a\";\niaaddr :: {\n").is_empty());
}

#[test]
fn a_duid_begins_with_its_kind_as_the_server_sees_it_and_old_versions_add_nothing_to_it() {
    let kinds = ["DUID-LLT:00012b", "DUID-EN/Vendor:00000009", "DUID-LL:0001", "UUID:0a0b"];
    let found = kinds.map(|text| duid(text).unwrap_or_default());
    assert_eq!(found, ["000100012b", "000200000009", "00030001", "00040a0b"]);
    let mac = "DUID-LL:0001020000000001";
    assert_eq!(duid(mac).as_deref(), Some("00030001020000000001"));
    assert_eq!(duid(&format!("{mac}0000")), duid(mac));
    let others = "DUID-EN/Vendor:000000090123456789abcdef0000";
    assert_eq!(duid(others).as_deref(), Some("0002000000090123456789abcdef0000"));
}

//! Mount tables: `/proc/<pid>/mountinfo` (`Documentation/filesystems/proc.rst` §3.5,
//! `fs/proc_namespace.c`) and `/proc/<pid>/mounts`.
//!
//! procfs-core parses `mountinfo`, a line at a time: it fails as a whole for one bad line of a file,
//! and it leaves the octal escapes in. Its parser of `mounts` is not used, since it decodes neither
//! the blank (`\040`) nor a backslash before an escape correctly.

use std::path::Path;

use procfs_core::process::MountInfo;

use crate::octal;
use crate::text::is_number;
use crate::{Field, Kind};

/// A mounted file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// `major:minor` of the file system, e.g. `8:1`; `None` in `mounts`, which does not contain it.
    pub device_number: Option<String>,
    /// Its mount point.
    pub mount_point: String,
    /// Type of the file system, e.g. `xfs`.
    pub filesystem: String,
    /// True if the file system itself is read-only, not only this mount of it.
    pub is_read_only: bool,
    /// The mounted device, as the file system names it, e.g. `/dev/sda1`; `None` where it does not have a source.
    pub source: Option<String>,
}

/// The mounts of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MountTable {
    /// In the order of the file.
    pub mounts: Vec<Mount>,
    /// The first line that is not a mount. The kernel writes none, so a mount may be missing then.
    pub bad_line: Option<String>,
}

/// Parses a `mountinfo` file. A bad line costs only itself.
pub fn parse(text: &str) -> MountTable {
    parse_lines(text, parse_line)
}

fn parse_lines(text: &str, parse: fn(&str) -> Option<Mount>) -> MountTable {
    let mut table = MountTable::default();
    for line in text.lines() {
        match parse(line) {
            Some(mount) => table.mounts.push(mount),
            None if table.bad_line.is_none() => table.bad_line = Some(line.to_owned()),
            None => {}
        }
    }
    table
}

fn parse_line(line: &str) -> Option<Mount> {
    let mount = MountInfo::from_line(line).ok()?;
    Some(Mount {
        device_number: Some(mount.majmin),
        mount_point: octal::decode(path(&mount.mount_point)),
        filesystem: octal::decode(&mount.fs_type),
        is_read_only: mount.super_options.contains_key("ro"),
        source: mount.mount_source.as_deref().map(octal::decode),
    })
}

/// The path that procfs-core made of a `&str`.
fn path(path: &Path) -> &str {
    path.to_str().unwrap_or_default()
}

/// Parses a `mounts` file. A bad line costs only itself.
pub fn parse_mounts(text: &str) -> MountTable {
    parse_lines(text, parse_mounts_line)
}

fn parse_mounts_line(line: &str) -> Option<Mount> {
    let mut fields = line.split(' ').map(octal::decode);
    let (source, mount_point) = (fields.next()?, fields.next()?);
    let filesystem = fields.next()?;
    let source = Some(source).filter(|source| !source.is_empty() && source != "none");
    // Without the options of the file system, only those of the mount are known.
    Some(Mount { device_number: None, mount_point, filesystem, is_read_only: false, source })
}

/// Lists the places in a `mountinfo` or `mounts` file that reveal something: the servers of network file systems, in
/// the source (`filer:/export`, `//filer/share`) and in the options (`addr=`), and who mounted them.
pub fn fields(text: &str) -> Vec<Field> {
    let mut fields = Vec::new();
    for line in text.split('\n') {
        // A `name` of another file system is that of a control group.
        let has_clients = line.split(' ').any(|word| word == "ceph");
        let words = line.split(' ');
        let found = words.flat_map(|word| servers(word).chain(options(word, has_clients)));
        fields.extend(found.map(|(part, kind)| Field::in_text(text, part, kind)));
    }
    fields
}

/// The servers in a source; several are separated by commas.
fn servers(source: &str) -> impl Iterator<Item = (&str, Kind)> {
    let hosts = match source.strip_prefix("//") {
        Some(share) => share.split('/').next().unwrap_or_default(),
        None => source.split_once(":/").map_or("", |(hosts, _)| hosts),
    };
    // A path or an option may contain `:/` too.
    let hosts = if hosts.contains(['/', '=']) { "" } else { hosts };
    hosts.split(',').filter_map(server)
}

/// One server, with or without a port.
fn server(host: &str) -> Option<(&str, Kind)> {
    let host = match host.rsplit_once(':') {
        Some((name, port)) if is_number(port) && !name.contains(':') => name,
        _ => host,
    };
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let host = inner.unwrap_or(host);
    let is_address = host.parse::<core::net::IpAddr>().is_ok();
    let kind = if is_address { Kind::Address } else { Kind::HostName };
    (!host.is_empty()).then_some((host, kind))
}

/// Addresses and names in the options of a mount.
fn options(word: &str, has_clients: bool) -> impl Iterator<Item = (&str, Kind)> {
    word.split(',').filter_map(move |option| {
        let (name, value) = option.split_once('=').filter(|(_, value)| !value.is_empty())?;
        let kind = match name {
            "addr" | "clientaddr" | "mountaddr" | "srcaddr" | "ip" => Kind::Address,
            "username" | "user" => Kind::FreeText,
            "name" if has_clients => Kind::FreeText,
            "domain" => Kind::HostName,
            _ => return None,
        };
        Some((value, kind))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::tests::assert_fields;

    #[test]
    fn a_mount_has_its_device_number_and_its_decoded_paths() {
        let text =
            "1 0 8:1 /root /mnt/a\\040b rw,noatime shared:1 master:2 - ext4 /dev/disk\\134x rw\n";
        assert_eq!(
            parse(text).mounts,
            [Mount {
                device_number: Some("8:1".to_owned()),
                mount_point: "/mnt/a b".to_owned(),
                filesystem: "ext4".to_owned(),
                is_read_only: false,
                source: Some("/dev/disk\\x".to_owned()),
            }]
        );
    }

    #[test]
    fn a_bad_line_is_named_and_costs_only_itself() {
        let good = "2 0 8:2 / /b rw - ext4 /dev/sda2 rw\n";
        let table = parse(&format!("x 0 8:1 / /a rw - ext4 /dev/sda1 rw\nnonsense\n{good}"));
        assert_eq!((table.mounts.len(), table.mounts[0].mount_point.as_str()), (1, "/b"));
        assert_eq!(table.bad_line.as_deref(), Some("x 0 8:1 / /a rw - ext4 /dev/sda1 rw"));
        assert_eq!(parse(good).bad_line, None);
    }

    #[test]
    fn a_file_system_without_a_source_has_none() {
        let sources =
            |text: &str| parse(text).mounts.into_iter().map(|m| m.source).collect::<Vec<_>>();
        assert_eq!(sources("3 9 0:47 / / ro - tmpfs  ro,size=0k\n"), [None]);
        assert_eq!(sources("3 9 0:47 / / ro - tmpfs none ro\n"), [None]);
    }

    #[test]
    fn the_older_table_decodes_blanks_and_backslashes_once() {
        let table =
            parse_mounts("/dev/sda1 /a\\040b\\134040c ext4 rw 0 0\nnone /run tmpfs rw 0 0\nx\n");
        let mounts = table.mounts;
        assert_eq!((mounts.len(), table.bad_line.as_deref()), (2, Some("x")));
        assert_eq!(mounts[0].mount_point, "/a b\\040c");
        assert_eq!((mounts[1].source.as_deref(), mounts[1].device_number.as_deref()), (None, None));
    }

    #[test]
    fn servers_and_addresses_are_fields_and_paths_are_not() {
        let text = "36 35 0:45 / /filer rw - nfs filer.example:/x rw,addr=192.0.2.1\n\
                    37 35 0:46 / /v6 rw - nfs4 [2001:db8::1]:/x rw,clientaddr=2001:db8::2\n\
                    38 35 0:47 / /a:/b rw - cifs //store/share rw,username=bob,domain=corp\n\
                    39 35 0:48 / /o rw - overlay overlay rw,lowerdir=a:/b\n\
                    40 35 0:49 / /c rw - ceph mon1:6789,mon2:/ rw,name=admin\n\
                    41 35 0:50 / /g rw - cgroup cgroup rw,name=systemd\n";
        let expected = [
            (Kind::HostName, "filer.example"),
            (Kind::Address, "192.0.2.1"),
            (Kind::Address, "2001:db8::1"),
            (Kind::Address, "2001:db8::2"),
            (Kind::HostName, "store"),
            (Kind::FreeText, "bob"),
            (Kind::HostName, "corp"),
            (Kind::HostName, "mon1"),
            (Kind::HostName, "mon2"),
            (Kind::FreeText, "admin"),
        ];
        assert_fields(&fields(text), text, &expected);
    }

    #[test]
    fn noise_neither_panics_nor_gives_a_span_outside_the_text() {
        let good = b"1 0 8:1 / /mnt/a\\040b rw - nfs //[::1]:/x,\xc3\xa9 rw,addr=192.0.2.1\n";
        crate::testing::survives_any_bytes(good, |bytes| {
            let text = String::from_utf8_lossy(bytes);
            let n_mounts = parse(&text).mounts.len().max(parse_mounts(&text).mounts.len());
            assert!(n_mounts <= text.lines().count());
            for field in fields(&text) {
                assert!(text.get(field.span.clone()).is_some(), "{field:?} in {text:?}");
            }
        });
    }
}

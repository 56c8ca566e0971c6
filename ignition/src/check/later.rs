//! Keys that a later version of the spec added, which earlier versions do not know.
//!
//! From 3.0 to 3.6 the spec only grew, so the types of 3.6 can parse every version, and this table lists what earlier
//! versions lack. A test compares it with the types that `ignition-config` has for each version. (All seven sets of
//! types would enlarge the program by 0.8 MB.)

use serde_json::Value;

/// Minor version of the spec, and the keys that it added; `*` is any index of a list.
const ADDED: &[(u64, &[&str])] = &[
    (
        1,
        &[
            "ignition.config.merge.*.compression",
            "ignition.config.merge.*.httpHeaders",
            "ignition.config.replace.compression",
            "ignition.config.replace.httpHeaders",
            "ignition.proxy",
            "ignition.security.tls.certificateAuthorities.*.compression",
            "ignition.security.tls.certificateAuthorities.*.httpHeaders",
            "storage.files.*.append.*.httpHeaders",
            "storage.files.*.contents.httpHeaders",
            "storage.filesystems.*.mountOptions",
        ],
    ),
    (
        2,
        &[
            "passwd.groups.*.shouldExist",
            "passwd.users.*.shouldExist",
            "storage.disks.*.partitions.*.resize",
            "storage.luks",
        ],
    ),
    (3, &["kernelArguments"]),
    (
        4,
        &[
            "storage.luks.*.clevis.tang.*.advertisement",
            "storage.luks.*.discard",
            "storage.luks.*.openOptions",
        ],
    ),
    (5, &["storage.luks.*.cex"]),
];

/// Removes from `config` what versions above `minor` added, and returns the paths.
pub(super) fn take_out(config: &mut Value, minor: u64) -> Vec<String> {
    let mut taken = Vec::new();
    for key in ADDED.iter().filter(|(added, _)| *added > minor).flat_map(|(_, keys)| *keys) {
        let parts: Vec<&str> = key.split('.').collect();
        take(config, &parts, "$", &mut taken);
    }
    taken
}

fn take(value: &mut Value, parts: &[&str], path: &str, taken: &mut Vec<String>) {
    match (value, parts) {
        (Value::Array(list), ["*", rest @ ..]) => {
            for (index, item) in list.iter_mut().enumerate() {
                take(item, rest, &format!("{path}.{index}"), taken);
            }
        }
        (Value::Object(map), [last]) => {
            let removed = map.shift_remove(*last).filter(|value| !value.is_null());
            taken.extend(removed.map(|_| format!("{path}.{last}")));
        }
        (Value::Object(map), [key, rest @ ..]) => {
            if let Some(inner) = map.get_mut(*key) {
                take(inner, rest, &format!("{path}.{key}"), taken);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use ignition_config::Config;
    use serde_json::json;

    use super::*;

    /// A config with every key that any version has.
    fn full(minor: u64) -> Value {
        let resource = json!({"source": "https://a/b", "compression": "gzip", "verification": {"hash": "sha512-00"},
                              "httpHeaders": [{"name": "a", "value": "b"}]});
        json!({
            "ignition": {
                "version": format!("3.{minor}.0"),
                "config": {"merge": [resource], "replace": resource},
                "proxy": {"httpProxy": "http://a", "httpsProxy": "http://a", "noProxy": ["b"]},
                "security": {"tls": {"certificateAuthorities": [resource]}},
                "timeouts": {"httpResponseHeaders": 1, "httpTotal": 1}
            },
            "kernelArguments": {"shouldExist": ["a"], "shouldNotExist": ["b"]},
            "passwd": {
                "groups": [{"name": "a", "gid": 1, "passwordHash": "x", "shouldExist": true, "system": true}],
                "users": [{"name": "a", "gecos": "a", "groups": ["a"], "homeDir": "/a", "noCreateHome": true, "noLogInit": true,
                           "noUserGroup": true, "passwordHash": "x", "primaryGroup": "a", "shell": "/a", "shouldExist": true,
                           "sshAuthorizedKeys": ["a"], "system": true, "uid": 1}]
            },
            "storage": {
                "directories": [{"path": "/a", "mode": 1, "overwrite": true, "group": {"id": 1, "name": "a"}, "user": {"id": 1, "name": "a"}}],
                "disks": [{"device": "/dev/a", "wipeTable": true, "partitions": [{"label": "a", "number": 1, "guid": "a", "typeGuid": "a",
                           "sizeMiB": 1, "startMiB": 1, "shouldExist": true, "wipePartitionEntry": true, "resize": true}]}],
                "files": [{"path": "/a", "mode": 1, "overwrite": true, "append": [resource], "contents": resource,
                           "group": {"id": 1, "name": "a"}, "user": {"id": 1, "name": "a"}}],
                "filesystems": [{"device": "/dev/a", "format": "ext4", "label": "a", "mountOptions": ["a"], "options": ["a"], "path": "/a",
                                 "uuid": "a", "wipeFilesystem": true}],
                "links": [{"path": "/a", "target": "/b", "hard": true, "overwrite": true, "group": {"id": 1}, "user": {"id": 1}}],
                "luks": [{"name": "a", "device": "/dev/a", "label": "a", "uuid": "a", "options": ["a"], "openOptions": ["a"], "discard": true,
                          "wipeVolume": true, "keyFile": resource, "cex": {"enabled": true},
                          "clevis": {"custom": {"config": "a", "needsNetwork": true, "pin": "a"}, "threshold": 1, "tpm2": true,
                                     "tang": [{"url": "a", "thumbprint": "a", "advertisement": "a"}]}}]
            },
            "systemd": {"units": [{"name": "a.service", "enabled": true, "mask": true, "contents": "a", "dropins": [{"name": "a", "contents": "b"}]}]}
        })
    }

    #[test]
    fn table_matches_the_types_of_each_version() {
        for minor in 0..=6 {
            let mut config = full(minor);
            let bytes = serde_json::to_vec(&config).unwrap();
            let (_, unused) = Config::parse_slice(&bytes).unwrap();
            let mut expected: Vec<String> = unused
                .iter()
                .map(|warning| warning.to_string().replacen("unused key: ", "", 1))
                .collect();
            let mut taken = take_out(&mut config, minor);
            expected.sort();
            taken.sort();
            assert_eq!(taken, expected, "3.{minor}.0");
        }
    }
}

//! The pull secret: `containers-auth.json(5)`, and Docker's `config.json` of the same form.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use tracing::warn;

use crate::bounded;
use crate::secret::{Secret, conceal};

/// Largest file, in bytes.
const MAX_BYTES: u64 = 1 << 20;
/// The files after that of the session, in the order in which podman reads them.
const FILES: [&str; 3] = [
    "/run/containers/0/auth.json",
    "/root/.config/containers/auth.json",
    "/root/.docker/config.json",
];

/// User and password for a repository such as `quay.io/a/b`, in base64; of the entries of the first file that has any, the most
/// specific one.
pub(super) fn find(name: &str, root: &Path) -> Option<Secret> {
    let session = std::env::var("XDG_RUNTIME_DIR").ok();
    let session = session.map(|folder| format!("{folder}/containers/auth.json"));
    let files = session.iter().map(String::as_str).chain(FILES);
    let files = files.map(|path| root.join(path.trim_start_matches('/')));
    files.filter(|path| path.exists()).find_map(|path| {
        let bytes = bounded::read_file(&path, MAX_BYTES).ok();
        let file = bytes.and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
        if file.is_none() {
            warn!("{} cannot be read or is not a pull secret", path.display());
        }
        entry_for(file?.get("auths")?.as_object()?, name)
    })
}

fn entry_for(auths: &Map<String, Value>, name: &str) -> Option<Secret> {
    let is_it = |key: &str| key.trim_start_matches("https://").trim_end_matches('/') == name;
    let entry = auths.iter().find_map(|(key, entry)| is_it(key).then(|| entry.get("auth"))?);
    let Some(auth) = entry.and_then(Value::as_str) else {
        return entry_for(auths, name.rsplit_once('/')?.0);
    };
    let user = String::from_utf8(STANDARD.decode(auth).ok()?).ok()?;
    // The password must not appear alone, either.
    conceal(user.split_once(':')?.1);
    Some(Secret::new(auth))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_specific_entry_is_found_and_no_other_registry_gets_it() {
        let root = tempfile::tempdir().unwrap();
        let [auth, password] = ["run/containers/0/auth.json", "root/.docker/config.json"];
        let write = |path: &str, text: &str| {
            std::fs::create_dir_all(root.path().join(path).parent().unwrap()).unwrap();
            std::fs::write(root.path().join(path), text).unwrap();
        };
        // u:all-of-quay, u:only-team-a
        let text = r#"{"auths": {"quay.io": {"auth": "dTphbGwtb2YtcXVheQ==", "email": "x"},
            "https://quay.io/a/": {"auth": "dTpvbmx5LXRlYW0tYQ=="}, "odd.io": {"auth": "%"}, "empty.io": {}}}"#;
        write(password, text);
        let found = |name: &str| find(name, root.path()).map(|secret| secret.expose().to_owned());
        assert_eq!(found("quay.io/a/x").as_deref(), Some("dTpvbmx5LXRlYW0tYQ=="));
        assert_eq!(found("quay.io/ab").as_deref(), Some("dTphbGwtb2YtcXVheQ=="));
        assert_eq!(crate::secret::hide("is all-of-quay"), "is …");
        for other in ["quay.io.evil.example/a", "quay.io:5000/a", "odd.io/x", "empty.io/x"] {
            assert_eq!(found(other), None, "{other}");
        }
        write(auth, r#"{"auths": {"quay.io": {"auth": "dTpuZXdlcg=="}}}"#);
        assert_eq!(found("quay.io/a/x").as_deref(), Some("dTpuZXdlcg=="));
        write(auth, "{");
        assert_eq!(found("quay.io/ab").as_deref(), Some("dTphbGwtb2YtcXVheQ=="));
    }
}

//! User additions to a live image: files, units, network profiles, and the version of its config.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use ignition::live::{ExtraFile, FileSource, Keyfile, LiveError, Spec, Unit, keyfiles};

use crate::engines::offline;
use crate::{bounded, whole_file};

/// Largest file that goes into the config, in bytes; the largest config that Ignition's check accepts has 8 MiB.
pub(super) const MAX_FILE_BYTES: u64 = 32 << 20;

/// Parses the version in `--spec`, e.g. `3.1`.
pub(super) fn spec(version: &str) -> anyhow::Result<Spec> {
    let minor = version.strip_prefix("3.").and_then(|minor| minor.parse().ok());
    minor.and_then(Spec::new).with_context(|| format!("--spec {version} is unknown"))
}

/// One `--file PATH=SOURCE[,sha512-…][,MODE]`.
pub(super) fn file(written: &str) -> anyhow::Result<ExtraFile> {
    let Some((path, source)) = written.split_once('=') else {
        bail!("--file is \"{}\", expected PATH=SOURCE", written.escape_debug());
    };
    check_place("file", path)?;
    let (source, mode) = match source.rsplit_once(',') {
        Some((source, mode)) if is_mode(mode) => (source, u32::from_str_radix(mode, 8).ok()),
        _ => (source, None),
    };
    if offline::is_url(source) {
        let (url, hash) = match source.rsplit_once(',') {
            Some((url, hash)) if hash.starts_with("sha") => (url, Some(hash.to_owned())),
            _ => (source, None),
        };
        let is_program = path.contains("/bin/") || path.contains("/sbin/");
        let is_packed = |name: &str| Path::new(name).extension().is_some_and(|end| end == "gz");
        let is_gzip = is_packed(url) && !is_packed(path);
        return Ok(ExtraFile {
            path: path.to_owned(),
            mode: mode.unwrap_or(if is_program { 0o755 } else { 0o644 }),
            source: FileSource::Url { url: url.to_owned(), hash, is_gzip },
        });
    }
    let bytes = bounded::read_file(Path::new(source), MAX_FILE_BYTES).context("reading --file")?;
    let own = || fs::metadata(source).map_or(0o644, |file| file.permissions().mode() & 0o777);
    Ok(ExtraFile {
        path: path.to_owned(),
        mode: mode.unwrap_or_else(own),
        source: FileSource::Content(bytes),
    })
}

/// Refuses a path at which the live system cannot have a file.
pub(super) fn check_place(option: &str, path: &str) -> anyhow::Result<()> {
    match ignition::read_only::warning(path) {
        Some(warning) => bail!("--{option} is \"{}\": {warning}", path.escape_debug()),
        None => Ok(()),
    }
}

/// Octal digits, as `0755`.
fn is_mode(text: &str) -> bool {
    (3..=4).contains(&text.len()) && text.bytes().all(|b| (b'0'..b'8').contains(&b))
}

/// One `--unit FILE`.
pub(super) fn unit(file: &Path) -> anyhow::Result<Unit> {
    let text = super::text("unit", Some(file))?.unwrap_or_default();
    Ok(Unit { name: file_name(file, "unit")?, text })
}

/// Reads the profiles from all `--network FILE`.
pub(super) fn network(files: &[PathBuf]) -> anyhow::Result<Vec<Keyfile>> {
    let mut profiles: Vec<Keyfile> = Vec::new();
    for file in files {
        let text = super::text("network", Some(file))?.unwrap_or_default();
        let is_keyfile = text.lines().any(|line| line.trim() == "[connection]");
        if is_keyfile {
            let name = file_name(file, "network")?;
            // NetworkManager ignores files with other names.
            if !name.ends_with(".nmconnection") {
                bail!(
                    "--network {} is a keyfile, expected a name that ends in .nmconnection",
                    file.display()
                );
            }
            profiles.push(Keyfile { name, text });
        } else {
            let found = keyfiles(&text).map_err(|error| match error {
                LiveError::Setting { found, expected, .. } => {
                    anyhow!("{found}, expected {expected}")
                }
                error => anyhow!("{error}"),
            });
            profiles
                .extend(found.with_context(|| format!("reading --network {}", file.display()))?);
        }
    }
    let mut names: Vec<&str> = profiles.iter().map(|profile| profile.name.as_str()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => bail!("--network: two profiles have the name {}", pair[0]),
        None => Ok(profiles),
    }
}

/// Writes the profiles for `coreos-installer iso customize --network-keyfile`; they may contain passwords.
pub(super) fn write_network(folder: Option<&Path>, profiles: &[Keyfile]) -> anyhow::Result<()> {
    match folder {
        Some(folder) => write_profiles(folder, profiles)
            .with_context(|| format!("writing --network-dir {}", folder.display())),
        None => Ok(()),
    }
}

/// Writes profiles into a folder, readable by their owner alone, as `NetworkManager` demands.
pub(crate) fn write_profiles(folder: &Path, profiles: &[Keyfile]) -> anyhow::Result<()> {
    fs::create_dir_all(folder)?;
    for profile in profiles {
        let path = folder.join(&profile.name);
        whole_file::write(&path, 0o600, profile.text.as_bytes())
            .with_context(|| path.display().to_string())?;
    }
    Ok(())
}

fn file_name(file: &Path, option: &str) -> anyhow::Result<String> {
    let name = file.file_name().and_then(|name| name.to_str());
    let name = name.with_context(|| format!("--{option} {} has no name", file.display()))?;
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_from_a_url_has_its_digest_its_mode_and_is_unpacked() {
        let digest = format!("sha512-{}", "0".repeat(128));
        for (written, mode, expected_hash, expected_gzip) in [
            (format!("/usr/local/bin/x=http://h/x.gz,{digest}"), 0o755, Some(&digest), true),
            (format!("/opt/x=http://h/x,{digest},0555"), 0o555, Some(&digest), false),
            ("/etc/x.gz=https://h/x.gz".to_owned(), 0o644, None, false),
            ("/etc/x=https://h/a,b".to_owned(), 0o644, None, false),
        ] {
            let file = file(&written).unwrap();
            assert_eq!(file.mode, mode, "{written}");
            let FileSource::Url { hash, is_gzip, .. } = file.source else { panic!() };
            assert_eq!((hash.as_ref(), is_gzip), (expected_hash, expected_gzip), "{written}");
        }
    }

    #[test]
    fn file_where_the_live_image_is_read_only_is_refused() {
        for path in ["/proc/x", "/sys/x", "/dev/x", "/run/x"] {
            let error = file(&format!("{path}=https://h/x")).unwrap_err().to_string();
            let expected = format!("--file is \"{path}\": the kernel and systemd mount");
            assert!(error.starts_with(&expected), "{error}");
        }
        let error = file("/usr/bin/x=https://h/x").unwrap_err().to_string();
        let expected = "--file is \"/usr/bin/x\": CoreOS mounts /usr read-only";
        assert!(error.starts_with(expected), "{error}");
    }

    #[test]
    fn file_from_the_disk_keeps_its_mode() {
        let path = std::env::temp_dir().join(format!("rci-live-file-{}", std::process::id()));
        fs::write(&path, "tool").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
        let found = file(&format!("/usr/local/bin/tool={}", path.display())).unwrap();
        assert_eq!((found.mode, found.source), (0o750, FileSource::Content(b"tool".to_vec())));
        fs::remove_file(&path).unwrap();
        assert!(file("/etc/x").unwrap_err().to_string().ends_with("expected PATH=SOURCE"));
    }
}

//! `CoreOS` stream metadata: a JSON document that lists the images of a release with their digests
//! (github.com/coreos/stream-metadata-go, `stream/stream.go`).

use serde::Deserialize;
use serde_json::Value;

use crate::act::{Code, Failure, StreamSource};
use crate::http::Client;

/// The largest document, in bytes; Fedora's has 50 KiB.
const MAX_BYTES: u64 = 4 << 20;
/// The formats of a raw image, without the prefix of those for sectors of 4096 bytes.
const FORMATS: [&str; 4] = ["raw.xz", "raw.zst", "raw.gz", "raw"];

/// An image of a stream.
#[derive(Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Found {
    pub(super) location: String,
    pub(super) signature: Option<String>,
    /// Its digest; in the document only the digits of a SHA-256.
    #[serde(default, rename = "sha256")]
    pub(super) digest: String,
}

/// Fetches the metadata and finds the image.
///
/// # Errors
/// `IMAGE_FETCH`: the metadata cannot be fetched or parsed, or has no such image.
pub(super) fn fetch(
    stream: &StreamSource,
    sector_bytes: Option<u64>,
    client: &Client,
) -> Result<Found, Failure> {
    let refuse = |what: String| {
        Failure::advised(Code::ImageFetch, format!("reading the stream metadata: {what}"))
    };
    let shown = crate::secret::redact(&stream.url);
    let bytes = client
        .fetch_if_present("fetching the stream metadata", &stream.url, MAX_BYTES)
        .map_err(refuse)?
        .ok_or_else(|| refuse(format!("{shown} does not exist")))?;
    find(&bytes, stream, sector_bytes).map_err(|what| refuse(format!("{shown} {what}")))
}

/// Finds the image in the metadata.
///
/// # Errors
/// A message that follows the address.
fn find(bytes: &[u8], stream: &StreamSource, sector_bytes: Option<u64>) -> Result<Found, String> {
    let document: Value = serde_json::from_slice(bytes).unwrap_or_default();
    let architectures = document.get("architectures").filter(|found| found.is_object());
    let other = || "is not stream metadata, expected JSON with architectures".to_owned();
    let architectures = architectures.ok_or_else(other)?;
    let architecture = stream.architecture.as_deref().unwrap_or(machine_architecture());
    let artifact = stream.artifact.as_deref().unwrap_or("metal");
    let (platform, is_4k) = match artifact.strip_suffix("4k") {
        Some(platform) => (platform, true),
        None => (artifact, sector_bytes == Some(4096)),
    };
    let prefix = if is_4k { "4k." } else { "" };
    let artifacts = architectures
        .get(architecture)
        .ok_or_else(|| format!("has no architecture {architecture:?}"))?;
    let images = artifacts["artifacts"]
        .get(platform)
        .ok_or_else(|| format!("has no artifact {platform:?} for {architecture}"))?;
    let file = FORMATS
        .iter()
        .find_map(|format| images["formats"].get(format!("{prefix}{format}"))?.get("disk"))
        .ok_or_else(|| {
            format!("has no image {prefix}raw of the artifact {platform:?} for {architecture}")
        })?;
    let mut found = Found::deserialize(file).map_err(|_| other())?;
    found.digest.insert_str(0, "sha256-");
    let is_valid = formats::digest::Algorithm::of(&found.digest).is_some();
    is_valid.then_some(found).ok_or_else(|| format!("has no valid sha256 for {platform:?}"))
}

/// The machine's architecture as stream metadata spells it.
fn machine_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "powerpc64" => "ppc64le",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Vec<u8> {
        let file = |name: &str, digit: &str| {
            serde_json::json!({"disk": {
                "location": format!("https://h/{name}"), "signature": format!("https://h/{name}.asc"),
                "sha256": digit.repeat(64), "uncompressed-sha256": "ff",
            }})
        };
        serde_json::json!({
            "stream": "stable", "metadata": {},
            "architectures": {
                "x86_64": {"artifacts": {"metal": {"release": "44", "formats": {
                    "iso": {"disk": {"location": "https://h/iso", "sha256": "0"}},
                    "raw.xz": file("raw.xz", "1"), "4k.raw.xz": file("4k.raw.xz", "4"),
                }}}, "images": {}},
                "s390x": {"artifacts": {"metal": {"formats": {"raw.gz": {"disk": {
                    "location": "https://h/s390x.gz", "sha256": "short"}}}}}},
            },
        })
        .to_string()
        .into_bytes()
    }

    fn find_in(
        architecture: &str,
        artifact: Option<&str>,
        sector_bytes: Option<u64>,
    ) -> Result<Found, String> {
        let stream = StreamSource {
            url: "https://h/stable.json".into(),
            architecture: Some(architecture.into()),
            artifact: artifact.map(str::to_owned),
        };
        find(&document(), &stream, sector_bytes)
    }

    #[test]
    fn image_fits_the_sectors_of_the_disk_unless_an_artifact_is_named() {
        for (artifact, sector_bytes, expected) in [
            (None, Some(512), "raw.xz"),
            (None, None, "raw.xz"),
            (None, Some(4096), "4k.raw.xz"),
            (Some("metal"), Some(4096), "4k.raw.xz"),
            (Some("metal4k"), Some(512), "4k.raw.xz"),
        ] {
            let found = find_in("x86_64", artifact, sector_bytes).unwrap();
            assert_eq!(found.location, format!("https://h/{expected}"));
            assert_eq!(found.signature, Some(format!("https://h/{expected}.asc")));
            let digit = if expected.starts_with('4') { "4" } else { "1" };
            assert_eq!(found.digest, format!("sha256-{}", digit.repeat(64)));
        }
    }

    #[test]
    fn missing_image_or_digest_is_named() {
        for (architecture, artifact, expected) in [
            ("riscv64", None, "has no architecture \"riscv64\""),
            ("x86_64", Some("qemu"), "has no artifact \"qemu\" for x86_64"),
            ("s390x", Some("metal4k"), "has no image 4k.raw"),
            ("s390x", None, "has no valid sha256"),
        ] {
            let message = find_in(architecture, artifact, Some(512)).unwrap_err();
            assert!(message.starts_with(expected), "{message}");
        }
        let stream = StreamSource::default();
        assert!(find(b"<html>", &stream, None).unwrap_err().starts_with("is not stream metadata"));
        assert!(find(&b"[".repeat(10_000), &stream, None).is_err());
    }
}

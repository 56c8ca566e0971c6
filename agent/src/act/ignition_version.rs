//! The Ignition that the installed system will have, and the newest spec version that it knows.

use std::time::Duration;

use super::writers::{Version, parse_version};
use super::{Code, Failure, Order, Site};

/// The first release for each minor version of spec 3 (coreos/ignition, `docs/specs.md`).
const SINCE: [Version; 7] = [
    Version(2, 0, 0),
    Version(2, 3, 0),
    Version(2, 7, 0),
    Version(2, 11, 0),
    Version(2, 15, 0),
    Version(2, 20, 0),
    Version(2, 26, 0),
];
/// Time limit for `--version`.
const LIMIT: Duration = Duration::from_secs(10);

/// The newest spec version that the installed system's Ignition knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Newest {
    /// The minor version of spec 3.
    pub(super) minor: u64,
    /// The Ignition of the live image, if that is what is installed and it said its version.
    version: Option<Version>,
}

impl Newest {
    /// Asks the Ignition of the live image for its version. That of another image is not known.
    pub(super) fn of(order: &Order, site: &Site) -> Self {
        let is_own = order.image.is_none() && !order.reignite && site.ignition.exists();
        let ask = || {
            let command = (&*site.ignition, &["--version".to_owned()][..]);
            let (text, _) =
                site.system.output_of(command, LIMIT, 4096, |out| out.contains(&b'\n')).ok()?;
            parse_version(&text.replace(" v", " "))
        };
        Self::since(if is_own { ask() } else { None })
    }

    fn since(version: Option<Version>) -> Self {
        let known = |version| SINCE.iter().rposition(|since| *since <= version).unwrap_or(0);
        let minor = version.map_or(ignition::check::MAX_MINOR, |version| known(version) as u64);
        Self { minor, version }
    }

    /// Refuses a config that is newer.
    ///
    /// # Errors
    /// `IGNITION_VERSION`.
    pub(super) fn check(&self, spec: &str) -> Result<(), Failure> {
        let minor = spec.split('.').nth(1).and_then(|minor| minor.parse::<u64>().ok());
        match self.version {
            Some(version) if minor.is_some_and(|minor| minor > self.minor) => {
                let newest = self.minor;
                let what = format!(
                    "the Ignition config is of spec {spec}, but Ignition {version} of the image knows 3.{newest}.0 at most"
                );
                let advice =
                    format!("give a config of spec 3.{newest}.0, or install a newer image");
                Err(Failure::new(Code::IgnitionVersion, what).advise(advice))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn config_is_refused_only_if_the_known_ignition_is_older_than_its_spec() {
        for (text, minor, is_good) in [
            (Some("Ignition v2.26.0\n"), 6, true),
            (Some("Ignition Debian 2.14.0+ds1-1+b6\n"), 3, false),
            (Some("Ignition v2.20.1\n"), 5, true),
            (Some("no version\n"), 6, true),
            (None, 6, true),
        ] {
            let version = text.and_then(|text| parse_version(&text.replace(" v", " ")));
            let newest = Newest::since(version);
            assert_eq!((newest.minor, newest.check("3.4.0").is_ok()), (minor, is_good), "{text:?}");
        }
        let refused = Newest::since(Some(Version(2, 14, 0))).check("3.4.0").unwrap_err();
        assert!(refused.message.to_string().contains("Ignition 2.14.0"), "{refused:?}");
    }
}

//! The name of an image: registry, repository, and a tag or digest.

use crate::clean;

/// An image as a step names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Image {
    /// Registry and repository, e.g. `quay.io/openshift/release`.
    pub(super) name: String,
    /// A tag, or a digest such as `sha256:e3b0…`. A name with both means the digest.
    pub(super) reference: String,
}

impl Image {
    /// Parses the name of an image. One without a registry is refused: the step has fully qualified names.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (tagged, digest) = text.split_once('@').unwrap_or((text, ""));
        let (host, path) = tagged.split_once('/').unwrap_or_default();
        let (path, tag) = path.split_once(':').unwrap_or((path, "latest"));
        let is_host = (host == "localhost" || host.contains(['.', ':'])) && is_of(host, ".-:[]");
        let is_path = path.split('/').all(|part| is_of(part, "._-") && !part.starts_with('.'));
        let is_digest = digest.contains(':') && is_of(digest, ":");
        let is_valid = is_digest || tagged == text && is_of(tag, "._-") && !tag.starts_with('.');
        let reference = if is_digest { digest } else { tag }.to_owned();
        let image = Self { name: format!("{host}/{path}"), reference };
        (is_host && is_path && is_valid).then_some(image).ok_or_else(|| {
            let expected = "REGISTRY/NAME:TAG or REGISTRY/NAME@sha256:DIGEST";
            clean::unexpected("the name of the image", text, 200, expected)
        })
    }

    /// True if it is named by digest.
    pub(super) fn has_digest(&self) -> bool {
        self.reference.contains(':')
    }
}

/// True if a text has only letters, digits and `others`.
pub(super) fn is_of(text: &str, others: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || others.contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_has_a_registry_and_a_digest_outweighs_a_tag() {
        for (text, expected) in [
            ("quay.io/a/b:4.16-x86_64", "quay.io/a/b 4.16-x86_64"),
            ("[fd02::1]:5000/a", "[fd02::1]:5000/a latest"),
            ("localhost/a:1@sha256:12ab", "localhost/a sha256:12ab"),
        ] {
            let Image { name, reference } = Image::parse(text).unwrap();
            assert_eq!(format!("{name} {reference}"), expected);
        }
        let odd = "|alpine:3|library/alpine|quay.io/../x:1|quay.io/a?b|quay.io/a:1/..|quay.io/a:..|quay.io/|quay.io/a:\
            |quay.io/a@|quay.io/a@sha256-12|quay.io/a@sha256:../x|quay.io/a:1@@sha256:12|a@quay.io/x";
        for text in odd.split('|') {
            assert!(Image::parse(text).is_err(), "{text}");
        }
    }
}

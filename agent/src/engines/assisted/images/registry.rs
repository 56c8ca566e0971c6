//! One repository of one registry: the HTTP API of the OCI distribution specification (`/v2/…`), and its log-in with a password
//! (RFC 7617) or a token (RFC 6750).

use std::env::consts::ARCH;
use std::sync::Arc;

use form_urlencoded::Serializer;
use formats::digest;
use serde::Deserialize;
use serde_json::Value;

use super::name::is_of;
use super::registries::Source;
use super::{Site, credentials, files_in};
use crate::bounded;
use crate::http::retry::{Failed, Why, is_transient};
use crate::http::url::{Url, Zones};
use crate::http::{Client, Request, Response, ServerSettings};
use crate::secret::conceal;

/// Largest manifest, token response and CA file, in bytes.
const MAX_MANIFEST_BYTES: u64 = 4 << 20;
const MAX_TOKEN_BYTES: u64 = 16 << 10;
const MAX_CA_BYTES: u64 = 1 << 20;
/// Most layers of an image.
const MAX_LAYERS: usize = 512;
/// How much of the largest layer is read to measure the rate, and the least from which a rate follows: less takes no longer
/// than the request itself.
const SAMPLE_BYTES: u64 = 4 << 20;
const MIN_SAMPLE_BYTES: u64 = 64 << 10;
/// The media types of manifests and of lists of them, in the form of OCI and of Docker.
const ACCEPT: &str = "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json, \
    application/vnd.docker.distribution.manifest.v2+json, application/vnd.docker.distribution.manifest.list.v2+json";

/// What was seen of an image.
#[derive(Debug)]
pub(super) struct Seen {
    /// Sum of its layers, as the manifest states it.
    pub(super) size_bytes: u64,
    /// The rate at which a part of its largest layer arrived; `None` if the layer is too small for that.
    pub(super) mb_per_s: Option<f64>,
    /// How long all of it took.
    pub(super) time_s: f64,
}

/// A manifest, or a list of manifests for several platforms.
#[derive(Deserialize)]
struct Manifest {
    config: Option<Part>,
    #[serde(default)]
    layers: Vec<Part>,
    manifests: Option<Vec<Part>>,
}

#[derive(Deserialize)]
struct Part {
    digest: String,
    size: u64,
    /// In a list: the operating system and architecture.
    #[serde(default)]
    platform: Value,
}

/// A repository at a registry that responds.
pub(super) struct Registry<'a> {
    site: &'a Site,
    source: &'a Source,
    client: Client,
    /// The repository below `/v2`.
    base: Url,
    /// The value of the header `Authorization`, once the registry has asked for one.
    authorization: Option<String>,
}

impl<'a> Registry<'a> {
    /// Finds out whether the registry responds: over TLS, and if it is insecure also without.
    pub(super) fn connect(source: &'a Source, site: &'a Site) -> Result<Self, Failed> {
        let (host, path) = source.name.split_once('/').unwrap_or((&source.name, ""));
        let client = client(host, source, site).map_err(|error| refused(format!("{error:#}")))?;
        let host = if host == "docker.io" { "registry-1.docker.io" } else { host };
        let ask = |scheme: &str| {
            let url = url(&format!("{scheme}://{host}/v2/"))?;
            client.send(&url, &Request::get(), MAX_TOKEN_BYTES)?;
            Ok(url.join(&format!("/{path}")))
        };
        let secure = ask("https");
        let base = if source.is_insecure { secure.or_else(|_| ask("http"))? } else { secure? };
        Ok(Self { site, source, client, base, authorization: None })
    }

    /// Looks at the image with this tag or digest, for the architecture of this machine: at its manifest, config and layers.
    pub(super) fn see(&mut self, reference: &str) -> Result<Seen, Failed> {
        let clock = Arc::clone(&self.site.client.clock);
        let started = clock.now_outside();
        let mut manifest = self.manifest(reference)?;
        if let Some(list) = manifest.manifests {
            let architecture = ARCH.replace("x86_64", "amd64").replace("aarch64", "arm64");
            let is_it =
                |found: &Value, key, text: &str| found.get(key).is_some_and(|it| it == text);
            let is_ours = |platform| {
                is_it(platform, "os", "linux") && is_it(platform, "architecture", &architecture)
            };
            let ours = list.iter().find(|part| is_ours(&part.platform));
            let why = || self.wrong("manifests", reference, "has no image for this architecture");
            manifest = self.manifest(&ours.ok_or_else(why)?.digest)?;
        }
        let layers = &manifest.layers;
        let config = manifest.config.as_ref().filter(|_| layers.len() <= MAX_LAYERS);
        let why =
            || self.wrong("manifests", reference, "is of another kind or has too many layers");
        for Part { digest, size, .. } in [config.ok_or_else(why)?].into_iter().chain(layers) {
            let found = self.ask("blobs", digest, &Request::head(), 0)?.total_bytes;
            if found != Some(*size) {
                let found = found.map_or("no size".to_owned(), |bytes| format!("{bytes} bytes"));
                return Err(self.wrong(
                    "blobs",
                    digest,
                    &format!("has {found}, expected {size} bytes"),
                ));
            }
        }
        let mut mb_per_s = None;
        let largest = layers.iter().max_by_key(|layer| layer.size);
        if let Some(Part { digest, size, .. }) = largest.filter(|it| it.size >= MIN_SAMPLE_BYTES) {
            let (n_bytes, before) = ((*size).min(SAMPLE_BYTES), clock.now_outside());
            let reply = self.ask("blobs", digest, &Request::start(n_bytes), n_bytes)?;
            let n_read = u32::try_from(reply.body.len()).unwrap_or_default();
            let spent = clock.now_outside().saturating_duration_since(before);
            mb_per_s = Some(f64::from(n_read) / 1e6 / spent.as_secs_f64().max(1e-6));
        }
        let size_bytes = layers.iter().fold(0, |sum: u64, layer| sum.saturating_add(layer.size));
        let spent = clock.now_outside().saturating_duration_since(started);
        Ok(Seen { size_bytes, mb_per_s, time_s: spent.as_secs_f64() })
    }

    fn manifest(&mut self, reference: &str) -> Result<Manifest, Failed> {
        let request = Request::source().with("Accept", ACCEPT);
        let reply = self.ask("manifests", reference, &request, MAX_MANIFEST_BYTES)?;
        let expected = reference.replacen(':', "-", 1);
        let found = digest::like(&expected, &reply.body).unwrap_or_default();
        if reply.is_cut {
            return Err(self.wrong("manifests", reference, "is larger than 4 MiB"));
        }
        if reference.contains(':') && found != expected {
            return Err(self.wrong("manifests", reference, &format!("has the digest {found:?}")));
        }
        serde_json::from_slice(&reply.body)
            .map_err(|error| self.wrong("manifests", reference, &format!("is malformed: {error}")))
    }

    /// Sends a request; logs in if the registry asks for that.
    fn ask(
        &mut self,
        kind: &str,
        reference: &str,
        request: &Request,
        max_bytes: u64,
    ) -> Result<Response, Failed> {
        let url = self.base.join(&format!("/{kind}/{reference}"));
        let mut has_logged_in = false;
        loop {
            if self.site.client.clock.now_outside() >= self.site.deadline {
                return Err(self.wrong(kind, reference, "was not asked for: no time is left"));
            }
            // A digest in a manifest could be any path.
            if !is_of(reference, "._-:") {
                return Err(self.wrong(kind, "…", "is named by a malformed digest"));
            }
            let known = self.authorization.iter();
            let request = known.fold(request.clone(), |it, value| it.with("Authorization", value));
            let reply = self.client.send(&url, &request, max_bytes)?;
            match reply.status {
                200 | 206 => return Ok(reply),
                401 if !has_logged_in => self.log_in(&reply)?,
                _ => return Err(refusal(&reply, &url)),
            }
            has_logged_in = true;
        }
    }

    /// Takes the password for the registry, or with it a token from the server that the registry names.
    fn log_in(&mut self, reply: &Response) -> Result<(), Failed> {
        let secret = credentials::find(&self.source.name, &self.site.root);
        let basic = secret.map(|secret| format!("Basic {}", secret.expose()));
        let Some(at) = reply.challenges.to_ascii_lowercase().find("bearer ") else {
            self.authorization = basic;
            return Ok(());
        };
        let value = |name: &str| parameter(&reply.challenges[at..], name);
        let names = ["service", "scope"].into_iter();
        let pairs = names.filter_map(|name| Some((name, value(name)?)));
        let query = Serializer::new(String::new()).extend_pairs(pairs).finish();
        let realm = value("realm").unwrap_or_default();
        let mark = if realm.contains('?') { '&' } else { '?' };
        let url = url(&format!("{realm}{mark}{query}"))?;
        let request =
            basic.iter().fold(Request::get(), |it, value| it.with("Authorization", value));
        let reply = self.client.send(&url, &request, MAX_TOKEN_BYTES)?;
        let found: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        let token = ["token", "access_token"].iter().find_map(|key| found.get(key)?.as_str());
        let token = token.filter(|token| reply.status == 200 && is_of(token, "-._~+/="));
        let token = token.ok_or_else(|| refusal(&reply, &url))?;
        conceal(token);
        self.authorization = Some(format!("Bearer {token}"));
        Ok(())
    }

    /// What the registry has is not what it must be.
    fn wrong(&self, kind: &str, reference: &str, text: &str) -> Failed {
        refused(format!("{} {text}", self.base.join(&format!("/{kind}/{reference}")).shown()))
    }
}

/// A client with the agent's proxy and CAs, and those for the host; without the agent's token and certificate.
fn client(host: &str, source: &Source, site: &Site) -> anyhow::Result<Client> {
    let folders = ["etc/containers/certs.d", "etc/docker/certs.d"];
    let folders = folders.iter().map(|folder| site.root.join(folder).join(host));
    let mut authorities = Vec::new();
    for path in folders.flat_map(|folder| files_in(&folder, "crt")) {
        authorities.extend(bounded::read_file(&path, MAX_CA_BYTES)?);
    }
    let own = &site.client.settings;
    let settings = ServerSettings {
        authorities,
        allow_plain_http: source.is_insecure,
        is_unverified: source.is_insecure,
        ca_file: own.ca_file.clone(),
        proxy: own.proxy.clone(),
        timeouts: own.timeouts,
        ..ServerSettings::default()
    };
    Client::new(&settings, Arc::clone(&site.client.clock), site.client.stop.clone())
}

fn url(text: &str) -> Result<Url, Failed> {
    Url::parse(text, &Zones::default()).map_err(|error| refused(format!("{error:#}")))
}

/// A failure that asking again cannot mend.
fn refused(message: String) -> Failed {
    Failed { why: Why::Refused, ..Failed::network(message) }
}

/// The failure of a request with an error status, with advice.
fn refusal(reply: &Response, url: &Url) -> Failed {
    let advice = match reply.status {
        200 => " without a token",
        401 | 403 => "; the pull secret needs a user for it, with the right password, who may pull",
        404 => "; it is not there",
        _ => "",
    };
    let why = if is_transient(reply.status) { Why::Unavailable } else { Why::Refused };
    let message = format!("{} responded {}{advice}", url.shown(), reply.status);
    Failed { why, ..Failed::network(message) }
}

/// A parameter of a challenge in `WWW-Authenticate`: `name="value"`.
fn parameter<'a>(challenge: &'a str, name: &str) -> Option<&'a str> {
    challenge.split_once(&format!("{name}=\""))?.1.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameter_of_a_challenge_may_contain_commas() {
        let challenge = r#"Bearer realm="https://auth.example/t",service="a, b",scope="repository:x:pull,push""#;
        assert_eq!(parameter(challenge, "realm"), Some("https://auth.example/t"));
        assert_eq!(parameter(challenge, "service"), Some("a, b"));
        assert_eq!(parameter(challenge, "scope"), Some("repository:x:pull,push"));
        for odd in ["", "realm", "realm=", "realm=x", "Bearer"] {
            assert_eq!(parameter(odd, "realm"), None, "{odd}");
        }
    }
}

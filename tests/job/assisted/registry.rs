//! The images of a cluster: at Debian's `docker-registry`, and at a registry of the test that hands out tokens.

use std::process::Child;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use formats::digest::sha256;
use tempfile::{NamedTempFile, TempDir};

use super::super::certificates::{Certificates, Fault};
use super::super::skipped::skipped;
use super::super::tls::server_config;
use super::super::until::until;
use super::*;

const USER: &str = "core:s3cret-of-the-test";
/// The same as a line of a file of htpasswd.
const HASH: &str = "core:$2y$05$abcdefghijklmnopqrstuujsWknM8pfBPdRxoOJt8hu.sWw2vTXTq\n";
const KIND: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

fn digest(bytes: &[u8]) -> String {
    sha256(bytes).replace('-', ":")
}

fn descriptor(bytes: &[u8]) -> Value {
    json!({"mediaType": "x/y", "digest": digest(bytes), "size": bytes.len()})
}

fn manifest(layers: &[&[u8]]) -> Vec<u8> {
    let layers: Vec<Value> = layers.iter().map(|layer| descriptor(layer)).collect();
    let config = descriptor(b"{}");
    json!({"schemaVersion": 2, "mediaType": KIND, "config": config, "layers": layers})
        .to_string()
        .into_bytes()
}

/// A list that has the same manifest for these architectures.
fn list(manifest: &[u8], architectures: &[&str]) -> Vec<u8> {
    let entry = |name: &&str| {
        let mut entry = descriptor(manifest);
        entry["platform"] = json!({"os": "linux", "architecture": name});
        entry["mediaType"] = KIND.into();
        entry
    };
    let entries: Vec<Value> = architectures.iter().map(entry).collect();
    let list = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries});
    list.to_string().into_bytes()
}

/// Sends a request as `USER`; returns where the response leads to.
fn send(method: &str, address: &str, kind: &str, body: &[u8]) -> Option<String> {
    let request = ureq::http::Request::builder()
        .method(method)
        .uri(address)
        .header("Authorization", format!("Basic {}", STANDARD.encode(USER)))
        .header("Content-Type", kind);
    let response = ureq::run(request.body(body).unwrap()).unwrap();
    Some(response.headers().get("location")?.to_str().unwrap().to_owned())
}

/// Debian's registry, which lets only `USER` in.
struct Registry {
    child: Child,
    folder: TempDir,
    host: String,
}

impl Registry {
    /// Starts it; `None` if it is not installed.
    fn start() -> Option<Self> {
        let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
        let home = || Some(variable("HOME")?.join(".cache"));
        let kept = || Some(variable("XDG_CACHE_HOME").or_else(home)?.join("run-coreos-installer"));
        let cached =
            variable("RCI_CACHE").or_else(kept)?.join("docker-registry/bin/docker-registry");
        let program = if cached.exists() { cached } else { "docker-registry".into() };
        let folder = tempfile::tempdir().unwrap();
        let (root, log) = (folder.path(), folder.path().join("log"));
        fs::write(root.join("htpasswd"), HASH).unwrap();
        let config = json!({
            "version": 0.1, "http": {"addr": "127.0.0.1:0"},
            "storage": {"filesystem": {"rootdirectory": root}},
            "auth": {"htpasswd": {"realm": "test", "path": root.join("htpasswd")}},
        });
        fs::write(root.join("config.yml"), config.to_string()).unwrap();
        let started = Command::new(program)
            .args(["serve".as_ref(), root.join("config.yml").as_os_str()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log).unwrap())
            .spawn();
        let Ok(child) = started else {
            assert!(std::env::var_os("RCI_REQUIRE_TOOLS").is_none(), "docker-registry is missing");
            return None;
        };
        let host = until("the address of the registry", || {
            let log = fs::read_to_string(&log).unwrap();
            let port = log.split_once("listening on 127.0.0.1:")?.1.split(['"', ',']).next()?;
            Some(format!("127.0.0.1:{port}"))
        });
        Some(Self { child, folder, host })
    }

    fn blob(&self, repository: &str, bytes: &[u8]) {
        let uploads = format!("http://{}/v2/{repository}/blobs/uploads/", self.host);
        let place = send("POST", &uploads, "x/y", b"").unwrap();
        let whole = format!("{place}&digest={}", digest(bytes));
        send("PUT", &whole, "application/octet-stream", bytes);
    }

    /// Pushes an image; returns its manifest.
    fn push(&self, name: &str, layers: &[&[u8]]) -> Vec<u8> {
        [&b"{}"[..]].iter().chain(layers).for_each(|blob| self.blob(name, blob));
        let manifest = manifest(layers);
        self.tag(name, "1", KIND, &manifest);
        manifest
    }

    fn tag(&self, name: &str, tag: &str, kind: &str, manifest: &[u8]) {
        let place = format!("http://{}/v2/{name}/manifests/{tag}", self.host);
        send("PUT", &place, kind, manifest);
    }

    /// The file in which it keeps a blob.
    fn file_of(&self, bytes: &[u8]) -> PathBuf {
        let digest = digest(bytes).replace("sha256:", "");
        let blobs = self.folder.path().join("docker/registry/v2/blobs/sha256");
        blobs.join(&digest[..2]).join(digest).join("data")
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// A host that logs in with these users, by registry.
fn world(registries: &str, users: &[(&str, &str)]) -> World {
    let world = World::new();
    let auths = users.iter().map(|(place, user)| (*place, json!({"auth": STANDARD.encode(user)})));
    let secret = json!({"auths": auths.collect::<std::collections::BTreeMap<_, _>>()});
    let root = &world.machine.root;
    for (path, text) in [
        ("root/.docker/config.json", secret.to_string()),
        ("etc/containers/registries.conf", registries.to_owned()),
    ] {
        fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
        fs::write(root.join(path), text).unwrap();
    }
    world
}

/// The answers for these images within this many seconds.
fn images(world: &mut World, names: &[String], timeout: u32) -> Vec<Value> {
    let kind = "container-image-availability";
    let steps = json!([step(kind, &[json!({"images": names, "timeout": timeout}).to_string()])]);
    record_steps(&steps);
    let service = world.service_until(1, steps);
    world.machine.settings.vim.url = Some(service.url.clone());
    // The registry takes real time.
    world.with_engine(Arc::new(RealClock), |engine| job::run(engine));
    record(&service);
    output(&replies(&service, kind)[0])["images"].as_array().unwrap().clone()
}

/// All warnings of this process from now on: steps run on threads of their own.
fn warnings() -> NamedTempFile {
    let log = NamedTempFile::new().unwrap();
    let to = log.reopen().unwrap();
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::WARN);
    subscriber.with_writer(move || to.try_clone().unwrap()).try_init().unwrap();
    log
}

#[test]
fn image_is_available_only_if_all_of_it_is_at_a_mirror_or_its_registry() {
    let Some(registry) = Registry::start() else { return skipped("docker-registry is missing") };
    let large = vec![7; 100_000];
    let whole = registry.push("team/whole", &[&large, b"small"]);
    registry.push("mirrored/app", &[b"small"]);
    registry.push("locked/app", &[b"small"]);
    registry.push("team/holey", &[b"lost"]);
    fs::remove_file(registry.file_of(b"lost")).unwrap();
    registry.push("team/short", &[b"cut layer"]);
    fs::write(registry.file_of(b"cut layer"), "cut").unwrap();
    let changed = registry.push("team/changed", &[b"small", b"small"]);
    fs::write(registry.file_of(&changed), [&changed[..], b"\n"].concat()).unwrap();
    registry.tag("team/whole", "list", INDEX, &list(&whole, &["s390x", "amd64", "arm64"]));
    registry.tag("team/whole", "foreign", INDEX, &list(&whole, &["sparc64"]));
    let host = &registry.host;
    let registries = format!(
        "[[registry]]\nprefix = 'site.test'\nlocation = '{host}'\ninsecure = true\n\
         [[registry]]\nprefix = 'down.test'\nlocation = '127.0.0.1:1'\n\
         [[registry.mirror]]\nlocation = '{host}/mirrored'\ninsecure = true\n\
         [[registry]]\nlocation = '{host}'\ninsecure = true\n\
         [[registry.mirror]]\nlocation = '127.0.0.1:1'\n"
    );
    let locked = format!("{host}/locked");
    let mut world = world(&registries, &[(host, USER), (&locked, "core:wr0ng-password")]);
    let log = warnings();
    let expected = [
        (format!("site.test/team/whole@{}", digest(&whole)), ""),
        ("site.test/team/whole:list".into(), ""),
        ("down.test/app:1".into(), ""),
        (format!("{host}/team/whole:1"), ""),
        ("site.test/locked/app:1".into(), "responded 401; the pull secret needs a user for it"),
        ("site.test/team/holey:1".into(), "responded 404; it is not there"),
        ("site.test/team/short:1".into(), "has 3 bytes, expected 9 bytes"),
        (format!("site.test/team/changed@{}", digest(&changed)), "has the digest "),
        ("site.test/team/whole:foreign".into(), "has no image for this architecture"),
        ("site.test/team/whole:2".into(), "responded 404; it is not there"),
    ];
    let names: Vec<String> = expected.iter().map(|(name, _)| name.clone()).collect();
    let answers = images(&mut world, &names, 60);
    let log = fs::read_to_string(log.path()).unwrap();
    for ((name, why), answer) in expected.iter().zip(&answers) {
        let result = if why.is_empty() { "success" } else { "failure" };
        assert_has(answer, &json!({"name": name, "result": result}));
        let said = log.lines().find(|line| line.contains(&format!("the image {name} cannot")));
        assert!(why.is_empty() == said.is_none(), "{name}: {log}");
        assert!(said.unwrap_or_default().contains(why), "{name}: {why:?} is not in {log}");
    }
    assert_eq!(answers.len(), expected.len());
    assert_eq!(answers[0]["size_bytes"], 100_005);
    assert!(answers[0]["download_rate"].as_f64().unwrap() > 0.001, "{answers:?}");
    // A rate of less says nothing, and the service refuses a size without one.
    assert_has(&answers[2], &json!({"size_bytes": null, "download_rate": null}));
    assert!(answers[2]["time"].as_f64().unwrap() > 0.0);
    for secret in ["wr0ng-password", "s3cret-of-the-test", &STANDARD.encode(USER)] {
        assert!(!log.contains(secret), "{log}");
    }
}

/// A registry that asks for a token of the server at `realm` (its own without one) and keeps its layers at another server.
fn token_registry(certificates: &Certificates, realm: Option<String>, layers: String) -> Mock {
    let tls = server_config(certificates, false, rustls::ALL_VERSIONS);
    let answer = move |request: &Request, _: usize| {
        let own = format!("https://{}/token", request.header("host").unwrap());
        let realm = realm.as_ref().unwrap_or(&own);
        if request.path.starts_with("/token?") {
            let basic = format!("Basic {}", STANDARD.encode(USER));
            assert_eq!(request.header("authorization"), Some(&*basic));
            assert_eq!(request.path, "/token?service=a%2C+b&scope=repository%3Aapp%3Apull");
            return Reply::json(200, &json!({"token": "t0ken-for-one-pull"}));
        }
        if request.header("authorization") != Some("Bearer t0ken-for-one-pull") {
            let asked =
                format!(r#"Bearer realm="{realm}",service="a, b",scope="repository:app:pull""#);
            return Reply::status(401).and("WWW-Authenticate", &asked);
        }
        match request.path.split_once("/blobs/") {
            Some((_, digest)) => Reply::status(307).and("Location", &format!("{layers}/{digest}")),
            None => Reply::bytes(&manifest(&[b"layer"])).and("Content-Type", KIND),
        }
    };
    Mock::start_at("127.0.0.1:0", Some(tls), answer).unwrap()
}

#[test]
fn password_goes_only_over_tls_and_to_the_token_server_and_the_token_to_no_other_host() {
    let certificates = Certificates::make(Fault::None);
    let tls = server_config(&certificates, false, rustls::ALL_VERSIONS);
    let layers = Mock::start_at("127.0.0.1:0", Some(tls), |request, _| {
        let length = if request.path.ends_with(&digest(b"{}")) { 2 } else { 5 };
        let head =
            format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
        Reply::Broken(head.into_bytes(), std::time::Duration::ZERO, vec![])
    })
    .unwrap();
    let plain = Mock::start(|_, _| Reply::json(200, &json!({"token": "x"})));
    for (realm, result) in [(None, "success"), (Some(format!("{}/t", plain.url)), "failure")] {
        let registry = token_registry(&certificates, realm, layers.url.clone());
        let host = registry.url.strip_prefix("https://").unwrap();
        let mut world = world("", &[(host, USER)]);
        let name = [format!("{host}/app")];
        // Its CA is not known yet.
        assert_has(&images(&mut world, &name, 60)[0], &json!({"result": "failure", "time": null}));
        assert_eq!(registry.requests("").len(), 0);
        let folder = world.machine.root.join("etc/containers/certs.d").join(host);
        fs::create_dir_all(&folder).unwrap();
        fs::copy(certificates.path("ca.pem"), folder.join("ca.crt")).unwrap();
        world.machine.stop = Stop::default();
        let answers = images(&mut world, &name, 60);
        assert_has(&answers[0], &json!({"result": result, "size_bytes": null}));
    }
    assert_eq!(plain.requests("").len(), 0);
    let at_layers = layers.requests("");
    assert_eq!(at_layers.len(), 2);
    assert!(at_layers.iter().all(|request| request.header("authorization").is_none()));
}

#[test]
fn image_of_a_registry_that_never_responds_is_a_failure_when_the_time_of_the_step_is_over() {
    let silent =
        Mock::start(|_, _| Reply::Late(std::time::Duration::from_secs(30), 200, json!({})));
    let host = silent.url.strip_prefix("http://").unwrap();
    let registries = format!("[[registry]]\nlocation = '{host}'\ninsecure = true\n");
    let (mut world, started) = (world(&registries, &[]), std::time::Instant::now());
    let answers = images(&mut world, &[format!("{host}/a:1")], 1);
    assert_has(&answers[0], &json!({"result": "failure", "time": null}));
    assert!((1..10).contains(&started.elapsed().as_secs()), "{:?}", started.elapsed());
}

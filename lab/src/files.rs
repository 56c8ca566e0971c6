//! Served files: files, images and the agent that live images fetch.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use anyhow::{Context, anyhow};
use bytes::Bytes;
use flate2::write::GzEncoder;
use formats::digest::{Algorithm, Hasher, sha512};
use hyper::StatusCode;

use crate::cli::Options;
use crate::http::{Answer, Refusal, answer, set_header};
use crate::stream;

/// Files that are served besides the API.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    root: Option<PathBuf>,
    named: BTreeMap<String, PathBuf>,
    agent: Option<Agent>,
    digests: Mutex<BTreeMap<(PathBuf, Algorithm), Digested>>,
}

/// A digest, and the file's modification time at its computation.
type Digested = (Option<SystemTime>, String);

#[derive(Debug)]
struct Agent {
    path: PathBuf,
    gzip: Bytes,
    sha512: String,
}

impl Shelf {
    /// Opens the files that the command line names.
    ///
    /// # Errors
    /// When one of them does not exist.
    pub(crate) fn fill(options: &Options) -> anyhow::Result<Self> {
        let mut named = BTreeMap::new();
        for text in &options.file {
            let other = || anyhow!("--file {text:?}, expected NAME=PATH");
            let (name, path) = text.split_once('=').ok_or_else(other)?;
            named.insert(name.to_owned(), PathBuf::from(path));
        }
        for path in &options.image {
            let name = path.file_name().and_then(|name| name.to_str());
            let name = name.ok_or_else(|| anyhow!("--image {}: no file name", path.display()))?;
            let signature = PathBuf::from(format!("{}.sig", path.display()));
            if signature.exists() {
                named.insert(format!("{name}.sig"), signature);
            }
            named.insert(name.to_owned(), path.clone());
        }
        for path in named.values() {
            File::open(path).with_context(|| format!("opening {}", path.display()))?;
        }
        Ok(Self {
            root: options.files.as_deref().map(root).transpose()?,
            named,
            agent: options.agent.as_deref().map(Agent::pack).transpose()?,
            digests: Mutex::default(),
        })
    }

    /// Serves all files in a folder.
    ///
    /// # Errors
    /// When it does not exist.
    pub(crate) fn folder(dir: &Path) -> anyhow::Result<Self> {
        Ok(Self { root: Some(root(dir)?), ..Self::default() })
    }

    /// The file served as `/files/NAME`; `None` when there is none or when it is outside the folder.
    pub(crate) fn file(&self, name: &str) -> Option<PathBuf> {
        if let Some(path) = self.named.get(name) {
            return Some(path.clone());
        }
        let root = self.root.as_ref()?;
        let is_plain = |part: Component| matches!(part, Component::Normal(_));
        if name.is_empty() || name.contains('\0') || !Path::new(name).components().all(is_plain) {
            return None;
        }
        let path = root.join(name).canonicalize().ok()?;
        (path.starts_with(root) && path.is_file()).then_some(path)
    }

    /// Returns the file for a served path.
    fn path(&self, served: &str) -> Option<PathBuf> {
        match served {
            "/ocp/run-coreos-installer" => self.agent.as_ref().map(|agent| agent.path.clone()),
            _ => self.file(served.strip_prefix("/files/")?),
        }
    }

    /// Answers a GET below `/files/` or `/ocp/`; the path is percent-decoded.
    ///
    /// # Errors
    /// 404 if the file does not exist.
    pub(crate) async fn serve(&self, served: &str) -> Result<Answer, Refusal> {
        if let Some(agent) = &self.agent {
            match served {
                "/ocp/run-coreos-installer.gz" => {
                    return Ok(answer(StatusCode::OK, "application/gzip", agent.gzip.clone()));
                }
                "/ocp/run-coreos-installer.sha512" => {
                    let digits = agent.sha512.trim_start_matches("sha512-");
                    let line = format!("{digits}  run-coreos-installer\n");
                    return Ok(answer(StatusCode::OK, "text/plain", line));
                }
                _ => {}
            }
        }
        let missing =
            || Refusal::new(404, "FILE_UNKNOWN", format!("{served:?} is not served here"));
        let path = self.path(served).ok_or_else(missing)?;
        let (n_bytes, body) = stream::file(&path).await.map_err(|_| missing())?;
        let mut answer = answer(StatusCode::OK, "application/octet-stream", Bytes::new());
        *answer.body_mut() = body;
        set_header(&mut answer, "content-length", &n_bytes.to_string());
        Ok(answer)
    }

    /// Returns the digest of a served file; cached until the file changes. `None` if the file does not exist.
    pub(crate) fn digest(&self, served: &str, algorithm: Algorithm) -> Option<String> {
        let path = self.path(served)?;
        let changed = path.metadata().and_then(|metadata| metadata.modified()).ok();
        let key = (path.clone(), algorithm);
        let mut digests = self.digests.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, digest)) = digests.get(&key)
            && *at == changed
        {
            return Some(digest.clone());
        }
        let mut file = File::open(&path).ok()?;
        let mut hasher = Hasher::new(algorithm);
        let mut block = vec![0; 1 << 20];
        while let n_bytes @ 1.. = file.read(&mut block).ok()? {
            hasher.update(&block[..n_bytes]);
        }
        let digest = hasher.finish();
        digests.insert(key, (changed, digest.clone()));
        Some(digest)
    }

    /// Returns the paths and sizes of all served files, for the page.
    pub(crate) fn list(&self) -> Vec<(String, u64)> {
        let size = |path: &Path| path.metadata().map_or(0, |metadata| metadata.len());
        let mut list: BTreeMap<String, u64> = BTreeMap::new();
        for entry in self.root.iter().flat_map(|root| root.read_dir().into_iter().flatten()) {
            let Ok(entry) = entry else { continue };
            if let Some(name) = entry.file_name().to_str()
                && let Some(path) = self.file(name)
            {
                list.insert(format!("/files/{name}"), size(&path));
            }
        }
        for (name, path) in &self.named {
            list.insert(format!("/files/{name}"), size(path));
        }
        if let Some(agent) = &self.agent {
            list.insert("/ocp/run-coreos-installer".to_owned(), size(&agent.path));
            list.insert("/ocp/run-coreos-installer.gz".to_owned(), agent.gzip.len() as u64);
        }
        list.into_iter().collect()
    }
}

fn root(dir: &Path) -> anyhow::Result<PathBuf> {
    dir.canonicalize().with_context(|| format!("opening the folder {}", dir.display()))
}

impl Agent {
    fn pack(path: &Path) -> anyhow::Result<Self> {
        let context = || format!("reading the agent {}", path.display());
        let bytes = std::fs::read(path).with_context(context)?;
        let mut packer = GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(&bytes).with_context(context)?;
        let gzip = packer.finish().with_context(context)?.into();
        Ok(Self { path: path.to_owned(), gzip, sha512: sha512(&bytes) })
    }
}

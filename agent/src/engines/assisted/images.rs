//! The step `container-image-availability`: asks the registries for the manifest and every blob of each image, with the HTTP
//! API of the OCI distribution specification. It needs no container runtime and stores nothing.

mod credentials;
mod name;
mod registries;
mod registry;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tracing::warn;

use self::name::Image;
use self::registry::{Registry, Seen};
use super::step::Step;
use super::tasks::{Around, ask_each};
use crate::clean;
use crate::clock::Clock;
use crate::http::Client;
use crate::http::retry::Why;

/// Most images of one step.
const MAX_IMAGES: usize = 256;
/// How many of them are checked at the same time.
const AT_ONCE: usize = 8;
/// Time limit for all images: a little less than a step has.
const LIMIT: Duration = Duration::from_secs(110);
/// Most tries for an image whose registries do not respond, and the wait before another one.
const MAX_TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_secs(2);
/// Most files of one folder that are read.
const MAX_FILES: usize = 256;

/// What the checks of all images have in common.
struct Site {
    /// The folder below which the pull secret and the settings of registries are.
    root: PathBuf,
    /// The client of the service, for its proxy, CA file and clock.
    client: Arc<Client>,
    deadline: Instant,
}

/// Checks every image, within the time limit of the step.
pub(super) fn availability(step: &Step, around: &Around) -> Result<Value, String> {
    let request = step.json(0)?;
    let images = request.get("images").and_then(Value::as_array);
    let images = images.filter(|images| images.len() <= MAX_IMAGES);
    let images = images.ok_or_else(|| format!("expected images, at most {MAX_IMAGES}"))?;
    let names: Vec<String> = images.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    let asked = request.get("timeout").and_then(Value::as_u64).filter(|seconds| *seconds > 0);
    let limit = asked.map_or(LIMIT, |seconds| Duration::from_secs(seconds).min(LIMIT));
    let client = Arc::clone(&around.api.client);
    let (clock, root) = (Arc::clone(&client.clock), around.root.clone());
    let site = Arc::new(Site { root, client, deadline: clock.now_outside() + limit });
    let mut answers = Vec::new();
    for group in names.chunks(AT_ONCE) {
        let left = site.deadline.saturating_duration_since(clock.now_outside());
        let of_thread = Arc::clone(&site);
        let ask = move |name: &str, _: &dyn Clock| check(name, &of_thread);
        let seen: BTreeMap<_, _> =
            ask_each(group.to_vec(), "registry", left, &clock, ask).into_iter().collect();
        answers.extend(group.iter().map(|name| match seen.get(name) {
            Some(Some(seen)) => answer(name, seen.as_ref()),
            _ => answer(name, Err(&format!("no answer within {} s", limit.as_secs()))),
        }));
    }
    Ok(json!({"images": answers}))
}

fn answer(name: &str, seen: Result<&Seen, &String>) -> Value {
    match seen {
        // The service treats an image with a size and no rate as failed.
        Ok(Seen { size_bytes, mb_per_s: Some(rate), time_s }) => {
            json!({"name": name, "result": "success", "time": time_s, "size_bytes": size_bytes, "download_rate": rate})
        }
        Ok(Seen { time_s, .. }) => json!({"name": name, "result": "success", "time": time_s}),
        Err(why) => {
            warn!("the image {} cannot be pulled: {why}", clean::text(name, 300));
            json!({"name": name, "result": "failure"})
        }
    }
}

/// Checks one image at its mirrors and its registry, until one has all of it.
fn check(name: &str, site: &Site) -> Result<Seen, String> {
    let image = Image::parse(name)?;
    let sources = registries::sources(&image, &site.root)?;
    let mut n_tries = 0;
    loop {
        let (mut failures, mut is_final) = (Vec::new(), true);
        for source in &sources {
            match Registry::connect(source, site).and_then(|mut from| from.see(&image.reference)) {
                Ok(seen) => return Ok(seen),
                Err(failed) => {
                    is_final &= failed.why == Why::Refused;
                    failures.push(failed.message);
                }
            }
        }
        n_tries += 1;
        if is_final || n_tries == MAX_TRIES {
            return Err(failures.join("; "));
        }
        site.client.clock.sleep(PAUSE, &site.client.stop);
    }
}

/// The files of a folder with this extension, in the order of their names.
fn files_in(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let paths = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|file| file.path());
    let has_it = |path: &PathBuf| path.extension().is_some_and(|found| found == extension);
    let mut files: Vec<PathBuf> = paths.filter(has_it).take(MAX_FILES).collect();
    files.sort();
    files
}

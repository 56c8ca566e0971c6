//! The places of an image: `containers-registries.conf(5)`, version 2, and its drop-in files.

use std::path::Path;

use serde_json::Value;

use super::files_in;
use super::name::Image;
use crate::bounded;

/// Largest file, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// A place from which an image can be pulled.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Source {
    /// Registry and repository there.
    pub(super) name: String,
    /// True if plain HTTP and any certificate are allowed.
    pub(super) is_insecure: bool,
}

/// The mirrors of an image and its own registry, in the order in which they are asked.
pub(super) fn sources(image: &Image, root: &Path) -> Result<Vec<Source>, String> {
    let registries = configured(root)?;
    let name = image.name.as_str();
    let matching =
        registries.iter().filter_map(|known| Some((matched(prefix(known), name)?, known)));
    // Of two with the same prefix the later file has the last word.
    let Some((end, registry)) = matching.max_by_key(|(_, known)| prefix(known).len()) else {
        return Ok(vec![Source { name: name.to_owned(), is_insecure: false }]);
    };
    let (start, rest) = name.split_at(end);
    let is_asked = |mirror: &&Value| match text(mirror, "pull-from-mirror") {
        "digest-only" => image.has_digest(),
        "tag-only" => !image.has_digest(),
        _ => image.has_digest() || !flag(registry, "mirror-by-digest-only"),
    };
    let mirrors = registry.get("mirror").and_then(Value::as_array).into_iter().flatten();
    let own = Some(registry).filter(|registry| !flag(registry, "blocked"));
    let place = |place: &Value| {
        let location = text(place, "location");
        let location = if location.is_empty() { start } else { location };
        Source { name: format!("{location}{rest}"), is_insecure: flag(place, "insecure") }
    };
    let all: Vec<Source> = mirrors.filter(is_asked).chain(own).map(place).collect();
    if all.is_empty() {
        return Err(format!(
            "registries.conf blocks {} and has no mirror for it",
            prefix(registry)
        ));
    }
    Ok(all)
}

/// The tables `[[registry]]` of all files.
fn configured(root: &Path) -> Result<Vec<Value>, String> {
    let folder = root.join("etc/containers");
    let main = Some(folder.join("registries.conf")).filter(|path| path.exists());
    let mut all = Vec::new();
    for path in main.into_iter().chain(files_in(&folder.join("registries.conf.d"), "conf")) {
        let bytes = bounded::read_file(&path, MAX_BYTES).map_err(|error| format!("{error:#}"))?;
        let wrong = |error: toml::de::Error| format!("{}: {}", path.display(), error.message());
        let file: Value = toml::from_slice(&bytes).map_err(wrong)?;
        all.extend(file.get("registry").and_then(Value::as_array).into_iter().flatten().cloned());
    }
    Ok(all)
}

/// The length of the start of `name` that `prefix` matches.
fn matched(prefix: &str, name: &str) -> Option<usize> {
    let end = match prefix.strip_prefix('*') {
        Some(domain) => name.split('/').next()?.find(domain)? + domain.len(),
        None => name.starts_with(prefix).then_some(prefix.len())?,
    };
    let rest = name.get(end..)?;
    (end > 0 && (rest.is_empty() || rest.starts_with(['/', ':']))).then_some(end)
}

fn prefix(registry: &Value) -> &str {
    let prefix = text(registry, "prefix");
    if prefix.is_empty() { text(registry, "location") } else { prefix }
}

fn text<'a>(table: &'a Value, key: &str) -> &'a str {
    table.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn flag(table: &Value, key: &str) -> bool {
    table.get(key).and_then(Value::as_bool).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAIN: &str = r#"registry = [
        {location = "quay.io", blocked = true},
        {prefix = "quay.io/a", location = "far.example/b", mirror = [
            {location = "near.example:5000/m", insecure = true},
            {location = "digests.example", pull-from-mirror = "digest-only"}]},
        {prefix = "*.corp.example", mirror-by-digest-only = true, mirror = [{location = "near.example"}]}]"#;

    #[test]
    fn places_are_the_mirrors_in_order_and_then_the_registry_of_the_longest_prefix() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("etc/containers/registries.conf.d");
        std::fs::create_dir_all(&folder).unwrap();
        let main = folder.parent().unwrap().join("registries.conf");
        std::fs::write(&main, MAIN).unwrap();
        let digest = format!("sha256:{}", "a".repeat(64));
        let places = |name: &str| {
            let all = sources(&Image::parse(name).unwrap(), root.path());
            let text =
                |place: Source| place.name + if place.is_insecure { " insecure" } else { "" };
            all.map(|all| all.into_iter().map(text).collect::<Vec<_>>().join(", "))
        };
        for (name, expected) in [
            ("quay.io/a/x:1", "near.example:5000/m/x insecure, far.example/b/x"),
            ("other.io/a/x", "other.io/a/x"),
            ("r.corp.example:5000/x:1", "r.corp.example:5000/x"),
        ] {
            assert_eq!(places(name).unwrap(), expected, "{name}");
        }
        let by_digest = places(&format!("quay.io/a/x@{digest}")).unwrap();
        assert_eq!(by_digest, "near.example:5000/m/x insecure, digests.example/x, far.example/b/x");
        let by_digest = places(&format!("r.corp.example/x@{digest}")).unwrap();
        assert_eq!(by_digest, "near.example/x, r.corp.example/x");
        let blocked = places("quay.io/ab:1").unwrap_err();
        assert_eq!(blocked, "registries.conf blocks quay.io and has no mirror for it");
        let later = "[[registry]]\nlocation = \"quay.io\"\ninsecure = true\n";
        std::fs::write(folder.join("a.conf"), later).unwrap();
        assert_eq!(places("quay.io/ab:1").unwrap(), "quay.io/ab insecure");
        std::fs::write(folder.join("b.conf"), "[[registry]\n").unwrap();
        assert!(places("quay.io/ab:1").unwrap_err().contains("b.conf: "));
    }
}

//! The modules of the probes and of the agent form layers: none uses a module that, directly or not, uses it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::util::repository;

/// The modules that each module names, by module; tests may name any.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// A module and one that it is known to use.
type Use = (&'static str, &'static str);

/// Reads the modules of a folder, whose path in the crate is `prefix`, with the code of each. The modules of one folder beneath,
/// `opened`, are in its place.
fn modules(folder: &Path, prefix: &[&str], opened: &str) -> Graph {
    fn walk(dir: &Path, module: &[String], found: &mut Vec<(Vec<String>, String)>) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                walk(&path, &[module, &[name]].concat(), found);
            } else if path.extension().is_some_and(|e| e == "rs") && name != "tests" {
                let is_parent = name == "mod" || name == "lib";
                let own = if is_parent { module.to_vec() } else { [module, &[name]].concat() };
                found.push((own, std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    let mut found = Vec::new();
    walk(folder, &[], &mut found);
    let sources: Vec<(Vec<&str>, &str)> = found
        .iter()
        .map(|(module, text)| (module.iter().map(String::as_str).collect(), text.as_str()))
        .map(|(module, text): (Vec<&str>, &str)| match module.split_first() {
            Some((first, rest)) if *first == opened => (rest.to_vec(), text),
            _ => (module, text),
        })
        .collect();
    graph(&sources, prefix, opened)
}

/// The graph of the modules directly below `prefix`. What is in a folder counts for its module.
fn graph(sources: &[(Vec<&str>, &str)], prefix: &[&str], opened: &str) -> Graph {
    let mut graph = Graph::new();
    for (module, text) in sources {
        let Some(own) = module.first() else { continue };
        let used = graph.entry((*own).to_owned()).or_default();
        let here = [prefix, module].concat();
        for path in paths(text) {
            let Some(path) = absolute(&here, &path) else { continue };
            let Some(rest) = path.strip_prefix(prefix) else { continue };
            let rest = if rest.first() == Some(&opened) { &rest[1..] } else { rest };
            // Through the parent's re-exports any module can be reached: the parent is the top.
            let name = rest.first().filter(|name| name.starts_with(char::is_lowercase));
            let is_folder_of_crate = prefix.is_empty() && name.is_none();
            let name = name.copied().unwrap_or("(parent)");
            if name != *own && !is_folder_of_crate {
                used.insert(name.to_owned());
            }
        }
    }
    let is_module = |name: &String| sources.iter().any(|(m, _)| m.first() == Some(&name.as_str()));
    let all: BTreeSet<String> = graph.values().flatten().cloned().collect();
    // A lower-case name that is no module is an item of the parent, e.g. a function.
    for name in all.into_iter().filter(|name| !is_module(name)) {
        for used in graph.values_mut().filter(|_| !prefix.is_empty()) {
            if used.remove(&name) {
                used.insert("(parent)".to_owned());
            }
        }
    }
    if graph.values().any(|used| used.contains("(parent)")) {
        let children: BTreeSet<String> = graph.keys().cloned().collect();
        graph.insert("(parent)".to_owned(), children);
    }
    graph
}

/// Every path in the code that begins with `crate` or `super`, with groups (`{a, b::c}`) resolved.
fn paths(text: &str) -> Vec<Vec<&str>> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let code = code.split("#[cfg(test)]\npub(super) mod tests {").next().unwrap_or_default();
    let mut tokens = code
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .flat_map(tokens)
        .peekable();
    let mut found = Vec::new();
    while let Some(token) = tokens.next() {
        let begins = token == "crate" || token == "super";
        if begins && tokens.next_if_eq(&"::").is_some() {
            read_path(vec![token], &mut tokens, &mut found);
        }
    }
    found
}

/// Names, `::`, and every other character for itself.
fn tokens(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        rest = rest.trim_start();
        let first = rest.chars().next()?;
        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        let end = match first {
            _ if rest.starts_with("::") => 2,
            _ if is_name(first) => rest.find(|c| !is_name(c)).unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        let (token, after) = rest.split_at(end);
        rest = after;
        Some(token)
    })
}

/// Reads on behind `start::`.
fn read_path<'a>(
    start: Vec<&'a str>,
    tokens: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>,
    found: &mut Vec<Vec<&'a str>>,
) {
    let mut path = start;
    loop {
        match tokens.next() {
            Some("{") => break,
            Some(name) => path.push(name),
            None => return found.push(path),
        }
        if tokens.next_if_eq(&"::").is_none() {
            return found.push(path);
        }
    }
    // A group: each member is a path of its own.
    loop {
        match tokens.next() {
            Some("}") | None => return,
            Some(",") => {}
            Some(name) => {
                let member = [path.as_slice(), &[name]].concat();
                match tokens.next_if_eq(&"::") {
                    Some(_) => read_path(member, tokens, found),
                    None => found.push(member),
                }
            }
        }
    }
}

/// The path from the crate's root, of a path that is written in the module `here`.
fn absolute<'a>(here: &[&'a str], path: &[&'a str]) -> Option<Vec<&'a str>> {
    let n_up = path.iter().take_while(|part| **part == "super").count();
    match path.first()? {
        &"crate" => Some(path[1..].to_vec()),
        _ => Some([here.get(..here.len().checked_sub(n_up)?)?, &path[n_up..]].concat()),
    }
}

/// The modules in layers, each above all that it uses. `Err` has those that use each other.
fn layers(graph: &Graph) -> Result<Vec<BTreeSet<String>>, Graph> {
    let mut rest = graph.clone();
    let mut layers = Vec::new();
    while !rest.is_empty() {
        let is_free = |used: &BTreeSet<String>| used.iter().all(|name| !rest.contains_key(name));
        let free = rest.iter().filter(|(_, used)| is_free(used));
        let layer: BTreeSet<String> = free.map(|(name, _)| name.clone()).collect();
        if layer.is_empty() {
            // What only uses the circle is no part of it.
            while let Some(outside) =
                rest.keys().find(|name| !rest.values().any(|used| used.contains(*name))).cloned()
            {
                rest.remove(&outside);
            }
            let names: BTreeSet<String> = rest.keys().cloned().collect();
            for used in rest.values_mut() {
                used.retain(|name| names.contains(name));
            }
            return Err(rest);
        }
        rest.retain(|name, _| !layer.contains(name));
        layers.push(layer);
    }
    Ok(layers)
}

#[test]
fn modules_form_layers() {
    // Each engine of the agent is a module of its own: they only share a folder.
    let crates: [(&str, &[&str], &str, &[Use]); 6] = [
        ("formats/src", &[], "", &[("efi", "device_path"), ("fru", "data")]),
        ("probes/src/block", &["block"], "", &[("bay", "target")]),
        ("agent/src/capture/anonymize", &["capture", "anonymize"], "", &[("replace", "spelling")]),
        ("probes/src", &[], "", &[("collect", "block"), ("machine", "sys")]),
        (
            "agent/src",
            &[],
            "engines",
            &[("commands", "job"), ("job", "act"), ("vim", "job"), ("ironic", "job")],
        ),
        ("lab/src", &[], "", &[("api", "orders"), ("orders", "lab")]),
    ];
    for (folder, prefix, opened, known) in crates {
        let graph = modules(&repository().join(folder), prefix, opened);
        assert!(graph.len() > 2, "{graph:?}");
        for (module, used) in known {
            assert!(graph[*module].contains(*used), "{graph:?}");
        }
        layers(&graph).unwrap_or_else(|circle| panic!("{folder} has a circle: {circle:?}"));
    }
}

#[test]
fn a_circle_is_found_however_its_paths_are_written() {
    let low = (vec!["low"], "//! use super::high;\npub(super) struct Low;\n");
    let high = (vec!["high"], "use super::{\n    low::{Low, other},\n    middle,\n};\n");
    let of_middle = |text: &'static str| {
        layers(&graph(&[low.clone(), high.clone(), (vec!["middle", "part"], text)], &["block"], ""))
    };
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let expected: Vec<BTreeSet<String>> =
        vec![names(&["low"]), names(&["middle"]), names(&["high"])];
    assert_eq!(of_middle("use super::super::low::Low;\n"), Ok(expected.clone()));
    assert_eq!(
        of_middle(
            "#[cfg(test)]\nmod tests {\nuse super::super::super::high;\n}\nuse crate::block::low;"
        ),
        Ok(vec![names(&["low", "middle"]), names(&["high"])])
    );
    for circle in [
        "use super::super::high::High;\n",
        "use crate::block::high::High;\n",
        "fn f() -> u8 { crate::block::high::f() }\n",
        "use crate::{machine::Machine, block::{low, high}};\n",
        // The parent re-exports what is above.
        "use crate::block::High;\n",
        "fn f() { super::super::block() }\n",
    ] {
        assert!(of_middle(circle).is_err(), "{circle}");
    }
}

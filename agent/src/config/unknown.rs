//! Settings that no option has, e.g. a misspelt kernel argument: refused, with the option that is spelt most alike.
//!
//! A warning is not enough: it scrolls past on a console that nobody watches, and a misspelt `rci.dry-run` would
//! become an install.

use std::collections::BTreeSet;

use anyhow::bail;
use formats::text::nearest;

use super::{Sources, option_name};

/// The variable that names the configuration file. Only the environment and the command line may.
const CONFIG_VARIABLE: &str = "RCI_CONFIG";

/// How a source writes the name of an option.
type Written = fn(&str) -> String;

impl Sources {
    /// Refuses the first setting that names no option of any command.
    ///
    /// # Errors
    /// If there is one; the error names where it is and the nearest option.
    pub(super) fn check_names(&self, known: &[String]) -> anyhow::Result<()> {
        let of_file = self.file.keys().map(|key| {
            let line = line_of(&self.file_text, key).map(|line| format!("line {line} of "));
            let (line, file) = (line.unwrap_or_default(), &self.file_name);
            let found =
                format!("{line}the configuration file {file} holds the key \"{}\"", quoted(key));
            (key.clone(), found, str::to_owned as Written)
        });
        let of_kernel = self.kernel.iter().map(|(written, _)| {
            let found =
                format!("rci.{} on the kernel command line is not an option", quoted(written));
            (option_name(written), found, (|name| format!("rci.{name}")) as Written)
        });
        let variables = self.environment.keys().filter(|variable| *variable != CONFIG_VARIABLE);
        let of_environment = variables.map(|variable| {
            let found = format!("the environment variable {} is not an option", quoted(variable));
            let name = variable.strip_prefix("RCI_").unwrap_or(variable).to_ascii_lowercase();
            (option_name(&name), found, variable_of_option as Written)
        });
        let mut all = of_file.chain(of_kernel).chain(of_environment);
        match all.find(|(name, ..)| !known.contains(name)) {
            Some((name, found, written)) => bail!("{found}, {}", expected(&name, known, written)),
            None => Ok(()),
        }
    }
}

fn quoted(name: &str) -> String {
    name.escape_debug().to_string()
}

/// What is expected instead of `name`: the known names, and the nearest one if any is near.
fn expected(name: &str, known: &[String], written: Written) -> String {
    if let Some(near) = nearest(name, known.iter().map(String::as_str)) {
        return format!("did you mean \"{}\"?", written(near));
    }
    let names: BTreeSet<String> = known.iter().map(|name| written(name)).collect();
    let names: Vec<String> = names.into_iter().collect();
    format!("expected one of {}", names.join(", "))
}

/// The line of `text` that sets `key`; `None` if the key is written in a form that is not searched for.
pub(super) fn line_of(text: &str, key: &str) -> Option<usize> {
    let is_set_by = |line: &str| {
        let written = line.split(':').next().unwrap_or_default().trim();
        option_name(written.trim_matches(['"', '\''])) == key
    };
    text.lines().zip(1..).find(|(line, _)| is_set_by(line)).map(|(_, number)| number)
}

/// `dry-run` is set by `RCI_DRY_RUN`.
pub(super) fn variable_of_option(name: &str) -> String {
    format!("RCI_{}", name.replace('-', "_").to_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_of_a_key_is_found_in_every_spelling_of_the_key() {
        let text = "# log_levle: x\nvim: a\n\"log_levle\": debug\n'dry-rum' : true\n";
        assert_eq!(line_of(text, "log-levle"), Some(3));
        assert_eq!(line_of(text, "dry-rum"), Some(4));
        assert_eq!(line_of("{vim: a, vmi: b}", "vmi"), None);
    }
}

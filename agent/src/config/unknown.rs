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

impl Sources {
    /// Refuses the first setting that names no option of any command.
    ///
    /// # Errors
    /// If there is one; the error names where it is and the nearest option.
    pub(super) fn check_names(&self, known: &[String]) -> anyhow::Result<()> {
        let is_unknown = |name: &str| !known.iter().any(|known| known == name);
        if let Some(key) = self.file.keys().find(|key| is_unknown(key)) {
            let place = match line_of(&self.file_text, key) {
                Some(line) => format!("line {line} of the configuration file"),
                None => "the configuration file".to_owned(),
            };
            let expected = expected(key, known, str::to_owned);
            bail!("{place} {} holds the key \"{}\", {expected}", self.file_name, quoted(key));
        }
        for (written, _) in &self.kernel {
            let name = option_name(written);
            if is_unknown(&name) {
                let expected = expected(&name, known, |name| format!("rci.{name}"));
                bail!(
                    "rci.{} on the kernel command line is not an option, {expected}",
                    quoted(written)
                );
            }
        }
        for variable in self.environment.keys().filter(|variable| *variable != CONFIG_VARIABLE) {
            let name = option_of_variable(variable);
            if is_unknown(&name) {
                let expected = expected(&name, known, variable_of_option);
                bail!("the environment variable {} is not an option, {expected}", quoted(variable));
            }
        }
        Ok(())
    }
}

fn quoted(name: &str) -> String {
    name.escape_debug().to_string()
}

/// What is expected instead of `name`: the known names, and the nearest one if any is near.
fn expected(name: &str, known: &[String], written: impl Fn(&str) -> String) -> String {
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

/// `RCI_DRY_RUN` sets `dry-run`.
fn option_of_variable(variable: &str) -> String {
    let name = variable.strip_prefix("RCI_").unwrap_or(variable);
    option_name(&name.to_ascii_lowercase())
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

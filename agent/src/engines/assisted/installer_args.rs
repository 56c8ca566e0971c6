//! `installer_args`: arguments for coreos-installer that the service passes on, a JSON list in a text.
//!
//! The service checks them against the same list of options and characters (assisted-service,
//! `internal/host/hostutil`), but a host that obeys without checking lets anyone who can change one field of a host run
//! coreos-installer with any option.

use formats::text::is_key_name;
use serde_json::Value;

use crate::act::{ImageSource, Order};

/// The longest list, and the longest argument in bytes.
const MAX_ARGS: usize = 256;
const MAX_ARG_BYTES: usize = 2048;
/// Characters of an argument besides letters and digits.
const ALLOWED: &str = "@!#$%*()_+,-./:;<=\"'{}[]";

/// Adds the requests of the arguments to `order`. Returns the directory with the network profiles to copy.
///
/// # Errors
/// A message if the text is not a list of texts, or an argument is not allowed.
pub(super) fn apply(text: &str, order: &mut Order) -> Result<Option<String>, String> {
    let mut network_dir = None;
    if text.is_empty() {
        return Ok(network_dir);
    }
    let not = |expected: &str| format!("installer_args is not {expected}");
    let list: Value = serde_json::from_str(text).map_err(|_| not("a JSON list in a text"))?;
    let list = list.as_array().filter(|list| list.len() <= MAX_ARGS);
    let list = list.ok_or_else(|| not(&format!("a list of at most {MAX_ARGS} texts")))?;
    let words: Option<Vec<&str>> = list.iter().map(Value::as_str).collect();
    let words = words.ok_or("installer_args contains something other than texts")?;
    let mut words = words.into_iter();
    while let Some(option) = words.next() {
        if ["-n", "--copy-network"].contains(&option) {
            order.copy_network = true;
            continue;
        }
        if !OPTIONS.contains(&option) {
            // A value in the place of an option may be a secret.
            let is_option = is_key_name(option) && option.starts_with('-');
            return Err(format!(
                "installer_args contains {option}, expected -n, --copy-network or one of {}, with its value \
                 as the next argument",
                OPTIONS.join(", "),
                option = if is_option { option } else { "a text that is not an option" }
            ));
        }
        let value = words.next().ok_or_else(|| format!("installer_args: {option} has no value"))?;
        check_value(option, value)?;
        set(option, value.to_owned(), order, &mut network_dir);
    }
    Ok(network_dir)
}

/// The options with a value.
const OPTIONS: [&str; 7] = [
    "--append-karg",
    "--delete-karg",
    "--network-dir",
    "--save-partlabel",
    "--save-partindex",
    "--image-url",
    "--image-file",
];

fn check_value(option: &str, value: &str) -> Result<(), String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || ALLOWED.contains(c);
    let is_good = !value.is_empty()
        && value.len() <= MAX_ARG_BYTES
        && !value.starts_with('-')
        && value.chars().all(is_allowed);
    if is_good {
        return Ok(());
    }
    Err(format!(
        "installer_args: the value of {option} is not at most {MAX_ARG_BYTES} letters, digits and characters of \
         {ALLOWED}, the first not a dash"
    ))
}

fn set(option: &str, value: String, order: &mut Order, network_dir: &mut Option<String>) {
    match option {
        "--append-karg" => order.append_kargs.push(value),
        "--delete-karg" => order.delete_kargs.push(value),
        "--save-partlabel" => order.save_partlabel.push(value),
        "--save-partindex" => order.save_partindex.push(value),
        "--network-dir" => *network_dir = Some(value),
        "--image-url" => {
            order.image = Some(ImageSource { url: Some(value), ..ImageSource::default() });
        }
        _ => order.image = Some(ImageSource { file: Some(value), ..ImageSource::default() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(text: &str) -> Result<(Order, Option<String>), String> {
        let mut order = Order::default();
        let network_dir = apply(text, &mut order)?;
        Ok((order, network_dir))
    }

    #[test]
    fn every_option_of_the_list_becomes_a_part_of_the_install() {
        let text = r#"["--append-karg", "ip=10.0.0.2::10.0.0.1", "-n", "--delete-karg", "quiet",
            "--network-dir", "/run/keyfiles", "--save-partlabel", "data*", "--save-partindex", "5",
            "--image-url", "https://h/i.raw.gz", "--append-karg", "a={b}"]"#;
        let (order, network_dir) = applied(text).unwrap();
        assert_eq!(order.append_kargs, ["ip=10.0.0.2::10.0.0.1", "a={b}"]);
        assert_eq!(order.delete_kargs, ["quiet"]);
        assert_eq!(order.save_partlabel, ["data*"]);
        assert_eq!(order.save_partindex, ["5"]);
        assert!(order.copy_network);
        assert_eq!(order.image.unwrap().url.as_deref(), Some("https://h/i.raw.gz"));
        assert_eq!(network_dir.as_deref(), Some("/run/keyfiles"));
        assert_eq!(applied("").unwrap(), (Order::default(), None));
        let file = applied(r#"["--image-file", "/run/i.raw"]"#).unwrap().0;
        assert_eq!(file.image.unwrap().file.as_deref(), Some("/run/i.raw"));
    }

    #[test]
    fn anything_outside_of_the_list_is_refused() {
        for text in [
            r#"["--append-karg=x"]"#,
            r#"["-3"]"#,
            r#"["--insecure"]"#,
            r#"["--ignition-url", "http://evil/x"]"#,
            r#"["sda"]"#,
            r#"["--append-karg"]"#,
            r#"["--append-karg", ""]"#,
            r#"["--append-karg", "--insecure"]"#,
            r#"["--append-karg", 7]"#,
            r#"{"a": 1}"#,
            "--copy-network",
        ] {
            assert!(applied(text).is_err(), "{text}");
        }
        for text in ["$6$canary", r#"["$6$canary"]"#, r#"["--append-karg", "-$6$canary"]"#] {
            assert!(!applied(text).unwrap_err().contains("canary"), "{text}");
        }
        for character in " >?&|~`^\\ä".chars() {
            let list = serde_json::json!(["--append-karg", format!("a{character}b")]);
            assert!(applied(&list.to_string()).is_err(), "{list}");
        }
    }
}

//! Quotes foreign text in messages: short, on one line, without secrets.

/// Longest piece of foreign text that a message quotes, in characters.
const MAX_QUOTED: usize = 100;

/// Quotes `text` with control characters escaped, shortened for a message.
pub(crate) fn shown(text: &str) -> String {
    match text.char_indices().nth(MAX_QUOTED) {
        None => format!("{text:?}"),
        Some((end, _)) => format!("{:?}… ({} bytes)", &text[..end], text.len()),
    }
}

/// Quotes a source URL without its possible secrets: user name, query and inline data.
pub(crate) fn shown_url(url: &str) -> String {
    if url.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:")) {
        return format!("a data URL of {} bytes", url.len());
    }
    let end = url.find(['?', '#']).unwrap_or(url.len());
    let (bare, cut) = (&url[..end], if end < url.len() { "?…" } else { "" });
    let Some((scheme, rest)) = bare.split_once("://") else {
        return shown(&format!("{bare}{cut}"));
    };
    let authority_end = rest.find('/').unwrap_or(rest.len());
    match rest[..authority_end].rfind('@') {
        Some(at) => shown(&format!("{scheme}://…{}{cut}", &rest[at..])),
        None => shown(&format!("{bare}{cut}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_is_quoted_without_its_secrets() {
        assert_eq!(shown_url("http://me:pw@h/a?token=1"), "\"http://…@h/a?…\"");
        assert_eq!(shown_url("data:,secret"), "a data URL of 12 bytes");
        assert_eq!(shown_url("http://h/a"), "\"http://h/a\"");
    }

    #[test]
    fn long_text_is_cut_at_a_character_boundary() {
        let text = "é".repeat(300);
        assert!(shown(&text).ends_with("… (600 bytes)"), "{}", shown(&text));
        assert_eq!(shown("a\nb"), "\"a\\nb\"");
    }
}

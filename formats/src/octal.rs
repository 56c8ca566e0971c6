//! Octal escapes of lists in `/proc`: the kernel writes blanks, tabs, line ends, backslashes and
//! number signs as `\040` and the like (`mangle_path` in `fs/seq_file.c`, `string_escape_mem`).

/// Decodes `\NNN`. Anything else after a backslash stays as it is.
pub fn decode(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        plain.push_str(before);
        // `from_str_radix` alone would accept a sign.
        let digits = after.get(..3).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        let code = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        if let Some(code) = code.filter(u8::is_ascii) {
            plain.push(char::from(code));
            rest = after.get(3..).unwrap_or_default();
        } else {
            plain.push('\\');
            rest = after;
        }
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_escape_of_the_kernel_is_decoded_once() {
        assert_eq!(decode("a\\040b\\011\\012\\134\\043"), "a b\t\n\\#");
        assert_eq!(decode("\\134040"), "\\040");
    }

    #[test]
    fn broken_escapes_are_kept_as_they_are() {
        assert_eq!(decode("a\\04"), "a\\04");
        assert_eq!(decode("é\\é\\999"), "é\\é\\999");
        assert_eq!(decode("\\+12"), "\\+12");
        assert_eq!(decode("\\377"), "\\377");
    }
}

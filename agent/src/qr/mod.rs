//! QR codes (ISO/IEC 18004) on a terminal, which a phone without a network reads as plain text.
//!
//! Each character is one module wide and two high: the lower and upper half blocks U+2584 and U+2580, which the fonts of
//! the Linux console contain. A terminal without UTF-8 gets modules that are two characters wide.

mod screen;
mod summary;

pub use screen::Screen;
pub use summary::{Summary, is_fault};

use qrcodegen::{QrCode, QrCodeEcc, QrSegment, Version};

/// Light modules left, right and above, as the standard asks for.
const MARGIN: usize = 4;
/// Below it is one less, so that the number of module rows is even.
const MARGIN_BELOW: usize = 3;
/// The largest version: 97 modules and 858 bytes. A phone hardly reads a larger one from a screen.
const MAX_VERSION: usize = 20;
/// Bright white on black, for a character and its background.
const WHITE_ON_BLACK: &str = "\x1b[97;40m";
/// A module that is two characters wide.
const WHITE_BACKGROUND: &str = "\x1b[107m  ";
const BLACK_BACKGROUND: &str = "\x1b[40m  ";
const PLAIN: &str = "\x1b[0m";

/// Encodes as many lines of `summary` as fit `screen` in a QR code; `None` if not even the shortest text fits.
pub fn draw(summary: &Summary, screen: &Screen) -> Option<String> {
    let largest = Version::new(u8::try_from(largest_version(screen)?).ok()?);
    summary.texts().find_map(|text| {
        let bytes = [QrSegment::make_bytes(text.as_bytes())];
        // More error correction where it costs no larger version.
        let (least, low) = (Version::MIN, QrCodeEcc::Low);
        let code = QrCode::encode_segments_advanced(&bytes, low, least, largest, None, true);
        Some(characters(&code.ok()?, screen))
    })
}

/// The largest version that fits.
fn largest_version(screen: &Screen) -> Option<usize> {
    // A terminal may start a new line after its last column.
    let columns = screen.columns.checked_sub(1)?;
    let side = if screen.is_utf8 {
        let high = screen.rows.saturating_mul(2).checked_sub(MARGIN + MARGIN_BELOW)?;
        high.min(columns.checked_sub(2 * MARGIN)?)
    } else {
        screen.rows.min(columns / 2).checked_sub(2 * MARGIN)?
    };
    // Version 1 has 21 modules, and each further one 4 more.
    let version = side.checked_sub(17)? / 4;
    (version > 0).then_some(version.min(MAX_VERSION))
}

/// The code in white on black, whatever colours the terminal has otherwise. Without colours, light modules are drawn and
/// dark ones are blank: on a dark terminal that is the same.
fn characters(code: &QrCode, screen: &Screen) -> String {
    let margin = i32::try_from(MARGIN).unwrap_or_default();
    let size = code.size();
    // Outside of the code every module is light.
    let is_light = |x, y| !code.get_module(x, y);
    let (step, end) = if screen.is_utf8 { (2, size + margin - 1) } else { (1, size + margin) };
    let mut text = String::new();
    for y in (-margin..end).step_by(step) {
        text.push_str(if screen.is_utf8 && screen.is_colored { WHITE_ON_BLACK } else { "" });
        let module = |x| match (is_light(x, y), is_light(x, y + 1)) {
            (true, _) if !screen.is_utf8 && screen.is_colored => WHITE_BACKGROUND,
            (false, _) if !screen.is_utf8 && screen.is_colored => BLACK_BACKGROUND,
            (true, _) if !screen.is_utf8 => "##",
            (false, _) if !screen.is_utf8 => "  ",
            (true, true) => "█",
            (true, false) => "▀",
            (false, true) => "▄",
            (false, false) => " ",
        };
        text.extend((-margin..size + margin).map(module));
        text.push_str(if screen.is_colored { PLAIN } else { "" });
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests;

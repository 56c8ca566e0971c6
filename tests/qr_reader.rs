//! Reads QR codes from the characters that a terminal shows, with `rqrr`: another implementation of ISO/IEC 18004.

/// Pixels of a module.
const SCALE: usize = 4;
/// Dark pixels around the text, as on a dark terminal.
const FRAME: usize = 6 * SCALE;

/// The texts of the QR codes in `shown`, from top to bottom, as a camera would read them from a dark terminal. Other
/// lines between them do no harm.
pub(crate) fn read(shown: &str) -> Vec<String> {
    let lines: Vec<String> = shown.lines().map(without_colors).collect();
    // Each line of a code begins with its light margin.
    let in_code = |line: &String| line.starts_with("████") || line.starts_with("########");
    let codes = lines.chunk_by(|above, below| in_code(above) == in_code(below));
    codes.filter(|lines| in_code(&lines[0])).flat_map(read_code).collect()
}

fn read_code(lines: &[String]) -> Vec<String> {
    let rows = modules(lines);
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let is_light = |x: usize, y: usize| {
        let at = |v: usize| v.checked_sub(FRAME).map(|v| v / SCALE);
        let row = at(y).and_then(|y| rows.get(y));
        row.zip(at(x)).and_then(|(row, x)| row.get(x)).copied().unwrap_or(false)
    };
    let mut picture = rqrr::PreparedImage::prepare_from_greyscale(
        columns * SCALE + 2 * FRAME,
        rows.len() * SCALE + 2 * FRAME,
        |x, y| if is_light(x, y) { 255 } else { 0 },
    );
    picture.detect_grids().iter().filter_map(|code| Some(code.decode().ok()?.1)).collect()
}

/// Whether each module is light: two rows of them for each line of half blocks, one for each line of `##`.
fn modules(lines: &[String]) -> Vec<Vec<bool>> {
    let mut rows = Vec::new();
    for line in lines {
        if line.chars().any(|c| "█▀▄".contains(c)) {
            rows.push(line.chars().map(|c| "█▀".contains(c)).collect());
            rows.push(line.chars().map(|c| "█▄".contains(c)).collect());
        } else {
            let letters: Vec<char> = line.chars().collect();
            rows.push(letters.chunks(2).map(|pair| pair == ['#', '#']).collect());
        }
    }
    rows
}

/// `line` without `ESC [ … m`. A white background becomes `#`.
fn without_colors(line: &str) -> String {
    let mut parts = line.split('\u{1b}');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (color, rest) = part.split_once('m').unwrap_or(("", part));
        match color {
            "[107" => text.extend(rest.chars().map(|_| '#')),
            _ => text.push_str(rest),
        }
    }
    text
}

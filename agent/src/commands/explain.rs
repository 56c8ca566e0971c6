//! `explain`: the meaning of a finding, advice, and the way a false alarm is ruled out.

use anyhow::bail;
use probes::faults::codes_of;
use probes::findings::{Row, Severity, nearest_code, row, rows};

use crate::cli::{ExplainOptions, Format};
use crate::exit_status::ExitStatus;
use crate::output;
use crate::text::wrapped;

/// The columns before the meaning in the list: the code and the severities.
const LIST_INDENT: usize = 43;

/// Prints the explanation of one code, or a line for each.
///
/// # Errors
/// If the code is not in the table.
pub(super) fn explain(options: &ExplainOptions) -> anyhow::Result<ExitStatus> {
    let width = output::width();
    let Some(code) = &options.code else {
        super::show(options.format, &rows().collect::<Vec<&Row>>(), |all| {
            all.iter().map(|row| entry(row, width)).collect()
        })?;
        return Ok(ExitStatus::Done);
    };
    let signs: Vec<&str> = codes_of(code).filter(|sign| sign != code).collect();
    let Some(row) = row(code) else {
        if !signs.is_empty() {
            return explain_fault(code, &signs, options.format);
        }
        if code.chars().all(|c| c.is_ascii_uppercase() || c == '_') {
            bail!(
                "\"{}\" is not the code of a finding: codes in capitals are those of results, whose message and advice \
                 explain them",
                code.escape_debug()
            );
        }
        let nearest = nearest_code(code);
        bail!(
            "no finding has the code \"{}\"; the nearest is {nearest}; `explain` alone lists all",
            code.escape_debug()
        );
    };
    super::show(options.format, row, |row| text(row, width))?;
    Ok(ExitStatus::Done)
}

/// Explains the findings from which a kind of fault is concluded: `check` shows its name.
fn explain_fault(class: &str, signs: &[&str], format: Format) -> anyhow::Result<ExitStatus> {
    let rows: Vec<&Row> = signs.iter().filter_map(|sign| row(sign)).collect();
    super::show(format, &rows, |rows| {
        let width = output::width();
        let lead = format!("{class} is a kind of fault. It is concluded from these findings:");
        let texts = rows.iter().map(|row| ["\n", &text(row, width)].concat());
        wrapped(&lead, 0, width) + &texts.collect::<String>()
    })?;
    Ok(ExitStatus::Done)
}

/// The code, its severities, and the first sentence of its meaning.
fn entry(row: &Row, width: usize) -> String {
    let meaning = row.meaning;
    let end = meaning.find(". ").map_or(meaning.len(), |end| end + 1);
    let first = meaning.get(..end).unwrap_or(meaning);
    let meaning = wrapped(first, LIST_INDENT, width);
    format!("{:25} {:16} {}", row.code, severities(row), meaning.trim_start())
}

fn text(row: &Row, width: usize) -> String {
    let mut text = format!("{} ({}, {})\n", row.code, row.component, severities(row));
    for (heading, paragraph) in row.paragraphs() {
        text.push_str(&["\n", heading, "\n", &wrapped(paragraph, 2, width)].concat());
    }
    text
}

fn severities(row: &Row) -> String {
    row.severities().map(Severity::as_str).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explanations_and_list_fit_the_width_and_keep_every_word() {
        for (row, width) in rows().flat_map(|row| [(row, 80), (row, 100)]) {
            let (text, entry) = (text(row, width), entry(row, width));
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
            assert!(entry.lines().all(|line| line.chars().count() <= width), "{entry}");
            let (code, rest) = entry.split_once(' ').unwrap();
            assert_eq!(code, row.code);
            let listed: Vec<&str> = rest.split_whitespace().skip(1).collect();
            assert!(row.meaning.starts_with(&listed.join(" ")), "{entry}");
            let words: Vec<&str> = text.split_whitespace().collect();
            for (_, paragraph) in row.paragraphs() {
                let paragraph: Vec<&str> = paragraph.split_whitespace().collect();
                assert!(words.windows(paragraph.len()).any(|part| part == paragraph), "{text}");
            }
        }
    }
}

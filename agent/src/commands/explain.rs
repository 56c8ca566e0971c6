//! `explain`: what a finding means, what to do about it, and how a false alarm is ruled out.

use anyhow::bail;
use probes::findings::{Row, Severity, nearest_code, row, rows};

use crate::cli::{ExplainOptions, Format};
use crate::exit_status::ExitStatus;
use crate::output;

/// The width that the text is wrapped at.
const WIDTH: usize = 80;

/// Prints the explanation of one code, or a line for each.
///
/// # Errors
/// If the code is not in the table.
pub(super) fn explain(options: &ExplainOptions) -> anyhow::Result<ExitStatus> {
    let Some(code) = &options.code else {
        let all: Vec<&Row> = rows().collect();
        output::print(&match options.format {
            Format::Text => all.iter().map(|row| line(row)).collect(),
            Format::Json => output::json(&all)?,
            Format::Yaml => output::yaml(&all)?,
        })?;
        return Ok(ExitStatus::Done);
    };
    let Some(row) = row(code) else {
        let nearest = nearest_code(code);
        bail!(
            "no finding has the code \"{}\"; the nearest is {nearest}; `explain` alone lists all",
            code.escape_debug()
        );
    };
    output::print(&match options.format {
        Format::Text => text(row),
        Format::Json => output::json(row)?,
        Format::Yaml => output::yaml(row)?,
    })?;
    Ok(ExitStatus::Done)
}

/// The code, its severities, and the first sentence of its meaning.
fn line(row: &Row) -> String {
    let meaning = row.meaning();
    let end = meaning.find(". ").map_or(meaning.len(), |end| end + 1);
    let first = meaning.get(..end).unwrap_or(meaning);
    format!("{:25} {:16} {first}\n", row.code(), severities(row))
}

fn text(row: &Row) -> String {
    let mut text = format!("{} ({}, {})\n", row.code(), row.component(), severities(row));
    for (heading, paragraph) in row.paragraphs() {
        text.push_str(&["\n", heading, "\n", &wrapped(paragraph)].concat());
    }
    text
}

fn severities(row: &Row) -> String {
    let name = |severity| match severity {
        Severity::Info => "info",
        Severity::Warning => "warning",
        Severity::Critical => "critical",
    };
    row.severities().map(name).collect::<Vec<_>>().join("/")
}

/// `paragraph` as lines of at most [`WIDTH`] characters, indented by two.
fn wrapped(paragraph: &str) -> String {
    let (mut text, mut line) = (String::new(), String::new());
    for word in paragraph.split(' ') {
        if !line.is_empty() && 2 + line.chars().count() + 1 + word.chars().count() > WIDTH {
            text.push_str(&["  ", &line, "\n"].concat());
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    text + &format!("  {line}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explanations_fit_80_columns_and_keep_every_word() {
        for row in rows() {
            let text = text(row);
            assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
            let words: Vec<&str> = text.split_whitespace().collect();
            for (_, paragraph) in row.paragraphs() {
                let paragraph: Vec<&str> = paragraph.split_whitespace().collect();
                assert!(words.windows(paragraph.len()).any(|part| part == paragraph), "{text}");
            }
        }
    }
}

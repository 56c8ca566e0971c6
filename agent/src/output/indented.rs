//! JSON indented by two blanks, each line's end and indentation written at once.
//!
//! `serde_json::ser::PrettyFormatter` writes them blank by blank, a tenth of the time that a large report
//! takes after it is collected.

use std::io::{self, Write};

use serde_json::ser::Formatter;

/// A line's end with the indentation of the deepest level that is written at once.
const LINE: &[u8; 65] = b"\n                                                                ";

/// The formatter and the level that it is at.
#[derive(Debug, Default)]
pub(crate) struct Indented {
    depth: usize,
    has_value: bool,
}

impl Indented {
    fn line<W: ?Sized + Write>(&self, writer: &mut W) -> io::Result<()> {
        let length = 1 + 2 * self.depth;
        writer.write_all(LINE.get(..length).unwrap_or(LINE))?;
        (LINE.len()..length).try_for_each(|_| writer.write_all(b" "))
    }

    fn begin<W: ?Sized + Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.has_value = false;
        writer.write_all(bracket)
    }

    fn end<W: ?Sized + Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth -= 1;
        if self.has_value {
            self.line(writer)?;
        }
        writer.write_all(bracket)
    }

    fn next<W: ?Sized + Write>(&self, writer: &mut W, is_first: bool) -> io::Result<()> {
        if !is_first {
            writer.write_all(b",")?;
        }
        self.line(writer)
    }
}

impl Formatter for Indented {
    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.begin(writer, b"[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.end(writer, b"]")
    }

    fn begin_array_value<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.next(writer, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.has_value = true;
        Ok(())
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.begin(writer, b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.end(writer, b"}")
    }

    fn begin_object_key<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.next(writer, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.has_value = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn the_text_is_that_of_serde_json_itself() {
        let mut deep = json!({});
        for _ in 0..40 {
            deep = json!([deep, {}, [], {"a": "b\n", "c": [1, null]}]);
        }
        for value in [json!({}), json!([]), json!({"a": [], "b": {"c": 1.5}}), deep] {
            let expected = serde_json::to_string_pretty(&value).unwrap() + "\n";
            assert_eq!(crate::output::json(&value).unwrap(), expected);
        }
    }
}

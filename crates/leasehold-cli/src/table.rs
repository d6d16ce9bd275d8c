//! Columns of text that stand under each other, wide characters included.

use std::fmt::Write;

use unicode_width::UnicodeWidthStr;

/// Rows as lines, each column as wide as its widest cell; no blanks at the ends of lines.
pub(crate) fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.width());
        }
    }
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (width, cell) in widths.iter().zip(row) {
            let gap = width - cell.width() + 2;
            let _ = write!(line, "{cell}{:gap$}", "");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_characters_take_two_columns() {
        let row = |a: &str, b: &str| [a.to_owned(), b.to_owned()];
        let text = aligned(&[row("NAME", "X"), row("名字名", "1"), row("a", "")]);
        assert_eq!(text, "NAME    X\n名字名  1\na\n");
    }
}

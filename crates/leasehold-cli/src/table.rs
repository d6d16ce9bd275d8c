//! Aligns columns of text, wide characters included.

use std::fmt::Write;

use unicode_width::UnicodeWidthStr;

use crate::foreign;

/// The blanks between two columns.
const GAP: usize = 2;

/// A column is not cut to less than this, if possible.
const NARROWEST: usize = 4;

/// How the cells of a column are shortened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Not at all.
    Never,
    /// At the end.
    End,
    /// Before the text after the last slash.
    BeforeSlash,
}

/// Returns rows as lines, each column as wide as its widest cell; no blanks at the ends of lines.
pub(crate) fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let widths = widths(rows);
    rows.iter().map(|row| line(row, &widths) + "\n").collect()
}

/// As [`aligned`], with no line wider than `width`: columns that may be cut are cut, the widest
/// first.
pub(crate) fn fitted<const N: usize>(
    rows: &[[String; N]],
    cuts: [Cut; N],
    width: Option<usize>,
) -> String {
    let Some(width) = width else { return aligned(rows) };
    let mut widths = widths(rows);
    let whole = widths.iter().sum::<usize>() + GAP * N.saturating_sub(1);
    for _ in width..whole {
        let may_shrink = (0..N).filter(|&at| cuts[at] != Cut::Never && widths[at] > NARROWEST);
        let Some(widest) = may_shrink.max_by_key(|&at| widths[at]) else { break };
        widths[widest] -= 1;
    }
    let mut text = String::new();
    for row in rows {
        let cut = |at: usize| match cuts[at] {
            Cut::Never => row[at].clone(),
            Cut::End => foreign::cut(&row[at], widths[at]),
            Cut::BeforeSlash => foreign::cut_before_slash(&row[at], widths[at]),
        };
        text.push_str(&foreign::cut(&line(&std::array::from_fn(cut), &widths), width));
        text.push('\n');
    }
    text
}

fn widths<const N: usize>(rows: &[[String; N]]) -> [usize; N] {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.width());
        }
    }
    widths
}

fn line<const N: usize>(row: &[String; N], widths: &[usize; N]) -> String {
    let mut line = String::new();
    for (width, cell) in widths.iter().zip(row) {
        let gap = width.saturating_sub(cell.width()) + GAP;
        let _ = write!(line, "{cell}{:gap$}", "");
    }
    line.truncate(line.trim_end().len());
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(a: &str, b: &str) -> [String; 2] {
        [a.to_owned(), b.to_owned()]
    }

    #[test]
    fn wide_characters_take_two_columns() {
        let text = aligned(&[row("NAME", "X"), row("名字名", "1"), row("a", "")]);
        assert_eq!(text, "NAME    X\n名字名  1\na\n");
    }

    #[test]
    fn the_widest_is_cut_first_and_no_line_is_too_wide() {
        let rows = [row("NAME", "HOLDER"), row("a-very-long-name", "some-host/123")];
        let cuts = [Cut::End, Cut::BeforeSlash];
        assert_eq!(fitted(&rows, cuts, None), aligned(&rows));
        assert_eq!(fitted(&rows, cuts, Some(31)), aligned(&rows));
        let text = fitted(&rows, cuts, Some(24));
        assert_eq!(text, "NAME         HOLDER\na-very-lon…  some-h…/123\n");
        for width in 0..31 {
            let text = fitted(&rows, cuts, Some(width));
            assert!(text.lines().all(|line| line.width() <= width), "{width}: {text}");
        }
    }
}

//! Aligns columns of text, wide characters included.

use std::fmt::Write;

use unicode_width::UnicodeWidthStr;

use crate::lang::wrap;
use crate::sanitize;

/// The blanks between two columns.
const GAP: usize = 2;

/// A column is not cut to less than this, if possible.
const NARROWEST: usize = 4;

/// A text is not wrapped to less than this.
const READABLE: usize = 20;

/// How the cells of a column are shortened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Not at all.
    Never,
    /// At the end.
    End,
    /// Before the text after the last slash.
    BeforeSlash,
    /// The column is left out before another one is cut.
    LeaveOut,
}

/// Returns rows as lines, each column as wide as its widest cell; no blanks at the ends of lines.
pub(crate) fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let widths = widths(rows);
    rows.iter().map(|row| line(row, &widths) + "\n").collect()
}

/// As [`aligned`], with no line wider than `width`: columns that may be left out are left out, then
/// those that may be cut are cut, the widest first.
pub(crate) fn fitted<const N: usize>(
    rows: &[[String; N]],
    cuts: [Cut; N],
    width: Option<usize>,
) -> String {
    let Some(width) = width else { return aligned(rows) };
    let mut widths = widths(rows);
    for at in (0..N).filter(|&at| cuts[at] == Cut::LeaveOut) {
        if whole(&widths) > width {
            widths[at] = 0;
        }
    }
    for _ in width..whole(&widths) {
        let may_shrink = (0..N).filter(|&at| {
            matches!(cuts[at], Cut::End | Cut::BeforeSlash) && widths[at] > NARROWEST
        });
        let Some(widest) = may_shrink.max_by_key(|&at| widths[at]) else { break };
        widths[widest] -= 1;
    }
    let mut text = String::new();
    for row in rows {
        let cut = |at: usize| match cuts[at] {
            Cut::LeaveOut if widths[at] == 0 => String::new(),
            Cut::Never | Cut::LeaveOut => row[at].clone(),
            Cut::End => sanitize::cut(&row[at], widths[at]),
            Cut::BeforeSlash => sanitize::cut_before_slash(&row[at], widths[at]),
        };
        text.push_str(&sanitize::cut(&line(&std::array::from_fn(cut), &widths), width));
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

/// Returns the columns of the widest line.
fn whole(widths: &[usize]) -> usize {
    let shown = widths.iter().filter(|width| **width > 0).count();
    widths.iter().sum::<usize>() + GAP * shown.saturating_sub(1)
}

/// As [`aligned`], with the last column wrapped so that no line is wider than `width`, if it then
/// still has enough room.
#[cfg(feature = "lab")]
pub(crate) fn wrapped<const N: usize>(rows: &[[String; N]], width: Option<usize>) -> String {
    let mut text = String::new();
    let widths = widths(rows);
    for row in rows {
        let mut before = row.clone();
        let last = before.last_mut().map(std::mem::take).unwrap_or_default();
        let indent = whole(&widths) - widths.last().unwrap_or(&0);
        let before = line(&before, &widths);
        let gap = indent.saturating_sub(before.width());
        text.push_str(&hanging(&format!("{before}{:gap$}", ""), &last, width));
    }
    text
}

/// Returns a text behind a head, as lines no wider than `width` if there is enough room; those after
/// the first are indented by the width of the head.
pub(crate) fn hanging(head: &str, text: &str, width: Option<usize>) -> String {
    let indent = head.width();
    let room = width.and_then(|width| width.checked_sub(indent)).filter(|room| *room >= READABLE);
    let lines = wrap::lines(text, room);
    let mut all = String::new();
    for (at, line) in lines.iter().enumerate() {
        let line = if at == 0 { format!("{head}{line}") } else { format!("{:indent$}{line}", "") };
        all.push_str(line.trim_end());
        all.push('\n');
    }
    all
}

fn line<const N: usize>(row: &[String; N], widths: &[usize; N]) -> String {
    let mut line = String::new();
    // A column without text has no gap either.
    for (width, cell) in widths.iter().zip(row).filter(|(width, _)| **width > 0) {
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
    fn a_column_is_left_out_before_another_is_cut() {
        let rows =
            [["NAME", "TOKEN", "X"], ["a-name", "123456", "1"]].map(|r| r.map(str::to_owned));
        let cuts = [Cut::End, Cut::LeaveOut, Cut::Never];
        assert_eq!(fitted(&rows, cuts, Some(17)), aligned(&rows));
        assert_eq!(fitted(&rows, cuts, Some(16)), "NAME    X\na-name  1\n");
        assert_eq!(fitted(&rows, cuts, Some(8)), "NAME   X\na-na…  1\n");
    }

    #[test]
    fn a_text_hangs_behind_its_head() {
        let text = "some words that are 長い単語 of 30";
        assert_eq!(hanging("  ", text, None), format!("  {text}\n"));
        assert_eq!(hanging("a ", text, Some(21)), format!("a {text}\n"), "too narrow to read");
        let wrapped = "a some words that are\n  長い単語 of 30\n";
        assert_eq!(hanging("a ", text, Some(22)), wrapped);
        assert_eq!(hanging("a ", "", Some(80)), "a\n");
        let long = "x".repeat(30);
        assert_eq!(hanging("", &format!("a {long} b"), Some(20)), format!("a\n{long}\nb\n"));
    }

    #[test]
    fn a_chinese_text_is_wrapped_between_its_characters() {
        let text = "客户端 1 持有锁，直到它的租约在 30 秒后结束。";
        let wrapped = hanging("> ", text, Some(24));
        assert_eq!(wrapped, "> 客户端 1 持有锁，直到\n  它的租约在 30 秒后结\n  束。\n");
        assert!(wrapped.lines().all(|line| line.width() <= 24), "{wrapped}");
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

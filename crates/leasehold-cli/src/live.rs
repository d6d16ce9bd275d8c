//! A line on the terminal that is redrawn, and cleared at the end.

use std::io;

use anstyle::Style;

use crate::{output, sanitize, terminal};

/// The prefix of the line.
const WHO: &str = "leasehold:";

/// Columns left free at the end of the row: for the `^C` that a terminal shows for the interrupt
/// key, and for the last column, in which some terminals begin a new row. A second row would
/// remain.
const ROOM: usize = 3;

/// A row of the terminal behind stderr. It is cleared when this is dropped.
#[derive(Debug)]
pub(crate) struct Live(());

impl Live {
    /// Opens a row; returns `None` if stderr is not a terminal that can redraw a row. Without a
    /// row, no control sequence is written.
    pub(crate) fn open() -> Option<Self> {
        terminal::can_redraw(&io::stderr()).then_some(Self(()))
    }

    /// Shows a text, cut to one row.
    pub(crate) fn show(&mut self, text: &str) {
        let row = row(text, terminal::width(io::stderr()).unwrap_or(80));
        let style = output::styled(Style::new().bold());
        let (who, rest) = row.split_at(if row.starts_with(WHO) { WHO.len() } else { 0 });
        output::row(Some(format!("{style}{who}{style:#}{rest}")));
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        output::row(None);
    }
}

fn row(text: &str, columns: usize) -> String {
    let text = format!("{WHO} {}", sanitize::clean(text));
    sanitize::cut(&text, columns.saturating_sub(ROOM))
}

#[cfg(test)]
mod tests {
    use super::*;
    use unicode_width::UnicodeWidthStr;

    #[test]
    fn a_row_is_never_wider_than_the_terminal() {
        let text = "waiting for 名字/\u{1b}[2J\n名字, held by a client";
        for columns in 0..90 {
            let row = row(text, columns);
            assert!(row.width() <= columns.saturating_sub(ROOM), "{columns}: {row}");
            assert!(!row.contains(char::is_control), "{row}");
        }
        assert!(row(text, 80).ends_with("held by a client"));
    }
}

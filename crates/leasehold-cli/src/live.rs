//! A line on the terminal that is drawn anew, and goes away.

use std::io::{self, Write};

use anstream::{AutoStream, ColorChoice};
use anstyle::Style;

use crate::{foreign, terminal};

/// Who speaks.
const WHO: &str = "leasehold:";

/// To the first column, and clear the row.
const CLEAR: &str = "\r\x1b[2K";

/// What is kept free at the end of the row: the `^C` that a terminal shows for the interrupt key,
/// and the last column, in which some begin a new row. A second row would stay.
const ROOM: usize = 3;

/// A row of the terminal behind stderr. It is cleared when this is dropped.
#[derive(Debug)]
pub(crate) struct Live {
    /// Something stands in the row.
    is_drawn: bool,
}

impl Live {
    /// A row to draw in; `None` where stderr is no terminal that can draw a row anew. Whoever has none
    /// writes no control sequence.
    pub(crate) fn open() -> Option<Self> {
        terminal::can_redraw(&io::stderr()).then_some(Self { is_drawn: false })
    }

    /// Shows a text, as much as one row takes. Nothing can be done where that fails.
    pub(crate) fn show(&mut self, text: &str) {
        self.is_drawn = true;
        let mut out = io::stderr().lock();
        let row = row(text, terminal::width(&out).unwrap_or(80));
        let style = match AutoStream::choice(&out) {
            ColorChoice::Never => Style::new(),
            _ => Style::new().bold(),
        };
        let (who, rest) = row.split_at(if row.starts_with(WHO) { WHO.len() } else { 0 });
        let _ = write!(out, "{CLEAR}{style}{who}{style:#}{rest}").and_then(|()| out.flush());
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if self.is_drawn {
            let mut out = io::stderr().lock();
            let _ = out.write_all(CLEAR.as_bytes()).and_then(|()| out.flush());
        }
    }
}

fn row(text: &str, columns: usize) -> String {
    let text = format!("{WHO} {}", foreign::clean(text));
    foreign::cut(&text, columns.saturating_sub(ROOM))
}

#[cfg(test)]
mod tests {
    use super::*;
    use unicode_width::UnicodeWidthStr;

    #[test]
    fn a_row_is_never_wider_than_the_terminal() {
        let text = "waiting for 名字/\u{1b}[2J\n名字, held by somebody";
        for columns in 0..90 {
            let row = row(text, columns);
            assert!(row.width() <= columns.saturating_sub(ROOM), "{columns}: {row}");
            assert!(!row.contains(char::is_control), "{row}");
        }
        assert!(row(text, 80).ends_with("held by somebody"));
    }
}

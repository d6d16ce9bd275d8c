//! Wraps text; Chinese has few blanks to break lines at.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Marks that do not begin a line.
const NOT_FIRST: &str = "，。；：、！？）」』】〉》”’,.;:!?)]";
/// Marks that do not end a line.
const NOT_LAST: &str = "（「『【〈《“‘([";

/// Breaks each line of the text so that it takes at most so many columns, where possible.
pub(crate) fn wrapped(text: &str, columns: usize) -> String {
    text.lines().map(|line| lines(line, Some(columns)).join("\n")).collect::<Vec<_>>().join("\n")
}

/// Breaks one line into lines of at most so many columns, where possible, and at least one.
pub(crate) fn lines(line: &str, columns: Option<usize>) -> Vec<String> {
    let mut lines = vec![String::new()];
    for piece in pieces(line) {
        match lines.last_mut() {
            Some(line) if line.is_empty() || fits(line, piece, columns) => line.push_str(piece),
            _ => lines.push(piece.to_owned()),
        }
    }
    for line in &mut lines {
        line.truncate(line.trim_end().len());
    }
    lines
}

fn fits(line: &str, piece: &str, columns: Option<usize>) -> bool {
    columns.is_none_or(|columns| line.width() + piece.trim_end().width() <= columns)
}

/// The parts between which a line may be broken: words with the blank behind them, single Chinese
/// characters with their marks.
pub(crate) fn pieces(line: &str) -> Vec<&str> {
    let mut ends = Vec::new();
    let mut characters = line.char_indices().peekable();
    while let Some((at, this)) = characters.next() {
        let end = at + this.len_utf8();
        let Some(&(_, next)) = characters.peek() else {
            ends.push(end);
            break;
        };
        let wide = |c: char| c.width() == Some(2);
        let between = this == ' ' || ((wide(this) || wide(next)) && next != ' ');
        if between && !NOT_FIRST.contains(next) && !NOT_LAST.contains(this) {
            ends.push(end);
        }
    }
    let starts = std::iter::once(0).chain(ends.iter().copied());
    starts.zip(ends.iter()).map(|(start, end)| &line[start..*end]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_characters_and_at_blanks() {
        assert_eq!(wrapped("持有锁的进程", 8), "持有锁的\n进程");
        assert_eq!(wrapped("等待 leasehold run 结束", 12), "等待\nleasehold\nrun 结束");
    }

    #[test]
    fn marks_stay_with_their_words() {
        assert_eq!(wrapped("一二三，四五", 6), "一二\n三，四\n五");
        assert_eq!(wrapped("一二（三）四", 6), "一二\n（三）\n四");
    }

    #[test]
    fn a_word_that_is_too_long_stays_whole() {
        assert_eq!(wrapped("LEASEHOLD_STORE", 4), "LEASEHOLD_STORE");
    }

    #[test]
    fn nothing_is_lost() {
        let text = "从 redis://a，到 (b) 结束。\n\n第二段 c";
        for columns in 1..40 {
            let bare = |text: &str| text.replace(char::is_whitespace, "");
            assert_eq!(bare(&wrapped(text, columns)), bare(text), "{columns}");
        }
    }
}

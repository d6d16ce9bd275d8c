//! A manual page as plain text, for a terminal without man(1).

use unicode_width::UnicodeWidthStr;

/// The indent of text below a heading, and of the text of a tag below the tag.
const INDENT: usize = 4;

/// The widest lines, and the width for a terminal of unknown width.
const WIDEST: usize = 100;
const USUAL: usize = 80;

/// A place in a word where a line may end: a space without width.
const MAY_BREAK: &str = "\u{200b}";

/// Renders the requests that these pages contain; others are left out.
pub(super) fn text(roff: &str, width: Option<usize>) -> String {
    let mut page = Page { width: width.unwrap_or(USUAL).min(WIDEST), ..Page::default() };
    for line in roff.lines() {
        match line.strip_prefix('.') {
            Some(request) => page.request(request),
            None => page.add(&characters(line)),
        }
    }
    page.end_line();
    page.text
}

#[derive(Default)]
struct Page {
    text: String,
    width: usize,
    /// The words of the current line.
    line: String,
    indent: usize,
    /// The next line is a tag; the text after it is indented further.
    is_tag: bool,
    /// Lines are kept unchanged.
    is_literal: bool,
}

impl Page {
    fn request(&mut self, request: &str) {
        let (name, rest) = request.split_once(' ').unwrap_or((request, ""));
        // These requests set up characters, and the page's head.
        if matches!(name, "ie" | "el" | "ds" | "TH") {
            return;
        }
        self.end_line();
        self.is_tag = name == "TP";
        match name {
            "SH" => {
                self.blank_line();
                self.text.push_str(rest.trim_matches('"'));
                self.text.push('\n');
                self.indent = INDENT;
            }
            "TP" | "PP" => {
                self.blank_line();
                self.indent = INDENT;
            }
            "IP" => {
                self.indent = 3 * INDENT;
                self.line = "-".to_owned();
            }
            "RS" => self.indent = 2 * INDENT,
            "RE" => self.indent = INDENT,
            "nf" => self.is_literal = true,
            "fi" => self.is_literal = false,
            _ => {}
        }
    }

    /// Adds words to the line, and begins a new line if they do not fit.
    fn add(&mut self, text: &str) {
        if self.is_literal {
            self.line = text.replace(MAY_BREAK, "");
            return self.end_line();
        }
        for word in text.split_whitespace() {
            for (number, part) in word.split(MAY_BREAK).enumerate() {
                let gap = if number == 0 { " " } else { "" };
                let room = self.width.saturating_sub(self.indent + gap.len() + part.width());
                if !self.line.is_empty() && self.line.width() > room {
                    self.end_line();
                }
                if !self.line.is_empty() {
                    self.line.push_str(gap);
                }
                self.line.push_str(part);
            }
        }
        if self.is_tag {
            self.end_line();
            self.is_tag = false;
            self.indent = 2 * INDENT;
        }
    }

    fn end_line(&mut self) {
        if !self.line.is_empty() {
            self.text.push_str(&format!("{:indent$}{}\n", "", self.line, indent = self.indent));
            self.line.clear();
        }
    }

    fn blank_line(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with("\n\n") && !self.follows_heading() {
            self.text.push('\n');
        }
    }

    fn follows_heading(&self) -> bool {
        self.text.trim_end().lines().last().is_some_and(|line| !line.starts_with(' '))
    }
}

/// Returns a line without font changes, and with characters for their escapes.
fn characters(line: &str) -> String {
    const ESCAPES: [(&str, &str); 11] = [
        ("\\:", MAY_BREAK),
        ("\\fB", ""),
        ("\\fI", ""),
        ("\\fR", ""),
        ("\\fP", ""),
        ("\\&", ""),
        ("\\-", "-"),
        ("\\(aq", "'"),
        ("\\*(Aq", "'"),
        ("\\e", "\\"),
        ("\\\\", "\\"),
    ];
    let mut text = String::new();
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let known = ESCAPES.iter().find_map(|(from, to)| Some((rest.strip_prefix(from)?, *to)));
        let shown;
        (rest, shown) = known.unwrap_or_else(|| {
            let (one, rest) = rest.split_at(first.len_utf8());
            (rest, one)
        });
        text.push_str(shown);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_filled_indented_and_has_no_requests() {
        let roff = "\
.ie \\n(.g .ds Aq \\(aq
.TH a 1
.SH NAME
a\\-b \\- does what\\*(Aqs said
.SH \"EXIT STATUS\"
.TP
\\fB\\-w\\fR, \\fB\\-\\-wait\\fR
one two three four five
.RS 14
.IP \\(bu 2
kill
.RE
.PP
A path: C:\\\\x
.nf
0 3 * * *   a line that is much longer than it may be
.fi
";
        let shown = "\
NAME
    a-b - does what's said

EXIT STATUS
    -w, --wait
        one two
        three four
        five
            - kill

    A path: C:\\x
    0 3 * * *   a line that is much longer than it may be
";
        assert_eq!(
            text(roff, Some(20)),
            shown.replace("does what's said", "does\n    what's said")
        );
    }

    #[test]
    fn a_word_ends_a_line_where_the_page_says() {
        let roff = ".SH 描述\n持\\:有\\:锁\\:的\\:进\\:程 a\n.nf\n一\\:二\n.fi\n";
        assert_eq!(text(roff, Some(12)), "描述\n    持有锁的\n    进程 a\n    一二\n");
    }
}

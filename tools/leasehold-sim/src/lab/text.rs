//! The languages of the lab: every sentence that people read is there in each of them.

/// A language that the lab speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Language {
    /// English.
    #[default]
    English,
    /// Chinese, in simplified characters.
    Chinese,
}

/// One text in every language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text {
    pub(super) english: &'static str,
    pub(super) chinese: &'static str,
}

impl Text {
    /// The text in this language.
    pub fn in_language(self, language: Language) -> &'static str {
        match language {
            Language::English => self.english,
            Language::Chinese => self.chinese,
        }
    }
}

impl Language {
    /// Chooses between the two texts.
    pub(super) fn pick<T>(self, english: T, chinese: T) -> T {
        match self {
            Self::English => english,
            Self::Chinese => chinese,
        }
    }
}

pub(super) const fn text(english: &'static str, chinese: &'static str) -> Text {
    Text { english, chinese }
}

/// The text with a capital at its beginning.
pub(super) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
}

/// How many columns a text takes: a Chinese character takes two.
pub(super) fn columns(text: &str) -> usize {
    text.chars().map(|letter| if is_wide(letter) { 2 } else { 1 }).sum()
}

/// Whether a character is wide: those of the lab's Chinese texts, with their punctuation.
pub(super) fn is_wide(letter: char) -> bool {
    matches!(u32::from(letter), 0x2e80..=0x9fff | 0xf900..=0xfaff | 0xfe30..=0xfe4f | 0xff00..=0xff60)
}

/// Breaks a text into lines of at most so many columns: at blanks, and between Chinese characters where no
/// punctuation would begin a line.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for piece in pieces(text) {
        let line = lines.last().map_or("", String::as_str);
        let fits = columns(line) + columns(piece.trim_end()) <= width;
        if line.is_empty() || fits {
            if let Some(line) = lines.last_mut() {
                line.push_str(piece);
            }
        } else {
            lines.push(piece.to_owned());
        }
    }
    lines.into_iter().map(|line| line.trim().to_owned()).collect()
}

/// The parts of a text between which a line may end.
fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut from = 0;
    let mut before = None;
    for (at, letter) in text.char_indices() {
        let closes = "，。；：！？、）》」”’".contains(letter);
        let opens = |letter: char| "（《「“‘".contains(letter);
        let may_break = before.is_some_and(|before: char| {
            before == ' '
                || !closes
                    && !opens(before)
                    && letter != ' '
                    && (is_wide(before) || is_wide(letter))
        });
        if may_break {
            pieces.push(&text[from..at]);
            from = at;
        }
        before = Some(letter);
    }
    pieces.push(&text[from..]);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_ends_at_blanks_and_between_chinese_characters() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("客户端 1 持有锁，令牌 33", 12), ["客户端 1 持", "有锁，令牌", "33"]);
        // The comma stays with the character before it.
        assert_eq!(wrap("持有锁，令牌", 6), ["持有", "锁，令", "牌"]);
        assert!(wrap("在 30 秒后，客户端 2 获得锁。", 11).iter().all(|line| columns(line) <= 11));
    }
}

//! Parses `docs/errors.txt`: when messages occur and what to do about them.

/// Path of the file.
pub(in super::super) const FILE: &str = "docs/errors.txt";

/// What the file says about some texts of the sources.
#[derive(Debug, Default)]
pub(super) struct Entry {
    /// When the messages occur; empty if the texts are no messages.
    pub(super) when: String,
    /// What to do, if the message itself does not say it.
    pub(super) next: String,
    /// The kind, if the sources do not show it.
    pub(super) kind: String,
    pub(super) patterns: Vec<Pattern>,
}

/// A text of the sources, in which `*` stands for anything.
#[derive(Debug)]
pub(super) struct Pattern {
    pub(super) line: usize,
    pub(super) text: String,
    /// The message with its values, for one that says nothing without them.
    pub(super) example: String,
}

/// The whole file.
#[derive(Debug, Default)]
pub(super) struct Entries {
    pub(super) messages: Vec<Entry>,
    /// Texts that are no messages.
    pub(super) not: Vec<Pattern>,
    /// Files whose texts are no messages, unless the code gives them a kind.
    pub(super) not_in: Vec<Pattern>,
    /// Lines that cannot be parsed, with what is wrong.
    pub(super) bad: Vec<(usize, &'static str)>,
}

impl Entries {
    /// Parses the file.
    pub(super) fn parse(text: &str) -> Self {
        enum In {
            Nothing,
            Messages,
            Texts,
            Files,
        }
        let (mut all, mut place) = (Self::default(), In::Nothing);
        for (index, line) in text.lines().enumerate() {
            let number = index + 1;
            if let Some(text) = line.strip_prefix("  ") {
                let (text, example) = text.split_once(" => ").unwrap_or((text, ""));
                let (text, example) = (text.trim().to_owned(), example.trim().to_owned());
                let pattern = Pattern { line: number, text, example };
                match (&place, all.messages.last_mut()) {
                    (In::Messages, Some(entry)) => entry.patterns.push(pattern),
                    (In::Texts, _) => all.not.push(pattern),
                    (In::Files, _) => all.not_in.push(pattern),
                    _ => all.bad.push((number, "the text stands below no `when:`")),
                }
            } else if let Some(when) = line.strip_prefix("when: ") {
                all.messages.push(Entry { when: when.trim().to_owned(), ..Entry::default() });
                place = In::Messages;
            } else if line.starts_with("not: ") {
                place = In::Texts;
            } else if line.starts_with("not in: ") {
                place = In::Files;
            } else if let (Some(next), Some(entry)) =
                (line.strip_prefix("do: "), all.messages.last_mut())
            {
                next.trim().clone_into(&mut entry.next);
            } else if let (Some(kind), Some(entry)) =
                (line.strip_prefix("kind: "), all.messages.last_mut())
            {
                kind.trim().clone_into(&mut entry.kind);
            } else if !line.is_empty() && !line.starts_with('#') {
                all.bad.push((
                    number,
                    "the line is none of `when:`, `do:`, `kind:`, `not:`, `not in:`",
                ));
            }
        }
        all
    }

    /// Returns the entry of a message, and its pattern. An exact pattern comes before one with `*`, and a longer
    /// one before a shorter one.
    pub(super) fn of(&self, message: &str) -> Option<(&Entry, &Pattern)> {
        let all = self
            .messages
            .iter()
            .flat_map(|entry| entry.patterns.iter().map(move |pattern| (entry, pattern)));
        let fitting = all.filter(|(_, pattern)| pattern.matches(message));
        fitting.max_by_key(|(_, pattern)| pattern.rank())
    }

    /// Returns true if a text is no message, and no entry says otherwise more closely.
    pub(super) fn is_no_message(&self, text: &str) -> bool {
        let not = self.not.iter().filter(|pattern| pattern.matches(text)).map(Pattern::rank).max();
        not > self.of(text).map(|(_, pattern)| pattern.rank())
    }

    /// Returns true if the texts of this file are no messages.
    pub(super) fn leaves_out(&self, path: &str) -> bool {
        self.not_in.iter().any(|pattern| pattern.matches(path))
    }
}

impl Pattern {
    /// Returns true if the text has the form of this pattern.
    pub(super) fn matches(&self, text: &str) -> bool {
        let Some((first, rest)) = self.text.split_once('*') else { return self.text == text };
        let Some(mut left) = text.strip_prefix(first) else { return false };
        let mut pieces: Vec<&str> = rest.split('*').collect();
        let last = pieces.pop().unwrap_or_default();
        for piece in pieces {
            let Some((_, after)) = left.split_once(piece) else { return false };
            left = after;
        }
        left.ends_with(last)
    }

    fn rank(&self) -> (bool, usize) {
        (!self.text.contains('*'), self.text.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# A comment

when: The door is closed.
do: Open it.
kind: Refused
  the door * is closed
  {what} => the window is closed

not: a log line
  *closed

not in: pages of help
  crates/*/help.rs
";

    #[test]
    fn the_closest_pattern_decides() {
        let all = Entries::parse(TEXT);
        assert!(all.bad.is_empty(), "{:?}", all.bad);
        let (entry, _) = all.of("the door {a} is closed").unwrap();
        assert_eq!((&*entry.next, &*entry.kind), ("Open it.", "Refused"));
        assert!(!all.is_no_message("the door {a} is closed"));
        assert!(all.is_no_message("a door is closed") && all.of("a door is closed").is_none());
        assert_eq!(all.of("{what}").unwrap().1.example, "the window is closed");
        assert!(all.leaves_out("crates/a/help.rs") && !all.leaves_out("crates/a/helper.rs"));
    }

    #[test]
    fn a_line_that_says_nothing_is_found() {
        assert_eq!(Entries::parse("  a text\nwhat: x\n").bad.len(), 2);
    }
}

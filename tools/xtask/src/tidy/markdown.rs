//! As much of Markdown as the rules need: which lines are prose, which are blocks of code.

/// A fenced block of code.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block<'a> {
    /// Where its fence opens, counted from 1.
    pub(super) line: usize,
    /// The first word behind the fence.
    pub(super) language: &'a str,
    pub(super) lines: Vec<&'a str>,
}

/// The lines outside blocks, with their numbers, and the blocks.
pub(super) fn split(text: &str) -> (Vec<(usize, &str)>, Vec<Block<'_>>) {
    let mut prose = Vec::new();
    let mut blocks: Vec<Block<'_>> = Vec::new();
    let mut fence: Option<&str> = None;
    for (index, line) in text.lines().enumerate() {
        let bare = line.trim_start();
        let marks = bare.len() - bare.trim_start_matches(['`', '~']).len();
        match fence {
            Some(open) if bare.starts_with(open) && bare[marks..].trim().is_empty() => fence = None,
            Some(_) => {
                if let Some(block) = blocks.last_mut() {
                    block.lines.push(line);
                }
            }
            None if bare.starts_with("```") || bare.starts_with("~~~") => {
                fence = Some(&bare[..marks]);
                let info = bare[marks..].trim();
                let language = info.split([' ', ',']).next().unwrap_or_default();
                blocks.push(Block { line: index + 1, language, lines: Vec::new() });
            }
            None => prose.push((index + 1, line)),
        }
    }
    (prose, blocks)
}

/// The pieces of a line outside `code spans`, and the spans.
pub(super) fn spans(line: &str) -> (String, Vec<&str>) {
    let mut prose = String::new();
    let mut spans = Vec::new();
    let mut rest = line;
    while let Some(open) = rest.find('`') {
        prose.push_str(&rest[..open]);
        let behind = &rest[open..];
        let marks = behind.len() - behind.trim_start_matches('`').len();
        let Some(length) = behind[marks..].find(&behind[..marks]) else {
            rest = &behind[marks..];
            continue;
        };
        spans.push(behind[marks..marks + length].trim());
        rest = &behind[marks + length + marks..];
    }
    prose.push_str(rest);
    (prose, spans)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_and_prose_are_told_apart() {
        let (prose, blocks) = split("a\n```rust,no_run\nb\n```\nc\n~~~\n```\n~~~\n");
        assert_eq!(prose, [(1, "a"), (5, "c")]);
        assert_eq!(blocks[0], Block { line: 2, language: "rust", lines: vec!["b"] });
        assert_eq!(blocks[1], Block { line: 6, language: "", lines: vec!["```"] });
    }

    #[test]
    fn spans_are_taken_out_of_a_line() {
        let (prose, found) = spans("a `b` c ``d ` e`` f ` g");
        assert_eq!(prose, "a  c  f  g");
        assert_eq!(found, ["b", "d ` e"]);
    }
}

//! Rust source with comments, literals and tests blanked out, so that words found are code.

/// The source with comments, string and character literals replaced by blanks; lines stay.
pub(super) fn code(source: &str) -> String {
    let mut out = source.as_bytes().to_vec();
    for (start, end) in blanked(source) {
        for byte in out[start..end].iter_mut().filter(|byte| **byte != b'\n') {
            *byte = b' ';
        }
    }
    String::from_utf8(out).unwrap_or_default()
}

/// Where the string literals start and end, with their quotes.
pub(super) fn strings(source: &str) -> Vec<(usize, usize)> {
    let mut found = blanked(source);
    found.retain(|(start, _)| source.as_bytes()[*start] == b'"');
    found
}

/// Where comments, string and character literals start and end.
fn blanked(source: &str) -> Vec<(usize, usize)> {
    let bytes = source.as_bytes();
    let (mut found, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let end = match bytes[at] {
            b'/' if bytes.get(at + 1) == Some(&b'/') => line_end(bytes, at),
            b'/' if bytes.get(at + 1) == Some(&b'*') => block_comment_end(bytes, at),
            b'"' => match raw_hashes(&bytes[..at]) {
                Some(hashes) => raw_string_end(bytes, at, hashes),
                None => string_end(bytes, at),
            },
            b'\'' => char_end(bytes, at),
            _ => at,
        };
        if end > at {
            found.push((at, end.min(bytes.len())));
        }
        at = end.max(at + 1);
    }
    found
}

/// [`code`] with the items under `#[cfg(test)]` blanked out too.
pub(super) fn code_outside_tests(source: &str) -> String {
    const MARK: &str = "#[cfg(test)]";
    let mut code = code(source);
    while let Some(start) = code.find(MARK) {
        let end = item_end(&code, start + MARK.len());
        let blank: String =
            code[start..end].chars().map(|c| if c == '\n' { c } else { ' ' }).collect();
        code.replace_range(start..end, &blank);
    }
    code
}

/// The lines, counted from 1, where `word` stands and is not part of a longer one.
pub(super) fn lines_with<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let inside = |c: char| c.is_alphanumeric() || c == '_';
    let ends_open = !word.ends_with(inside);
    code.lines().enumerate().filter_map(move |(index, line)| {
        let whole = line.match_indices(word).any(|(at, _)| {
            !line[..at].ends_with(inside)
                && (ends_open || !line[at + word.len()..].starts_with(inside))
        });
        whole.then_some(index + 1)
    })
}

/// Where the item that follows ends: behind its `;`, or behind the brace that closes it.
fn item_end(code: &str, from: usize) -> usize {
    let mut depth = 0;
    for (at, byte) in code.bytes().enumerate().skip(from) {
        match byte {
            b'{' | b'(' | b'[' => depth += 1,
            b'}' if depth <= 1 => return at + 1,
            b'}' | b')' | b']' => depth -= 1,
            b';' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    code.len()
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |length| at + length)
}

fn block_comment_end(bytes: &[u8], at: usize) -> usize {
    let mut depth = 0;
    let mut at = at;
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"/*" => depth += 1,
            b"*/" => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    bytes.len()
}

fn string_end(bytes: &[u8], at: usize) -> usize {
    let mut at = at + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// How many hashes stand between an `r`, `br` or `cr` and the quote that follows `before`.
fn raw_hashes(before: &[u8]) -> Option<usize> {
    let hashes = before.iter().rev().take_while(|byte| **byte == b'#').count();
    let before = before[..before.len() - hashes].strip_suffix(b"r")?;
    let before = before.strip_suffix(b"b").or_else(|| before.strip_suffix(b"c")).unwrap_or(before);
    let inside = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    (!before.last().is_some_and(inside)).then_some(hashes)
}

fn raw_string_end(bytes: &[u8], at: usize, hashes: usize) -> usize {
    let close: Vec<u8> = std::iter::once(b'"').chain(std::iter::repeat_n(b'#', hashes)).collect();
    let found = bytes[at + 1..].windows(close.len()).position(|window| window == close);
    found.map_or(bytes.len(), |length| at + 1 + length + close.len())
}

/// The end of a character literal, or `at` itself for a lifetime.
fn char_end(bytes: &[u8], at: usize) -> usize {
    let quote = |from: usize| bytes[from.min(bytes.len())..].iter().position(|b| *b == b'\'');
    match bytes.get(at + 1) {
        Some(b'\\') => quote(at + 3).map_or(at, |length| at + 3 + length + 1),
        // A character has at most four bytes; a lifetime is not closed behind its first one.
        Some(first) => {
            let length = match first {
                0..=0x7f => 1,
                0xc0..=0xdf => 2,
                0xe0..=0xef => 3,
                _ => 4,
            };
            let close = at + 1 + length;
            if bytes.get(close) == Some(&b'\'') { close + 1 } else { at }
        }
        None => at,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(source: &str) -> Vec<String> {
        code(source).split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn comments_and_literals_are_not_code() {
        assert_eq!(words("a // b\nc /* d /* e */ f */ g"), ["a", "c", "g"]);
        assert_eq!(words(r#"a "b \" c" d"#), ["a", "d"]);
        assert_eq!(words("a r#\"b \" c\"# d br\"e\\\" f"), ["a", "r#", "d", "br", "f"]);
        assert_eq!(words("'x' '\\'' '\\u{1F600}' 'é' a"), ["a"]);
        assert_eq!(words("fn f<'a>(x: &'a str) {}"), ["fn", "f<'a>(x:", "&'a", "str)", "{}"]);
    }

    #[test]
    fn lines_keep_their_numbers() {
        let source = "a\n/* b\nb */ \"c\nc\"\nunsafe {}";
        assert_eq!(lines_with(&code(source), "unsafe").collect::<Vec<_>>(), [5]);
    }

    #[test]
    fn a_longer_word_is_another_word() {
        assert_eq!(
            lines_with("unsafe_code\nmy_unsafe\nunsafe{", "unsafe").collect::<Vec<_>>(),
            [3]
        );
    }

    #[test]
    fn what_follows_cfg_test_is_not_the_program() {
        let source = "a\n#[cfg(test)]\nmod tests { fn f(x: [u8; 2]) { b } }\nc\n#[cfg(test)]\nfn g(x: [u8; 2]) { b }\n#[cfg(test)]\nmod t;\nd";
        let code = code_outside_tests(source);
        assert_eq!(code.split_whitespace().collect::<Vec<_>>(), ["a", "c", "d"]);
    }
}

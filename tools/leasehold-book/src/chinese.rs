//! Chinese text without the blanks that a browser shows where a line of the source ends.

/// Joins the lines of a paragraph where Chinese goes on without a blank.
pub(crate) fn joined(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut fenced = false;
    let mut may_go_on = false;
    for line in text.lines() {
        let bare = line.trim_start();
        let fence = bare.starts_with("```") || bare.starts_with("~~~");
        let goes_on = may_go_on && !fenced && !begins_a_block(bare);
        match lines.last_mut().filter(|last| goes_on && meet(last, bare)) {
            Some(last) => last.push_str(bare),
            None => lines.push(line.to_owned()),
        }
        fenced ^= fence;
        may_go_on = !fence && !bare.starts_with(['#', '|', '<']) && !bare.is_empty();
    }
    lines.join("\n") + "\n"
}

/// Returns whether the line is no further line of a paragraph.
fn begins_a_block(bare: &str) -> bool {
    let digits = bare.trim_start_matches(|c: char| c.is_ascii_digit());
    let item = digits.len() < bare.len() && digits.starts_with(". ");
    bare.is_empty()
        || item
        || bare.starts_with(['#', '|', '>', '<'])
        || ["- ", "* ", "+ ", "```", "~~~"].iter().any(|start| bare.starts_with(start))
}

/// Returns whether no blank belongs between the end of a line and the next line.
fn meet(line: &str, next: &str) -> bool {
    let (Some(last), Some(first)) = (line.chars().last(), next.chars().next()) else {
        return false;
    };
    is_mark(last) || is_mark(first) || (is_wide(last) && is_wide(first))
}

fn is_wide(c: char) -> bool {
    is_mark(c) || ('\u{4e00}'..='\u{9fff}').contains(&c)
}

/// Punctuation of full width, which has its own blank.
fn is_mark(c: char) -> bool {
    "，。；：、！？（）《》「」“”…".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chinese_goes_on_without_a_blank() {
        assert_eq!(joined("客户端\n续期。\n- 一，\n  `b`\n"), "客户端续期。\n- 一，`b`\n");
    }

    #[test]
    fn words_blocks_and_code_keep_their_lines() {
        for text in [
            "用 Redis\n加锁\n",
            "一。\n\n二。\n",
            "# 一\n二\n",
            "一：\n- 二\n- 三\n1. 四\n",
            "```text\n一，\n二\n```\n一\n",
            "一：\n| 甲 |\n|---|\n| 乙 |\n三\n",
        ] {
            assert_eq!(joined(text), text);
        }
    }
}

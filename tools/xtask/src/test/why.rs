//! Why a test failed: the message of its panic, from what its program printed.

/// The most lines of one message.
const LINES: usize = 12;
/// The most characters of one line.
const WIDTH: usize = 400;

/// Returns the lines of the message with which this test failed; none if it printed no message.
pub(super) fn why(printed: &str, test: &str) -> Vec<String> {
    let is_header = |line: &str| {
        let name = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" ----"));
        name.is_some_and(|name| name.strip_suffix(" stdout").unwrap_or(name) == test)
    };
    let section = printed.lines().skip_while(|line| !is_header(line)).skip(1);
    let section = section.take_while(|line| !line.starts_with("---- ") && *line != "failures:");
    // A test may print much before it panics. libtest-mimic prints the message alone.
    let message = section.skip_while(|line| !line.contains("panicked"));
    let message = message.take_while(|line| {
        !line.is_empty() && !line.starts_with("note: ") && *line != "stack backtrace:"
    });
    message.take(LINES).map(|line| line.chars().take(WIDTH).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STANDARD: &str = "test a ... FAILED\n\nfailures:\n\n---- a stdout ----\nseed 7\n\n\
        thread 'a' (12) panicked at src/a.rs:1:2:\nassertion failed\n  left: 1\n right: 2\n\
        stack backtrace:\n   0: x\nnote: more\n\n---- ab stdout ----\nthread 'ab' panicked at b:\nb\n\n\
        failures:\n    a\n";
    const MIMIC: &str = "failures:\n\n---- lost::a ----\ntest panicked: not within 20s\n\n\n\
        failures:\n    lost::a\n";

    #[test]
    fn the_message_of_a_panic_is_found_behind_the_name_of_its_test() {
        let message = [
            "thread 'a' (12) panicked at src/a.rs:1:2:",
            "assertion failed",
            "  left: 1",
            " right: 2",
        ];
        assert_eq!(why(STANDARD, "a"), message);
        assert_eq!(why(STANDARD, "ab"), ["thread 'ab' panicked at b:", "b"]);
        assert_eq!(why(MIMIC, "lost::a"), ["test panicked: not within 20s"]);
        assert!(why(MIMIC, "lost").is_empty());
    }

    #[test]
    fn a_long_message_is_cut() {
        let long =
            format!("---- a ----\ntest panicked: {}\n{}", "x".repeat(1000), "y\n".repeat(99));
        let lines = why(&long, "a");
        assert_eq!((lines.len(), lines[0].chars().count()), (LINES, WIDTH));
    }
}

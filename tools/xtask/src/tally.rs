//! Counts test results in the output of `cargo test`.

/// What the test programs reported, added up.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
    /// The names of those that failed.
    pub(crate) failures: Vec<String>,
}

impl Tally {
    /// Takes in one line of output, of the standard harness or of libtest-mimic.
    pub(crate) fn read(&mut self, line: &str) {
        // With its time at the end, where that was asked for: `test a ... ok <0.001s>`.
        let line = line.trim();
        let line = match line.rsplit_once(" <") {
            Some((rest, time)) if time.ends_with("s>") => rest,
            _ => line,
        };
        if let Some(counts) = line.strip_prefix("test result: ") {
            for count in counts.split([';', '.']) {
                let mut words = count.split_whitespace();
                let number = words.next().and_then(|word| word.parse::<u64>().ok());
                match (number, words.next()) {
                    (Some(number), Some("passed")) => self.passed += number,
                    (Some(number), Some("failed")) => self.failed += number,
                    (Some(number), Some("ignored")) => self.ignored += number,
                    _ => {}
                }
            }
        } else if let Some(name) = line
            .strip_prefix("test ")
            .and_then(|rest| rest.strip_suffix("FAILED"))
            .and_then(|rest| rest.trim_end().strip_suffix("..."))
        {
            self.failures.push(name.trim().to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_several_programs_add_up() {
        let mut tally = Tally::default();
        for line in [
            "test a::b ... ok",
            "test c ... FAILED <0.5s>",
            "test [redis] late_release ... FAILED",
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.10s",
            "test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured; 9 filtered out",
        ] {
            tally.read(line);
        }
        let failures = vec!["c".to_owned(), "[redis] late_release".to_owned()];
        assert_eq!(tally, Tally { passed: 7, failed: 2, ignored: 1, failures });
    }
}

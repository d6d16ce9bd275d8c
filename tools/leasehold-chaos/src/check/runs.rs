//! Whether `leasehold run` ends its command when the lock is lost, and then ends itself.

use super::Evidence;
use crate::client::{FIRST, visit_file};
use crate::journal::{Hold, Story};
use crate::operator::{CommandEnd, LOST, Operation, Ran};
use crate::{MS, SECOND};

/// On a busy machine a command may run for so long after its end was ordered.
const SLACK: u64 = 300 * MS;
/// After the end of a command whose lock was lost, `leasehold run` has nothing more to do.
const LINGERS: u64 = 5 * SECOND / 2;

/// A command that had the lock by `leasehold run`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Visited {
    /// The name of its journal.
    file: String,
    pub(crate) hold: Hold,
    /// Whether it came to its end.
    done: bool,
}

impl Visited {
    /// Reads a journal; `None` if nothing is in it.
    pub(crate) fn read(file: &str, text: &str, number: u32) -> Option<Self> {
        // Killed after its last look.
        let last = text.lines().filter_map(|line| line.strip_prefix("valid 0 ")).next_back();
        let last = last.and_then(|rest| rest.split(' ').next()?.parse().ok());
        let story = Story::read(text, FIRST + number, Some(last.unwrap_or_default()));
        let hold = *story.holds.first()?;
        let until = hold.until.max(hold.got);
        Some(Self { file: file.to_owned(), hold: Hold { until, ..hold }, done: story.done })
    }

    /// The hold that certainly may not overlap with another one.
    pub(super) fn certain(&self) -> Hold {
        Hold { until: self.hold.until.saturating_sub(SLACK).max(self.hold.got), ..self.hold }
    }
}

/// Those that stayed after their lock was lost and their command gone.
pub(super) fn slow(evidence: &Evidence) -> Vec<String> {
    let lost = |ran: &&Ran| ran.operation == Operation::Run && ran.end == CommandEnd::Exit(LOST);
    let lingers = |ran: &Ran| {
        let file = visit_file(ran.from);
        let visited = evidence.visited.iter().find(|one| one.file == file && !one.done)?;
        let time = ran.until.saturating_sub(visited.hold.until);
        let told =
            || format!("`run` stayed for {} ms after its command: {}", time / MS, ran.told());
        (time > LINGERS).then(told)
    };
    evidence.ran.iter().filter(lost).filter_map(lingers).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::Call;

    #[test]
    fn a_run_that_stays_after_a_loss_is_found_and_a_command_that_goes_on_holds_the_lock() {
        let never = u64::MAX;
        let text = format!("held 0 5 10 7 {never} a\nvalid 0 {SECOND} {never}\n");
        let visited = Visited::read("visit-5", &text, 3).unwrap();
        assert_eq!((visited.hold.until, visited.certain().until), (SECOND, SECOND - SLACK));
        assert_eq!(Visited::read("visit-5", "", 3), None);
        let ended =
            Visited::read("visit-5", &format!("{text}ended 0 {LINGERS} valid {never}\ndone\n"), 3);
        assert_eq!(ended.map(|one| (one.hold.until, one.done)), Some((LINGERS, true)));
        let ran = |until| Ran {
            operation: Operation::Run,
            call: Call::default(),
            from: 5,
            until,
            end: CommandEnd::Exit(LOST),
            stdout: String::new(),
            stderr: String::new(),
        };
        let seen = |until| {
            let (ran, visited) = (vec![ran(until)], vec![visited.clone()]);
            slow(&Evidence { ran, visited, ..Evidence::default() }).len()
        };
        assert_eq!((seen(2 * SECOND), seen(4 * SECOND)), (0, 1));
    }
}

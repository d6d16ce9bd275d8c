//! How long each test took.
//!
//! Programs with a `main` of their own add it to the file that `LEASEHOLD_TEST_TIMES` names, as
//! lines `MILLISECONDS NAME` (`leasehold_conformance::runner`). The standard harness prints it
//! (`test NAME ... ok <SECONDSs>`), by an option that is unstable.

use std::cmp::Reverse;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::job::Job;
use crate::run::root;

/// How many of the slowest tests are shown.
const SHOWN: usize = 30;

/// Where the times of the programs with a `main` of their own are.
#[derive(Debug)]
pub(super) struct Timings {
    dir: PathBuf,
}

impl Timings {
    /// An empty directory for them.
    pub(super) fn create() -> Result<Self, String> {
        let dir = root().join("target/test-output/times");
        let failed = |error| format!("cannot create {}: {error}", dir.display());
        if dir.exists() {
            fs::remove_dir_all(&dir).map_err(failed)?;
        }
        fs::create_dir_all(&dir).map_err(failed)?;
        Ok(Self { dir })
    }

    /// Makes the job, which runs `program`, note the time of each of its tests.
    pub(super) fn ask(&self, job: &mut Job, program: &Path) {
        job.command.env("LEASEHOLD_TEST_TIMES", self.dir.join(job.file_name()));
        let help = Command::new(program)
            .arg("--help")
            .stdin(Stdio::null())
            .output()
            .map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        if help.is_ok_and(|help| help.contains("--report-time")) {
            job.command.env("RUSTC_BOOTSTRAP", "1");
            job.command.args(["-Z", "unstable-options", "--report-time"]);
        }
    }

    /// Prints the slowest tests; `logs` is what the programs printed.
    pub(super) fn print(&self, logs: &Path) {
        let mut times = Vec::new();
        for (dir, read) in
            [(self.dir.as_path(), own as fn(&str) -> Option<(Duration, &str)>), (logs, standard)]
        {
            for entry in dir.read_dir().into_iter().flatten().flatten() {
                let text = fs::read_to_string(entry.path()).unwrap_or_default();
                let program =
                    entry.path().file_stem().unwrap_or_default().to_string_lossy().into_owned();
                let named = text.lines().filter_map(read);
                times.extend(named.map(|(took, name)| (took, format!("{program} {name}"))));
            }
        }
        times.sort_by_key(|(took, _)| Reverse(*took));
        println!("\n  the slowest of {} tests:", times.len());
        for (took, name) in times.iter().take(SHOWN) {
            println!("  {:>8.1} s  {name}", took.as_secs_f64());
        }
        println!();
    }
}

/// A line of a program with a `main` of its own.
fn own(line: &str) -> Option<(Duration, &str)> {
    let (took, name) = line.split_once(' ')?;
    Some((Duration::from_millis(took.parse().ok()?), name))
}

/// A line of the standard harness.
fn standard(line: &str) -> Option<(Duration, &str)> {
    let (name, end) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    let took = end.strip_suffix("s>")?.rsplit_once('<')?.1;
    Some((Duration::try_from_secs_f64(took.parse().ok()?).ok()?, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_from_both_kinds_of_programs() {
        let millis = Duration::from_millis;
        assert_eq!(own("1200 redis::a_test"), Some((millis(1200), "redis::a_test")));
        assert_eq!(own("no time"), None);
        assert_eq!(standard("test a::b ... ok <0.250s>"), Some((millis(250), "a::b")));
        assert_eq!(standard("test a::b ... FAILED <1.5s>"), Some((millis(1500), "a::b")));
        assert_eq!(standard("test a::b ... ok"), None);
        assert_eq!(standard("test result: ok. 3 passed"), None);
    }
}

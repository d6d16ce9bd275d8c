//! Installs Debian packages for the tests where it may, and says what to type where it may not.

use std::io::{IsTerminal, Write, stdin, stdout};
use std::process::Command;

use crate::run::quiet;
use crate::ui;

/// A program that the build or the tests start.
#[derive(Debug)]
pub(crate) struct Need {
    /// Any one of these will do: a name to be looked up, or a path where `*` stands for any one
    /// directory.
    pub(crate) programs: &'static [&'static str],
    /// The Debian package that brings it.
    pub(crate) package: &'static str,
    /// What the tests call it in `LEASEHOLD_REQUIRE`; `None` for what only the build needs.
    pub(crate) name: Option<&'static str>,
    /// What it is for.
    pub(crate) why: &'static str,
}

/// Blocks service starts while it installs; a shell script, so that its trap also cleans up
/// after Ctrl-C.
const SCRIPT: &str = include_str!("install.sh");
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// Installs the packages of `missing`, and asks first if standard input is a terminal.
pub(crate) fn install(missing: &[&Need]) -> Result<(), String> {
    let mut packages: Vec<&str> = missing.iter().map(|need| need.package).collect();
    packages.sort_unstable();
    packages.dedup();
    println!("the tests need programs that are not here:");
    for need in missing {
        println!("  {:<20} {}", need.package, need.why);
    }
    let by_hand = format!(
        "install them and run this again:\n\n    {}apt-get install --no-install-recommends {}\n\n\
         (`cargo test --workspace --all-features` runs the tests that need none of them)",
        if root() { "" } else { "sudo " },
        packages.join(" ")
    );
    let mut shell = match way() {
        Some(command) if agreed() => command,
        _ => return Err(by_hand),
    };
    let installed = ui::step("install", || {
        quiet(shell.args(["-c", SCRIPT, "install.sh", POLICY]).args(&packages))
            .map_err(|output| output.replace(SCRIPT, "install.sh"))
            .into()
    });
    if installed { Ok(()) } else { Err(by_hand) }
}

/// A shell that may install; `None` when there is no apt-get or no permission.
fn way() -> Option<Command> {
    if quiet(Command::new("apt-get").arg("--version")).is_err() {
        return None;
    }
    if root() {
        return Some(Command::new("sh"));
    }
    quiet(Command::new("sudo").args(["-n", "true"])).ok()?;
    let mut sudo = Command::new("sudo");
    sudo.args(["-n", "sh"]);
    Some(sudo)
}

fn root() -> bool {
    quiet(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0")
}

/// Asks on a terminal. Without a terminal the answer is yes.
fn agreed() -> bool {
    if !stdin().is_terminal() || !stdout().is_terminal() {
        return true;
    }
    print!("install them now, with no service started? [Y/n] ");
    let _ = stdout().flush();
    let mut answer = String::new();
    let heard = stdin().read_line(&mut answer).is_ok_and(|length| length > 0);
    heard && matches!(answer.trim(), "" | "y" | "Y" | "yes")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use super::*;

    /// Runs the script with an apt-get of our own; what that one saw, and whether all went well.
    fn script(dir: &Path, apt: &str) -> (String, bool) {
        let fake = dir.join("apt-get");
        let log = dir.join("log");
        fs::write(&fake, format!("#!/bin/sh\ncd '{}'\necho \"$*\" >>log\n{apt}\n", dir.display()))
            .unwrap();
        fs::set_permissions(&fake, fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:{}", dir.display(), std::env::var("PATH").unwrap());
        let status = Command::new("sh")
            .args(["-c", SCRIPT, "install.sh"])
            .arg(dir.join("policy"))
            .arg("redis-server")
            .env("PATH", path)
            .status()
            .unwrap();
        (fs::read_to_string(log).unwrap(), status.success())
    }

    #[test]
    fn services_are_blocked_while_it_installs_and_not_after() {
        let dir = tempfile::tempdir().unwrap();
        let (log, held) = script(dir.path(), "./policy x start; echo blocked=$? >>log");
        assert!(held && log.contains("blocked=101"), "{log}");
        assert!(log.contains("--no-install-recommends redis-server"), "{log}");
        assert!(!log.contains("update"), "the package was known: {log}");
        assert!(!dir.path().join("policy").exists());
    }

    #[test]
    fn a_failed_install_updates_once_and_leaves_no_policy() {
        let dir = tempfile::tempdir().unwrap();
        let (log, held) = script(dir.path(), "case $* in *update*) ;; *) exit 100 ;; esac");
        assert!(!held);
        assert_eq!(log.matches("update").count(), 1, "{log}");
        assert!(!dir.path().join("policy").exists());
    }

    #[test]
    fn a_policy_of_the_machine_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let policy = dir.path().join("policy");
        fs::write(&policy, "#!/bin/sh\nexit 104\n").unwrap();
        assert!(script(dir.path(), "").1);
        assert_eq!(fs::read_to_string(policy).unwrap(), "#!/bin/sh\nexit 104\n");
    }

    #[test]
    fn a_policy_left_by_a_killed_run_goes_with_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let policy = dir.path().join("policy");
        let kept = format!("cp policy kept; {}", "kill -9 $PPID");
        assert!(!script(dir.path(), &kept).1);
        assert!(policy.exists(), "nothing can clean up after kill -9");
        assert!(script(dir.path(), "").1);
        assert!(!policy.exists());
    }
}

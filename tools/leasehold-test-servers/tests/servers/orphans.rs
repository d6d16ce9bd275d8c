//! Servers whose process is killed before it could end them.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use leasehold_test_servers::wait;

/// Starts this program in a role in which it says the process ids of so many servers and hangs, and
/// kills it: the servers go too.
pub(crate) fn die_with_their_process(role: &str, count: usize) {
    // No process is left to remove the servers' directories.
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .env(super::PLAY, role)
        .env("TMPDIR", directory.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let pids: Vec<u32> = line.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    assert!(pids.len() == count && pids.iter().all(|pid| !is_gone(*pid)), "{line}");
    child.kill().unwrap();
    child.wait().unwrap();
    wait("the servers have gone", || pids.iter().all(|pid| is_gone(*pid))).unwrap();
}

/// A zombie that its parent has not waited for counts as ended.
pub(crate) fn is_gone(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z'))
}

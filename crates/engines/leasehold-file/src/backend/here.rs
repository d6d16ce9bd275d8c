//! This host, as records name it: whether the process of a record can be seen here.

use std::fs;
use std::os::unix::fs::MetadataExt;

use super::lock_file::is_absent;
use super::record::Record;

/// Decides whether a process id in a record refers to a process that is visible here.
#[derive(Clone, Debug)]
pub(crate) struct Here {
    host: String,
    pub(crate) pid_namespace: Option<u64>,
}

impl Here {
    pub(crate) fn find() -> Self {
        let host = nix::unistd::gethostname().unwrap_or_default();
        let pid_namespace = fs::metadata("/proc/self/ns/pid").ok().map(|there| there.ino());
        Self { host: host.to_string_lossy().into_owned(), pid_namespace }
    }

    /// Returns a note for people about the holder's process.
    pub(crate) fn note(&self, record: &Record) -> Option<String> {
        let holder = record.holder()?;
        let ours = self.pid_namespace.is_some() && self.pid_namespace == record.pid_namespace();
        if !ours || holder.host != self.host {
            return None;
        }
        note_of(holder.pid)
    }
}

/// Returns a note for people about a process that is visible here.
pub(crate) fn note_of(pid: u32) -> Option<String> {
    let state = match fs::read_to_string(format!("/proc/{pid}/stat")) {
        // The state follows the program's name, which may contain any character and ends with
        // the last parenthesis.
        Ok(stat) => stat.rsplit_once(") ")?.1.chars().next()?,
        Err(error) if is_absent(&error) => 'X',
        Err(_) => return None,
    };
    match state {
        'T' => Some("the holder is stopped (SIGSTOP); it keeps the lock until it ends".into()),
        'X' | 'Z' => Some(format!(
            "process {pid} has ended, but another one keeps the lock's descriptor open"
        )),
        _ => None,
    }
}

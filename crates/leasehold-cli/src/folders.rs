//! The user's directories: home, and those of the XDG variables.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use nix::unistd::{User, getuid};

/// Returns the directory for state that outlives a reboot.
pub(crate) fn state() -> Option<PathBuf> {
    absolute(env::var_os("XDG_STATE_HOME")).or_else(|| Some(home()?.join(".local/state")))
}

/// Returns the directory for configuration.
pub(crate) fn config() -> Option<PathBuf> {
    absolute(env::var_os("XDG_CONFIG_HOME")).or_else(|| Some(home()?.join(".config")))
}

/// Returns the home directory of the user database: cron and services may not have `HOME`, and
/// `sudo` may leave another user's `HOME`. A container may run as a user without an entry; only
/// then `HOME` counts.
fn home() -> Option<PathBuf> {
    let known = User::from_uid(getuid()).ok().flatten().map(|user| user.dir);
    choose(known, env::var_os("HOME"))
}

fn choose(known: Option<PathBuf>, variable: Option<OsString>) -> Option<PathBuf> {
    known.filter(|home| home.is_absolute()).or_else(|| absolute(variable))
}

/// Returns a directory from the environment; the XDG specification says that relative paths are
/// ignored.
fn absolute(variable: Option<OsString>) -> Option<PathBuf> {
    variable.map(PathBuf::from).filter(|path| path.is_absolute())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_database_comes_before_the_variable_and_relative_paths_do_not_count() {
        let home = |known: Option<&str>, variable: Option<&str>| {
            choose(known.map(PathBuf::from), variable.map(OsString::from))
        };
        assert_eq!(home(Some("/a"), Some("/b")), Some("/a".into()));
        assert_eq!(home(None, Some("/b")), Some("/b".into()));
        assert_eq!(home(Some(""), Some("/b")), Some("/b".into()));
        assert_eq!(home(None, Some("b")), None);
        assert_eq!(home(None, None), None);
    }
}

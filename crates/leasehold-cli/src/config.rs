//! The config file: the store, and defaults for `leasehold run`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use leasehold::StoreUrl;
use serde::{Deserialize, Deserializer, de};

use crate::duration;
use crate::failure::Failure;
use crate::folders;
use crate::on_lost::OnLost;

/// The file for all users of the machine.
const SYSTEM_FILE: &str = "/etc/leasehold/config.toml";

/// The contents of a config file.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Config {
    /// The URL of the store.
    pub(crate) store: Option<String>,
    /// The defaults for `leasehold run`.
    #[serde(default)]
    pub(crate) run: RunConfig,
    /// True for the file that `--config` names.
    #[serde(skip)]
    pub(crate) is_named: bool,
}

/// The defaults for `leasehold run`; times are written as on the command line, or as numbers.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct RunConfig {
    /// `--wait`.
    #[serde(default, deserialize_with = "any_time")]
    pub(crate) wait: Option<Duration>,
    /// `--ttl`.
    #[serde(default, deserialize_with = "ttl")]
    pub(crate) ttl: Option<Duration>,
    /// `--max-hold`.
    #[serde(default, deserialize_with = "positive")]
    pub(crate) max_hold: Option<Duration>,
    /// `--min-hold`.
    #[serde(default, deserialize_with = "any_time")]
    pub(crate) min_hold: Option<Duration>,
    /// `--on-lost`.
    pub(crate) on_lost: Option<OnLost>,
    /// `--kill-after`.
    #[serde(default, deserialize_with = "any_time")]
    pub(crate) kill_after: Option<Duration>,
    /// `--conflict-exit-code`.
    #[serde(default, deserialize_with = "code")]
    pub(crate) conflict_exit_code: Option<u8>,
}

impl Config {
    /// Reads the given file, or the files of the user and of the machine; the first file that sets
    /// a value counts.
    pub(crate) fn load(given: Option<&Path>) -> Result<Self, Failure> {
        if let Some(path) = given {
            let config = Self::read(path)?.ok_or_else(|| {
                Failure::own(format!("--config {}: there is no such file", path.display()))
            })?;
            return Ok(Self { is_named: true, ..config });
        }
        let user = match user_file() {
            Some(path) => Self::read(&path)?.unwrap_or_default(),
            None => Self::default(),
        };
        Ok(user.or(Self::read(Path::new(SYSTEM_FILE))?.unwrap_or_default()))
    }

    fn read(path: &Path) -> Result<Option<Self>, Failure> {
        let failed = |what: &str| Failure::own(format!("{}: {what}", path.display()));
        match fs::read_to_string(path) {
            Ok(text) => Self::parse(&text).map(Some).map_err(|(what, step)| match step {
                Some(step) => failed(&what).next(step),
                None => failed(&what),
            }),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(failed(&format!("cannot be read: {error}"))),
        }
    }

    /// Returns the error as a message, and what was meant if that is known.
    pub(crate) fn parse(text: &str) -> Result<Self, (String, Option<String>)> {
        toml::from_str(text).map_err(|error| {
            // Do not show the error's own text, which quotes the line: it may contain a password.
            let at = error.span().map(|span| span.start);
            let key = at.and_then(|at| key(text, at)).filter(|key| !error.message().contains(key));
            let key = key.map(|key| format!("{key}: ")).unwrap_or_default();
            let what = error.message();
            let message = match at.map(|at| 1 + text[..at].matches('\n').count()) {
                Some(line) => format!("line {line}: {key}{what}"),
                None => format!("{key}{what}"),
            };
            (message, meant(what).map(|name| format!("did you mean `{name}`?")))
        })
    }

    fn or(self, other: Self) -> Self {
        let (run, than) = (self.run, other.run);
        Self {
            is_named: false,
            store: self.store.or(other.store),
            run: RunConfig {
                wait: run.wait.or(than.wait),
                ttl: run.ttl.or(than.ttl),
                max_hold: run.max_hold.or(than.max_hold),
                min_hold: run.min_hold.or(than.min_hold),
                on_lost: run.on_lost.or(than.on_lost),
                kill_after: run.kill_after.or(than.kill_after),
                conflict_exit_code: run.conflict_exit_code.or(than.conflict_exit_code),
            },
        }
    }
}

/// Returns the key of the line that the value at this place belongs to, if it is a plain word.
fn key(text: &str, at: usize) -> Option<&str> {
    let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let (key, _) = text[start..].lines().next()?.split_once('=')?;
    let key = key.trim();
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (!key.is_empty() && key.chars().all(is_word)).then_some(key)
}

/// Returns the name that a mistyped key or word most likely means, of those that the parser lists.
fn meant(what: &str) -> Option<&str> {
    let (typed, names) = what.split_once(", expected ")?;
    let typed = typed.split('`').nth(1).filter(|_| typed.starts_with("unknown "))?;
    StoreUrl::nearest(typed, names.split('`').skip(1).step_by(2))
}

fn user_file() -> Option<PathBuf> {
    Some(folders::config()?.join("leasehold/config.toml"))
}

type Parse = fn(&str) -> Result<Duration, String>;

fn time<'de, D: Deserializer<'de>>(from: D, parse: Parse) -> Result<Option<Duration>, D::Error> {
    let text = match toml::Value::deserialize(from)? {
        toml::Value::String(text) => text,
        toml::Value::Integer(number) => number.to_string(),
        toml::Value::Float(number) => number.to_string(),
        _ => {
            return Err(de::Error::custom("not a time; write a number, or text such as \"10m\""));
        }
    };
    parse(&text).map(Some).map_err(|why| de::Error::custom(format!("{text:?}: {why}")))
}

fn any_time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    time(from, duration::parse)
}

fn positive<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    time(from, duration::parse_positive)
}

fn code<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u8>, D::Error> {
    let number = i64::deserialize(from)?;
    let wrong = |_| de::Error::custom(format!("{number}; 0 to 255 is allowed"));
    u8::try_from(number).map(Some).map_err(wrong)
}

fn ttl<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    time(from, duration::parse_ttl)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_numbers_or_text() {
        let config = Config::parse("[run]\nwait = 5\nttl = \"1m\"\nkill-after = 0.5\n").unwrap();
        assert_eq!(config.run.wait, Some(Duration::from_secs(5)));
        assert_eq!(config.run.ttl, Some(Duration::from_secs(60)));
        assert_eq!(config.run.kill_after, Some(Duration::from_millis(500)));
    }

    #[test]
    fn an_error_names_line_and_key_and_quotes_no_line() {
        let (error, _) = Config::parse("store = \"redis://:s3cret@h\"\nttk = 1\n").unwrap_err();
        assert!(error.contains("line 2") && error.contains("`ttk`"), "{error}");
        assert!(error.contains("`store`") && !error.contains("s3cret"), "{error}");
        let (error, _) = Config::parse("[run]\nwait = -1\n").unwrap_err();
        assert!(error.contains("line 2") && error.contains("negative"), "{error}");
    }
}

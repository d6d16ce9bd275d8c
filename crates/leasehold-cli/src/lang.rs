//! The language of help, messages and stories: `--lang`, `LEASEHOLD_LANG`, or the locale.

mod help;
mod messages;
mod usage;
mod words;
pub(crate) mod wrap;

use std::env;
use std::ffi::OsString;
use std::sync::OnceLock;

use clap::ValueEnum;

pub(crate) use help::{in_chinese, in_chinese_paragraphs};
pub(crate) use messages::{kind, operation, told};
pub(crate) use usage::usage;

/// Names the language, before the locale does.
pub(crate) const LANG_VARIABLE: &str = "LEASEHOLD_LANG";

/// The variables of the locale; the first one that is set counts.
const LOCALE_VARIABLES: [&str; 3] = ["LC_ALL", "LC_MESSAGES", "LANG"];

/// A language of the command. What `--json` prints does not depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Lang {
    /// English.
    #[default]
    #[value(name = "en")]
    English,
    /// Chinese, in simplified characters.
    #[value(name = "zh")]
    Chinese,
}

/// The language of this process, once it is known.
static DECIDED: OnceLock<Lang> = OnceLock::new();

/// Returns the language of this process; English before [`Lang::decide`].
pub(crate) fn lang() -> Lang {
    DECIDED.get().copied().unwrap_or_default()
}

impl Lang {
    /// Decides the language of this process. `option` is `--lang`.
    pub(crate) fn decide(option: Option<Self>) -> Self {
        *DECIDED.get_or_init(|| Self::of_run(option))
    }

    /// Reads `--lang` from a command line that clap does not accept, or that asks for help.
    pub(crate) fn named_in(arguments: impl Iterator<Item = OsString>) -> Option<Self> {
        let mut arguments = arguments.take_while(|argument| argument != "--");
        while let Some(argument) = arguments.next() {
            let argument = argument.to_string_lossy();
            let value = match argument.strip_prefix("--lang") {
                Some("") => arguments.next()?.to_string_lossy().into_owned(),
                Some(value) if value.starts_with('=') => value[1..].to_owned(),
                _ => continue,
            };
            return Self::from_str(&value, false).ok();
        }
        None
    }

    fn of_run(option: Option<Self>) -> Self {
        let value = |name| env::var(name).ok();
        option.unwrap_or_else(|| Self::of_environment(value))
    }

    fn of_environment(value: impl Fn(&'static str) -> Option<String>) -> Self {
        let set = |name| value(name).filter(|value| !value.is_empty());
        let locale = || LOCALE_VARIABLES.into_iter().find_map(set);
        match set(LANG_VARIABLE).or_else(locale) {
            Some(name) if name.starts_with("zh") && is_utf8(&name) => Self::Chinese,
            _ => Self::English,
        }
    }

    /// Chooses between the texts.
    #[cfg(feature = "lab")]
    pub(crate) fn pick<T>(self, english: T, chinese: T) -> T {
        match self {
            Self::English => english,
            Self::Chinese => chinese,
        }
    }
}

/// Returns false for a locale with another character set, such as `zh_CN.GBK`.
fn is_utf8(locale: &str) -> bool {
    let set = locale.split_once('.').map(|(_, set)| set.to_ascii_lowercase());
    set.is_none_or(|set| set.starts_with("utf-8") || set.starts_with("utf8"))
}

/// Formats the text of the language of this process: first English, then Chinese, then the values
/// for both.
macro_rules! text {
    ($english:literal, $chinese:literal $(, $value:expr)* $(,)?) => {
        match $crate::lang::lang() {
            $crate::lang::Lang::English => format!($english $(, $value)*),
            $crate::lang::Lang::Chinese => format!($chinese $(, $value)*),
        }
    };
}
pub(crate) use text;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Lang {
        Lang::of_environment(|name| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_language_is_that_of_the_locale_unless_a_variable_names_another() {
        assert_eq!(of(&[]), Lang::English);
        assert_eq!(of(&[("LANG", "zh_CN.UTF-8")]), Lang::Chinese);
        assert_eq!(of(&[("LANG", "zh_CN.UTF-8"), ("LC_ALL", "C")]), Lang::English);
        assert_eq!(of(&[("LANG", "zh_CN.UTF-8"), ("LC_ALL", "")]), Lang::Chinese);
        assert_eq!(of(&[("LC_MESSAGES", "zh_TW"), ("LANG", "C")]), Lang::Chinese);
        assert_eq!(of(&[("LANG", "zh_CN"), ("LEASEHOLD_LANG", "en")]), Lang::English);
        assert_eq!(of(&[("LANG", "de_DE.UTF-8"), ("LEASEHOLD_LANG", "zh")]), Lang::Chinese);
        assert_eq!(of(&[("LANG", "zh_CN.GBK")]), Lang::English);
        assert_eq!(of(&[("LANG", "zh_CN.utf8")]), Lang::Chinese);
    }

    #[test]
    fn the_option_comes_first() {
        assert_eq!(Lang::of_run(Some(Lang::Chinese)), Lang::Chinese);
        assert_eq!(Lang::of_run(Some(Lang::English)), Lang::English);
    }

    #[test]
    fn the_option_is_found_where_help_is_asked_for() {
        let named = |line: &str| Lang::named_in(line.split(' ').map(OsString::from));
        assert_eq!(named("--lang zh run --help"), Some(Lang::Chinese));
        assert_eq!(named("run --lang=en -h"), Some(Lang::English));
        assert_eq!(named("run a -- b --lang zh"), None);
        assert_eq!(named("--lang"), None);
        assert_eq!(named("--language en --lang zh"), Some(Lang::Chinese));
    }
}

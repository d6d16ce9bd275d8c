//! The language of help, messages and stories: `--lang`, `LEASEHOLD_LANG`, or the locale.

use std::env;

use clap::ValueEnum;

/// Names the language, before the locale does.
pub(crate) const LANG_VARIABLE: &str = "LEASEHOLD_LANG";

/// The variables of the locale; the first one that is set counts.
const LOCALE_VARIABLES: [&str; 3] = ["LC_ALL", "LC_MESSAGES", "LANG"];

/// A language of the command.
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

impl Lang {
    /// Returns the language of this run. `option` is `--lang`.
    pub(crate) fn of_run(option: Option<Self>) -> Self {
        let value = |name| env::var(name).ok();
        option.unwrap_or_else(|| Self::of_environment(value))
    }

    fn of_environment(value: impl Fn(&'static str) -> Option<String>) -> Self {
        let set = |name| value(name).filter(|value| !value.is_empty());
        let locale = || LOCALE_VARIABLES.into_iter().find_map(set);
        match set(LANG_VARIABLE).or_else(locale) {
            Some(name) if name.starts_with("zh") => Self::Chinese,
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
    }

    #[test]
    fn the_option_comes_first() {
        assert_eq!(Lang::of_run(Some(Lang::Chinese)), Lang::Chinese);
        assert_eq!(Lang::of_run(Some(Lang::English)), Lang::English);
    }
}

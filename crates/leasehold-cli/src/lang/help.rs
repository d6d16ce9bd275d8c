//! Puts the Chinese help texts into the command line.

use std::io;

use clap::builder::StyledStr;
use clap::{Arg, Command};

use super::words::HELP;
use super::wrap::wrapped;
use crate::terminal;

const TEMPLATE: &str = "{before-help}{about-with-newline}\n用法：{usage}\n\n{all-args}{after-help}";
/// What clap indents the help of an option by.
const INDENT: usize = 10;
/// The widest help text, as in English.
const WIDEST: usize = 100;

/// Returns the command with all help texts in Chinese, for this terminal.
pub(crate) fn in_chinese(command: Command) -> Command {
    let columns = terminal::width(io::stdout()).unwrap_or(WIDEST).clamp(2 * INDENT, WIDEST);
    in_columns(command, columns)
}

/// Returns the command with all help texts in Chinese, each paragraph in one line.
pub(crate) fn in_chinese_paragraphs(command: Command) -> Command {
    in_columns(command, usize::MAX)
}

fn in_columns(mut command: Command, columns: usize) -> Command {
    command.build();
    subcommand(command, "", columns)
}

/// The text of an entry.
pub(super) fn find(key: &str) -> Option<&'static str> {
    HELP.iter().find(|(known, _)| *known == key).map(|(_, text)| *text)
}

/// The keys of a subcommand's own texts.
pub(super) fn keys(path: &str) -> [String; 3] {
    let path = if path.is_empty() { "leasehold" } else { path };
    [path.to_owned(), format!("{path} (long)"), format!("{path} (after)")]
}

/// The text of an argument: of this subcommand, of the group of subcommands, or of all.
pub(super) fn of_argument(path: &str, id: &str) -> Option<&'static str> {
    let group = path.split(' ').next().unwrap_or_default();
    let places = [path, group, "*"].map(|place| format!("{place}: {id}"));
    places.iter().find_map(|key| find(key))
}

fn subcommand(mut command: Command, path: &str, columns: usize) -> Command {
    let [about, long, after] = keys(path).map(|key| find(&key).map(|text| wrapped(text, columns)));
    command = command.help_template(TEMPLATE).subcommand_help_heading("子命令");
    command = command.next_line_help(true);
    if let Some(about) = about {
        let long = long.map(|long| format!("{about}\n\n{long}"));
        command = command.long_about(long.unwrap_or_else(|| about.clone())).about(about);
    }
    if let Some(after) = after {
        command = command.after_help(after);
    }
    command = command.mut_args(|arg| argument(arg, path, columns - INDENT));
    command.mut_subcommands(|sub| {
        // Each group of subcommands has its own `help`, with the same text.
        let path = match sub.get_name() {
            "help" => "help".to_owned(),
            name => format!("{path} {name}"),
        };
        subcommand(sub, path.trim_start(), columns)
    })
}

fn argument(arg: Arg, path: &str, columns: usize) -> Arg {
    let arg = match arg.get_index() {
        Some(index) => arg.display_order(index),
        None => arg,
    };
    let heading = match arg.get_help_heading() {
        Some(_) => "全部子命令的选项",
        None if arg.is_positional() => "参数",
        None => "选项",
    };
    let Some(text) = of_argument(path, arg.get_id().as_str()) else {
        return arg.help_heading(heading);
    };
    let mut text = text.to_owned();
    let defaults = arg.get_default_values();
    let takes_value = arg.get_action().takes_values();
    if takes_value && !defaults.is_empty() && !arg.is_hide_default_value_set() {
        let values: Vec<_> = defaults.iter().map(|value| value.to_string_lossy()).collect();
        text.push_str(&format!(" [默认：{}]", values.join(",")));
    }
    let possible = arg.get_possible_values();
    if takes_value && !possible.is_empty() && !arg.is_hide_possible_values_set() {
        let names: Vec<_> = possible.iter().map(|value| value.get_name()).collect();
        text.push_str(&format!(" [可选：{}]", names.join("、")));
    }
    let text = StyledStr::from(wrapped(&text, columns));
    let arg = arg.help(text.clone()).long_help(text).help_heading(heading);
    arg.hide_default_value(true).hide_possible_values(true)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    /// What the command line has to translate: the key, and the English text.
    fn english(command: &Command, path: &str, out: &mut Vec<(String, String)>) {
        let [about, long, after] = keys(path);
        let text = |text: Option<&StyledStr>| text.map(ToString::to_string).unwrap_or_default();
        out.push((about, text(command.get_about())));
        if let Some(text) = command.get_long_about() {
            out.push((long, text.to_string()));
        }
        if let Some(text) = command.get_after_help() {
            out.push((after, text.to_string()));
        }
        for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
            let mut help = text(arg.get_help());
            for value in arg.get_possible_values() {
                help.push_str(&text(value.get_help()));
            }
            out.push((format!("{path}: {}", arg.get_id()), help));
        }
        let shown = |sub: &&Command| !sub.is_hide_set() && sub.get_name() != "help";
        for sub in command.get_subcommands().filter(shown) {
            english(sub, format!("{path} {}", sub.get_name()).trim_start(), out);
        }
    }

    fn all() -> Vec<(String, String)> {
        let mut command = Cli::command();
        command.build();
        let mut all = Vec::new();
        english(&command, "", &mut all);
        all
    }

    fn translation(key: &str) -> Option<&'static str> {
        match key.split_once(": ") {
            Some((path, id)) => of_argument(path, id),
            None => find(key),
        }
    }

    #[test]
    fn every_help_text_has_a_chinese_one() {
        let missing: Vec<_> =
            all().into_iter().filter(|(key, _)| translation(key).is_none()).collect();
        assert!(missing.is_empty(), "{missing:#?}");
    }

    #[test]
    fn no_key_has_two_entries() {
        let keys: BTreeSet<_> = HELP.iter().map(|(key, _)| *key).collect();
        assert_eq!(keys.len(), HELP.len());
    }

    #[cfg(all(
        feature = "bench",
        feature = "cache",
        feature = "lab",
        feature = "nats",
        feature = "serve"
    ))]
    #[test]
    fn each_entry_is_used() {
        let mut used: BTreeSet<_> = find("help").into_iter().collect();
        used.extend(all().iter().filter_map(|(key, _)| translation(key)));
        let stale: Vec<_> = HELP.iter().filter(|(_, text)| !used.contains(text)).collect();
        assert!(stale.is_empty(), "{stale:?}");
    }

    /// The numbers, options and variables of a text.
    fn facts(text: &str) -> BTreeSet<String> {
        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || "-_".contains(c)));
        let fact = |word: &&str| {
            word.starts_with("--")
                || word.contains('_')
                || word.starts_with(|c: char| c.is_ascii_digit())
        };
        let digits = |word: &str| match word.starts_with(|c: char| c.is_ascii_digit()) {
            true => word.chars().take_while(char::is_ascii_digit).collect(),
            false => word.to_owned(),
        };
        words.filter(fact).map(digits).collect()
    }

    #[test]
    fn both_languages_name_the_same_numbers_options_and_variables() {
        let mut wrong = Vec::new();
        // The Chinese text of --help is the same for both kinds of help.
        for (key, english) in all().into_iter().filter(|(key, _)| !key.ends_with(": help")) {
            let chinese = translation(&key).unwrap_or_default();
            let about = key.strip_suffix(" (long)").and_then(find).unwrap_or_default();
            let chinese = facts(&format!("{about} {chinese}"));
            let differ: Vec<_> = chinese.symmetric_difference(&facts(&english)).cloned().collect();
            if !differ.is_empty() {
                wrong.push((key, differ));
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}

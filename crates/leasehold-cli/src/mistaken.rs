//! Says what a wrong command line most likely means: a forgotten NAME, a mistyped option.

use std::ffi::OsString;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Error, Parser};
use leasehold::StoreUrl;

use crate::cli::{Cli, Command};
use crate::failure::Failure;
use crate::lang::text;

/// Options of flock(1) and of other commands, and their names here.
const ELSEWHERE: [(&str, &str); 6] = [
    ("--nb", "--no-wait"),
    ("--nonblock", "--no-wait"),
    ("--nonblocking", "--no-wait"),
    ("--timeout", "--wait"),
    ("--lease", "--ttl"),
    ("--url", "--store"),
];

/// Returns the error for `run -- CMD`: without it, the first word of CMD would be the name of the
/// lock. A name that starts with `-` may stand after `--`, since no other place is left for it.
pub(crate) fn missing_name(arguments: &[OsString], parsed: &Result<Cli, Error>) -> Option<Failure> {
    let subcommand = match parsed {
        Ok(Cli { command: Command::Run(args), .. }) if args.shell_line.is_none() => "run",
        Ok(Cli { command: Command::Elect(args), .. }) if args.shell_line.is_none() => "elect",
        Err(error) if error.kind() == ErrorKind::MissingRequiredArgument => with_cmd(error)?,
        _ => return None,
    };
    let at = arguments.iter().position(|word| word == "--")?;
    let (options, command) = (&arguments[..at], &arguments[at + 1..]);
    if command.first()?.to_string_lossy().starts_with('-') {
        return None;
    }
    let error = Cli::try_parse_from(options).err()?;
    if error.kind() != ErrorKind::MissingRequiredArgument
        || !value(&error, ContextKind::InvalidArg).contains("<NAME>")
    {
        return None;
    }
    let words = |words: &[OsString]| words.iter().map(quoted).collect::<Vec<_>>().join(" ");
    let (options, command) = (words(options.get(1..).unwrap_or_default()), words(command));
    let failure = Failure::own(format!("{subcommand}: NAME is missing before --"));
    Some(failure.next(format!("write: leasehold {options} NAME -- {command}")))
}

/// Replaces what clap suggests for an unknown option: `-- --option` would be the command to run.
pub(crate) fn with_own_tips(mut error: Error) -> Error {
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    error.remove(ContextKind::Suggested);
    let typed = value(&error, ContextKind::InvalidArg);
    let name = typed.split(['=', ' ']).next().unwrap_or_default();
    let known = options(&error);
    let elsewhere = ELSEWHERE.iter().find(|(other, _)| *other == name).map(|(_, ours)| *ours);
    let elsewhere = elsewhere.filter(|ours| known.iter().any(|one| one == ours));
    let near = || StoreUrl::nearest(name, known.iter().map(String::as_str));
    if let Some(meant) = elsewhere.or_else(near).filter(|_| name.starts_with("--")) {
        error.insert(ContextKind::SuggestedArg, ContextValue::String(meant.to_owned()));
    }
    if let Some(subcommand) = with_cmd(&error) {
        let tip = text!(
            "an option of CMD comes after CMD: leasehold {} NAME -- CMD {}",
            "CMD 自己的选项写在 CMD 后面：leasehold {} NAME -- CMD {}",
            subcommand,
            typed
        );
        let tips = vec![StyledStr::from(tip)];
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    }
    error
}

/// Returns the subcommand of an error, if it runs a command.
fn with_cmd(error: &Error) -> Option<&'static str> {
    let usage = value(error, ContextKind::Usage);
    ["run", "elect"].into_iter().find(|name| usage.contains(&format!("leasehold {name} ")))
}

/// Returns the long options of the subcommand that an error is about.
fn options(error: &Error) -> Vec<String> {
    let usage = value(error, ContextKind::Usage);
    let mut command = Cli::command();
    command.build();
    let mut command = &command;
    let words = usage.split_whitespace().skip_while(|word| *word != "leasehold").skip(1);
    for word in words {
        let Some(sub) = command.find_subcommand(word) else { break };
        command = sub;
    }
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
    shown.filter_map(|arg| Some(format!("--{}", arg.get_long()?))).collect()
}

fn value(error: &Error, kind: ContextKind) -> String {
    error.get(kind).map(ToString::to_string).unwrap_or_default()
}

/// Quotes a word for a shell. A URL with a password is left out.
fn quoted(word: &OsString) -> String {
    let word = word.to_string_lossy();
    let (option, url) = match word.split_once('=').filter(|_| word.starts_with("--")) {
        Some((option, value)) => (format!("{option}="), value),
        None => (String::new(), &*word),
    };
    if StoreUrl::parse(url).map_or(url.contains('@'), |url| url.has_credentials()) {
        return format!("{option}URL");
    }
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:,+=@%".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.into_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Option<String> {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        missing_name(&words, &Cli::try_parse_from(&words))?.next_step
    }

    #[test]
    fn a_name_that_is_missing_before_the_command_is_noticed() {
        for (line, right) in [
            ("leasehold run -- sleep", "leasehold run NAME -- sleep"),
            ("leasehold run -n -w -- sleep 5", ""),
            ("leasehold run -n -- sleep 5", "leasehold run -n NAME -- sleep 5"),
            ("leasehold run -w 5 --ttl=1m -- a -b", "leasehold run -w 5 --ttl=1m NAME -- a -b"),
            ("leasehold -v run -- a -- b", "leasehold -v run NAME -- a -- b"),
            ("leasehold elect -- a *", "leasehold elect NAME -- a '*'"),
            ("leasehold run --store redis://:s3@h -- a", "leasehold run --store URL NAME -- a"),
            ("leasehold run --store=redis://:s3@h -- a", "leasehold run --store=URL NAME -- a"),
        ] {
            let expected = (!right.is_empty()).then(|| format!("write: {right}"));
            assert_eq!(of(line), expected, "{line}");
        }
    }

    #[test]
    fn a_name_that_is_there_is_not_missing() {
        for line in [
            "leasehold run a -- sleep 5",
            "leasehold run a sleep -- 5",
            "leasehold run -- -a sleep 5",
            "leasehold run --",
            "leasehold run",
            "leasehold run -c line -- a",
            "leasehold run -c -- a",
            "leasehold run a -c --",
            "leasehold status -- a",
            "leasehold list -- a",
        ] {
            assert_eq!(of(line), None, "{line}");
        }
    }
}

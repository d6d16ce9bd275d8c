//! The config file, times and arguments may be any text: each is read, or refused with a message.

use std::ffi::OsString;

use clap::Parser;
use proptest::prelude::*;

use crate::cli::Cli;
use crate::config::Config;
use crate::{duration, mistaken, sanitize};

/// What config files are made of.
const LINES: [&str; 10] = [
    "store = \"redis://:s3cret@h\"",
    "[run]",
    "wait = 5",
    "ttl = \"1m\"",
    "on-lost = \"kill\"",
    "conflict-exit-code = 256",
    "kill-after = 1e400",
    "max-hold = \"",
    "[run",
    "锁 = '''",
];

/// What command lines are made of.
const WORDS: [&str; 24] = [
    "run",
    "elect",
    "lab",
    "list",
    "matrix",
    "gc-pause",
    "status",
    "cache",
    "serve",
    "--",
    "-",
    "",
    "--setup",
    "--seed",
    "--seeds",
    "--wait",
    "--ttl=9h1m",
    "--json",
    "--markdown",
    "-n",
    "-c",
    "99999999999999999999",
    "-1",
    "锁",
];

proptest! {
    #[test]
    fn any_config_file_is_read_or_refused(
        lines in proptest::collection::vec(proptest::sample::select(LINES.to_vec()), 0..6),
        cut in any::<proptest::sample::Index>(),
        other in "\\PC{0,8}",
    ) {
        let mut text = lines.join("\n");
        let places: Vec<usize> = (0..=text.len()).filter(|at| text.is_char_boundary(*at)).collect();
        text.insert_str(places[cut.index(places.len())], &other);
        if let Err((message, _)) = Config::parse(&text) {
            prop_assert!(!message.contains("s3cret"), "{}", message);
        }
    }

    #[test]
    fn any_time_is_read_or_refused(text in "[0-9.]{0,30}(d|h|m|s|ms|\\PC)?[0-9.]{0,30}\\PC{0,3}") {
        let _ = (duration::parse(&text), duration::parse_ttl(&text), duration::parse_positive(&text));
        let _ = sanitize::clean(&text);
    }

    #[test]
    fn any_arguments_are_read_or_refused(
        words in proptest::collection::vec(
            prop_oneof![proptest::sample::select(WORDS.to_vec()).prop_map(str::to_owned), "\\PC{0,8}"],
            0..7,
        ),
    ) {
        let arguments: Vec<OsString> =
            std::iter::once("leasehold".into()).chain(words.into_iter().map(OsString::from)).collect();
        let parsed = Cli::try_parse_from(&arguments);
        let _ = mistaken::missing_name(&arguments, &parsed);
        #[cfg(feature = "lab")]
        if let Ok(Cli { command: crate::cli::Command::Lab(lab), .. }) = &parsed {
            prop_assert!(!crate::lab::unknown(&lab.story).told().is_empty());
            let _ = lab.setup.as_deref().map(crate::lab::find);
        }
        let _ = parsed.map_err(mistaken::with_own_tips);
    }
}

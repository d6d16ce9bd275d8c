//! `leasehold man`: the manual pages, and the short forms of their sections for `--help`.

mod pager;
mod plain;

use std::fs;
use std::io::{self, IsTerminal};
use std::path::Path;

use clap::{Arg, Command, CommandFactory};
use clap_mangen::Man;

use crate::cli::Cli;
use crate::failure::Failure;
use crate::{say, terminal};

/// Shown below `leasehold --help`.
pub(crate) const SHORT_HELP: &str = "\
Examples:
  leasehold run backup -- pg_dump -f /backup/db.sql app
  leasehold run -n --min-hold 30s nightly -- ./report.sh
  leasehold status backup

Exit codes: 125 own errors, 69 store unusable, 76 lock lost; see leasehold man.";

/// Shown below `leasehold run --help`.
pub(crate) const RUN_HELP: &str = "\
A time is a number with ms, s, m, h or d, or several such as 2m30s; a bare number is seconds.

Exit codes: the command's; 128+N when signal N ended it; 126 or 127 when it could not be run or
was not found; 1 (or -E) if the lock was not available; 69 when the store cannot be used; 76
when the lock was lost; 125 for everything else.";

/// Shown below `leasehold doctor --help`.
pub(crate) const DOCTOR_HELP: &str = "\
Examples:
  leasehold doctor
  leasehold doctor redis://locks.internal
  leasehold doctor --json redlock://one,two,three

Exit codes: 0 nothing to change; 1 warnings; 2 problems; 69 when the store does not answer.";

/// Shown below `leasehold completions --help`.
pub(crate) const COMPLETIONS_HELP: &str = "\
Where the file goes, for this user:
  bash        leasehold completions bash > ~/.local/share/bash-completion/completions/leasehold
  zsh         leasehold completions zsh > ~/.zfunc/_leasehold
              and in ~/.zshrc, before compinit: fpath+=~/.zfunc
  fish        leasehold completions fish > ~/.config/fish/completions/leasehold.fish
  elvish      leasehold completions elvish >> ~/.config/elvish/rc.elv
  powershell  leasehold completions powershell >> $PROFILE

Create the directory first if it does not exist. A new shell reads the file.";

/// Shown below `leasehold cache relay --help`.
#[cfg(feature = "cache")]
pub(crate) const RELAY_HELP: &str = "\
Examples:
  leasehold cache init --database postgres://app@db/shop
  leasehold cache relay --database postgres://app@db/shop --store redis://cache:6379
  leasehold cache relay --database sqlite:/var/lib/shop.db --store redis://cache --once --json
  leasehold cache relay --database postgres://app@db/shop --to nats://broker:4222

Exit codes: 0 done, or ended by TERM or INT; 69 when with --once the database or where it goes to
cannot be used, or at the start the database; 125 for everything else.";

/// Shown below `leasehold cache apply --help`.
#[cfg(feature = "nats")]
pub(crate) const APPLY_HELP: &str = "\
Examples:
  leasehold cache init --to nats://broker:4222
  leasehold cache apply --from nats://broker:4222 --store redis://cache:6379
  leasehold cache apply --from 'nats://broker:4222?durable=paris' --store redis://cache.paris:6379

Exit codes: 0 done, or ended by TERM or INT; 69 when with --once NATS or Redis cannot be used; 125
for everything else.";

/// Shown below `leasehold lab --help`.
#[cfg(feature = "lab")]
pub(crate) const LAB_HELP: &str = "\
Examples:
  leasehold lab list
  leasehold lab gc-pause
  leasehold lab node-restart --setup redlock --svg node-restart.svg
  leasehold lab matrix --seeds 1000";

/// The sections that the options do not contain.
const SECTIONS: &str = include_str!("manual.roff");

/// Shows the page of `leasehold` or of a subcommand, or writes all pages into a directory.
pub(crate) fn man(of: Option<&str>, dir: Option<&Path>) -> Result<u8, Failure> {
    // There is no page of `help`, so do not refer to it.
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let Some(dir) = dir else {
        let page = page(find(command, of)?);
        let page = page.map_err(|error| Failure::own(format!("man: {error}")))?;
        let page = String::from_utf8_lossy(&page);
        if !io::stdout().is_terminal() {
            say::answer(page)?;
        } else if !terminal::can_redraw(&io::stdout()) || !pager::show(&page) {
            say::answer(plain::text(&page, terminal::width(io::stdout())))?;
        }
        return Ok(0);
    };
    fs::create_dir_all(dir)
        .and_then(|()| write_pages(command, "leasehold", dir))
        .map_err(|error| Failure::own(format!("--dir {}: {error}", dir.display())))?;
    Ok(0)
}

fn find(command: Command, name: Option<&str>) -> Result<Command, Failure> {
    let Some(name) = name else { return Ok(command) };
    below(&command, name).cloned().ok_or_else(|| {
        let known: Vec<_> = command.get_subcommands().map(Command::get_name).collect();
        Failure::own(format!("man {name:?}: there is no such page; there are {}", known.join(", ")))
    })
}

/// Finds a subcommand, or a subcommand of it by both names: `bench-pairs`.
fn below<'a>(command: &'a Command, name: &str) -> Option<&'a Command> {
    let mut shown = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    shown.find_map(|sub| match name.strip_prefix(sub.get_name())? {
        "" => Some(sub),
        rest => below(sub, rest.strip_prefix('-')?),
    })
}

fn write_pages(command: Command, name: &str, dir: &Path) -> io::Result<()> {
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        write_pages(sub.clone(), &format!("{name}-{}", sub.get_name()), dir)?;
    }
    fs::write(dir.join(format!("{name}.1")), page(command)?)
}

fn page(command: Command) -> io::Result<Vec<u8>> {
    let has_subcommands = command.has_subcommands();
    let usage = synopsis(&command);
    let command = command.override_usage(usage);
    // The text of `--help` about `-h` has no meaning on a page.
    let command = command.mut_arg("help", |arg| arg.help("Print help").long_help("Print help"));
    let version = concat!("leasehold ", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.after_help("")).source(version).manual("Leasehold");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if has_subcommands {
        man.render_subcommands_section(&mut page)?;
    }
    page.extend_from_slice(SECTIONS.as_bytes());
    Ok(page)
}

/// Returns the usage with every option in it, and the names of their values.
fn synopsis(command: &Command) -> String {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.strip_prefix("Usage: ").unwrap_or(&usage).to_owned();
    let is_shown = |arg: &&Arg| {
        // The page of `leasehold` has the options of all subcommands.
        !arg.is_positional() && (command.has_subcommands() || !arg.is_global_set())
            // Do not repeat an option that the usage already names.
            && !mentions(&usage, arg)
            && !matches!(arg.get_id().as_str(), "help" | "version")
    };
    let all = command.get_arguments().filter(is_shown);
    let options: String = all.map(|arg| format!("[{}] ", option(arg))).collect();
    usage.replace("[OPTIONS] ", &options)
}

fn mentions(usage: &str, arg: &Arg) -> bool {
    let long = arg.get_long().map(|long| format!("--{long}"));
    let short = arg.get_short().map(|short| format!("-{short}"));
    long.into_iter().chain(short).any(|name| usage.split([' ', '\n']).any(|word| word == name))
}

fn option(arg: &Arg) -> String {
    let short = arg.get_short().map(|short| format!("-{short}"));
    let long = arg.get_long().map(|long| format!("--{long}"));
    let mut text = [short, long].into_iter().flatten().collect::<Vec<_>>().join("|");
    if arg.get_action().takes_values() {
        for name in arg.get_value_names().unwrap_or_default() {
            text.push_str(&format!(" <{name}>"));
        }
    }
    text
}

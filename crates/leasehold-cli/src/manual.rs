//! `leasehold man`: the manual pages, and the short forms of their sections for `--help`.

use std::fs;
use std::io;
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_mangen::Man;

use crate::cli::Cli;
use crate::failure::Failure;
use crate::say;

/// Below `leasehold --help`.
pub(crate) const SHORT_HELP: &str = "\
Examples:
  leasehold run backup -- pg_dump -f /backup/db.sql app
  leasehold run -n --min-hold 30s nightly -- ./report.sh
  leasehold status backup

Exit codes: 125 own errors, 69 store unusable, 76 lock lost; see leasehold man.";

/// Below `leasehold run --help`.
pub(crate) const RUN_HELP: &str = "\
A time is a number with ms, s, m, h or d; a bare number is seconds.

Exit codes: the command's; 128+N when signal N ended it; 126 or 127 when it could not be run or
was not found; 1 (or -E) when the lock was not to be had; 69 when the store cannot be used; 76
when the lock was lost; 125 for everything else.";

/// The sections that the options do not tell.
const SECTIONS: &str = include_str!("manual.roff");

/// Prints the page of `leasehold`, or writes all pages into a directory.
pub(crate) fn man(dir: Option<&Path>) -> Result<u8, Failure> {
    let mut command = Cli::command();
    command.build();
    let Some(dir) = dir else {
        let page = page(command).map_err(|error| Failure::own(format!("man: {error}")))?;
        say::answer(String::from_utf8_lossy(&page))?;
        return Ok(0);
    };
    write_pages(command, dir)
        .map_err(|error| Failure::own(format!("--dir {}: {error}", dir.display())))?;
    Ok(0)
}

fn write_pages(command: Command, dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
        let name = format!("leasehold-{}", sub.get_name());
        fs::write(dir.join(format!("{name}.1")), page(sub.clone())?)?;
    }
    fs::write(dir.join("leasehold.1"), page(command)?)
}

fn page(command: Command) -> io::Result<Vec<u8>> {
    let has_subcommands = command.has_subcommands();
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

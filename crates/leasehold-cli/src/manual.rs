//! `leasehold man`: the manual pages.

mod pager;
mod plain;

use std::fs;
use std::io::{self, IsTerminal};
use std::path::Path;

use clap::{Arg, Command, CommandFactory};
use clap_mangen::Man;

use crate::cli::Cli;
use crate::failure::Failure;
use crate::lang::{self, Lang, lang, text, wrap};
use crate::{output, terminal};

/// The sections that the options do not contain.
const SECTIONS: &str = include_str!("manual.roff");
const CHINESE_SECTIONS: &str = include_str!("manual.zh.roff");

/// The headings that clap writes in English.
const HEADINGS: [(&str, &str); 3] =
    [(".SH NAME", ".SH 名称"), (".SH SYNOPSIS", ".SH 概要"), (".SH DESCRIPTION", ".SH 描述")];

/// Shows the page of `leasehold` or of a subcommand, or writes all pages into a directory.
pub(crate) fn man(of: Option<&str>, dir: Option<&Path>) -> Result<u8, Failure> {
    // There is no page of `help`, so do not refer to it.
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let command = match lang() {
        Lang::English => command,
        Lang::Chinese => lang::in_chinese_paragraphs(command),
    };
    let Some(dir) = dir else {
        let page = page(find(command, of)?);
        let page = page.map_err(|error| Failure::own(format!("man: {error}")))?;
        let page = String::from_utf8_lossy(&page);
        if !io::stdout().is_terminal() {
            output::answer(page)?;
        } else if !terminal::can_redraw(&io::stdout()) || !pager::show(&page) {
            output::answer(plain::text(&page, terminal::width(io::stdout())))?;
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
    let help = text!("Print help", "显示帮助");
    let command = command.mut_arg("help", |arg| arg.help(help.clone()).long_help(help));
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
    Ok(match lang() {
        Lang::English => [&page, SECTIONS.as_bytes()].concat(),
        Lang::Chinese => in_chinese(&String::from_utf8_lossy(&page)).into_bytes(),
    })
}

/// Returns the page with Chinese headings and sections, and with the places where a line may end:
/// nroff(1) only knows blanks.
fn in_chinese(page: &str) -> String {
    let mut out = String::new();
    let mut is_literal = false;
    for line in page.lines().chain(CHINESE_SECTIONS.lines()) {
        is_literal = line == ".nf" || (is_literal && line != ".fi");
        match HEADINGS.iter().find(|(english, _)| *english == line) {
            Some((_, chinese)) => out.push_str(chinese),
            None if is_literal || line.starts_with(['.', '\'']) => out.push_str(line),
            None => {
                let mut pieces = wrap::pieces(line).into_iter().peekable();
                while let Some(piece) = pieces.next() {
                    let may_break = pieces.peek().is_some() && !piece.ends_with(' ');
                    out.push_str(piece);
                    out.push_str(if may_break { "\\:" } else { "" });
                }
            }
        }
        out.push('\n');
        if line.starts_with(".TH ") {
            // No hyphens in English words, and no blanks to fill a line with.
            out.push_str(".nh\n.ad l\n");
        }
    }
    out
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

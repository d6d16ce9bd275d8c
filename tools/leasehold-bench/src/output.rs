//! Where the figures go: the table on standard output, JSON and the picture into files.

use std::fs::OpenOptions;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::Path;

use crate::Result;
use crate::chart::Chart;
use crate::common::Common;
use crate::row::Row;
use crate::{json, svg, table};

/// Refuses files that cannot be written before anything is measured.
pub(crate) fn check(common: &Common) -> Result<()> {
    for (flag, file) in [("--svg", &common.svg), ("--json", &common.json)] {
        if let Some(file) = file {
            let opened = OpenOptions::new().append(true).create(true).open(file);
            opened.map_err(|error| cannot_write(flag, file, &error))?;
        }
    }
    Ok(())
}

/// Writes the files that were asked for, and prints the table with its notes.
pub(crate) fn write(common: &Common, rows: &[Row], notes: &[String], chart: &Chart) -> Result<()> {
    write_files(common, rows, chart)?;
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let bold = std::io::stdout().is_terminal() && !plain;
    print(&table::table(rows, bold), notes)
}

/// Writes the files that were asked for.
pub(crate) fn write_files(common: &Common, rows: &[Row], chart: &Chart) -> Result<()> {
    if let Some(file) = &common.json {
        let lines = json::lines(rows)?;
        std::fs::write(file, lines).map_err(|error| cannot_write("--json", file, &error))?;
    }
    if let Some(file) = &common.svg {
        let drawn = svg::draw(chart);
        std::fs::write(file, drawn).map_err(|error| cannot_write("--svg", file, &error))?;
    }
    Ok(())
}

/// Prints a table with its notes. A reader that has gone (`| head`) is no error.
pub(crate) fn print(table: &str, notes: &[String]) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let mut text = table.to_owned();
    for note in notes {
        text += &format!("\n{note}\n");
    }
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

fn cannot_write(flag: &str, file: &Path, error: &std::io::Error) -> String {
    format!("{flag} {}: cannot be written: {error}", file.display())
}

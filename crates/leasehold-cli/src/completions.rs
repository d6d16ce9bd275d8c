//! `leasehold completions`: prints what a shell needs to complete the command line.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::failure::Failure;
use crate::output;

/// Prints the completions for a shell.
pub(crate) fn completions(shell: Shell) -> Result<u8, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "leasehold", &mut text);
    output::answer(String::from_utf8_lossy(&text))?;
    Ok(0)
}

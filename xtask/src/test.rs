//! `cargo xtask test`: the one command that shows that this tree works on this machine.

use std::io::{BufRead, BufReader, Write, stdout};
use std::process::{ChildStdout, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::check;
use crate::needs;
use crate::run::cargo;
use crate::tally::Tally;
use crate::tidy;
use crate::ui::{self, End, GREEN, RED};

/// Everything; with arguments for `cargo test`, the tests that they name and nothing else.
pub(crate) fn test(args: &[String]) -> Result<bool, String> {
    let args = args.strip_prefix(&["--".to_owned()]).unwrap_or(args);
    let start = Instant::now();
    let installed = needs::ensure()?;
    let note = if installed.is_empty() { "all there".into() } else { installed.join(" ") };
    ui::line("needs", start.elapsed(), &End::Good(note));

    let start = Instant::now();
    let (mut held, tally) = tests(args)?;
    let end = if held {
        End::Good(String::new())
    } else {
        End::Bad(tally.failures.iter().map(|name| format!("    {name}\n")).collect())
    };
    ui::line("tests", start.elapsed(), &end);

    if args.is_empty() {
        match check::no_lints_here() {
            None if held => held &= check::lints(),
            None => ui::line("lints", Duration::ZERO, &End::Left("the tests failed".into())),
            Some(why) => ui::line("lints", Duration::ZERO, &End::Left(why)),
        }
        held &= tidy::step();
    }

    let Tally { passed, failed, ignored, .. } = tally;
    held &= passed > 0;
    let verdict = if held { ui::paint(GREEN, "all good") } else { ui::paint(RED, "not good") };
    println!("\n{verdict}: {passed} tests passed, {failed} failed, {ignored} ignored");
    Ok(held)
}

/// Runs `cargo test` in sight, counting.
fn tests(args: &[String]) -> Result<(bool, Tally), String> {
    let mut command = cargo(["test", "--all-features", "--no-fail-fast"]);
    let own = args.iter().take_while(|arg| *arg != "--");
    if !own.into_iter().any(|arg| arg.starts_with("-p") || arg.starts_with("--package")) {
        command.arg("--workspace");
    }
    let mut child = command
        .args(args)
        .env("LEASEHOLD_REQUIRE", needs::required())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot run cargo test: {error}"))?;
    let lines = lines(child.stdout.take());
    let mut tally = Tally::default();
    loop {
        match lines.recv_timeout(Duration::from_secs(1)) {
            Ok(line) => {
                let _ = stdout().write_all(&line);
                tally.read(&String::from_utf8_lossy(&line));
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                if child.try_wait().is_ok_and(|ended| ended.is_some()) {
                    println!("a test left a process behind that holds the output open");
                    break;
                }
            }
        }
    }
    let status = child.wait().map_err(|error| format!("cargo test: {error}"))?;
    Ok((status.success(), tally))
}

/// The lines of `output` as they come.
fn lines(output: Option<ChildStdout>) -> Receiver<Vec<u8>> {
    let (send, lines) = mpsc::channel();
    thread::spawn(move || {
        let mut output = output.map(BufReader::new)?;
        loop {
            let mut line = Vec::new();
            if output.read_until(b'\n', &mut line).ok()? == 0 {
                return None::<()>;
            }
            send.send(line).ok()?;
        }
    });
    lines
}

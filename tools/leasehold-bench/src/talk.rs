//! Another process that receives commands line by line. It ends when its input ends.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use crate::Result;

/// How long an answer may take: a virtual machine starts slowly, and eight of them more so.
const PATIENCE: Duration = Duration::from_secs(120);

/// The process. Killed when dropped, if it has not ended by then.
#[derive(Debug)]
pub(crate) struct Talk {
    what: String,
    child: Child,
    input: Option<ChildStdin>,
    heard: Receiver<String>,
}

impl Talk {
    /// Starts it; what it says on standard error is seen.
    pub(crate) fn start(what: &str, mut command: Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{what}: cannot start: {error}"))?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (send, heard) = channel();
        let mut talk = Self { what: what.to_owned(), child, input, heard };
        let output = output.ok_or_else(|| talk.failed("it has no output"))?;
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(std::io::Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(talk)
    }

    /// Says a line.
    pub(crate) fn say(&mut self, line: &str) -> Result<()> {
        let said = match &mut self.input {
            Some(input) => input.write_all(format!("{line}\n").as_bytes()),
            None => Err(std::io::ErrorKind::BrokenPipe.into()),
        };
        said.map_err(|_| self.failed("it does not listen any more"))
    }

    /// The next line that it says.
    pub(crate) fn hear(&mut self) -> Result<String> {
        match self.heard.recv_timeout(PATIENCE) {
            Ok(line) => Ok(line),
            Err(_) => Err(self.failed("it does not answer")),
        }
    }

    /// The lines that it has said by now and that were not heard yet.
    #[cfg(feature = "servers")]
    pub(crate) fn heard_by_now(&mut self) -> Vec<String> {
        self.heard.try_iter().collect()
    }

    /// Fails unless the next line is this one.
    pub(crate) fn expect(&mut self, line: &str) -> Result<()> {
        match self.hear()? {
            heard if heard == line => Ok(()),
            heard => Err(self.failed(&format!("it said {heard:?} instead of {line:?}"))),
        }
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lets it end.
    pub(crate) fn end(mut self) -> Result<()> {
        self.input = None;
        let status = self.child.wait()?;
        if status.success() {
            return Ok(());
        }
        Err(format!("{}: it has ended with {status}", self.what).into())
    }

    fn failed(&mut self, what: &str) -> Box<dyn std::error::Error + Send + Sync> {
        match self.child.try_wait() {
            Ok(Some(status)) => format!("{}: it has ended with {status}", self.what).into(),
            _ => format!("{}: {what}", self.what).into(),
        }
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

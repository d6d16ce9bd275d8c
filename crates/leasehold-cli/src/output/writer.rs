//! A thread that writes to one stream: if no process reads the stream, only this thread is blocked.

use std::collections::VecDeque;
use std::io;
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::write;
use tokio::sync::Notify;

use crate::lang::text;
use crate::timer;

/// Moves to the first column, and clears the row.
const CLEAR: &str = "\r\x1b[2K";

/// How many lines wait to be written; while the stream is blocked, the oldest of more lines are
/// dropped and counted.
const LINES: usize = 64;

/// A stream that accepts nothing for this long is blocked.
const BLOCKED_AFTER: Duration = Duration::from_millis(100);

/// How soon to retry a non-blocking stream that accepts nothing.
const TRY_AGAIN: Duration = Duration::from_millis(10);

/// The output for one stream, which a separate thread writes.
pub(super) struct Writer {
    name: &'static str,
    put: fn(&[u8]) -> nix::Result<usize>,
    /// Starts the thread. Returns false if the system cannot start one.
    start: fn(&'static Writer) -> bool,
    state: Mutex<State>,
    /// There is work.
    work: Condvar,
    /// Something was written.
    progress: Condvar,
    /// Everything is written.
    done: Notify,
}

#[derive(Default)]
struct State {
    lines: VecDeque<String>,
    dropped: u64,
    /// A row below the lines that is redrawn.
    row: Option<String>,
    /// It must be drawn, or cleared.
    row_is_due: bool,
    /// A row is on the terminal.
    row_is_drawn: bool,
    is_running: bool,
    is_writing: bool,
    /// The stream accepted nothing for [`BLOCKED_AFTER`] while the queue was full.
    is_blocked: bool,
    from_background: bool,
    failed: Option<Errno>,
}

pub(super) static STDERR: LazyLock<Writer> =
    LazyLock::new(|| Writer::new("lh-stderr", |bytes| write(io::stderr(), bytes)));

pub(super) static STDOUT: LazyLock<Writer> =
    LazyLock::new(|| Writer::new("lh-stdout", |bytes| write(io::stdout(), bytes)));

impl Writer {
    fn new(name: &'static str, put: fn(&[u8]) -> nix::Result<usize>) -> Self {
        let (state, work, progress, done) = Default::default();
        Self { name, put, start: Self::start_thread, state, work, progress, done }
    }

    /// Writes this as soon as the stream accepts it. Waits for space only if 64 lines wait, and not
    /// for a blocked stream.
    pub(super) fn line(&'static self, text: String) {
        let mut state = self.lock();
        if state.lines.len() >= LINES && !state.is_blocked {
            let full = |state: &mut State| state.lines.len() >= LINES;
            let waited = self.progress.wait_timeout_while(state, BLOCKED_AFTER, full);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.is_blocked = full(&mut state);
        }
        if state.lines.len() >= LINES {
            state.lines.pop_front();
            state.dropped += 1;
        }
        state.lines.push_back(text);
        self.begin(state);
    }

    /// Shows this row instead of the last one, below all lines; `None` clears it. Never waits.
    pub(super) fn row(&'static self, row: Option<String>) {
        let mut state = self.lock();
        state.row_is_due = row.is_some() || state.row_is_drawn;
        state.row = row;
        self.begin(state);
    }

    /// Writes to a terminal also from the background, which may otherwise stop the process.
    pub(super) fn write_from_background(&self) {
        self.lock().from_background = true;
    }

    /// Waits until everything is written, at most this long; without a limit, for as long as it
    /// takes.
    pub(super) fn settle(&'static self, at_most: Option<Duration>) {
        let end = at_most.map(timer::after);
        let mut state = self.lock();
        while state.is_busy() {
            let left = end.map_or(TRY_AGAIN, timer::left);
            if left.is_zero() {
                return;
            }
            state =
                self.progress.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Returns when everything is written, with the error of the stream, if any.
    pub(super) async fn settled(&'static self) -> Result<(), io::Error> {
        loop {
            let done = self.done.notified();
            {
                let state = self.lock();
                if !state.is_busy() {
                    return state.failed.map_or(Ok(()), |error| Err(error.into()));
                }
            }
            done.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&'static self, mut state: MutexGuard<'_, State>) {
        if !state.is_busy() {
            return;
        }
        if !state.is_running {
            state.is_running = (self.start)(self);
        }
        // Without a thread, write it here, even if that blocks.
        while !state.is_running && state.is_busy() {
            state = self.turn(state);
        }
        self.work.notify_one();
    }

    fn start_thread(&'static self) -> bool {
        let thread = thread::Builder::new().name(self.name.to_owned());
        thread.spawn(|| self.run_thread()).is_ok()
    }

    fn run_thread(&'static self) {
        let mut state = self.lock();
        loop {
            state = match state.is_busy() {
                true => self.turn(state),
                false => self.work.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Writes what there is now.
    fn turn<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let text = state.take();
        let from_background = state.from_background;
        state.is_writing = true;
        drop(state);
        if from_background {
            let mut ttou = SigSet::empty();
            ttou.add(Signal::SIGTTOU);
            let _ = ttou.thread_block();
        }
        let written = self.write_all(text.as_bytes());
        let mut state = self.lock();
        (state.is_writing, state.is_blocked) = (false, false);
        state.failed = state.failed.or(written.err());
        self.progress.notify_all();
        if !state.is_busy() {
            self.done.notify_waiters();
        }
        state
    }

    fn write_all(&self, mut bytes: &[u8]) -> nix::Result<()> {
        while !bytes.is_empty() {
            match (self.put)(bytes) {
                Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => thread::sleep(TRY_AGAIN),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl State {
    fn is_busy(&self) -> bool {
        self.is_writing || !self.lines.is_empty() || self.row_is_due
    }

    /// Returns the next text: a line, or the row.
    fn take(&mut self) -> String {
        let clear = if std::mem::take(&mut self.row_is_drawn) { CLEAR } else { "" };
        self.row_is_due = self.row.is_some();
        if self.dropped > 0 {
            let count = std::mem::take(&mut self.dropped);
            return text!(
                "{}leasehold: {} lines were dropped while stderr was blocked\n",
                "{}leasehold: stderr 阻塞期间丢弃了 {} 行\n",
                clear,
                count
            );
        }
        if let Some(line) = self.lines.pop_front() {
            return format!("{clear}{line}");
        }
        self.row_is_due = false;
        let Some(row) = &self.row else { return clear.to_owned() };
        self.row_is_drawn = true;
        format!("{CLEAR}{row}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_queue_drops_the_oldest_lines_and_counts_them() {
        static FULL: LazyLock<Writer> = LazyLock::new(|| Writer::new("none", |_| Ok(0)));
        FULL.lock().is_running = true; // No thread takes lines.
        for number in 0..LINES + 3 {
            FULL.line(format!("{number}\n"));
        }
        let mut state = FULL.lock();
        assert_eq!(state.lines.len(), LINES);
        assert_eq!(state.take(), "leasehold: 3 lines were dropped while stderr was blocked\n");
        assert_eq!(state.take(), "3\n");
    }

    static SEEN: Mutex<Vec<u8>> = Mutex::new(Vec::new());

    fn see(bytes: &[u8]) -> nix::Result<usize> {
        SEEN.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    #[test]
    fn burst_of_lines_loses_none_while_the_stream_takes_them() {
        static SLOW: LazyLock<Writer> = LazyLock::new(|| Writer {
            // The thread runs late.
            start: |writer| {
                let late = || {
                    thread::sleep(BLOCKED_AFTER / 2);
                    writer.run_thread();
                };
                thread::Builder::new().spawn(late).is_ok()
            },
            ..Writer::new("slow", |bytes| Ok(bytes.len()))
        });
        for number in 0..4 * LINES {
            SLOW.line(format!("{number}\n"));
            assert_eq!(SLOW.lock().dropped, 0, "line {number}");
        }
        SLOW.settle(None);
    }

    #[test]
    fn lines_are_written_where_no_thread_can_be_started() {
        static ALONE: LazyLock<Writer> =
            LazyLock::new(|| Writer { start: |_| false, ..Writer::new("none", see) });
        for number in 0..2 * LINES {
            ALONE.line(format!("{number}\n"));
        }
        ALONE.settle(None);
        let all: String = (0..2 * LINES).map(|number| format!("{number}\n")).collect();
        assert_eq!(String::from_utf8(SEEN.lock().unwrap().clone()).unwrap(), all);
    }

    #[test]
    fn a_row_is_cleared_for_a_line_and_drawn_again() {
        let mut state = State { row: Some("row".into()), row_is_due: true, ..State::default() };
        assert_eq!(state.take(), format!("{CLEAR}row"));
        assert!(!state.is_busy());
        state.lines.push_back("line\n".into());
        assert_eq!(state.take(), format!("{CLEAR}line\n"));
        assert_eq!(state.take(), format!("{CLEAR}row"));
        (state.row, state.row_is_due) = (None, true);
        assert_eq!(state.take(), CLEAR);
        assert!(!state.is_busy());
    }
}

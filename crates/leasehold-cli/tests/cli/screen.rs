//! A terminal, as a program sees it from inside and a person from outside.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use nix::pty::Winsize;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{PATIENCE, WorkDir, until};

/// A terminal with a program as the leader of its session.
pub(crate) struct Terminal {
    master: File,
    seen: Arc<Mutex<String>>,
    at: usize,
    child: Child,
}

impl Terminal {
    pub(crate) fn start(place: &WorkDir, program: &str, arguments: &[&str]) -> Self {
        Self::with_columns(place, 0, program, arguments)
    }

    /// One that is this wide; 0 for one that does not say.
    pub(crate) fn with_columns(
        place: &WorkDir,
        columns: u16,
        program: &str,
        arguments: &[&str],
    ) -> Self {
        let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = nix::pty::openpty(Some(&size), None).unwrap();
        let end = |fd: &OwnedFd| Stdio::from(fd.try_clone().unwrap());
        let mut command = place.program("setsid");
        command.arg("-c").arg(program).args(arguments).env("PS1", "$ ").env("HISTFILE", "");
        command.env("TERM", "xterm").env("LEASEHOLD_STORE", place.store());
        command.stdin(end(&pty.slave)).stdout(end(&pty.slave)).stderr(end(&pty.slave));
        let child = command.spawn().unwrap();
        drop((command, pty.slave));
        let master = File::from(pty.master);
        let seen = Arc::new(Mutex::new(String::new()));
        thread::spawn({
            let (mut reader, seen) = (master.try_clone().unwrap(), seen.clone());
            move || {
                let mut chunk = [0; 4096];
                while let Ok(count @ 1..) = reader.read(&mut chunk) {
                    seen.lock().unwrap().push_str(&String::from_utf8_lossy(&chunk[..count]));
                }
            }
        });
        Self { master, seen, at: 0, child }
    }

    /// The program's process.
    pub(crate) fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    pub(crate) fn send(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until this was printed, after what was expected before.
    #[track_caller]
    pub(crate) fn expect(&mut self, text: &str) {
        let start = Instant::now();
        loop {
            let seen = self.seen.lock().unwrap().clone();
            if let Some(at) = seen[self.at..].find(text) {
                self.at += at + text.len();
                return;
            }
            assert!(
                start.elapsed() < PATIENCE,
                "no {text:?} after {:?} in {seen:?}",
                &seen[..self.at]
            );
            thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn seen(&self) -> String {
        self.seen.lock().unwrap().clone()
    }

    #[track_caller]
    pub(crate) fn end(mut self) -> i32 {
        let mut code = None;
        until("the session ends", || {
            code = self.child.try_wait().unwrap();
            code.is_some()
        });
        code.unwrap().code().unwrap_or(-1)
    }
}

impl Drop for Terminal {
    /// Kills the whole session: a test may have failed half-way.
    fn drop(&mut self) {
        let leader = self.child.id().to_string();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let line = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            let fields = line.rsplit_once(") ").map_or("", |(_, fields)| fields);
            if let (Some(session), Some(pid)) = (fields.split(' ').nth(3), line.split(' ').next())
                && session == leader
            {
                let _ = kill(Pid::from_raw(pid.parse().unwrap()), Signal::SIGKILL);
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! A server that stays in the state `LOADING` until it is let go on.

use std::io;

use crate::{Admin, RedisServer, wait};

/// Keys that are there only to be loaded slowly, each larger than what is loaded between two looks
/// at the connections.
const FILLER: usize = 3_000;
const SIZE: usize = 1_100;
const PREFIX: &str = "leasehold-kit:filler:";

/// A server that answers `-LOADING` to all but a few commands.
#[derive(Debug)]
pub struct Loading<'a> {
    server: &'a mut RedisServer,
}

impl RedisServer {
    /// Restarts it with its data, and returns when it answers `LOADING`; it does until
    /// [`Loading::finish`], or a minute at most. Not for a server with an append-only file, which
    /// it would not look up from while it reads.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn restart_loading(&mut self) -> io::Result<Loading<'_>> {
        let mut admin = self.connect()?;
        let filler = "x".repeat(SIZE);
        for number in 0..FILLER {
            admin.send(&["SET", &format!("{PREFIX}{number}"), &filler])?;
        }
        for _ in 0..FILLER {
            admin.receive()?;
        }
        admin.call(&["CONFIG", "SET", "rdbcompression", "no"])?;
        admin.call(&["SAVE"])?;
        self.kill();
        // 20 ms a key, and a look at the connections after each.
        self.launch("key-load-delay 20000\nloading-process-events-interval-bytes 1024\n")?;
        let loading = |admin: &mut Admin| {
            let info = admin.call(&["INFO", "persistence"])?.text();
            Ok(info.lines().any(|line| line.trim() == "loading:1"))
        };
        self.when_up(loading)?;
        Ok(Loading { server: self })
    }
}

impl Loading<'_> {
    /// The server, which can be asked for little: `INFO`, `CONFIG`.
    pub fn server(&self) -> &RedisServer {
        self.server
    }

    /// Lets it load the rest; returns when it has, and the filler is gone.
    ///
    /// # Errors
    /// What the connection says.
    pub fn finish(self) -> io::Result<()> {
        let server = self.server;
        server.admin(&["CONFIG", "SET", "key-load-delay", "0"])?;
        wait("the data is loaded", || server.info("loading").is_ok_and(|value| value == "0"))?;
        let keys = (0..FILLER).map(|number| format!("{PREFIX}{number}"));
        let command: Vec<String> = std::iter::once("DEL".to_owned()).chain(keys).collect();
        server.admin(&command).map(drop)
    }
}

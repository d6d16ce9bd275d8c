//! A server that stays in the state `BUSY` until it is let go on.

use std::io;

use crate::{Admin, RedisServer, wait};

/// A server in a script without end; ends it when dropped.
#[derive(Debug)]
pub struct Busy<'a> {
    server: &'a RedisServer,
    /// Waits for the end of the script.
    _caller: Admin,
}

impl RedisServer {
    /// Runs a script without end, and returns when others are answered `BUSY`.
    ///
    /// # Errors
    /// What the connection says.
    pub fn make_busy(&self) -> io::Result<Busy<'_>> {
        self.admin(&["CONFIG", "SET", "lua-time-limit", "1"])?;
        let mut caller = self.connect()?;
        caller.send(&["EVAL", "while true do end", "0"])?;
        let busy = Busy { server: self, _caller: caller };
        wait("the server is busy", || {
            let answer = self.connect().and_then(|mut admin| admin.call(&["DBSIZE"]));
            answer.is_err_and(|error| error.to_string().starts_with("BUSY"))
        })?;
        Ok(busy)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.server.admin(&["SCRIPT", "KILL"]).ok();
        wait("the server is not busy", || self.server.admin(&["DBSIZE"]).is_ok()).ok();
    }
}

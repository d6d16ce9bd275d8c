//! The value of a latch: read, and replaced by compare and set.

use leasehold_core::backend::{ValueSwap, is_no_latch};
use leasehold_core::{Error, ErrorKind, Name, Result};
use redis::{Cmd, Value};

use crate::backend::RedisBackend;
use crate::call_limit::LIMITS;
use crate::error::{foreign, strange};
use crate::script::Script;

/// How the value of every latch begins.
pub(crate) const KIND: &[u8] = b"leasehold latch ";

impl RedisBackend {
    /// Returns the value. If replicas must acknowledge grants, they must have it.
    pub(crate) async fn stored_value(&self, name: &Name) -> Result<Option<Vec<u8>>> {
        let key = self.keys.of(name);
        let op = if self.replicas.is_some() { "W" } else { "G" };
        let mut command = command(&self.route.scripts().latch, &key);
        command.arg(op);
        match self.run_for_latch(&key, &command).await? {
            Value::Nil => Ok(None),
            Value::BulkString(answer) => match answer.as_slice() {
                [b'X', why] => Err(of_latch(*why, &key)),
                _ => Ok(Some(answer)),
            },
            other => Err(strange(other)),
        }
    }

    /// Replaces the value, if it is the one that the client has read.
    pub(crate) async fn replace_value(&self, swap: ValueSwap) -> Result<bool> {
        let key = self.keys.of(&swap.name);
        let scripts = self.route.scripts();
        // A full server accepts no new latch, and must still count.
        let script = if swap.seen.is_some() { &scripts.latch } else { &scripts.new_latch };
        let ttl = u64::try_from(swap.ttl.as_millis()).unwrap_or(u64::MAX);
        let mut command = command(script, &key);
        command.arg("S").arg(ttl.max(1)).arg(swap.next);
        if let Some(seen) = swap.seen {
            command.arg(seen);
        }
        match self.run_for_latch(&key, &command).await? {
            Value::BulkString(answer) => match answer.as_slice() {
                b"R" => Ok(true),
                b"N" => Ok(false),
                [b'X', why] => Err(of_latch(*why, &key)),
                _ => Err(strange(answer)),
            },
            other => Err(strange(other)),
        }
    }

    async fn run_for_latch(&self, key: &str, command: &Cmd) -> Result<Value> {
        match &self.replicas {
            Some(replicas) => replicas.acknowledged(key, command).await,
            None => self.route.run_patiently(key, command, false, LIMITS.1).await,
        }
    }
}

fn command(script: &Script, key: &str) -> Cmd {
    let mut command = redis::cmd("EVALSHA");
    command.arg(script.hash()).arg(2).arg(key).arg(format!("{key}:c"));
    command
}

/// The error for a value that is not a latch.
fn of_latch(why: u8, key: &str) -> Error {
    match why {
        b'S' | b'K' => is_no_latch(),
        b'V' => foreign(why, key),
        _ => {
            let what =
                format!("{key} holds a value that is not a latch; choose another prefix or name");
            Error::new(ErrorKind::Foreign, what)
        }
    }
}

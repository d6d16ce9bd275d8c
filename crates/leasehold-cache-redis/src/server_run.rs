//! The run of a Redis server: data of an earlier run may be out of date.

use std::io;

use redis::aio::MultiplexedConnection;
use redis::{RedisError, RedisResult, cmd};

/// The number of bytes of a [`ServerRun`].
pub const RUN_SIZE: usize = 5;

/// A period in which one server has been the master without interruption, identified by a part of
/// its replication id. Redis draws a new id when it starts, and when it becomes a master or a
/// replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerRun([u8; RUN_SIZE]);

impl ServerRun {
    /// The run of a server that does not report it.
    pub const UNKNOWN: Self = Self([0; RUN_SIZE]);

    /// Asks the server for its run; an error if it is a replica.
    pub(crate) async fn ask(connection: &mut MultiplexedConnection) -> RedisResult<Said> {
        let info = cmd("INFO").arg("replication").query_async::<String>(connection).await;
        match info {
            Ok(info) => Self::read(&info).map(Said::Run),
            // A server that is loading answers INFO; one that refuses it has answered.
            Err(error) if error.code().is_some() => Ok(Said::Refused(error)),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn read(info: &str) -> RedisResult<Self> {
        let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name));
        if field("role:").is_some_and(|role| role.trim() == "slave") {
            let what = "the server is a read-only replica; use the URL of its master";
            return Err(io::Error::new(io::ErrorKind::NotConnected, what).into());
        }
        let id = field("master_replid:").unwrap_or_default().as_bytes();
        let mut run = [0; RUN_SIZE];
        for (byte, digits) in run.iter_mut().zip(id.chunks_exact(2)) {
            let digits = std::str::from_utf8(digits).unwrap_or_default();
            *byte = u8::from_str_radix(digits, 16).unwrap_or_default();
        }
        Ok(Self(run))
    }

    /// Returns whether `bytes` begin with this run.
    pub fn begins(self, bytes: &[u8]) -> bool {
        bytes.starts_with(&self.0)
    }

    /// Returns the run as hexadecimal digits.
    pub fn text(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns the bytes of the run.
    pub fn bytes(self) -> [u8; RUN_SIZE] {
        self.0
    }
}

/// What a server reports about its run.
pub(crate) enum Said {
    Run(ServerRun),
    Refused(RedisError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_read_from_what_the_server_says_and_a_replica_is_refused() {
        let id = "8a3f00c1ff26f5a8b1d1e7a3f0c2b4d6e8fa0b1c";
        let info = |role: &str| format!("# Replication\r\nrole:{role}\r\nmaster_replid:{id}\r\n");
        assert_eq!(
            ServerRun::read(&info("master")).unwrap(),
            ServerRun([0x8a, 0x3f, 0, 0xc1, 0xff])
        );
        let error = ServerRun::read(&info("slave")).unwrap_err().to_string();
        assert!(error.contains("replica"), "{error}");
        for odd in ["", "role:master", "master_replid:", "master_replid:zz", "master_replid:é"] {
            assert_eq!(ServerRun::read(odd).unwrap(), ServerRun::UNKNOWN, "{odd}");
        }
    }
}

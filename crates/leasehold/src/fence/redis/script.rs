//! Calls a Lua script by its hash, and sends its text if the server does not know the hash.

use ::redis::aio::ConnectionLike;
use ::redis::{ErrorKind as RedisKind, FromRedisValue, RedisError, Script, ServerErrorKind, cmd};

use crate::{Error, ErrorKind};

/// A script with its hash.
#[derive(Debug)]
pub(super) struct Lua {
    text: &'static str,
    hash: String,
}

impl Lua {
    pub(super) fn new(text: &'static str) -> Self {
        Self { text, hash: Script::new(text).get_hash().to_owned() }
    }

    /// Runs the script. If the server does not know the hash, it sends EVAL. Unlike SCRIPT LOAD and a
    /// second EVALSHA, that leaves no gap in which the script could be flushed again, and its keys
    /// select the right node of a cluster.
    pub(super) async fn run<T: FromRedisValue>(
        &self,
        connection: &mut impl ConnectionLike,
        keys: [&[u8]; 2],
        arguments: &[&[u8]],
    ) -> Result<T, Error> {
        let call = |command, script: &str| {
            let mut call = cmd(command);
            call.arg(script).arg(keys.len()).arg(&keys[..]).arg(arguments);
            call
        };
        let no_script = RedisKind::Server(ServerErrorKind::NoScript);
        let answer = match call("EVALSHA", &self.hash).query_async(connection).await {
            Err(error) if RedisError::kind(&error) == no_script => {
                call("EVAL", self.text).query_async(connection).await
            }
            answer => answer,
        };
        answer.map_err(failure)
    }
}

/// Converts an error of Redis into an error of this crate.
pub(super) fn failure(error: RedisError) -> Error {
    let kind = match error.kind() {
        RedisKind::AuthenticationFailed
        | RedisKind::Server(ServerErrorKind::ReadOnly | ServerErrorKind::NoPerm) => {
            ErrorKind::Refused
        }
        RedisKind::InvalidClientConfig => ErrorKind::Invalid,
        RedisKind::UnexpectedReturnType => ErrorKind::Foreign,
        _ => match error.code() {
            Some("FOREIGN" | "WRONGTYPE") => ErrorKind::Foreign,
            Some("OOM" | "NOAUTH" | "WRONGPASS" | "ERR") => ErrorKind::Refused,
            _ => ErrorKind::Unavailable,
        },
    };
    Error::new(kind, format!("redis: {error}")).with_source(error)
}

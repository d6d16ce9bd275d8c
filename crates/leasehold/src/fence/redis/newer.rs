//! Compare-token-and-set: writes that carry a smaller token than the value has seen are refused.

use std::sync::LazyLock;

use ::redis::aio::ConnectionLike;
use ::redis::cmd;

use super::key::beside;
use super::script::{Lua, failure};
use super::settings::RedisFence;
use crate::fence::{Fenced, Stale};
use crate::{Error, ErrorKind, Result, Token};

/// What is kept in Redis under a fenced key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FencedValue {
    /// The value; `None` when there is none, or the key holds something else than a string.
    pub value: Option<Vec<u8>>,
    /// The largest token seen; `None` when there was none, or it is forgotten.
    pub token: Option<Token>,
}

/// Refused as a whole when the server is full, before anything has changed.
static GROWS: LazyLock<Lua> =
    LazyLock::new(|| Lua::new(concat!("#!lua\n", include_str!("../lua/newer.lua"))));

/// Runs on a full server too.
static SHRINKS: LazyLock<Lua> = LazyLock::new(|| {
    Lua::new(concat!("#!lua flags=allow-oom\n", include_str!("../lua/newer.lua")))
});

impl RedisFence {
    /// Sets `key` to `value` unless it has seen a larger token.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a key or a setting that is not allowed: nothing was sent.
    /// [`ErrorKind::Unavailable`]: it may have been written or not, and sending it again with the
    /// same token is safe. [`ErrorKind::Refused`] (permissions, read-only, memory) and
    /// [`ErrorKind::Foreign`] (the fence's key holds no token): nothing was changed.
    pub async fn set_if_newer(
        self,
        connection: &mut impl ConnectionLike,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        token: Token,
    ) -> Result<Fenced> {
        let ttl = self.ttl_ms()?;
        let value = value.as_ref();
        self.newer(connection, &GROWS, key.as_ref(), token, &[b"set", value, ttl.as_bytes()])
            .await
            .map_err(|error| error.during("set_if_newer", None))
    }

    /// Deletes `key` unless it has seen a larger token. The token is remembered for as long as
    /// [`retention`](Self::retention) says, so that a late write does not bring the value back.
    ///
    /// # Errors
    /// As [`set_if_newer`](Self::set_if_newer).
    pub async fn delete_if_newer(
        self,
        connection: &mut impl ConnectionLike,
        key: impl AsRef<[u8]>,
        token: Token,
    ) -> Result<Fenced> {
        self.newer(connection, &SHRINKS, key.as_ref(), token, &[b"delete"])
            .await
            .map_err(|error| error.during("delete_if_newer", None))
    }

    /// Makes `key` refuse smaller tokens from now on, and leaves its value as it is: for a holder
    /// that is going to read, compute and write. [`Fenced::Written`] says that it is so.
    ///
    /// # Errors
    /// As [`set_if_newer`](Self::set_if_newer).
    pub async fn announce(
        self,
        connection: &mut impl ConnectionLike,
        key: impl AsRef<[u8]>,
        token: Token,
    ) -> Result<Fenced> {
        self.newer(connection, &SHRINKS, key.as_ref(), token, &[b"announce"])
            .await
            .map_err(|error| error.during("announce", None))
    }

    /// The value with the largest token that it has seen, read in one step.
    ///
    /// # Errors
    /// As [`set_if_newer`](Self::set_if_newer); nothing is changed in any case.
    pub async fn get(
        self,
        connection: &mut impl ConnectionLike,
        key: impl AsRef<[u8]>,
    ) -> Result<FencedValue> {
        let read = async {
            let key = key.as_ref();
            let mark = beside(key, MARK)?;
            let (value, seen): (Option<Vec<u8>>, Option<String>) =
                cmd("MGET").arg(key).arg(mark).query_async(connection).await.map_err(failure)?;
            let token = seen.as_deref().map(parse).transpose()?;
            Ok(FencedValue { value, token })
        };
        read.await.map_err(|error: Error| error.during("get", None))
    }

    async fn newer(
        self,
        connection: &mut impl ConnectionLike,
        script: &Lua,
        key: &[u8],
        token: Token,
        what: &[&[u8]],
    ) -> Result<Fenced> {
        let mark = beside(key, MARK)?;
        let (offered, retention) = (format!("{:016}", token.get()), self.retention_ms()?);
        let arguments = [&[offered.as_bytes(), retention.as_bytes()], what].concat();
        let seen: String = script.run(connection, [key, &mark], &arguments).await?;
        let highest = parse(&seen)?;
        if highest == token {
            return Ok(Fenced::Written);
        }
        let resource = String::from_utf8_lossy(key).into_owned();
        Ok(Fenced::Stale(Stale::new(resource, token, highest)))
    }
}

const MARK: &str = ":fence";

/// A token as the script keeps it: 16 digits.
fn parse(seen: &str) -> Result<Token> {
    let digits = seen.len() == 16 && seen.bytes().all(|byte| byte.is_ascii_digit());
    let token = seen.parse().ok().filter(|_| digits).and_then(Token::new);
    token.ok_or_else(|| {
        Error::new(ErrorKind::Foreign, "redis: the fence of this key holds no token")
    })
}

//! Compare-token-and-set: refuses a write if its token is smaller than the largest token seen for
//! the value.

use std::sync::LazyLock;

use ::redis::aio::ConnectionLike;
use ::redis::cmd;

use super::key::beside;
use super::script::{Lua, failure};
use super::settings::RedisFence;
use crate::fence::{Announce, Fenced, Stale};
use crate::{Error, ErrorKind, Result, Token};

/// A fenced value as stored in Redis.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FencedValue {
    /// The value; `None` if the key does not exist or its type is not string.
    pub value: Option<Vec<u8>>,
    /// The largest token seen; `None` if no token was seen, or its retention has ended.
    pub token: Option<Token>,
}

/// The script for writes that need memory. A full server refuses it before it changes anything.
static GROWS: LazyLock<Lua> =
    LazyLock::new(|| Lua::new(concat!("#!lua\n", include_str!("../lua/newer.lua"))));

/// The script for deletes and announcements. It also runs on a full server.
static SHRINKS: LazyLock<Lua> = LazyLock::new(|| {
    Lua::new(concat!("#!lua flags=allow-oom\n", include_str!("../lua/newer.lua")))
});

impl RedisFence {
    /// Sets `key` to `value`, unless a larger token has been seen for the key.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a key or a setting that is not allowed; nothing was sent.
    /// [`ErrorKind::Unavailable`] if the server did not answer; the value may or may not have been
    /// written, and a retry with the same token is safe. [`ErrorKind::Refused`] (permissions,
    /// read-only server, memory) and [`ErrorKind::Foreign`] (the fence's key does not hold a token);
    /// nothing was changed.
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

    /// Deletes `key`, unless a larger token has been seen for the key. Redis keeps the token for the
    /// [`retention`](Self::retention), so that a late write does not restore the value.
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

    /// Makes `key` refuse smaller tokens from now on, without a change of its value. Call it before
    /// you read a value that you will compute from and write. It returns [`Fenced::Written`] if no
    /// larger token has been seen.
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

    /// Returns the value and the largest token seen for it, read in one step.
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

impl<C: ConnectionLike + Send, K: AsRef<[u8]> + Send> Announce<(&mut C, K)> for RedisFence {
    async fn announce(&self, (connection, key): (&mut C, K), token: Token) -> Result<Fenced> {
        RedisFence::announce(*self, connection, key, token).await
    }
}

const MARK: &str = ":fence";

/// Parses a token as the script stores it: 16 decimal digits.
fn parse(seen: &str) -> Result<Token> {
    let digits = seen.len() == 16 && seen.bytes().all(|byte| byte.is_ascii_digit());
    let token = seen.parse().ok().filter(|_| digits).and_then(Token::new);
    token.ok_or_else(|| {
        Error::new(
            ErrorKind::Foreign,
            "redis: the fence of this key does not hold a token; use another key",
        )
    })
}

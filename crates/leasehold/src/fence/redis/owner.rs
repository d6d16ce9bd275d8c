//! Compare-and-set by attempt id, which checks only equality.

use std::sync::LazyLock;

use ::redis::aio::ConnectionLike;
use ::redis::cmd;

use super::key::beside;
use super::script::{Lua, failure};
use super::settings::RedisFence;
use crate::{AttemptId, Error, ErrorKind, Result};

/// The result of [`RedisFence::set_if_owner`].
#[must_use = "a refused write must stop the work"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Owned {
    /// The value was written.
    Written,
    /// The write was refused, and nothing was changed.
    NotOwner {
        /// The attempt that claimed the key last; `None` if no attempt has claimed it, or the
        /// retention has ended.
        owner: Option<AttemptId>,
    },
}

static OWNER: LazyLock<Lua> =
    LazyLock::new(|| Lua::new(concat!("#!lua\n", include_str!("../lua/owner.lua"))));

impl RedisFence {
    /// Makes `attempt` the owner of `key` and replaces any earlier owner. A new holder calls it
    /// first, with [`Guard::attempt`](crate::Guard::attempt). Redis keeps the owner for the
    /// [`retention`](Self::retention) after the last write.
    ///
    /// # Errors
    /// As [`set_if_owner`](Self::set_if_owner).
    pub async fn claim(
        self,
        connection: &mut impl ConnectionLike,
        key: impl AsRef<[u8]>,
        attempt: AttemptId,
    ) -> Result<()> {
        let claim = async {
            let (owner, retention) = (beside(key.as_ref(), OWNER_KEY)?, self.retention_ms()?);
            let mut set = cmd("SET");
            set.arg(owner).arg(attempt.to_string()).arg("PX").arg(retention);
            set.query_async(connection).await.map_err(failure)
        };
        claim.await.map_err(|error: Error| error.during("claim", None))
    }

    /// Sets `key` to `value` if `attempt` was the last to [claim](Self::claim) the key. **Not a
    /// fence**: an attempt id is random, so the resource can distinguish two owners but cannot decide
    /// which one is later.
    ///
    /// | paused holder | its late write |
    /// |---|---|
    /// | claimed, then a later holder claimed | refused |
    /// | claimed, and the later holder has not claimed yet | **accepted** |
    /// | paused before its own claim, which then arrives late | **accepted, and refuses the later holder's writes** |
    ///
    /// Every guard has a token, so use [`set_if_newer`](Self::set_if_newer). This method is for
    /// programs that share the key with holders of locks without tokens.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a key or a setting that is not allowed; nothing was sent.
    /// [`ErrorKind::Unavailable`] if the server did not answer; the value may or may not have been
    /// written, and a retry is as safe as the first call. [`ErrorKind::Refused`] and
    /// [`ErrorKind::Foreign`]; nothing was changed.
    pub async fn set_if_owner(
        self,
        connection: &mut impl ConnectionLike,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        attempt: AttemptId,
    ) -> Result<Owned> {
        let set = async {
            let (key, value) = (key.as_ref(), value.as_ref());
            let (owner, retention) = (beside(key, OWNER_KEY)?, self.retention_ms()?);
            let (id, ttl) = (attempt.to_string(), self.ttl_ms()?);
            let arguments = [id.as_bytes(), retention.as_bytes(), value, ttl.as_bytes()];
            let owner = OWNER.run(connection, [key, &owner], &arguments).await?;
            answer(attempt, owner)
        };
        set.await.map_err(|error| error.during("set_if_owner", None))
    }
}

const OWNER_KEY: &str = ":owner";

fn answer(attempt: AttemptId, owner: Option<String>) -> Result<Owned> {
    let Some(owner) = owner else { return Ok(Owned::NotOwner { owner: None }) };
    match AttemptId::parse(&owner) {
        Some(owner) if owner == attempt => Ok(Owned::Written),
        Some(owner) => Ok(Owned::NotOwner { owner: Some(owner) }),
        None => Err(Error::new(
            ErrorKind::Foreign,
            "redis: the owner of this key is not an attempt id; use another key",
        )),
    }
}

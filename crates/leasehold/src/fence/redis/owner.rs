//! Compare-and-set by attempt id, where only equality can be checked.

use std::sync::LazyLock;

use ::redis::aio::ConnectionLike;
use ::redis::cmd;

use super::key::beside;
use super::script::{Lua, failure};
use super::settings::RedisFence;
use crate::{AttemptId, Error, ErrorKind, Result};

/// The answer of [`RedisFence::set_if_owner`].
#[must_use = "a refused write must stop the work"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owned {
    /// It was written.
    Written,
    /// It was refused, and nothing was changed.
    NotOwner {
        /// Who claimed the key last; `None` when nobody did, or it is forgotten.
        owner: Option<AttemptId>,
    },
}

static OWNER: LazyLock<Lua> =
    LazyLock::new(|| Lua::new(concat!("#!lua\n", include_str!("../lua/owner.lua"))));

impl RedisFence {
    /// Makes `attempt` the owner of `key`, whoever owned it before: the first thing that a new
    /// holder does, with [`Guard::attempt`](crate::Guard::attempt). It is remembered for the
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

    /// Sets `key` to `value` if `attempt` has [claimed](Self::claim) it last. **Not a fence**: an
    /// attempt id is random, so the resource can tell owners apart but not which is the later one.
    ///
    /// | paused holder | its late write |
    /// |---|---|
    /// | claimed, and a later holder claimed meanwhile | refused |
    /// | claimed, and the later holder has not claimed yet | **passes** |
    /// | paused before its own claim, which then comes late | **passes, and locks the later holder out** |
    ///
    /// With a token at hand, and every guard has one, use [`set_if_newer`](Self::set_if_newer).
    /// This is for holders of locks that know no tokens, which share the key.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a key or a setting that is not allowed: nothing was sent.
    /// [`ErrorKind::Unavailable`]: it may have been done or not, and sending it again is as safe
    /// as the first time. [`ErrorKind::Refused`] and [`ErrorKind::Foreign`]: nothing was changed.
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
        None => Err(Error::new(ErrorKind::Foreign, "redis: the owner of this key is no attempt")),
    }
}

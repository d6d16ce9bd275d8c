//! The router, which combines routing with a lock.

use std::fmt;
use std::sync::{PoisonError, RwLock};

use super::Members;
use crate::{Error, ErrorKind, Guard, Lock, Name, Result};

/// One instance's view of the members. It acquires the locks of the instance's own keys, and
/// returns the owner of all other keys.
///
/// The key is the lock's name, and the lock's settings apply. A change of the members does not
/// revoke a lock: the new owner waits. So a program that holds a lock for a long time should call
/// [`is_mine`](Self::is_mine) between two pieces of work.
pub struct Router {
    me: Name,
    members: RwLock<Members>,
}

/// The result of [`Router::acquire`].
#[derive(Debug)]
#[must_use = "a guard that is dropped releases its lock"]
#[non_exhaustive]
pub enum Routed {
    /// This instance owns the key and holds the lock. No other instance holds it, even one with a
    /// different list of members.
    Mine(Guard),
    /// Another instance owns the key. No lock is held.
    NotMine {
        /// The member that should do the work.
        owner: String,
    },
}

impl Router {
    /// Creates the router of the instance `me`.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if `me` is not one of the members: with a misspelt name, no instance
    /// would do the work of its keys. (An [`update`](Self::update) may leave it out.)
    pub fn new(me: impl AsRef<str>, members: Members) -> Result<Self> {
        let me = me.as_ref();
        if !members.contains(me) {
            let names: Vec<_> = members.iter().map(|(name, _)| name).collect();
            return Err(Error::new(
                ErrorKind::Invalid,
                format!("me: {me:?} is not a member; the members are {names:?}"),
            ));
        }
        Ok(Self { me: Name::new(me)?, members: RwLock::new(members) })
    }

    /// Returns the name of this instance.
    pub fn me(&self) -> &str {
        self.me.as_str()
    }

    /// Returns the current list of members.
    pub fn members(&self) -> Members {
        self.members.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the list of members. An instance leaves by a list that does not contain it: it then
    /// owns no key. Guards that are held stay valid until they are released.
    pub fn update(&self, members: Members) {
        *self.members.write().unwrap_or_else(PoisonError::into_inner) = members;
    }

    /// Returns whether this instance owns the key by its current list.
    pub fn is_mine(&self, key: impl AsRef<[u8]>) -> bool {
        self.members().owner_of(key) == self.me()
    }

    /// Acquires the lock if this instance owns its name as a key; returns the owner otherwise.
    ///
    /// Sends nothing if another instance owns the key. If the owner changes while the call waits, the
    /// call continues to wait, releases the lock as soon as it is granted, and returns the new owner.
    ///
    /// Do not forward a request that was forwarded to this instance: two instances could forward it to
    /// each other forever. Call [`Lock::acquire`] for it instead.
    ///
    /// # Errors
    /// As [`Lock::acquire`].
    pub async fn acquire(&self, lock: &Lock) -> Result<Routed> {
        self.take_over(lock, &[] as &[&str]).await
    }

    /// Acquires as [`acquire`](Self::acquire) does, as if the members `gone` had left. Call it if the
    /// owner does not answer. All instances that call it with the same `gone` select the same new owner.
    ///
    /// If the missing owner is still running and holds the lock, this call waits for it.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if `gone` leaves no member; others as [`Lock::acquire`].
    pub async fn take_over(&self, lock: &Lock, gone: &[impl AsRef<str>]) -> Result<Routed> {
        let name = lock.name().map_err(|error| error.during("acquire", None))?;
        if let Some(owner) = self.other(name, gone)? {
            return Ok(Routed::NotMine { owner });
        }
        let guard = lock.acquire().await?;
        match self.other(name, gone)? {
            None => Ok(Routed::Mine(guard)),
            Some(owner) => {
                // If the release does not finish here, it continues in the background.
                let _ = guard.release_early().await;
                Ok(Routed::NotMine { owner })
            }
        }
    }

    /// Returns the owner of the key without the members `gone`; `None` if that is this instance.
    fn other(&self, key: &Name, gone: &[impl AsRef<str>]) -> Result<Option<String>> {
        let members = self.members();
        let here = |member: &str| !gone.iter().any(|gone| gone.as_ref() == member);
        match members.first_of(key.as_str().as_bytes(), here) {
            Some(owner) => Ok((owner != self.me()).then(|| owner.to_owned())),
            None => {
                let gone: Vec<_> = gone.iter().map(AsRef::as_ref).collect();
                let message =
                    format!("gone: {gone:?} are all the members; at least one must remain");
                Err(Error::new(ErrorKind::Invalid, message).during("acquire", Some(key)))
            }
        }
    }
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router").field("me", &self.me).field("members", &self.members()).finish()
    }
}

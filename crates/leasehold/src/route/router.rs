//! The guard that combines routing with a lock.

use std::fmt;
use std::sync::{PoisonError, RwLock};

use super::Members;
use crate::{Error, ErrorKind, Guard, Lock, Name, Result};

/// One instance's view of the members: takes the locks of its own keys, and names the owner of
/// the others.
///
/// The key is the lock's name; the lock brings its knobs along. A program that keeps a lock for
/// long asks [`is_mine`](Self::is_mine) between two pieces of work: a change of the members takes
/// no lock away, the new owner waits.
pub struct Router {
    me: Name,
    members: RwLock<Members>,
}

/// Whose key it is.
#[derive(Debug)]
#[must_use = "a guard that is dropped releases its lock"]
pub enum Routed {
    /// Ours, and the lock is held: no other instance works on it, whatever list it has.
    Mine(Guard),
    /// Another instance's. No lock is held.
    NotMine {
        /// The member that should do the work.
        owner: String,
    },
}

impl Router {
    /// The router of the instance `me`.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] when `me` is not one of the members, as after a slip of the pen
    /// nobody would do the work of its keys. (An [`update`](Self::update) may leave it out.)
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

    /// The name of this instance.
    pub fn me(&self) -> &str {
        self.me.as_str()
    }

    /// The members that it knows of.
    pub fn members(&self) -> Members {
        self.members.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes over a new list. Without this instance in it, which is how one leaves, no key is ours
    /// from now on; guards that are held stay valid until they are released.
    pub fn update(&self, members: Members) {
        *self.members.write().unwrap_or_else(PoisonError::into_inner) = members;
    }

    /// Whether this instance owns the key, as far as it knows.
    pub fn is_mine(&self, key: impl AsRef<[u8]>) -> bool {
        self.members().owner_of(key) == self.me()
    }

    /// Acquires the lock if its name is a key of ours, and says whose it is otherwise.
    ///
    /// For another's key nothing is sent. A lock that is granted after the key has gone to somebody
    /// else is given back at once; while it waits, an acquire does not notice that.
    ///
    /// A request that was forwarded to us is not forwarded again, since two instances could then
    /// send it to and fro: acquire the lock itself ([`Lock::acquire`]).
    ///
    /// # Errors
    /// As [`Lock::acquire`].
    pub async fn acquire(&self, lock: &Lock) -> Result<Routed> {
        self.take_over(lock, &[] as &[&str]).await
    }

    /// As [`acquire`](Self::acquire), as if the members `gone` had left: for when the owner that was
    /// named does not answer. Of those that notice, the same one takes over.
    ///
    /// If the gone one lives and holds the lock, this waits for it.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] when `gone` leaves no member; others as [`Lock::acquire`].
    pub async fn take_over(&self, lock: &Lock, gone: &[impl AsRef<str>]) -> Result<Routed> {
        let name = lock.name().map_err(|error| error.during("acquire", None))?;
        if let Some(owner) = self.other(name, gone)? {
            return Ok(Routed::NotMine { owner });
        }
        let guard = lock.acquire().await?;
        match self.other(name, gone)? {
            None => Ok(Routed::Mine(guard)),
            Some(owner) => {
                // What it cannot finish goes on in the background.
                let _ = guard.release_early().await;
                Ok(Routed::NotMine { owner })
            }
        }
    }

    /// The owner of the key without the members `gone`, unless that is this instance.
    fn other(&self, key: &Name, gone: &[impl AsRef<str>]) -> Result<Option<String>> {
        let members = self.members();
        let here = |member: &str| !gone.iter().any(|gone| gone.as_ref() == member);
        match members.first_of(key.as_str().as_bytes(), here) {
            Some(owner) => Ok((owner != self.me()).then(|| owner.to_owned())),
            None => {
                let gone: Vec<_> = gone.iter().map(AsRef::as_ref).collect();
                let message = format!("gone: {gone:?} are all the members; one has to be left");
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

//! Sessions of browsers, which exchange a token for a cookie.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use leasehold::clock::Clock;
use leasehold::{Deadline, Error};

use crate::secret::{self, Hashed};
use crate::tokens::Principal;

/// The name of the cookie.
pub(crate) const COOKIE: &str = "leasehold";

/// How long a session lasts.
pub(crate) const LASTS: Duration = Duration::from_secs(12 * 3600);

/// More sessions are not kept; the one that ends first makes room.
const MOST: usize = 10_000;

/// The sessions of this server.
#[derive(Debug)]
pub(crate) struct Sessions {
    clock: Clock,
    open: Mutex<HashMap<Hashed, (Principal, Deadline)>>,
}

impl Sessions {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, open: Mutex::default() }
    }

    /// Opens a session, and returns its secret.
    pub(crate) fn open(&self, principal: Principal) -> Result<String, Error> {
        let secret = secret::random()?;
        let now = self.clock.now();
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, (_, until)| !until.has_passed(now));
        if open.len() >= MOST {
            let first = open.iter().min_by_key(|(_, (_, until))| until.remaining(now));
            if let Some(first) = first.map(|(key, _)| *key) {
                open.remove(&first);
            }
        }
        open.insert(Hashed::of(&secret), (principal, Deadline::after(now, LASTS)));
        Ok(secret)
    }

    /// Returns the caller of a session that has not ended.
    pub(crate) fn find(&self, secret: &str) -> Option<Principal> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let (principal, until) = open.get(&Hashed::of(secret))?;
        (!until.has_passed(self.clock.now())).then(|| principal.clone())
    }

    /// Ends a session.
    pub(crate) fn close(&self, secret: &str) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.remove(&Hashed::of(secret));
    }
}

/// Returns what a form of this session must contain, so that no other page can send it.
pub(crate) fn form_secret(session: &str) -> String {
    Hashed::of_parts(&["form", session]).hex()
}

#[cfg(test)]
mod tests {
    use leasehold::clock::ManualClock;

    use super::*;
    use crate::tokens::Roles;

    #[test]
    fn a_session_ends_at_its_time_or_when_it_is_closed() {
        let hand = ManualClock::new();
        let sessions = Sessions::new(hand.clock());
        let eve = Principal { name: "eve".into(), roles: Roles::READ };
        let (one, other) = (sessions.open(eve.clone()).unwrap(), sessions.open(eve).unwrap());
        assert!(sessions.find(&one).is_some() && sessions.find("").is_none());
        sessions.close(&one);
        assert!(sessions.find(&one).is_none() && sessions.find(&other).is_some());
        hand.advance(LASTS);
        assert!(sessions.find(&other).is_none());
    }
}

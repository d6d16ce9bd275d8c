//! Changes the limit.

use super::rules::Bug;
use super::{Conflict, Limit, Reach, Record};
use crate::Now;
use crate::client::Rules;

impl<T: Clone, const CAP: usize, R: Rules<Bug>> Record<T, CAP, R> {
    /// Changes the limit if its version is still `version`, serves the queue, and returns the new
    /// version. A semaphore without a stored limit has version 0. A repeated call returns the same
    /// version, and a late call never undoes a later change.
    ///
    /// Permits in slots above a lowered limit stay valid and are renewed until they are released.
    /// They count against the limit, so no permit is granted before enough slots are free. This
    /// step may leave waiters to [another step](Self::needs_another_step).
    ///
    /// # Errors
    ///
    /// [`Conflict`] if the version is outdated. The limit has not changed.
    pub fn set_limit(
        &mut self,
        now: Now,
        version: u64,
        new: Limit,
        reach: Reach<'_>,
    ) -> Result<u64, Conflict> {
        let stored = self.limit_version();
        let repeated = version.checked_add(1) == Some(stored) && self.limit() == Some(new);
        let compares = !self.rules.breaks(Bug::LimitIgnoresVersion);
        if version != stored && !repeated && compares {
            return Err(Conflict { limit: self.limit(), version: stored });
        }
        if !repeated {
            self.limit = Some((new, stored.saturating_add(1)));
        }
        if !self.rules.breaks(Bug::NewLimitServesNone) {
            self.serve(now, None, false, reach);
        }
        Ok(self.limit_version())
    }
}

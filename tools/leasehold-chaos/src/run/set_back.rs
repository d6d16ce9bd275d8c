//! When a clock may be set back: not between the loss of a record and the next lease, whose tokens then depend on
//! the clock alone.

use super::Run;
use crate::operator::Operator;
use crate::setup::SetUp;
use crate::{MS, Result, TTL};

/// A hold that began before a loss is over so long after it.
const HOLD: u64 = TTL.as_nanos() as u64 + 100 * MS;

impl Run<'_> {
    /// Whether the lock was granted anew since its record may have been lost, or removed by an operator.
    pub(super) fn may_set_back(&self) -> Result<bool> {
        // A stopped process continues with its lease of a removed directory.
        let rest = if self.order.setup == SetUp::File { 4 * HOLD } else { HOLD };
        let forgotten = self.operator.as_ref().map_or(0, Operator::forgotten);
        let since = self.lost.max(forgotten).saturating_add(rest);
        // Each slot of a semaphore has tokens of its own.
        let counted = if self.resources.len() > 2 { 1 } else { 0 };
        for resource in &self.resources[counted..] {
            if resource.last()?.at <= since {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

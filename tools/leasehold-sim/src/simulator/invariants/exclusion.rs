//! Mutual exclusion by believed validity: no client acquires the lock while another believes to
//! hold it. Source: the safety property of every lock; not guaranteed when leases end early.

use crate::simulator::Plan;

#[derive(Debug, Default)]
pub(super) struct Exclusion {
    pub(super) overlaps: u64,
}

impl Exclusion {
    pub(super) fn held(&mut self, others: &[usize]) {
        self.overlaps += u64::from(!others.is_empty());
    }

    pub(super) fn is_broken(&self, plan: &Plan) -> bool {
        self.overlaps > 0 && plan.exclusive
    }
}

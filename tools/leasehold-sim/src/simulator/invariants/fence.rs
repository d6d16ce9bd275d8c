//! A resource with a fence takes no stale write, and loses no update. Source: fencing (Kleppmann 2016).

use crate::simulator::Plan;
use crate::simulator::resource::Resource;

pub(super) fn is_broken(plan: &Plan, fenced: &Resource) -> bool {
    plan.ordered && (fenced.stale > 0 || fenced.lost() > 0)
}

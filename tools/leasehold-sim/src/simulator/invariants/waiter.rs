//! Every waiter gets the lock once the faults have ended. Source: liveness; tries come at random, so that
//! it is looked at when the lock is free for seconds at a time.

use crate::simulator::{Plan, SECOND};

#[derive(Debug)]
pub(super) struct Waiter {
    calm: u64,
    /// Since when each client wants the lock.
    wants: Vec<Option<u64>>,
    /// How often each got it after the faults.
    got: Vec<u64>,
    asked: Vec<bool>,
    holders: usize,
    holds: Vec<bool>,
    idle_since: Option<u64>,
    longest: u64,
}

impl Waiter {
    pub(super) fn new(plan: &Plan, clients: usize) -> Self {
        Self {
            calm: plan.calm,
            wants: vec![None; clients],
            got: vec![0; clients],
            asked: vec![false; clients],
            holders: 0,
            holds: vec![false; clients],
            idle_since: None,
            longest: 0,
        }
    }

    pub(super) fn asks(&mut self, client: usize, time: u64) {
        self.wants[client].get_or_insert(time);
        self.asked[client] |= time >= self.calm;
        if self.holders == 0 {
            self.idle_since.get_or_insert(time);
        }
    }

    pub(super) fn held(&mut self, client: usize, time: u64) {
        self.wants[client] = None;
        self.got[client] += u64::from(time >= self.calm);
        if let Some(since) = self.idle_since.take() {
            self.longest = self.longest.max(time - since);
        }
        if !std::mem::replace(&mut self.holds[client], true) {
            self.holders += 1;
        }
    }

    pub(super) fn released(&mut self, client: usize, time: u64) {
        if std::mem::replace(&mut self.holds[client], false) {
            self.holders -= 1;
        }
        self.wants[client] = None;
        if self.holders == 0 && self.wants.iter().any(Option::is_some) {
            self.idle_since.get_or_insert(time);
        }
    }

    /// The longest time without a holder while a client wanted the lock.
    pub(super) fn gap(&self, end: u64) -> u64 {
        self.longest.max(self.idle_since.map_or(0, |since| end - since))
    }

    pub(super) fn is_broken(&self, plan: &Plan) -> bool {
        let long = |since: &Option<u64>| since.is_some_and(|since| since + 10 * SECOND < plan.end);
        let in_vain = self.wants.iter().any(long);
        let never = self.asked.iter().zip(&self.got).any(|(asked, got)| *asked && *got == 0);
        plan.calm < plan.end && in_vain && never
    }
}

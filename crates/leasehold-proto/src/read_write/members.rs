//! The members of a phase.

use super::messages::Member;
use crate::AttemptId;
use crate::timed_map::TimedMap;

/// The attempts that hold the lock. Every operation takes logarithmic time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Members<T>(TimedMap<Member<T>>);

impl<T> Default for Members<T> {
    fn default() -> Self {
        Self(TimedMap::default())
    }
}

impl<T> Members<T> {
    pub(super) fn get(&self, attempt: AttemptId) -> Option<&Member<T>> {
        self.0.get(attempt).map(|(_, member)| member)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn len(&self) -> usize {
        self.0.iter().len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Member<T>> {
        self.0.iter().map(|(_, _, member)| member)
    }

    pub(super) fn into_values(self) -> impl Iterator<Item = Member<T>> {
        self.0.into_entries().map(|(_, _, member)| member)
    }

    /// Returns when the last lease ends; 0 if there is no member.
    pub(super) fn latest_ns(&self) -> u64 {
        self.0.latest_first().next().map_or(0, |(until_ns, _)| until_ns)
    }

    /// Iterates over the members whose leases end after this time, the latest first.
    pub(super) fn alive(&self, now_ns: u64) -> impl Iterator<Item = AttemptId> {
        let alive = move |(until_ns, _): &(u64, AttemptId)| *until_ns > now_ns;
        self.0.latest_first().take_while(alive).map(|(_, attempt)| attempt)
    }

    /// Returns the member whose lease ends first.
    pub(super) fn earliest(&self) -> Option<(u64, AttemptId)> {
        self.0.first()
    }

    pub(super) fn insert(&mut self, member: Member<T>) {
        self.0.insert(member.attempt, member.until_ns, member);
    }

    pub(super) fn remove(&mut self, attempt: AttemptId) -> Option<Member<T>> {
        self.0.remove(attempt)
    }

    /// Confirms a member, and sets the end of its lease to what `until_ns` makes of it.
    pub(super) fn confirm(&mut self, attempt: AttemptId, until_ns: impl FnOnce(u64) -> u64) {
        let Some(member) = self.0.get_mut(attempt) else { return };
        let until_ns = until_ns(member.until_ns);
        (member.until_ns, member.confirmed) = (until_ns, true);
        self.0.set_until(attempt, until_ns);
    }
}

impl<T> FromIterator<Member<T>> for Members<T> {
    fn from_iter<I: IntoIterator<Item = Member<T>>>(members: I) -> Self {
        let mut all = Self::default();
        members.into_iter().for_each(|member| all.insert(member));
        all
    }
}

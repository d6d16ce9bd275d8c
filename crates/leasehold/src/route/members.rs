//! A set of weighted members, and who of them owns a key.

use std::cmp::{Ordering, Reverse};
use std::sync::Arc;

use super::hash::{Key, delay};
use crate::{Error, ErrorKind, Name, Result};

/// The instances among which keys are shared out; cheap to clone, never empty.
///
/// Rendezvous hashing: every member draws a number for the key, and the best one owns it (David
/// Thaler and Chinya Ravishankar, "Using name-based mappings to increase hit rates", 1998). A
/// member that leaves gives away its own keys and moves no other; one that joins takes its share
/// from all. Weights by the logarithmic method (Christian Schindelhauer and Gunnar Schomaker,
/// "Weighted distributed hash tables", 2005).
///
/// The owner depends on the key's bytes, the names and the weights: not on the order of the
/// list, the process, the machine or this crate's version. `docs/routing.md` of the repository
/// says how it is computed, for other languages.
///
/// Each question looks at every member: some tens of nanoseconds for each. Whoever chooses keys can
/// choose whose they are; the hash has no secret.
///
/// ```
/// # fn main() -> leasehold::Result<()> {
/// use leasehold::route::Members;
///
/// let members = Members::new(["a", "b", "c"])?;
/// assert_eq!(members.owner_of("orders/555"), "b");
/// assert_eq!(members.owners_of("orders/555", 2), ["b", "a"]); // a's when b is gone
/// assert_eq!(members.without("b")?.owner_of("orders/555"), "a");
///
/// // `big` owns twice as many keys as `small`.
/// let members = Members::builder().member("small").weighted("big", 2.0).build()?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Members {
    /// In the order of their names.
    members: Arc<[Member]>,
    /// All weights are the same, so that the hash alone decides.
    even: bool,
}

#[derive(Clone, Debug, PartialEq)]
struct Member {
    name: Name,
    weight: f64,
}

/// Collects members; [`build`](Self::build) checks them.
#[derive(Clone, Debug, Default)]
pub struct MembersBuilder(Vec<(String, f64)>);

impl MembersBuilder {
    /// Adds a member of weight 1.
    pub fn member(self, name: impl Into<String>) -> Self {
        self.weighted(name, 1.0)
    }

    /// Adds a member whose share of the keys is its weight divided by the sum of all weights.
    pub fn weighted(mut self, name: impl Into<String>, weight: f64) -> Self {
        self.0.push((name.into(), weight));
        self
    }

    /// The set.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] when there is no member, a name comes twice or is not allowed (1 to
    /// 512 bytes of UTF-8 without control characters), or a weight is not a number from 1e-6 to
    /// 1e12.
    pub fn build(self) -> Result<Members> {
        let check = |(index, (name, weight)): (usize, (String, f64))| {
            let name = Name::new(name)
                .map_err(|error| invalid(format!("member {}: {}", index + 1, error.message())))?;
            match (Members::MIN_WEIGHT..=Members::MAX_WEIGHT).contains(&weight) {
                true => Ok(Member { name, weight }),
                false => Err(invalid(format!(
                    "weight of member {:?}: {weight}; 1e-6 to 1e12 is allowed",
                    name.as_str()
                ))),
            }
        };
        let members = self.0.into_iter().enumerate().map(check).collect::<Result<_>>()?;
        Members::of(members)
    }
}

impl Members {
    /// The smallest weight that is allowed.
    pub const MIN_WEIGHT: f64 = 1e-6;
    /// The largest weight that is allowed.
    pub const MAX_WEIGHT: f64 = 1e12;

    /// Members of weight 1.
    ///
    /// # Errors
    /// As [`MembersBuilder::build`].
    pub fn new<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Result<Self> {
        names.into_iter().fold(Self::builder(), MembersBuilder::member).build()
    }

    /// A builder without members.
    pub fn builder() -> MembersBuilder {
        MembersBuilder::default()
    }

    fn of(mut members: Vec<Member>) -> Result<Self> {
        members.sort_by(|one, two| one.name.cmp(&two.name));
        if let Some(pair) = members.windows(2).find(|pair| pair[0].name == pair[1].name) {
            let name = pair[0].name.as_str();
            return Err(invalid(format!("member {name:?}: is there twice; once is allowed")));
        }
        let Some(first) = members.first() else {
            return Err(invalid("members: there are none; at least one is needed".to_owned()));
        };
        let even = members.iter().all(|member| member.weight == first.weight);
        Ok(Self { members: members.into(), even })
    }

    /// The member that owns `key`.
    pub fn owner_of(&self, key: impl AsRef<[u8]>) -> &str {
        self.first_of(key.as_ref(), |_| true).unwrap_or_default() // there is always one
    }

    /// The first `n` members in the order in which they own `key`: each is the owner when those
    /// before it are gone. All of them when there are no more than `n`.
    pub fn owners_of(&self, key: impl AsRef<[u8]>, n: usize) -> Vec<&str> {
        let mut ranked: Vec<_> = self.ranked(key.as_ref()).collect();
        ranked.sort_unstable();
        ranked.into_iter().take(n).map(|rank| rank.name).collect()
    }

    /// The owner of `key` among those members that `counts` lets pass.
    pub(super) fn first_of(&self, key: &[u8], counts: impl Fn(&str) -> bool) -> Option<&str> {
        self.ranked(key).filter(|rank| counts(rank.name)).min().map(|rank| rank.name)
    }

    fn ranked(&self, key: &[u8]) -> impl Iterator<Item = Rank<'_>> {
        let mut key = Key::new(key);
        self.members.iter().map(move |Member { name, weight }| {
            let name = name.as_str();
            let hash = key.with(name);
            Rank { delay: if self.even { 0.0 } else { delay(hash, *weight) }, hash, name }
        })
    }

    /// This set and one more member; a member that is there already gets this weight.
    ///
    /// # Errors
    /// As [`MembersBuilder::build`].
    pub fn with(&self, name: impl Into<String>, weight: f64) -> Result<Self> {
        let name = name.into();
        let others = self.iter().filter(|(other, _)| *other != name);
        let others = others.map(|(other, weight)| (other.to_owned(), weight)).collect();
        MembersBuilder(others).weighted(name, weight).build()
    }

    /// This set without a member; the same set when it is not there.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] when it is the last one.
    pub fn without(&self, name: impl AsRef<str>) -> Result<Self> {
        let stays = |member: &&Member| member.name.as_str() != name.as_ref();
        Self::of(self.members.iter().filter(stays).cloned().collect())
    }

    /// Whether there is a member of this name.
    pub fn contains(&self, name: impl AsRef<str>) -> bool {
        self.iter().any(|(member, _)| member == name.as_ref())
    }

    /// Names and weights, in the order of the names.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, f64)> {
        self.members.iter().map(|member| (member.name.as_str(), member.weight))
    }
}

/// A member's place for a key: the smallest owns it.
struct Rank<'a> {
    delay: f64,
    hash: u64,
    name: &'a str,
}

impl Ord for Rank<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let rest = |rank: &Self| (Reverse(rank.hash), rank.name);
        self.delay.total_cmp(&other.delay).then_with(|| rest(self).cmp(&rest(other)))
    }
}

impl PartialOrd for Rank<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Rank<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Rank<'_> {}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::Invalid, message)
}

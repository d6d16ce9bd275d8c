//! A set of weighted members, and the member that owns a key.

use std::cmp::{Ordering, Reverse};
use std::sync::Arc;

use super::hash::{Key, delay};
use crate::{Error, ErrorKind, Name, Result};

/// The instances among which keys are distributed. Cheap to clone, never empty.
///
/// Uses rendezvous hashing: each member has a number for the key, and the member with the best
/// number owns it (David Thaler and Chinya Ravishankar, "Using name-based mappings to increase hit
/// rates", 1998). If a member leaves, only its own keys move. If a member joins, it takes its share
/// from all others. Weights use the logarithmic method (Christian Schindelhauer and Gunnar
/// Schomaker, "Weighted distributed hash tables", 2005).
///
/// The owner depends only on the key's bytes, the names and the weights. It does not depend on the
/// order of the list, the process, the machine or this crate's version. The repository's
/// `docs/routing.md` describes the computation for other languages.
///
/// Each lookup checks every member and takes some tens of nanoseconds per member. The hash has no
/// secret, so a client that chooses a key can also choose its owner.
///
/// ```
/// # fn main() -> leasehold::Result<()> {
/// use leasehold::route::Members;
///
/// let members = Members::new(["a", "b", "c"])?;
/// assert_eq!(members.owner_of("orders/555"), "b");
/// assert_eq!(members.owners_of("orders/555", 2), ["b", "a"]); // `a` owns it if `b` has left
/// assert_eq!(members.without("b")?.owner_of("orders/555"), "a");
///
/// // `big` owns twice as many keys as `small`.
/// let members = Members::builder().member("small").weighted("big", 2.0).build()?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Members {
    /// The members in the order of their names.
    members: Arc<[Member]>,
    /// True if all weights are equal, so that the hash alone decides.
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
    #[must_use]
    pub fn member(self, name: impl Into<String>) -> Self {
        self.weighted(name, 1.0)
    }

    /// Adds a member whose share of the keys is its weight divided by the sum of all weights.
    #[must_use]
    pub fn weighted(mut self, name: impl Into<String>, weight: f64) -> Self {
        self.0.push((name.into(), weight));
        self
    }

    /// Checks the members and returns the set.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if there is no member, a name occurs twice or is not allowed (1 to 512
    /// bytes of UTF-8 without control characters), or a weight is not a number from 1e-6 to 1e12.
    pub fn build(self) -> Result<Members> {
        let check = |(index, (name, weight)): (usize, (String, f64))| {
            let name = Name::new(name)
                .map_err(|error| invalid(format!("member {}: {}", index + 1, error)))?;
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

    /// Creates a set of members of weight 1.
    ///
    /// # Errors
    /// As [`MembersBuilder::build`].
    pub fn new<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Result<Self> {
        names.into_iter().fold(Self::builder(), MembersBuilder::member).build()
    }

    /// Returns a builder without members.
    pub fn builder() -> MembersBuilder {
        MembersBuilder::default()
    }

    fn of(mut members: Vec<Member>) -> Result<Self> {
        members.sort_by(|one, two| one.name.cmp(&two.name));
        if let Some(pair) = members.windows(2).find(|pair| pair[0].name == pair[1].name) {
            let name = pair[0].name.as_str();
            return Err(invalid(format!("member {name:?}: occurs twice; name each member once")));
        }
        let Some(first) = members.first() else {
            return Err(invalid(
                "members: the list is empty; at least one member is needed".to_owned(),
            ));
        };
        let even = members.iter().all(|member| member.weight == first.weight);
        Ok(Self { members: members.into(), even })
    }

    /// Returns the member that owns `key`.
    pub fn owner_of(&self, key: impl AsRef<[u8]>) -> &str {
        self.first_of(key.as_ref(), |_| true).unwrap_or_default() // there is always one
    }

    /// Returns the first `n` members in the order in which they own `key`: each is the owner if those
    /// before it have left. Returns all members if there are at most `n`.
    pub fn owners_of(&self, key: impl AsRef<[u8]>, n: usize) -> Vec<&str> {
        let mut ranked: Vec<_> = self.ranked(key.as_ref()).collect();
        ranked.sort_unstable();
        ranked.into_iter().take(n).map(|rank| rank.name).collect()
    }

    /// Returns the owner of `key` among the members for which `counts` is true.
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

    /// Returns this set with one more member; an existing member gets this weight.
    ///
    /// # Errors
    /// As [`MembersBuilder::build`].
    pub fn with(&self, name: impl Into<String>, weight: f64) -> Result<Self> {
        let name = name.into();
        let others = self.iter().filter(|(other, _)| *other != name);
        let others = others.map(|(other, weight)| (other.to_owned(), weight)).collect();
        MembersBuilder(others).weighted(name, weight).build()
    }

    /// Returns this set without a member; the same set if it has no such member.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if it is the last member.
    pub fn without(&self, name: impl AsRef<str>) -> Result<Self> {
        let stays = |member: &&Member| member.name.as_str() != name.as_ref();
        Self::of(self.members.iter().filter(stays).cloned().collect())
    }

    /// Returns whether the set has a member of this name.
    pub fn contains(&self, name: impl AsRef<str>) -> bool {
        self.iter().any(|(member, _)| member == name.as_ref())
    }

    /// Returns names and weights, in the order of the names.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, f64)> {
        self.members.iter().map(|member| (member.name.as_str(), member.weight))
    }
}

/// A member's rank for a key; the member with the smallest rank owns the key.
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

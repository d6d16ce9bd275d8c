//! One page of the locks of a store: prefix, order, and where the page begins.

use std::sync::Arc;

use leasehold::{State, Status};

use crate::scan::{Order, Snapshot, key};

/// The most locks of a page.
pub(crate) const LONGEST: usize = 1000;

/// What a page shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Listing {
    pub(crate) prefix: String,
    pub(crate) order: Order,
    /// It leaves out free locks.
    pub(crate) taken: bool,
    /// The cursor that the page before ended with.
    pub(crate) after: Option<String>,
    pub(crate) limit: usize,
}

/// A page.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) locks: Vec<Arc<Status>>,
    /// The cursor of the next page, if there is one.
    pub(crate) next: Option<String>,
    /// The locks of all pages.
    pub(crate) total: usize,
}

impl Order {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match text {
            "" | "name" => Ok(Self::Name),
            "held" => Ok(Self::Held),
            "queue" => Ok(Self::Queue),
            _ => Err(format!("sort: {text:?} is unknown; use name, held or queue")),
        }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Held => "held",
            Self::Queue => "queue",
        }
    }
}

impl Listing {
    /// Returns the page of a snapshot. A cursor names a lock and what it was sorted by, so that
    /// pages stay complete when locks come and go.
    pub(crate) fn page(&self, snapshot: &Snapshot) -> Result<Page, String> {
        let all = snapshot.ordered(self.order);
        let is_shown = |status: &&Arc<Status>| {
            status.name.as_str().starts_with(&self.prefix)
                && (!self.taken || status.state != State::Free)
        };
        let start = match &self.after {
            None => 0,
            Some(cursor) => {
                let wrong = || format!("after: {cursor:?} is no cursor; use that of the last page");
                let (number, name) = cursor.split_once('~').ok_or_else(wrong)?;
                let number: u64 = number.parse().map_err(|_| wrong())?;
                all.partition_point(|status| {
                    (key(self.order, status), status.name.as_str()) <= (number, name)
                })
            }
        };
        let total = all.iter().filter(is_shown).count();
        let mut rest = all[start..].iter().filter(is_shown);
        let locks: Vec<_> = rest.by_ref().take(self.limit).cloned().collect();
        let next = rest.next().and(locks.last());
        let next = next.map(|last| format!("{}~{}", key(self.order, last), last.name));
        Ok(Page { locks, next, total })
    }
}

#[cfg(test)]
mod tests {
    use leasehold::clock::Clock;

    use super::*;
    use crate::scan::Scans;

    #[tokio::test]
    async fn pages_show_each_lock_once_in_every_order() {
        let client = leasehold::connect("memory:").await.unwrap();
        let mut guards = Vec::new();
        for n in 0..25 {
            guards.push(client.lock(format!("a/{n}~x")).acquire().await.unwrap());
        }
        guards.push(client.lock("b").acquire().await.unwrap());
        let scans = Arc::new(Scans::new(Clock::system()));
        scans.scan(&client).await;
        for order in [Order::Name, Order::Held, Order::Queue] {
            let mut listing =
                Listing { prefix: "a/".into(), order, limit: 10, ..Listing::default() };
            let mut seen = Vec::new();
            loop {
                let page = listing.page(&scans.last()).unwrap();
                assert_eq!(page.total, 25);
                seen.extend(page.locks.iter().map(|status| status.name.to_string()));
                listing.after = page.next;
                if listing.after.is_none() {
                    break;
                }
            }
            assert_eq!(seen.len(), 25, "{order:?}");
            seen.sort();
            seen.dedup();
            assert_eq!(seen.len(), 25, "{order:?}");
        }
        let listing = Listing { after: Some("nonsense".into()), limit: 1, ..Listing::default() };
        assert!(listing.page(&scans.last()).is_err());
    }
}

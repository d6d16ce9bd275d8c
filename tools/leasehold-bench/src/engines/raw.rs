//! The simplest correct protocol by each engine's plain client, as people write it by hand.

mod etcd;
mod etcd_watch;
mod file;
mod memory;
mod notify;
mod queue;
mod redis;
mod sql;
mod zookeeper;

use super::load::{self, Figures};
use crate::Result;
use crate::pairs::Times;
use crate::store::{Store, StoreAddress};

/// Whether there is one for this store.
pub(super) fn is_there(store: &Store) -> bool {
    !matches!(store, Store::Url(..))
}

/// Whether two clients of this store can pass a turn to and fro by push alone.
pub(super) fn passes_turns(store: &Store) -> bool {
    matches!(store, Store::Postgres | Store::Etcd)
}

/// Measures that; the round trip and pairs are those of the others.
pub(super) async fn turns(store: &Store, place: &StoreAddress, times: Times) -> Result<Figures> {
    let handoffs_per_s = match store {
        Store::Postgres => notify::per_s(place, times).await?,
        _ => etcd_watch::per_s(place, times).await?,
    };
    Ok(Figures { pairs: None, handoffs_per_s, round_trip_us: None })
}

/// Whether there is a fair lock with push for this store.
pub(super) fn is_fair(store: &Store) -> bool {
    matches!(store, Store::Postgres)
}

/// Measures that.
pub(super) async fn fair(place: &StoreAddress, tasks: usize, times: Times) -> Result<Figures> {
    load::figures::<queue::Queue>(place, tasks, times).await
}

/// Measures it.
pub(super) async fn figures(
    store: &Store,
    place: &StoreAddress,
    tasks: usize,
    times: Times,
) -> Result<Figures> {
    match store {
        Store::Memory => load::figures::<memory::Memory>(place, tasks, times).await,
        Store::File => load::figures::<file::Files>(place, tasks, times).await,
        Store::Redis | Store::Redlock(_) => load::figures::<redis::Keys>(place, tasks, times).await,
        Store::Postgres | Store::MySql | Store::Sqlite => {
            load::figures::<sql::Rows>(place, tasks, times).await
        }
        Store::ZooKeeper => load::figures::<zookeeper::Nodes>(place, tasks, times).await,
        Store::Etcd => load::figures::<etcd::Keys>(place, tasks, times).await,
        Store::Url(..) => Err("only beside stores of our own".into()),
    }
}

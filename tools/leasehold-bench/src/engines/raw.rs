//! The simplest correct protocol by each engine's plain client, as people write it by hand.

#[cfg(feature = "etcd")]
mod etcd;
mod file;
mod memory;
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
        #[cfg(feature = "etcd")]
        Store::Etcd => load::figures::<etcd::Keys>(place, tasks, times).await,
        Store::Url(..) => Err("only beside stores of our own".into()),
    }
}

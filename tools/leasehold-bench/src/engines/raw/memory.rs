//! Memory: a tokio Mutex for each name, found in a map.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, PoisonError};

use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::Result;
use crate::engines::load::{Engine, Taker};
use crate::store::StoreAddress;

type Locks = std::sync::Mutex<HashMap<String, Arc<Mutex<()>>>>;

/// All locks of the process.
static LOCKS: LazyLock<Locks> = LazyLock::new(Locks::default);

pub(super) struct Memory;

impl Engine for Memory {
    type Taker = Name;

    async fn open(_: &StoreAddress) -> Result<Self> {
        Ok(Self)
    }

    fn taker(&self, name: String) -> Name {
        Name(name, None)
    }

    async fn ask(&mut self) -> Result<bool> {
        Ok(false)
    }

    async fn close(self) {}
}

pub(super) struct Name(String, Option<OwnedMutexGuard<()>>);

impl Taker for Name {
    async fn acquire(&mut self) -> Result<()> {
        let known = LOCKS.lock().unwrap_or_else(PoisonError::into_inner).get(&self.0).cloned();
        let lock = match known {
            Some(lock) => lock,
            None => {
                let mut all = LOCKS.lock().unwrap_or_else(PoisonError::into_inner);
                all.entry(self.0.clone()).or_default().clone()
            }
        };
        self.1 = Some(lock.lock_owned().await);
        Ok(())
    }

    async fn release(&mut self) -> Result<()> {
        self.1 = None;
        Ok(())
    }
}

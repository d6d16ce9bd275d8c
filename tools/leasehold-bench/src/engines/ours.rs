//! Leasehold's client, whatever the engine.

use leasehold::{Client, Guard, Lock};

use super::load::{Engine, Taker};
use crate::Result;
use crate::store::StoreAddress;

/// A client of Leasehold's.
pub(super) struct Ours(Client);

impl Engine for Ours {
    type Taker = Held;

    async fn open(place: &StoreAddress) -> Result<Self> {
        Ok(Self(place.connect().await?))
    }

    fn taker(&self, name: String) -> Held {
        Held(self.0.lock(name), None)
    }

    async fn ask(&mut self) -> Result<bool> {
        Ok(false)
    }

    async fn close(self) {
        self.0.close().await;
    }
}

/// A lock, and its guard while it is held.
pub(super) struct Held(Lock, Option<Guard>);

impl Taker for Held {
    async fn acquire(&mut self) -> Result<()> {
        self.1 = Some(self.0.acquire().await?);
        Ok(())
    }

    async fn release(&mut self) -> Result<()> {
        match self.1.take() {
            Some(guard) => Ok(guard.release().await?),
            None => Err("released without holding".into()),
        }
    }
}

//! etcd: a key under a lease, put if it is not there; who has to wait watches it until it is deleted.

use leasehold_etcd_api::{
    Client, Compare, CompareOp, ConnectOptions, Event, EventType, PutOptions, Txn, TxnOp,
    WatchOptions, WatchStream,
};

use crate::Result;
use crate::engines::load::{Engine, Taker};
use crate::store::StoreAddress;

/// Longer than is measured, so that nothing has to be kept alive.
const TTL_S: i64 = 600;

pub(super) struct Keys {
    client: Client,
    lease: i64,
}

impl Engine for Keys {
    type Taker = Key;

    async fn open(place: &StoreAddress) -> Result<Self> {
        let server = place.url.strip_prefix("etcd://").ok_or("an etcd: URL is needed")?;
        let client = Client::connect(&format!("http://{server}"), &ConnectOptions::new()).await?;
        let lease = client.lease_grant(0, TTL_S).await?.id;
        Ok(Self { client, lease })
    }

    fn taker(&self, name: String) -> Key {
        let key = format!("raw/{name}");
        Key { client: self.client.clone(), lease: self.lease, key, watches: None }
    }

    async fn ask(&mut self) -> Result<bool> {
        self.client.get("raw", None).await?;
        Ok(true)
    }

    async fn close(self) {}
}

pub(super) struct Key {
    client: Client,
    lease: i64,
    key: String,
    /// One stream for all its watches: a server ends connections whose streams come and go.
    watches: Option<WatchStream>,
}

impl Key {
    /// Waits until the key goes, which was there at this revision.
    async fn gone(&mut self, revision: i64) -> Result<()> {
        let since = WatchOptions::new().with_start_revision(revision + 1);
        match &mut self.watches {
            Some(watches) => watches.watch(self.key.as_str(), Some(since)).await?,
            None => {
                self.watches = Some(self.client.watch(self.key.as_str(), Some(since)).await?);
            }
        }
        let Some(watches) = &mut self.watches else { return Ok(()) };
        let mut watch = None;
        while let Some(answer) = watches.message().await? {
            if answer.created {
                watch = Some(answer.watch_id);
            }
            let ours = watch == Some(answer.watch_id);
            let ends = |event: &Event| event.r#type() == EventType::Delete;
            if ours && answer.events.iter().any(ends) {
                watches.cancel(answer.watch_id).await?;
                return Ok(());
            }
        }
        Err("the stream of watches has ended".into())
    }
}

impl Taker for Key {
    async fn acquire(&mut self) -> Result<()> {
        loop {
            let absent = Compare::create_revision(self.key.as_str(), CompareOp::Equal, 0);
            let options = PutOptions::new().with_lease(self.lease);
            let put = TxnOp::put(self.key.as_str(), "", Some(options));
            let answer = self.client.txn(Txn::new().when([absent]).and_then([put])).await?;
            if answer.succeeded {
                return Ok(());
            }
            let revision = answer.header.map_or(0, |header| header.revision);
            self.gone(revision).await?;
        }
    }

    async fn release(&mut self) -> Result<()> {
        match self.client.delete(self.key.as_str()).await?.deleted {
            1 => Ok(()),
            _ => Err("another client has taken our key".into()),
        }
    }
}

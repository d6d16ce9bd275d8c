//! Redis: `SET NX PX`, and a script that compares and deletes, on one server or, as Redlock, on most
//! of several. Who has to wait asks again. No fencing token.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use redis::Script;
use redis::aio::MultiplexedConnection;

use crate::Result;
use crate::engines::load::{Engine, Taker};
use crate::store::StoreAddress;

const COMPARE_AND_DELETE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then
    return redis.call('DEL', KEYS[1]) else return 0 end";
/// Who has to wait asks again after this, and up to twice of it over several servers, so that
/// those who have divided the servers among them do not do so again.
const PAUSE_MS: u64 = 10;

pub(super) struct Keys {
    servers: Vec<MultiplexedConnection>,
    release: Arc<Script>,
}

impl Engine for Keys {
    type Taker = Key;

    async fn open(place: &StoreAddress) -> Result<Self> {
        let mut servers = Vec::new();
        for url in place.urls().split_whitespace() {
            servers.push(crate::multiplexed(url).await?);
        }
        Ok(Self { servers, release: Arc::new(Script::new(COMPARE_AND_DELETE)) })
    }

    fn taker(&self, name: String) -> Key {
        let (servers, release) = (self.servers.clone(), self.release.clone());
        Key { servers, release, name: format!("raw:{name}"), value: String::new() }
    }

    async fn ask(&mut self) -> Result<bool> {
        for server in &mut self.servers {
            redis::cmd("PING").exec_async(server).await?;
        }
        Ok(true)
    }

    async fn close(self) {}
}

pub(super) struct Key {
    servers: Vec<MultiplexedConnection>,
    release: Arc<Script>,
    name: String,
    /// Ours alone, another one each time.
    value: String,
}

impl Key {
    async fn delete(&self) -> Result<usize> {
        let delete = |server: &MultiplexedConnection| {
            let mut server = server.clone();
            let mut call = self.release.prepare_invoke();
            call.key(&self.name).arg(&self.value);
            async move { call.invoke_async::<u64>(&mut server).await }
        };
        let deleted = join_all(self.servers.iter().map(delete)).await;
        let mut count = 0;
        for one in deleted {
            count += usize::try_from(one?)?;
        }
        Ok(count)
    }
}

impl Taker for Key {
    async fn acquire(&mut self) -> Result<()> {
        loop {
            let random = fastrand::u128(..);
            self.value = format!("{random:032x}");
            let mut set = redis::cmd("SET");
            set.arg(&self.name).arg(&self.value).arg("NX").arg("PX").arg(30_000);
            let set = &set;
            let call = |server: &MultiplexedConnection| {
                let mut server = server.clone();
                async move { set.query_async::<Option<String>>(&mut server).await }
            };
            let mut granted = 0;
            for one in join_all(self.servers.iter().map(call)).await {
                granted += usize::from(one?.is_some());
            }
            if granted > self.servers.len() / 2 {
                return Ok(());
            }
            if granted > 0 {
                self.delete().await?;
            }
            let more = if self.servers.len() > 1 { fastrand::u64(0..PAUSE_MS) } else { 0 };
            tokio::time::sleep(Duration::from_millis(PAUSE_MS + more)).await;
        }
    }

    async fn release(&mut self) -> Result<()> {
        match self.delete().await? {
            deleted if deleted > self.servers.len() / 2 => Ok(()),
            _ => Err("another client has taken our key".into()),
        }
    }
}

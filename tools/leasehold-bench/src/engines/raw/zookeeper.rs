//! ZooKeeper: the recipe of its documentation. An ephemeral sequential node, the children listed, and a
//! watch on the one before.

use zookeeper_client::{Acls, Client, CreateMode, Error};

use crate::Result;
use crate::engines::load::{Engine, Taker};
use crate::store::StoreAddress;

pub(super) struct Nodes(Client);

impl Engine for Nodes {
    type Taker = Node;

    async fn open(place: &StoreAddress) -> Result<Self> {
        let servers = place.url.strip_prefix("zookeeper://").ok_or("a zookeeper: URL is needed")?;
        Ok(Self(Client::connect(servers).await?))
    }

    fn taker(&self, name: String) -> Node {
        let parent = format!("/raw-{}", name.replace('/', "-"));
        Node { client: self.0.clone(), parent, made: false, node: String::new() }
    }

    async fn ask(&mut self) -> Result<bool> {
        self.0.check_stat("/").await?;
        Ok(true)
    }

    async fn close(self) {}
}

pub(super) struct Node {
    client: Client,
    parent: String,
    /// The parent is there.
    made: bool,
    /// Ours, below the parent.
    node: String,
}

impl Taker for Node {
    async fn acquire(&mut self) -> Result<()> {
        if !self.made {
            let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
            match self.client.create(&self.parent, &[], &options).await {
                Ok(_) | Err(Error::NodeExists) => self.made = true,
                Err(error) => return Err(error.into()),
            }
        }
        let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
        let prefix = format!("{}/n-", self.parent);
        let (_, number) = self.client.create(&prefix, &[], &options).await?;
        self.node = format!("n-{number}");
        loop {
            let mut nodes = self.client.list_children(&self.parent).await?;
            nodes.sort_unstable();
            let at = nodes.iter().position(|node| *node == self.node).ok_or("our node is gone")?;
            let Some(before) = at.checked_sub(1).and_then(|before| nodes.get(before)) else {
                return Ok(());
            };
            let path = format!("{}/{before}", self.parent);
            let (there, watcher) = self.client.check_and_watch_stat(&path).await?;
            if there.is_some() {
                watcher.changed().await;
            }
        }
    }

    async fn release(&mut self) -> Result<()> {
        Ok(self.client.delete(&format!("{}/{}", self.parent, self.node), None).await?)
    }
}

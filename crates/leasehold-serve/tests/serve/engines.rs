//! Ten stores of all engines in one server.

use leasehold_serve::StoreSetting;
use leasehold_test_servers::{
    EtcdServer, EtcdSettings, MariaDb, Needs, Postgres, RedisServer, RedisSettings,
    ZooKeeperServer, ZooKeeperSettings,
};
use serde_json::Value;

use crate::support::{HOLDER, Serving, until};

/// Starts all servers of which none is missing; the stores of the others are left out.
struct Servers {
    redis: Option<RedisServer>,
    etcd: Option<EtcdServer>,
    zookeeper: Option<ZooKeeperServer>,
    postgres: Option<Postgres>,
    mariadb: Option<MariaDb>,
}

impl Servers {
    fn start() -> Self {
        let is_there = |needs: Needs| !needs.is_skipped();
        Self {
            redis: is_there(Needs::Redis)
                .then(|| RedisServer::start(RedisSettings::new()).unwrap()),
            etcd: is_there(Needs::Etcd).then(|| EtcdServer::start(EtcdSettings::new()).unwrap()),
            zookeeper: is_there(Needs::ZooKeeper)
                .then(|| ZooKeeperServer::start(ZooKeeperSettings::new()).unwrap()),
            postgres: is_there(Needs::Postgres).then(|| Postgres::start(&[]).unwrap()),
            mariadb: is_there(Needs::MySql).then(|| MariaDb::start(&[]).unwrap()),
        }
    }

    fn stores(&self, folder: &std::path::Path) -> Vec<StoreSetting> {
        let redis = self.redis.as_ref().map(RedisServer::url);
        let all = [
            ("file", Some(format!("file:{}/one", folder.display()))),
            ("file2", Some(format!("file:{}/two", folder.display()))),
            ("sqlite", Some(format!("sqlite:{}/locks.db", folder.display()))),
            ("redis1", redis.as_ref().map(|url| format!("{}/1", url.trim_end_matches('/')))),
            ("redis", redis),
            ("etcd", self.etcd.as_ref().map(EtcdServer::url)),
            ("zookeeper", self.zookeeper.as_ref().map(ZooKeeperServer::url)),
            ("postgres", self.postgres.as_ref().map(Postgres::url)),
            ("mysql", self.mariadb.as_ref().map(MariaDb::url)),
        ];
        let store = |(name, url): (&str, Option<String>)| {
            Some(StoreSetting { name: name.to_owned(), url: url? })
        };
        all.into_iter().filter_map(store).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_stores_of_all_engines_are_shown_and_hold_the_same_name_apart() {
    let folder = tempfile::TempDir::new().unwrap();
    let mut servers = tokio::task::spawn_blocking(Servers::start).await.unwrap();
    let stores = servers.stores(folder.path());
    let serving = Serving::start_with(|settings| settings.stores.extend(stores.clone())).await;
    let mut names: Vec<&str> = stores.iter().map(|store| store.name.as_str()).collect();
    names.push("main");
    if servers.redis.is_some()
        && servers.etcd.is_some()
        && servers.zookeeper.is_some()
        && servers.postgres.is_some()
        && servers.mariadb.is_some()
    {
        assert_eq!(names.len(), 10);
    }
    let acquire = async |store: &str| {
        let line = format!("POST /v1/stores/{store}/locks/a/acquire?wait=0&ttl=10m");
        serving.change(&line, HOLDER).await
    };
    let mut leases: Vec<(&str, Value)> = Vec::new();
    for name in &names {
        let granted = acquire(name).await;
        assert_eq!(granted.status, 200, "{name}: {granted:?}");
        leases.push((name, granted.json()));
        assert_eq!(acquire(name).await.status, 409, "{name}");
    }
    for name in &names {
        until(&format!("the page of {name} shows the lock"), async || {
            let page = serving.get(&format!("/?store={name}")).await.body;
            page.contains("1 lock") && !page.contains("role=\"alert\"")
        })
        .await;
        let lock = serving.get(&format!("/v1/stores/{name}/locks/a")).await.json();
        assert_eq!(lock["state"], "held", "{name}: {lock}");
        assert_eq!(serving.get(&format!("/lock?store={name}&name=a")).await.status, 200);
    }
    // One store that is lost stops no other.
    if let Some(redis) = &mut servers.redis {
        redis.kill();
        until("the tab says so", async || serving.get("/").await.body.contains("down")).await;
    }
    for (name, granted) in leases.iter().filter(|(name, _)| !name.starts_with("redis")) {
        let id = granted["lease"].as_str().unwrap();
        let line = format!("/v1/stores/{name}/locks/a/leases/{id}");
        let renewed = serving.change(&format!("POST {line}/renew"), HOLDER).await;
        assert_eq!(renewed.status, 200, "{name}: {renewed:?}");
        let released = serving.change(&format!("DELETE {line}"), HOLDER).await;
        assert_eq!(released.status, 204, "{name}: {released:?}");
        let again = acquire(name).await;
        assert_eq!(again.status, 200, "{name}: {again:?}");
        let token = again.json()["token"].as_u64();
        assert!(token > granted["token"].as_u64(), "{name}");
    }
}

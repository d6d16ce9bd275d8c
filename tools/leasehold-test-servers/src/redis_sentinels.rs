//! A master with two replicas, and three sentinels that watch them.

use std::io;

use crate::{Links, RedisServer, RedisSettings, wait};

/// A master, its replicas and their sentinels, in which the sentinels decide who is the master.
#[derive(Debug)]
pub struct RedisSentinels {
    /// The first one is the master at the start.
    pub servers: Vec<RedisServer>,
    /// Three of them, two of which must agree.
    pub sentinels: Vec<RedisServer>,
    /// The ways between all of them, servers first, of those that [`start_linked`](Self::start_linked) has started.
    pub links: Links,
}

impl RedisSentinels {
    /// The name by which the sentinels watch the master.
    pub const NAME: &str = "main";

    /// Starts all with these settings, those of the servers and those of the sentinels, and returns
    /// when each sentinel knows all others.
    ///
    /// # Errors
    /// As [`RedisServer::start`]; `TimedOut` when they do not find each other.
    pub fn start(servers: RedisSettings, sentinels: RedisSettings) -> io::Result<Self> {
        let master = RedisServer::start(servers.clone())?;
        let replica = |_| RedisServer::start(servers.clone().replica_of(&master));
        let replicas: Vec<_> = (0..2).map(replica).collect::<io::Result<_>>()?;
        let attached = || master.info("connected_slaves").is_ok_and(|count| count == "2");
        wait("the replicas follow", attached)?;
        let sentinel = |_| RedisServer::start(sentinels.clone().sentinel(Self::NAME, &master, 2));
        let sentinels: Vec<_> = (0..3).map(sentinel).collect::<io::Result<_>>()?;
        let servers = [master].into_iter().chain(replicas).collect();
        let all = Self { servers, sentinels, links: Links::default() };
        all.settled()?;
        Ok(all)
    }

    /// The same, and each connects to the others through proxies, which clients use too.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_linked(servers: RedisSettings, sentinels: RedisSettings) -> io::Result<Self> {
        let mut proxies = Vec::new();
        let mut start = |settings: RedisSettings| {
            let (server, proxy) = RedisServer::start_linked(proxies.len(), settings)?;
            proxies.push(vec![proxy]);
            Ok::<_, io::Error>(server)
        };
        let mut all = vec![start(servers.clone())?];
        for _ in 0..2 {
            let replica = servers.clone().replica_of(&all[0]);
            all.push(start(replica)?);
        }
        let attached = || all[0].info("connected_slaves").is_ok_and(|count| count == "2");
        wait("the replicas follow", attached)?;
        let sentinel = |_| start(sentinels.clone().sentinel(Self::NAME, &all[0], 2));
        let sentinels = (0..3).map(sentinel).collect::<io::Result<_>>()?;
        let all = Self { servers: all, sentinels, links: Links::by_source(proxies) };
        all.settled()?;
        Ok(all)
    }

    /// `HOST:PORT,HOST:PORT,HOST:PORT/NAME`: the sentinels, as a URL has them.
    pub fn place(&self) -> String {
        let places: Vec<String> =
            self.sentinels.iter().map(|s| format!("127.0.0.1:{}", s.port_between())).collect();
        format!("{}/{}", places.join(","), Self::NAME)
    }

    /// `redis+sentinel://...`
    pub fn url(&self) -> String {
        format!("redis+sentinel://{}", self.place())
    }

    /// Which of the servers is the master, as a sentinel that is alive says.
    pub fn master(&self) -> Option<usize> {
        let port = self.sentinels.iter().find_map(|sentinel| {
            let args = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", Self::NAME];
            let place = sentinel.admin(&args).ok()?;
            place.items().get(1)?.text().parse::<u16>().ok()
        })?;
        self.servers.iter().position(|server| server.port_between() == port)
    }

    /// Waits until another than this one is the master, and says which.
    ///
    /// # Errors
    /// `TimedOut` when there is none.
    pub fn master_after(&self, old: usize) -> io::Result<usize> {
        let mut new = None;
        wait("another becomes the master", || {
            new = self.master().filter(|new| *new != old && self.is_master(*new));
            new.is_some()
        })?;
        new.ok_or_else(|| io::Error::other("no master"))
    }

    fn is_master(&self, number: usize) -> bool {
        self.servers[number].info("role").is_ok_and(|role| role == "master")
    }

    /// Waits until each sentinel knows the two replicas and the two other sentinels.
    fn settled(&self) -> io::Result<()> {
        wait("the sentinels know each other", || {
            self.sentinels.iter().all(|sentinel| {
                let args = ["SENTINEL", "MASTER", Self::NAME];
                let Ok(answer) = sentinel.admin(&args) else { return false };
                let fields: Vec<String> = answer.items().iter().map(|value| value.text()).collect();
                let is = |name: &str, value: &str| {
                    fields.chunks(2).any(|field| field[0] == name && field[1] == value)
                };
                is("num-slaves", "2") && is("num-other-sentinels", "2") && is("flags", "master")
            })
        })
    }
}

//! What happens to Redis while others read and write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use leasehold_test_servers::{RedisServer, RedisSettings, wait};

use super::restarts::{Back, Pair, go_back};
use super::{ms, server};

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Trouble {
    #[default]
    None,
    /// It restarts without data.
    Empty,
    /// It restarts from a snapshot that is a while old.
    Snapshot,
    /// It restarts from an append-only file without its last part.
    ShortenedFile,
    /// Its replica takes the name, without the last writes; connections stay.
    Demoted,
    /// It evicts by this policy all the time.
    Evicts(&'static str),
}

/// A server, or two behind one name.
pub(super) struct Troubled {
    trouble: Trouble,
    servers: Servers,
}

enum Servers {
    One(Box<RedisServer>, Option<Filler>),
    Two(Box<Pair>),
}

/// Fills the server with keys that no client reads.
struct Filler {
    over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

const MEMORY: u64 = 4 << 20;

impl Troubled {
    pub(super) fn start(trouble: Trouble) -> Self {
        let one = |settings| RedisServer::start(settings).unwrap();
        let servers = match trouble {
            Trouble::Demoted => Servers::Two(Box::new(Pair::start())),
            Trouble::ShortenedFile => {
                Servers::One(Box::new(one(RedisSettings::new().append_only())), None)
            }
            Trouble::Evicts(policy) => {
                let server = one(RedisSettings::new().max_memory(MEMORY, policy));
                let filler = Filler::start(&server);
                Servers::One(Box::new(server), Some(filler))
            }
            _ => Servers::One(Box::new(server()), None),
        };
        Self { trouble, servers }
    }

    pub(super) fn url(&self) -> String {
        match &self.servers {
            Servers::One(server, _) => server.url(),
            Servers::Two(pair) => pair.name.url(),
        }
    }

    /// Half a second of it, or a little more: so long readers and writers go on before, in the middle of it
    /// and after it; nothing is waited for.
    pub(super) async fn trouble(&mut self) {
        tokio::time::sleep(ms(300)).await;
        let meanwhile = async || tokio::time::sleep(ms(300)).await;
        match (&mut self.servers, self.trouble) {
            (Servers::One(server, _), Trouble::Empty) => {
                meanwhile().await;
                server.restart_empty().unwrap();
            }
            (Servers::One(server, _), Trouble::Snapshot) => {
                go_back(server, Back::Snapshot, meanwhile).await;
            }
            (Servers::One(server, _), Trouble::ShortenedFile) => {
                go_back(server, Back::ShortenedFile, meanwhile).await;
            }
            (Servers::Two(pair), _) => {
                let pair: &mut Pair = pair;
                let follows = || pair.old.info("connected_slaves").is_ok_and(|n| n == "1");
                wait("the replica follows", follows).unwrap();
                pair.fail_over(async || tokio::time::sleep(ms(100)).await).await;
                std::mem::swap(&mut pair.old, &mut pair.new);
                // As long as a living connection may go on with the old one.
                tokio::time::sleep(ms(2_500)).await;
            }
            _ => meanwhile().await,
        }
    }

    /// No more of it.
    pub(super) fn end(&mut self) {
        let (Servers::One(server, filler @ Some(_)), Trouble::Evicts(policy)) =
            (&mut self.servers, self.trouble)
        else {
            return;
        };
        *filler = None;
        let evicted: u64 = server.info("evicted_keys").unwrap().parse().unwrap();
        assert_eq!(evicted > 0, policy != "noeviction", "{evicted} keys were evicted");
        let fillers = server.admin(&["KEYS", "filler:*"]).unwrap();
        let names: Vec<String> = fillers.items().iter().map(|name| name.text()).collect();
        assert!(!names.is_empty());
        for some in names.chunks(100) {
            let del = ["DEL".to_owned()].into_iter().chain(some.iter().cloned());
            server.admin(&del.collect::<Vec<_>>()).unwrap();
        }
    }
}

impl Filler {
    fn start(server: &RedisServer) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let (mut admin, until) = (server.connect().unwrap(), Arc::clone(&over));
        let thread = std::thread::spawn(move || {
            let value = "x".repeat(20_000);
            for number in 0_u64.. {
                if until.load(Ordering::SeqCst) {
                    return;
                }
                // With noeviction it is refused when there is no more room. As long as the others' or
                // longer, so that no policy takes these alone.
                let key = format!("filler:{number}");
                let _ = admin.call(&["SET", &key, &value, "PX", "600000"]);
                std::thread::sleep(ms(1));
            }
        });
        Self { over, thread: Some(thread) }
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

//! Stories of caches in front of a database: the usual recipes, crowds, and a restart from a snapshot.

mod picture;
mod stories;
mod world;

use self::world::{Actor, Event, Leases, Role, State, World};
use super::practice::Practice;
use super::text::{Language, Text};

pub use self::picture::draw_cache;

impl Practice {
    /// How the cache is kept, in a sentence.
    fn about_cache(self, language: Language) -> &'static str {
        match self {
            Self::Recipe => self.about(language),
            Self::Leasehold => language.pick(
                "leasehold-cache: a fill lease for each load, a hold during each write, entries that name the \
                 server's run",
                "leasehold-cache：每次加载一个回填租约，写期间有写入保护，缓存项标明服务器的哪次运行",
            ),
        }
    }

    /// How fills are allowed: as in the recipe, or as in Leasehold.
    fn leases(self, recipe: Leases) -> Leases {
        match self {
            Self::Recipe => recipe,
            Self::Leasehold => Leases::Leasehold,
        }
    }
}

/// One story of a cache.
#[derive(Clone, Copy, Debug)]
pub struct CacheStory {
    /// As it is written on a command line.
    pub name: &'static str,
    /// What happens, in a sentence.
    pub about: Text,
    /// The test of `leasehold-cache` that drives the real cache into the same order of events; empty for those
    /// that its other tests and benchmarks show.
    pub test: &'static str,
    shown: Text,
    spared: Text,
    goes_wrong: fn(&CacheTale) -> bool,
    world: fn(Practice, u64) -> World,
}

/// A story of a cache that has been played.
#[derive(Debug)]
pub struct CacheTale {
    /// Which.
    pub story: &'static CacheStory,
    /// How.
    pub practice: Practice,
    actors: Vec<Actor>,
    world: World,
    end: u64,
}

/// All stories of caches.
pub fn cache_stories() -> &'static [CacheStory] {
    stories::STORIES
}

impl CacheStory {
    /// The story of this name.
    pub fn find(name: &str) -> Option<&'static Self> {
        cache_stories().iter().find(|story| story.name == name)
    }

    /// Plays it.
    pub fn play(&'static self, practice: Practice, seed: u64) -> CacheTale {
        let mut world = (self.world)(practice, seed);
        world.play();
        let (actors, end) = (world.actors().to_vec(), world.end());
        CacheTale { story: self, practice, actors, world, end }
    }
}

impl CacheTale {
    /// How the cache is kept, in a sentence.
    pub fn place(&self, language: Language) -> &'static str {
        self.practice.about_cache(language)
    }

    /// Whether it went wrong, as its story says.
    pub fn went_wrong(&self) -> bool {
        (self.story.goes_wrong)(self)
    }

    /// Whether at the end the cache or the process says something else than the database.
    pub fn lies(&self) -> bool {
        is_lie(self.world.state())
    }

    /// How often the database was read.
    pub fn loads(&self) -> usize {
        self.world.loads.len()
    }

    /// The most readers that read the database at the same time.
    pub fn loads_at_once(&self) -> usize {
        self.world.most_loads()
    }

    /// Loads that filled nothing, because something had changed since.
    pub fn refused_fills(&self) -> usize {
        let refused = |event: &Event| matches!(event, Event::Refused(_));
        self.world.told.iter().filter(|(_, _, event)| refused(event)).count()
    }

    /// Hits that were not what the database said.
    pub fn stale_hits(&self) -> usize {
        let stale = |event: &Event| matches!(event, Event::Hit(_, false));
        self.world.told.iter().filter(|(_, _, event)| stale(event)).count()
    }

    /// What the cache, the process and the database say at the end.
    pub fn at_rest(&self) -> (Option<Option<u64>>, Option<u64>, Option<u64>) {
        let State { cache, process, database } = self.world.state();
        (cache, process, database)
    }

    /// Whether many do the same, so that only what reaches the database is shown.
    fn is_crowd(&self) -> bool {
        self.actors.len() > 10
    }

    /// What happened when, in nanoseconds, a line for each thing.
    pub fn lines(&self, language: Language) -> Vec<(u64, String)> {
        let told = self.world.told.iter().filter(|(_, _, event)| {
            !self.is_crowd() || matches!(event, Event::Loads(_) | Event::Fills(_))
        });
        told.map(|(time, actor, event)| {
            (time * 1_000_000, self.line(&self.actors[*actor], *event, language))
        })
        .collect()
    }

    fn line(&self, actor: &Actor, event: Event, language: Language) -> String {
        let name = name(actor, language);
        let value = |value: Option<u64>| match value {
            Some(value) => value.to_string(),
            None => language.pick("no row", "没有这一行").to_owned(),
        };
        let (english, chinese) = match event {
            Event::Hit(found, same) => {
                let value = value(found);
                match same {
                    true => (format!("gets {value} from the cache"), format!("命中：{value}")),
                    false => (
                        format!("!! gets {value} from the cache, not what the database says"),
                        format!("!! 命中：{value}，与数据库不同"),
                    ),
                }
            }
            Event::Miss(None) => ("misses".to_owned(), "未命中".to_owned()),
            Event::Miss(Some(token)) => (
                format!("misses, and gets fill lease {token}"),
                format!("未命中：回填租约 {token}"),
            ),
            Event::Waits => (
                "misses: another reader loads, and this one waits".to_owned(),
                "未命中：另一个读者在加载，等待".to_owned(),
            ),
            Event::Past => (
                "misses: a write is under way, so it goes past the cache".to_owned(),
                "未命中：有写操作正在进行，绕过缓存".to_owned(),
            ),
            Event::Loads(found) => {
                let value = value(found);
                (format!("reads the database: {value}"), format!("读数据库：{value}"))
            }
            Event::Fills(found) => {
                let value = value(found);
                (format!("fills the cache: {value}"), format!("回填缓存：{value}"))
            }
            Event::Refused(found) => {
                let value = value(found);
                (
                    format!("may not fill: {value} goes to its caller only"),
                    format!("回填被拒绝：{value} 只返回给自己的调用者"),
                )
            }
            Event::Begins => (
                "announces the write: entry and lease are removed".to_owned(),
                "登记写操作：删除缓存项和租约".to_owned(),
            ),
            Event::Commits(value) => (format!("commits {value}"), format!("提交 {value}")),
            Event::Fails => {
                ("fails: its transaction is rolled back".to_owned(), "事务失败并回滚".to_owned())
            }
            Event::Deletes => ("deletes the entry".to_owned(), "删除缓存项".to_owned()),
            Event::Sets(value) => {
                (format!("puts {value} into the cache"), format!("把 {value} 写入缓存"))
            }
            Event::NotTaken(value) => (
                format!(
                    "offers {value}: not taken, another write was under way; the entry is removed"
                ),
                format!("给出 {value}：有其他写操作，不采用；删除缓存项"),
            ),
            Event::Dies => ("dies".to_owned(), "崩溃".to_owned()),
            Event::Snapshot => ("saves a snapshot".to_owned(), "保存快照".to_owned()),
            Event::Restarts => ("restarts from the snapshot".to_owned(), "从快照重启".to_owned()),
            Event::Forgets => {
                ("removes the value in its process".to_owned(), "删除进程内的值".to_owned())
            }
            Event::Fetches(found) => {
                let value = value(found);
                (
                    format!("of the same process reads {value} in Redis"),
                    format!("（同一进程）从 Redis 读到 {value}"),
                )
            }
            Event::Keeps(found) => {
                let value = value(found);
                (format!("keeps {value} in the process"), format!("把 {value} 留在进程内"))
            }
            Event::KeepsNothing => (
                "keeps nothing: the key was invalidated since it asked".to_owned(),
                "不保留：请求之后这个键已失效".to_owned(),
            ),
        };
        match language {
            Language::English => format!("{name} {english}").replace(" !! ", ": !! "),
            Language::Chinese => format!("{name} {chinese}"),
        }
    }

    /// What happened, in a sentence, and what prevented it or would have, in another.
    pub fn moral(&self, language: Language) -> String {
        let (loads, at_once) = (self.loads(), self.loads_at_once());
        let happened = match (self.is_crowd(), self.world.state()) {
            (true, _) => language.pick(
                match loads {
                    1 => "The database was read once.".to_owned(),
                    _ => format!(
                        "The database was read {loads} times, at most {at_once} at the same time."
                    ),
                },
                format!("数据库被读了 {loads} 次，最多同时 {at_once} 次。"),
            ),
            (false, state) if is_lie(state) => {
                let State { cache, process, database } = state;
                let database = database.map_or_else(String::new, |value| value.to_string());
                let value =
                    |value: Option<u64>| value.map_or_else(String::new, |one| one.to_string());
                match (cache.flatten(), process) {
                    (cache, _) if cache.is_some() && is_lie(State { process: None, ..state }) => {
                        let cache = value(cache);
                        language.pick(
                            format!(
                                "At rest the cache says {cache} and the database {database}, until the ttl \
                                 ends."
                            ),
                            format!("平静之后，缓存是 {cache}，数据库是 {database}，直到 ttl 结束。"),
                        )
                    }
                    (_, process) => {
                        let process = value(process);
                        language.pick(
                            format!(
                                "At rest the process says {process} and the database {database}, until the ttl \
                                 ends."
                            ),
                            format!("平静之后，进程内是 {process}，数据库是 {database}，直到 ttl 结束。"),
                        )
                    }
                }
            }
            (false, _) => language.pick(
                "At rest no reader gets anything but what the database says.".to_owned(),
                "平静之后，读者得到的都与数据库一致。".to_owned(),
            ),
        };
        let why = if self.went_wrong() { self.story.shown } else { self.story.spared };
        format!("{happened}{}{}", language.pick(" ", ""), why.in_language(language))
    }
}

fn is_lie(State { cache, process, database }: State) -> bool {
    cache.is_some_and(|cache| cache != database)
        || process.is_some_and(|copy| Some(copy) != database)
}

fn name(actor: &Actor, language: Language) -> String {
    let number = actor.number;
    match actor.role {
        Role::Reader => language.pick(format!("reader {number}"), format!("读者 {number}")),
        Role::Writer => language.pick(format!("writer {number}"), format!("写者 {number}")),
        Role::Server => language.pick("Redis".to_owned(), "Redis".to_owned()),
    }
}

//! The stories: the usual recipes for a cache and a database, in the order of events that breaks them, and
//! Leasehold's cache in the same order.

use super::super::text::{Text, text};
use super::world::{Actor, Leases, Role, Step, TTL, World};
use super::{CacheStory, CacheTale, Practice};
use crate::simulator::Rng;

use Step::*;

/// How many keys or readers a crowd has.
const CROWD: usize = 20;

fn reader(number: usize, start: u64, steps: &[(Step, u64)]) -> Actor {
    Actor::new(Role::Reader, number, start, steps)
}

fn writer(number: usize, start: u64, steps: &[(Step, u64)]) -> Actor {
    Actor::new(Role::Writer, number, start, steps)
}

/// A reader that meets no other, at the end of a story.
fn last(number: usize, start: u64) -> Actor {
    reader(number, start, &[(Ask, 2), (Load, 5), (Fill, 0)])
}

/// The database says 1.
fn world(leases: Leases, end: u64, actors: Vec<Actor>) -> World {
    let mut world = World::new(leases, end, actors);
    world.row(0, 1);
    world
}

/// At rest, the cache or the process says something else than the database.
fn lies(tale: &CacheTale) -> bool {
    tale.lies()
}

fn crowds(tale: &CacheTale) -> bool {
    tale.loads_at_once() >= CROWD / 2
}

const LEASE: Text = text(
    "A fill lease of its own for each load prevents it: an invalidation removes the lease, and the old load \
     fills nothing (--setup leasehold).",
    "每次加载都有自己的回填租约就能避免：失效会删除租约，旧的加载什么也填不进去（--setup leasehold）。",
);
const LEASED: Text = text(
    "The invalidation removed the fill lease with the entry, so the old load filled nothing.",
    "失效操作把回填租约和缓存项一起删除，旧的加载什么也没有填进去。",
);

pub(super) const STORIES: &[CacheStory] = &[
    CacheStory {
        name: "cache-two-writers",
        about: text(
            "two writers update the cache after the commit, in the other order",
            "两个写者在提交后更新缓存，顺序与提交相反",
        ),
        shown: text(
            "A writer's value may only be taken if no other write was under way (--setup leasehold).",
            "只有当没有其他写操作同时进行时，才能采用写者给出的值（--setup leasehold）。",
        ),
        spared: text(
            "Both writes were under way at the same time, so neither value was taken, and a reader loaded.",
            "两个写操作同时进行，所以两个值都不采用，由读者加载。",
        ),
        test: "update_after_commit_with_two_writers",
        goes_wrong: lies,
        world: |practice, _| match practice {
            Practice::Recipe => world(
                Leases::None,
                60,
                vec![
                    writer(1, 0, &[(Commit(2), 30), (Set(2), 0)]),
                    writer(2, 10, &[(Commit(3), 10), (Set(3), 0)]),
                ],
            ),
            Practice::Leasehold => world(
                Leases::Leasehold,
                60,
                vec![
                    writer(1, 0, &[(Begin, 5), (Commit(2), 30), (CommittedWith(2), 0)]),
                    writer(2, 8, &[(Begin, 2), (Commit(3), 10), (CommittedWith(3), 0)]),
                    last(1, 50),
                ],
            ),
        },
    },
    CacheStory {
        name: "delete-before-commit",
        about: text(
            "the writer deletes the entry before the commit, and a reader comes in between",
            "写者在提交前删除缓存，读者在两者之间进来",
        ),
        shown: text(
            "A hold from before the commit until after it prevents it: readers go past the cache and fill \
             nothing (--setup leasehold).",
            "从提交前到提交后设置写入保护就能避免：读者绕过缓存，不回填（--setup leasehold）。",
        ),
        spared: text(
            "The write was announced before the commit, so the reader went past the cache and filled nothing.",
            "写操作在提交前就已登记，读者绕过缓存，没有回填。",
        ),
        test: "delete_before_commit",
        goes_wrong: lies,
        world: |practice, _| match practice {
            Practice::Recipe => world(
                Leases::None,
                60,
                vec![
                    writer(1, 0, &[(Delete, 20), (Commit(2), 0)]),
                    reader(1, 5, &[(Ask, 3), (Load, 22), (Fill, 0)]),
                ],
            ),
            Practice::Leasehold => world(
                Leases::Leasehold,
                60,
                vec![
                    writer(1, 0, &[(Begin, 20), (Commit(2), 5), (Committed, 0)]),
                    reader(1, 5, &[(Ask, 3), (Load, 22), (Fill, 0)]),
                    last(2, 50),
                ],
            ),
        },
    },
    CacheStory {
        name: "delete-after-commit",
        about: text(
            "the writer deletes the entry after the commit, and a slow reader has read before it",
            "写者在提交后删除缓存，而一个慢的读者在提交前已经读过",
        ),
        shown: LEASE,
        spared: LEASED,
        test: "delete_after_commit",
        goes_wrong: lies,
        world: |practice, _| {
            let mut actors = vec![
                reader(1, 0, &[(Ask, 2), (Load, 28), (Fill, 0)]),
                writer(1, 10, &[(Commit(2), 5), (Delete, 0)]),
            ];
            actors.extend((practice == Practice::Leasehold).then(|| last(2, 50)));
            world(practice.leases(Leases::None), 60, actors)
        },
    },
    CacheStory {
        name: "delayed-double-delete",
        about: text(
            "the writer deletes, commits, and deletes again after a second; the reader is slower than that",
            "延迟双删：写者删除、提交，一秒后再删除；而读者比一秒还慢",
        ),
        shown: text(
            "No delay is long enough; a fill lease of its own for each load is (--setup leasehold).",
            "多长的延迟都不够；每次加载有自己的回填租约才行（--setup leasehold）。",
        ),
        spared: LEASED,
        test: "delayed_double_delete",
        goes_wrong: lies,
        world: |practice, _| {
            let mut actors = vec![
                writer(1, 0, &[(Delete, 5), (Commit(2), 1000), (Delete, 0)]),
                reader(1, 2, &[(Ask, 1), (Load, 1200), (Fill, 0)]),
            ];
            actors.extend((practice == Practice::Leasehold).then(|| last(2, 1300)));
            world(practice.leases(Leases::None), 1400, actors)
        },
    },
    CacheStory {
        name: "lease-by-order",
        about: text(
            "fill leases are compared by order: a token not below the last one given may fill",
            "回填租约按大小比较：不小于最后发出的令牌就能回填",
        ),
        shown: text(
            "The lease was taken away and given to no other load since: tokens must be compared for equality \
             (--setup leasehold).",
            "租约已被收回，之后又没有发给别人：令牌必须比较是否相等（--setup leasehold）。",
        ),
        spared: text(
            "The lease was compared for equality with the one that is there, and the old load had none.",
            "令牌与现有的租约比较是否相等，旧的加载已经没有租约。",
        ),
        test: "a_lease_compared_by_order",
        goes_wrong: lies,
        world: |practice, _| {
            let mut actors = vec![
                reader(1, 0, &[(Ask, 2), (Load, 30), (Fill, 0)]),
                writer(1, 10, &[(Commit(2), 5), (Delete, 0)]),
            ];
            let second = reader(2, 20, &[(Ask, 2), (Load, 20), (Fill, 0)]);
            actors.extend((practice == Practice::Leasehold).then_some(second));
            world(practice.leases(Leases::ByOrder), 60, actors)
        },
    },
    CacheStory {
        name: "token-per-client",
        about: text(
            "a client uses one token for all its loads, one from before a write and one from after it",
            "一个客户端的所有加载共用一个令牌，一次在写之前，一次在写之后",
        ),
        shown: text(
            "The older load filled under the younger load's lease: each load needs a token of its own \
             (--setup leasehold).",
            "旧的加载用新加载的租约回填了缓存：每次加载都要有自己的令牌（--setup leasehold）。",
        ),
        spared: text(
            "Each load had a token of its own, so the older one filled nothing.",
            "每次加载都有自己的令牌，旧的加载什么也没有填进去。",
        ),
        test: "a_token_for_each_client",
        goes_wrong: lies,
        world: |practice, _| {
            let second = reader(2, 20, &[(Ask, 2), (Load, 20), (Fill, 0)]).of_client(1);
            let actors = vec![
                reader(1, 0, &[(Ask, 2), (Load, 30), (Fill, 0)]),
                writer(1, 10, &[(Commit(2), 5), (Delete, 0)]),
                second,
            ];
            world(practice.leases(Leases::ByClient), 60, actors)
        },
    },
    CacheStory {
        name: "process-before-redis",
        about: text(
            "the writer removes the value in its process before it removes the one in Redis, and another \
             task of the process fetches the old one",
            "写者先删除进程内缓存，再删除 Redis；同进程的读者又取回了旧值",
        ),
        shown: text(
            "Redis must come first, and the process may keep a value only if nothing was invalidated since it \
             asked (--setup leasehold).",
            "必须先删 Redis；进程只能保留从请求之后没有失效过的值（--setup leasehold）。",
        ),
        spared: text(
            "Redis came first, and the process did not keep what it had asked for before the invalidation.",
            "先删 Redis；失效之前取到的值，进程没有保留。",
        ),
        test: "the_process_before_redis",
        goes_wrong: lies,
        world: |practice, _| {
            let remove: &[(Step, u64)] = match practice {
                Practice::Recipe => &[(Commit(2), 5), (Forget, 20), (Delete, 0)],
                Practice::Leasehold => &[(Commit(2), 10), (Delete, 0)],
            };
            let other = reader(1, 15, &[(Fetch, 7), (Keep, 0)]);
            let mut world =
                world(practice.leases(Leases::None), 60, vec![writer(1, 7, remove), other]);
            world.entry(0, 1, TTL);
            world.copy(1);
            world
        },
    },
    CacheStory {
        name: "queue-after-failure",
        about: text(
            "the invalidation is queued for a retry if it fails; the process dies before it has tried",
            "失效操作失败时才进入重试队列；进程还没来得及尝试就崩溃了",
        ),
        shown: text(
            "What invalidates must be there before the commit: a hold, or a row of the outbox in the same \
             transaction (--setup leasehold).",
            "保证失效的东西必须在提交前就存在：写入保护，或同一事务里的本地消息表（--setup leasehold）。",
        ),
        spared: text(
            "The hold was there before the commit: readers went past the cache until it ended (write_hold, \
             30 s).",
            "写入保护在提交前就已存在：在它结束之前（write_hold，30 秒）读者都绕过缓存。",
        ),
        test: "an_invalidation_queued_after_it_failed",
        goes_wrong: lies,
        world: |practice, _| {
            let (steps, mut readers): (&[(Step, u64)], Vec<Actor>) = match practice {
                Practice::Recipe => (&[(Commit(2), 5), (Die, 0)], vec![last(1, 1000)]),
                Practice::Leasehold => (
                    &[(Begin, 5), (Commit(2), 5), (Die, 0)],
                    vec![last(1, 1000), last(2, 31_000), last(3, 32_000)],
                ),
            };
            readers.insert(0, writer(1, 0, steps));
            let mut world = world(practice.leases(Leases::None), 33_000, readers);
            world.entry(0, 1, TTL);
            world
        },
    },
    CacheStory {
        name: "cache-first",
        about: text(
            "the writer updates the cache before the database, and its transaction fails",
            "写者先更新缓存再写数据库，而事务失败了",
        ),
        shown: text(
            "The cache has a value that never was: it may learn of a value after the commit only \
             (--setup leasehold).",
            "缓存里有一个从未存在过的值：只能在提交之后告诉缓存（--setup leasehold）。",
        ),
        spared: text(
            "The cache learns of a value after the commit only; the next reader loaded the row.",
            "缓存只在提交之后得知新值；下一个读者加载了数据库里的行。",
        ),
        test: "cache_first",
        goes_wrong: lies,
        world: |practice, _| match practice {
            Practice::Recipe => {
                world(Leases::None, 60, vec![writer(1, 0, &[(Set(2), 10), (Fail, 0)])])
            }
            Practice::Leasehold => world(
                Leases::Leasehold,
                60,
                vec![writer(1, 0, &[(Begin, 10), (Fail, 5), (Committed, 0)]), last(1, 30)],
            ),
        },
    },
    CacheStory {
        name: "avalanche",
        about: text(
            "20 keys were cached at the same moment with a ttl of 60 s, and all are in demand",
            "缓存雪崩：20 个键在同一时刻写入缓存，ttl 60 秒，而且都有人读",
        ),
        shown: text(
            "All keys ended at the same moment: ttls must differ at random (--setup leasehold).",
            "所有键同时过期：ttl 要随机错开（--setup leasehold）。",
        ),
        spared: text(
            "Each ttl was shortened at random by up to a tenth (jitter), so the keys ended one after the other.",
            "每个 ttl 随机缩短，最多十分之一（jitter），所以各个键先后过期。",
        ),
        test: "",
        goes_wrong: crowds,
        world: |practice, seed| {
            let mut rng = Rng::new(seed);
            let readers = (0..CROWD).map(|key| {
                let steps = [(Ask, 1), (Load, 100), (Fill, 0)];
                reader(key + 1, 53_000 + 5 * key as u64, &steps).of_key(key).again(100)
            });
            let mut world = world(practice.leases(Leases::None), 61_000, readers.collect());
            for key in 0..CROWD {
                let shorter = match practice {
                    Practice::Recipe => 0,
                    Practice::Leasehold => rng.below(TTL / 10),
                };
                world.row(key, 1);
                world.entry(key, 1, TTL - shorter);
            }
            world
        },
    },
    CacheStory {
        name: "penetration",
        about: text(
            "a key that does not exist is asked for 20 times",
            "缓存穿透：一个不存在的键被请求 20 次",
        ),
        shown: text(
            "Each request went to the database: that there is no row must be an entry too (--setup leasehold), \
             and a filter keeps out keys that cannot exist.",
            "每次请求都打到数据库：没有这一行也要缓存（--setup leasehold），不可能存在的键由过滤器拦住。",
        ),
        spared: text(
            "That there is no row is an entry too, with a ttl of its own (null_ttl).",
            "没有这一行也是一个缓存项，有自己的 ttl（null_ttl）。",
        ),
        test: "",
        goes_wrong: |tale| tale.loads() >= CROWD,
        world: |practice, _| {
            let requests = (0..CROWD).map(|request| {
                let steps = [(Ask, 1), (Load, 5), (Fill, 0)];
                reader(request + 1, 50 * request as u64, &steps).of_key(404)
            });
            world(practice.leases(Leases::None), 1100, requests.collect())
        },
    },
    CacheStory {
        name: "hot-key",
        about: text(
            "a key that 20 readers want ends, and loading it takes 100 ms",
            "缓存击穿：20 个读者都要的热点键过期了，加载需要 100 毫秒",
        ),
        shown: text(
            "All readers that missed loaded at once: one may load, and the others have to wait for it \
             (--setup leasehold).",
            "所有没有命中的读者同时加载：应当只让一个加载，其余等待结果（--setup leasehold）。",
        ),
        spared: text(
            "One reader had the fill lease and loaded; the others waited for its value.",
            "一个读者拿到回填租约去加载，其余等待它的结果。",
        ),
        test: "",
        goes_wrong: crowds,
        world: |practice, _| {
            let readers = (0..CROWD).map(|number| {
                reader(number + 1, 1000 + 2 * number as u64, &[(Ask, 1), (Load, 100), (Fill, 0)])
            });
            let mut world = world(practice.leases(Leases::None), 1300, readers.collect());
            world.entry(0, 1, 990);
            world
        },
    },
    CacheStory {
        name: "cache-snapshot",
        about: text(
            "Redis restarts from a snapshot that has an entry from before a write",
            "Redis 从快照重启，快照里有一个写操作之前的缓存项",
        ),
        shown: text(
            "The deletion was lost with the restart: an entry must name the run of the server that it belongs \
             to (--setup leasehold).",
            "重启丢掉了删除操作：缓存项必须标明它属于服务器的哪一次运行（--setup leasehold）。",
        ),
        spared: text(
            "The entry belongs to an earlier run of the server, so the reader loaded it again.",
            "这个缓存项属于服务器的上一次运行，所以读者重新加载。",
        ),
        test: "",
        goes_wrong: lies,
        world: |practice, _| {
            let steps: &[(Step, u64)] = match practice {
                Practice::Recipe => &[(Commit(2), 5), (Delete, 0)],
                Practice::Leasehold => &[(Begin, 5), (Commit(2), 5), (Committed, 0)],
            };
            let server = Actor::new(Role::Server, 1, 1000, &[(Snapshot, 2000), (Restart, 0)]);
            let actors = vec![server, writer(1, 2000, steps), last(1, 4000)];
            let mut world = world(practice.leases(Leases::None), 4500, actors);
            world.entry(0, 1, TTL);
            world
        },
    },
];

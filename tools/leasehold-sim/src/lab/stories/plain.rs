//! Locks written by hand with two commands, or without an owner.

use super::super::base::{NO_TTL, at, base, once, renewing, waiting};
use super::super::tale::Tale;
use super::super::text::text;
use super::{EVERYWHERE, Story, in_vain, long_gap, two_holders};
use crate::simulator::{Bug, Fault, MS, Plan, SECOND, Setup};

/// One Redis: by hand, and with Leasehold.
const HAND_FIRST: &[Setup] =
    &[Setup::PlainSet, Setup::Single, Setup::SingleStrict, Setup::Replicated];

/// Whether people write the lock by hand on this set-up; where a story has a mistake in it, it is theirs.
fn by_hand(setup: Setup) -> bool {
    matches!(setup, Setup::PlainSet | Setup::RedlockPlain)
}

pub(super) const STORIES: &[Story] = &[
    Story {
        name: "setnx",
        about: text(
            "the holder dies at 5 s; SETNX alone gives its lock no time limit",
            "持有者在 5 秒时崩溃；只用 SETNX 加的锁没有过期时间",
        ),
        setups: &[
            Setup::PlainSet,
            Setup::Single,
            Setup::SingleStrict,
            Setup::Replicated,
            Setup::RedlockPlain,
            Setup::RedlockTokens,
            Setup::Redlock,
            Setup::RedissonRedlock,
            Setup::ZooKeeper,
            Setup::Etcd,
            Setup::SqlLease,
        ],
        by_hand: &[(
            Setup::PlainSet,
            text("SETNX and DEL on one Redis", "一个 Redis 上的 SETNX 和 DEL"),
        )],
        shown: text(
            "A lease with a ttl ends by itself: SET key value NX PX ttl.",
            "带 ttl 的租约会自己结束：SET key value NX PX ttl。",
        ),
        spared: text(
            "The dead holder's lease had a ttl of 30 s and ended by itself.",
            "崩溃的持有者的租约带有 30 秒的 ttl，到期后自己结束。",
        ),
        goes_wrong: in_vain,
        plan: |setup| Plan {
            clients: vec![once(0, 10_000), once(1000, 5000)],
            faults: vec![at(5000, Fault::Crash { client: 0, back: u64::MAX })],
            ..base(setup, if setup == Setup::PlainSet { NO_TTL } else { 30 }, 60)
        },
    },
    Story {
        name: "setnx-expire",
        about: text(
            "SETNX and EXPIRE are two commands, and the holder dies between them",
            "SETNX 和 EXPIRE 是两条命令，持有者在两者之间崩溃",
        ),
        setups: &[
            Setup::PlainSet,
            Setup::RedlockPlain,
            Setup::Single,
            Setup::SingleStrict,
            Setup::Replicated,
            Setup::RedlockTokens,
            Setup::Redlock,
            Setup::RedissonRedlock,
        ],
        by_hand: &[
            (
                Setup::PlainSet,
                text("SETNX, then EXPIRE, on one Redis", "一个 Redis 上先 SETNX 再 EXPIRE"),
            ),
            (
                Setup::RedlockPlain,
                text(
                    "a Redlock on five nodes by SETNX and then EXPIRE; the published one uses SET NX PX",
                    "五个节点上先 SETNX 再 EXPIRE 的红锁；公开版用的是 SET NX PX",
                ),
            ),
        ],
        shown: text(
            "The lock and its time limit must be set in one step: SET key value NX PX ttl.",
            "加锁和设置过期时间必须是一步：SET key value NX PX ttl。",
        ),
        spared: text(
            "The lock and its ttl were set in one step, so the lease of the dead client ended by itself.",
            "加锁和设置 ttl 是一步，因此崩溃的客户端的租约会自己结束。",
        ),
        goes_wrong: in_vain,
        plan: |setup| Plan {
            bug: by_hand(setup).then_some(Bug::SetThenExpire),
            clients: vec![once(0, 10_000), once(1000, 5000)],
            faults: vec![(3 * MS / 2, Fault::Crash { client: 0, back: u64::MAX })],
            ..base(setup, 30, 60)
        },
    },
    Story {
        name: "timestamp-lock",
        about: text(
            "SETNX with the time in the value: after 5 s two clients take over the lock of a dead holder",
            "把时间写进 SETNX 的值：5 秒后，两个客户端都来接管崩溃者的锁",
        ),
        setups: HAND_FIRST,
        by_hand: &[(
            Setup::PlainSet,
            text(
                "SETNX with the time in the value, then SET to take over, on one Redis",
                "一个 Redis 上的 SETNX，值里放时间，超时后用 SET 接管",
            ),
        )],
        shown: text(
            "Taking over must compare what it replaces; a lease that the server ends needs no taking \
             over.",
            "接管时必须比较被替换的值；由服务器结束的租约不需要接管。",
        ),
        spared: text(
            "The server ended the dead holder's lease, and granted the lock to one client after the other.",
            "服务器结束了崩溃者的租约，再把锁先后授予两个客户端。",
        ),
        goes_wrong: two_holders,
        plan: |setup| Plan {
            bug: by_hand(setup).then_some(Bug::TimestampInTheValue),
            clients: vec![once(0, 4000), once(1500, 3000), once(2000, 3000)],
            faults: vec![at(1000, Fault::Crash { client: 0, back: u64::MAX })],
            ..base(setup, 5, 15)
        },
    },
    Story {
        name: "get-then-set",
        about: text(
            "an acquire that is repeated by GET and then SET: two clients see a free lock, and both \
             set it",
            "用 GET 再 SET 重试加锁：两个客户端都看到锁空闲，都去设置",
        ),
        setups: HAND_FIRST,
        by_hand: &[(
            Setup::PlainSet,
            text(
                "GET, then SET if there is no holder, on one Redis",
                "一个 Redis 上先 GET，没有持有者再 SET",
            ),
        )],
        shown: text(
            "Looking and taking must be one step, and be repeated with the id of the same attempt: \
             granted twice it is the same lease (lab lost-reply).",
            "查看和加锁必须是一步，重试时用同一次尝试的 ID：授予两次也是同一个租约（lab lost-reply）。",
        ),
        spared: text(
            "Looking and taking were one step at the server: one client got the lock, and the other waited.",
            "查看和加锁是服务器上的一步：一个客户端获得锁，另一个等待。",
        ),
        goes_wrong: two_holders,
        plan: |setup| Plan {
            // A client that finds it taken looks again at the end of its time, and then sets it.
            bug: by_hand(setup).then_some(Bug::TimestampInTheValue),
            clients: vec![once(0, 4000), once(1000, 3000), once(1200, 3000)],
            faults: vec![at(2000, Fault::Crash { client: 0, back: u64::MAX })],
            ..base(setup, 5, 15)
        },
    },
    Story {
        name: "bare-expire",
        about: text(
            "a watchdog renews by EXPIRE without a look at the owner: it prolongs the lock of a client \
             that died",
            "看门狗用 EXPIRE 续期而不看持有者：它延长了另一个已崩溃客户端的锁",
        ),
        setups: HAND_FIRST,
        by_hand: &[(
            Setup::PlainSet,
            text(
                "SET NX PX, and a watchdog that renews by EXPIRE, on one Redis",
                "一个 Redis 上的 SET NX PX，看门狗用 EXPIRE 续期",
            ),
        )],
        shown: text(
            "A renewal must compare the owner and look at its own deadline, in one step.",
            "续期必须在一步里比较持有者，并检查自己的截止时间。",
        ),
        spared: text(
            "The first client saw by its own clock that its lease had ended, and renewed nothing (a renewal \
             compares the owner too). The dead client's lock ended after its own ttl.",
            "第一个客户端按自己的时钟知道租约已结束，没有续期（续期也会比较持有者）。崩溃者的锁在自己的 ttl 之后结束。",
        ),
        // The lock of client 2 would end at 60 s at the latest.
        goes_wrong: |tale| {
            tale.beliefs().iter().all(|belief| belief.0 != 2 || belief.1 > 62 * SECOND)
        },
        plan: |setup| Plan {
            bug: by_hand(setup).then_some(Bug::RenewalByExpire),
            clients: vec![renewing(0, 100_000), once(31_000, 60_000), once(46_000, 5000)],
            faults: vec![
                at(5000, Fault::Pause { client: 0, time: 40 * SECOND }),
                at(40_000, Fault::Crash { client: 1, back: u64::MAX }),
            ],
            ..base(setup, 30, 95)
        },
    },
    Story {
        name: "late-release",
        about: text(
            "the holder pauses until 35 s with a ttl of 30 s; another client gets the lock at 31 s, and then \
             the first one releases",
            "ttl 30 秒：持有者停顿到 35 秒，另一个客户端在 31 秒获得锁，然后前者释放",
        ),
        setups: &[
            Setup::PlainSet,
            Setup::Single,
            Setup::SingleStrict,
            Setup::Replicated,
            Setup::RedlockPlain,
            Setup::RedlockTokens,
            Setup::Redlock,
            Setup::RedissonRedlock,
            Setup::ZooKeeper,
            Setup::Etcd,
            Setup::SqlLease,
        ],
        by_hand: &[],
        shown: text(
            "The late DEL removed the lock of client 2, and client 3 got in: a release must compare the \
             owner.",
            "迟到的 DEL 删掉了客户端 2 的锁，客户端 3 随即进入：释放时必须比较持有者。",
        ),
        spared: text(
            "The late release compared the owner, and left the lock of client 2 alone. What a holder does after \
             a pause is another story (lab watchdog-pause).",
            "迟到的释放比较了持有者，没有动客户端 2 的锁。停顿之后的持有者会做什么，见 lab watchdog-pause。",
        ),
        goes_wrong: |tale| overlap_of(tale, 1, 2),
        plan: |setup| Plan {
            clients: vec![once(0, 5000), once(31_000, 20_000), once(32_000, 5000)],
            faults: vec![at(4000, Fault::Pause { client: 0, time: 31 * SECOND })],
            ..base(setup, 30, 60)
        },
    },
    Story {
        name: "lost-reply",
        about: text(
            "a client has no answer and asks again: once its first request was granted, once another \
             client got the lock meanwhile",
            "客户端没有收到应答，再次请求：一次是前一个请求其实已成功，一次是锁已被别人拿走",
        ),
        setups: &[
            Setup::Single,
            Setup::SingleStrict,
            Setup::Replicated,
            Setup::PlainSet,
            Setup::ZooKeeper,
            Setup::Etcd,
            Setup::SqlLease,
        ],
        by_hand: &[],
        shown: text(
            "Without a value of its own the client waited for its own lock until the ttl ended: each \
             attempt needs an id, and is repeated with the same one.",
            "没有自己的唯一值，客户端只能等自己的锁过期：每次尝试都要有 ID，重试时用同一个 ID。",
        ),
        spared: text(
            "The value in the lock decides: its own means success (client 1), another's means failure, \
             and the client waits (client 2).",
            "由锁里的值判断：是自己的值就是成功（客户端 1），是别人的值就是失败，继续等待（客户端 2）。",
        ),
        goes_wrong: long_gap,
        plan: |setup| Plan {
            waiting: waiting(setup),
            repeats: true,
            clients: vec![once(100, 3000), once(4000, 3000), once(4010, 3000)],
            faults: vec![
                at(0, Fault::LoseReplies { client: 0, node: 0, time: 130 * MS }),
                at(3990, Fault::Cut { client: 1, node: 0, time: 30 * MS }),
            ],
            ..base(setup, 30, 60)
        },
    },
    Story {
        name: "handover-crash",
        about: text(
            "a process that passes its lock on between its own tasks dies while it holds the lock",
            "进程带着锁崩溃，不管它在进程内把锁交接给了谁",
        ),
        setups: EVERYWHERE,
        by_hand: &[],
        shown: text("", ""),
        spared: text(
            "There is nothing to prevent: the lease ends after one ttl; a shorter ttl costs renewals only.",
            "无需预防：租约在一个 ttl 后结束；ttl 越短，只是续期越多。",
        ),
        goes_wrong: in_vain,
        plan: |setup| Plan {
            clients: vec![renewing(0, 20_000), once(1000, 5000)],
            faults: vec![at(5000, Fault::Crash { client: 0, back: u64::MAX })],
            ..base(setup, 30, 50)
        },
    },
];

/// Whether the second client got the lock while the first one held it.
fn overlap_of(tale: &Tale, first: usize, second: usize) -> bool {
    let is = |(one, other): &(usize, usize)| (*one, *other) == (first, second);
    tale.overlaps().iter().any(|(_, pair)| is(pair))
}

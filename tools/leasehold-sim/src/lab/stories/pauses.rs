//! Pauses: what a client does that was stopped for longer than its lease lasts.

use std::time::Duration;

use super::super::base::{at, base, cut, once, renewing, writing_slowly};
use super::super::text::{Text, text};
use super::{EVERYWHERE, Story, late_write, two_holders};
use crate::simulator::{Behaviour, Fault, MS, Plan, SECOND, Setup, What};

/// The holder is stopped just after its last check of the lock, for 35 s.
fn paused_before_its_write(setup: Setup) -> Plan {
    Plan {
        clients: vec![writing_slowly(0, 5000), once(1000, 5000)],
        faults: vec![at(5050, Fault::Pause { client: 0, time: 35 * SECOND })],
        ..base(setup, 30, 50)
    }
}

/// The same for so many seconds, while servers restart: the only one, or C of A, B, C, which have the lock.
fn restarted_in_the_pause(setup: Setup, pause: u64, end: u64) -> Plan {
    let node = if setup.nodes() == 1 { 0 } else { 2 };
    Plan {
        clients: vec![writing_slowly(0, 5000), once(7000, 5000)],
        faults: [
            cut(setup, 0, &[3, 4], 25),
            cut(setup, 1, &[0, 1], 25),
            vec![
                at(5050, Fault::Pause { client: 0, time: pause * SECOND }),
                at(6000, Fault::Restart { node, time: 10 * MS }),
            ],
        ]
        .concat(),
        ..base(setup, 30, end)
    }
}

const RESTARTS: &[Setup] = &[
    Setup::Single,
    Setup::SingleStrict,
    Setup::PlainSet,
    Setup::RedlockPlain,
    Setup::RedlockTokens,
    Setup::Redlock,
    Setup::RedissonRedlock,
];

const TOKEN_NEEDED: Text = text(
    "No lock can prevent it, since the write is late, not the lock: the resource must refuse the older \
     token, so the lock must have tokens.",
    "任何锁都防不住：迟到的是写入，不是锁；资源必须拒绝较旧的令牌，所以锁要带令牌。",
);

pub(super) const STORIES: &[Story] = &[
    Story {
        name: "gc-pause",
        about: text(
            "a pause of 35 s between the holder's last check of the lock and its write, with a ttl of 30 s",
            "ttl 30 秒，持有者在最后一次检查锁与写入之间停顿 35 秒",
        ),
        setups: EVERYWHERE,
        by_hand: &[],
        shown: TOKEN_NEEDED,
        spared: text("", ""),
        goes_wrong: late_write,
        plan: paused_before_its_write,
    },
    Story {
        name: "random-value",
        about: text(
            "a pause of 35 s before the holder's write, with a ttl of 30 s, and a resource that compares the \
             lock's random value",
            "ttl 30 秒，持有者在写入前停顿 35 秒，而资源比较锁的随机值",
        ),
        setups: EVERYWHERE,
        by_hand: &[],
        shown: text("", ""),
        spared: text(
            "A resource that compares the random value stops a write that comes after the next holder's claim. It \
             knows no order, so a claim that comes late wins (lab random-value-late).",
            "比较随机值的资源能拦住晚于下一个持有者登记的写入；但随机值没有先后，迟到的登记会胜出（lab random-value-late）。",
        ),
        goes_wrong: |tale| !tale.entries.iter().any(|entry| entry.what == What::ByValue(0, false)),
        plan: |setup| Plan { by_value: true, ..paused_before_its_write(setup) },
    },
    Story {
        name: "random-value-late",
        about: text(
            "a resource compares the lock's random value, and the old holder's claim is 35 s on its way",
            "资源比较锁的随机值，而旧持有者的登记在路上走了 35 秒",
        ),
        setups: EVERYWHERE,
        by_hand: &[],
        shown: text(
            "The old holder's write was taken and the new holder's refused: a random value cannot tell which \
             of two holders is the later one; a token that grows can.",
            "旧持有者的写入被接受，新持有者的被拒绝：随机值分不出谁更晚，递增的令牌可以。",
        ),
        spared: text("", ""),
        goes_wrong: |tale| {
            let is = |what: What| tale.entries.iter().any(|entry| entry.what == what);
            is(What::ByValue(0, true)) && is(What::ByValue(1, false))
        },
        plan: |setup| Plan {
            by_value: true,
            clients: vec![
                Behaviour {
                    claim: 35 * SECOND,
                    write: (35 * SECOND, 35 * SECOND + 1),
                    ..once(0, 5000)
                },
                once(1000, 15_000),
            ],
            ..base(setup, 30, 60)
        },
    },
    Story {
        name: "watchdog-pause",
        about: text(
            "a pause of 40 s stops the holder, and its watchdog (the session's heartbeat) too; ttl 30 s",
            "40 秒的停顿让持有者停下，看门狗（会话心跳）也一起停下；ttl 30 秒",
        ),
        setups: &[
            Setup::ZooKeeper,
            Setup::Etcd,
            Setup::PlainSet,
            Setup::RedissonRedlock,
            Setup::Single,
            Setup::SingleStrict,
            Setup::Replicated,
            Setup::RedlockPlain,
            Setup::RedlockTokens,
            Setup::Redlock,
            Setup::SqlLease,
        ],
        by_hand: &[],
        shown: text(
            "A watchdog does not survive a pause: a holder must look at its own clock before it acts, and \
             the resource at the token.",
            "看门狗熬不过停顿：持有者行动前要看自己的时钟，资源要检查令牌。",
        ),
        spared: text(
            "The lease ended during the pause, as with any watchdog; the holder looked at its own clock when it \
             went on, and stopped.",
            "租约在停顿期间结束，任何看门狗都一样；持有者恢复后先看自己的时钟，于是停止工作。",
        ),
        goes_wrong: two_holders,
        plan: |setup| Plan {
            clients: vec![renewing(0, 20_000), once(6000, 15_000)],
            faults: vec![at(5000, Fault::Pause { client: 0, time: 40 * SECOND })],
            ..base(setup, 30, 60)
        },
    },
    Story {
        name: "pause-before-replies",
        about: text(
            "the lock is granted, and the client reads the replies after a pause of 35 s; ttl 30 s",
            "锁已授予，客户端停顿 35 秒后才读到应答；ttl 30 秒",
        ),
        setups: &[
            Setup::RedlockPlain,
            Setup::RedlockTokens,
            Setup::Redlock,
            Setup::RedissonRedlock,
            Setup::Single,
            Setup::SingleStrict,
            Setup::Replicated,
            Setup::SqlLease,
        ],
        by_hand: &[],
        shown: text(
            "Validity must count from before the first request, and the clock be looked at last: then the \
             client itself refuses such a grant.",
            "有效期必须从第一个请求之前算起，最后再看一次时钟：这样客户端自己就会拒绝这次授予。",
        ),
        spared: text(
            "Validity counts from before the first request, and the clock is looked at last: the client \
             itself refused the grant.",
            "有效期从第一个请求之前算起，最后再看一次时钟：客户端自己拒绝了这次授予。",
        ),
        goes_wrong: two_holders,
        plan: |setup| Plan {
            limit: Duration::from_secs(60),
            clients: vec![once(1000, 5000), once(2000, 10_000)],
            faults: vec![at(0, Fault::PauseAsker { time: 35 * SECOND })],
            ..base(setup, 30, 60)
        },
    },
    Story {
        name: "restart-in-pause",
        about: text(
            "the holder pauses for 20 s before its write, less than its ttl of 30 s; meanwhile a server with \
             the lock restarts empty",
            "持有者在写入前停顿 20 秒，没有超过 30 秒的 ttl；其间，一台授予了锁的服务器清空后重启",
        ),
        setups: RESTARTS,
        by_hand: &[],
        shown: text(
            "The holder's own clock still says valid: a server that may have forgotten must wait until its \
             leases are over (admission: --setup single-strict, redlock), and the resource must refuse the \
             older token.",
            "持有者自己的时钟仍显示有效：可能丢了数据的服务器必须等到旧租约都结束（--setup single-strict、redlock），\
             资源必须拒绝较旧的令牌。",
        ),
        spared: text(
            "The server that had forgotten waited until its leases were over, so that the holder's write came \
             in time.",
            "丢了数据的服务器等到旧租约都结束才投票，持有者的写入还在有效期内。",
        ),
        goes_wrong: late_write,
        plan: |setup| restarted_in_the_pause(setup, 20, 50),
    },
    Story {
        name: "restart-in-long-pause",
        about: text(
            "the holder pauses for 60 s before its write, and a server with the lock restarts empty: a delayed \
             restart does not bound a pause",
            "持有者在写入前停顿 60 秒，其间一台授予了锁的服务器清空后重启：延迟重启限制不了停顿的长短",
        ),
        setups: RESTARTS,
        by_hand: &[],
        shown: TOKEN_NEEDED,
        spared: text("", ""),
        goes_wrong: late_write,
        plan: |setup| restarted_in_the_pause(setup, 60, 80),
    },
    Story {
        name: "renewal-fails",
        about: text(
            "the holder is cut off from its servers at 12 s, and its renewals fail",
            "持有者在 12 秒时与服务器断开，续期失败",
        ),
        setups: &[
            Setup::Single,
            Setup::SingleStrict,
            Setup::Replicated,
            Setup::PlainSet,
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
            "The holder went on although its renewals failed (the aggressive policy): it must stop before its \
             lease ends, by its own clock.",
            "续期失败后持有者仍继续工作（激进策略）：它必须按自己的时钟，在租约结束前停下。",
        ),
        spared: text(
            "The holder was notified before its lease ended, and stopped: that is the conservative policy; the \
             aggressive one goes on at its own risk (--setup plain-set).",
            "持有者在租约结束前收到通知并停止：这是保守策略；激进策略会冒险继续（--setup plain-set）。",
        ),
        goes_wrong: two_holders,
        plan: |setup| Plan {
            clients: vec![renewing(0, 80_000), once(5000, 5000)],
            faults: (0..setup.nodes())
                .map(|node| at(12_000, Fault::Cut { client: 0, node, time: 60 * SECOND }))
                .collect(),
            ..base(setup, 30, 60)
        },
    },
];

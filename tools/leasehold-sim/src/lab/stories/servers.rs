//! Servers that restart, forget, fail over, or whose clocks jump.

use super::super::base::{at, base, cut, once, renewing};
use super::super::text::text;
use super::{FIVE, Story, two_holders};
use crate::simulator::{Fault, MS, Plan, SECOND, Setup};

/// The clock of C jumps so many seconds just before the first renewal.
fn jumping(setup: Setup, seconds: i64) -> Plan {
    let jump = Fault::NodeClock { node: 2, by: seconds * SECOND as i64 };
    Plan {
        clients: vec![renewing(0, 20_000), once(9750, 5000)],
        faults: [cut(setup, 0, &[3, 4], 25), cut(setup, 1, &[0, 1], 25), vec![at(9700, jump)]]
            .concat(),
        ..base(setup, 30, 40)
    }
}

pub(super) const STORIES: &[Story] = &[
    Story {
        name: "clock-jump",
        about: text(
            "A, B, C have the lock for 30 s, renewed every 10 s; the clock of C jumps 21 s before a \
             renewal, and another client asks C, D, E",
            "A、B、C 授予了 30 秒的锁，每 10 秒续期；续期前 C 的时钟跳了 21 秒，另一个客户端请求 C、D、E",
        ),
        setups: &FIVE,
        by_hand: &[],
        shown: text(
            "Servers must not let their clocks jump (slew, do not step); up to ttl less renewal interval is \
             borne (lab clock-jump-20), beyond that only the token protects.",
            "服务器的时钟不能跳（要缓慢校准）；不超过 ttl 减续期间隔的跳跃可以承受（lab clock-jump-20），再大就只有令牌能保护。",
        ),
        spared: text("", ""),
        goes_wrong: two_holders,
        plan: |setup| jumping(setup, 21),
    },
    Story {
        name: "clock-jump-20",
        about: text(
            "the clock of C jumps 20 s before the first renewal of a lock of 30 s: the lease lasts until it is renewed",
            "30 秒的锁在第一次续期前，C 的时钟跳了 20 秒：租约撑到了续期",
        ),
        setups: &FIVE,
        by_hand: &[],
        shown: text("", ""),
        spared: text(
            "There is nothing to prevent: a jump of ttl less renewal interval at the most is borne.",
            "无需预防：不超过 ttl 减续期间隔的跳跃可以承受。",
        ),
        goes_wrong: two_holders,
        plan: |setup| jumping(setup, 20),
    },
    Story {
        name: "node-restart",
        about: text(
            "A, B, C have the lock; C restarts empty, and another client asks C, D, E",
            "A、B、C 授予了锁；C 清空后重启，另一个客户端请求 C、D、E",
        ),
        setups: &FIVE,
        by_hand: &[],
        shown: text(
            "A node that may have forgotten must stay out until every lease that it can have granted is \
             over (admission: --setup redlock).",
            "可能丢了数据的节点必须等到它可能授予过的租约都结束（准入：--setup redlock）。",
        ),
        spared: text(
            "C may have forgotten leases, so it had no vote until all of them were over (admission).",
            "C 可能丢了租约，在这些租约都结束之前没有投票权（准入）。",
        ),
        goes_wrong: two_holders,
        plan: |setup| Plan {
            clients: vec![renewing(0, 20_000), once(6000, 5000)],
            faults: [
                cut(setup, 0, &[3, 4], 25),
                cut(setup, 1, &[0, 1], 25),
                vec![at(5000, Fault::Restart { node: 2, time: 10 * MS })],
            ]
            .concat(),
            ..base(setup, 30, 60)
        },
    },
    Story {
        name: "majority-restart",
        about: text(
            "the lock is held, and three of five nodes restart empty: no node knows which leases and tokens \
             there were",
            "锁正被持有，五个节点中有三个清空后重启：没有节点知道有过哪些租约和令牌",
        ),
        setups: &[
            Setup::Redlock,
            Setup::RedlockPlain,
            Setup::RedlockTokens,
            Setup::RedissonRedlock,
        ],
        by_hand: &[],
        shown: text(
            "Nodes that may have forgotten must have no vote; when it is a majority, an operator has to \
             decide (--setup redlock).",
            "可能丢了数据的节点不能投票；如果是多数节点，要由运维人员决定（--setup redlock）。",
        ),
        spared: text(
            "No client gets the lock until an operator allows it (leasehold quorum init --after-loss), and \
             then a ttl later.",
            "在运维人员允许之前没有客户端能获得锁（leasehold quorum init --after-loss），之后还要等一个 ttl。",
        ),
        goes_wrong: two_holders,
        plan: |setup| Plan {
            clients: vec![renewing(0, 20_000), once(6000, 5000)],
            faults: (0..3)
                .map(|node| at(5000, Fault::Restart { node, time: 10 * MS }))
                .chain(setup.admission().then(|| at(40_000, Fault::Operator)))
                .collect(),
            ..base(setup, 30, 90)
        },
    },
    Story {
        name: "single-restart",
        about: text(
            "the one Redis restarts empty while its holder works",
            "唯一的 Redis 在持有者工作时清空后重启",
        ),
        setups: &[Setup::Single, Setup::SingleStrict, Setup::PlainSet],
        by_hand: &[],
        shown: text(
            "With ?admission=strict a server that may have forgotten waits until its leases are over \
             (--setup single-strict).",
            "使用 ?admission=strict，可能丢了数据的服务器会等到租约都结束（--setup single-strict）。",
        ),
        spared: text(
            "With ?admission=strict the server waited until the leases that it may have forgotten were over.",
            "使用 ?admission=strict，服务器等到可能丢掉的租约都结束才授予锁。",
        ),
        goes_wrong: two_holders,
        plan: |setup| Plan {
            clients: vec![once(0, 20_000), once(6000, 5000)],
            faults: vec![at(5000, Fault::Restart { node: 0, time: 10 * MS })],
            ..base(setup, 30, 50)
        },
    },
    Story {
        name: "failover",
        about: text(
            "the server that granted the lock fails before a replica has heard of the lock",
            "授予锁的服务器故障，而从节点还没有收到这把锁",
        ),
        setups: &[
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
            "Asynchronous replication cannot prevent it. What can: a grant that waits for replicas \
             (?replicas=majority), a quorum of independent nodes, or a server that keeps its data; the token at \
             the resource protects in any case.",
            "异步复制防不住。能防住的是：授予前等待从节点（?replicas=majority）、独立节点的多数派，或不丢数据的服务器；\
             资源检查令牌则总能保护数据。",
        ),
        spared: text(
            "The lock was not in that server's memory alone: other independent nodes had it, or it was on \
             disk before the grant.",
            "锁不只在这台服务器的内存里：其他独立节点也有，或者授予前已经写盘。",
        ),
        goes_wrong: two_holders,
        plan: |setup| Plan {
            clients: vec![renewing(1000, 20_000), once(1500, 5000)],
            faults: vec![at(1010, Fault::Restart { node: 0, time: 10 * MS })],
            ..base(setup, 30, 40)
        },
    },
];

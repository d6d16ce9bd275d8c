//! How waiting clients learn of a release.

use super::super::base::{base, once, waiting};
use super::super::text::text;
use super::{Story, long_gap};
use crate::simulator::{MS, Network, Plan, Setup};

/// Those with one place to wait at.
const QUEUES: &[Setup] =
    &[Setup::PlainSet, Setup::Single, Setup::Replicated, Setup::ZooKeeper, Setup::Etcd];

pub(super) const STORIES: &[Story] = &[
    Story {
        name: "lost-wakeup",
        about: text(
            "a client finds the lock taken, and the holder releases before the client listens for a release",
            "客户端发现锁被占用，而持有者在它开始监听释放通知之前就释放了",
        ),
        setups: QUEUES,
        by_hand: &[],
        shown: text(
            "The client waited for the rest of the lease: being turned away and joining the queue must be one step at \
             the server (--setup single).",
            "客户端一直等到租约过期：被拒绝和进入等待队列必须是服务器上的一步（--setup single）。",
        ),
        spared: text(
            "Being turned away and joining the queue was one step at the server, so no release was missed.",
            "被拒绝和进入等待队列是服务器上的一步，因此没有错过释放通知。",
        ),
        goes_wrong: long_gap,
        plan: |setup| Plan {
            waiting: waiting(setup),
            clients: vec![once(0, 5000), once(5040, 2000)],
            network: Network { delay: (20 * MS, 20 * MS + 1), ..Network::GOOD },
            ..base(setup, 30, 40)
        },
    },
    Story {
        name: "herd",
        about: text(
            "nine clients wait for a lock that is released nine times",
            "九个客户端等待同一把锁，锁被释放九次",
        ),
        setups: QUEUES,
        by_hand: &[],
        shown: text(
            "Each release notified all waiters: all asked, and one got it. A release should notify the \
             first waiter alone (--setup single).",
            "每次释放都通知所有等待者：都来请求，只有一个成功。释放应当只通知第一个等待者（--setup single）。",
        ),
        spared: text(
            "Each release notified the first waiter alone.",
            "每次释放只通知第一个等待者。",
        ),
        goes_wrong: |tale| tale.seen.asks > 3 * tale.seen.holds,
        plan: |setup| Plan {
            waiting: waiting(setup),
            clients: std::iter::once(once(0, 1000))
                .chain((0..9).map(|client| once(100 + 20 * client, 200)))
                .collect(),
            ..base(setup, 30, 10)
        },
    },
];

//! Clients that compete for the majority, or are cut off from it.

use super::super::base::{at, base, once, renewing};
use super::super::text::text;
use super::{Story, never, two_holders};
use crate::simulator::{Fault, Network, Plan, SECOND, Setup};

pub(super) const STORIES: &[Story] = &[
    Story {
        name: "partition",
        about: text(
            "the holder is cut off from three of five nodes",
            "持有者与五个节点中的三个断开",
        ),
        setups: &[
            Setup::Redlock,
            Setup::RedlockPlain,
            Setup::RedlockTokens,
            Setup::RedissonRedlock,
        ],
        by_hand: &[],
        shown: text(
            "The watchdog could not renew, and the holder was not told: it must look at its own clock \
             (--setup redlock).",
            "看门狗无法续期，持有者却不知道：它必须看自己的时钟（--setup redlock）。",
        ),
        spared: text(
            "The holder was notified in time, and the others waited for one ttl.",
            "持有者及时收到通知，其他客户端等了一个 ttl。",
        ),
        goes_wrong: two_holders,
        plan: |setup| Plan {
            clients: vec![renewing(0, 50_000), once(5000, 5000)],
            faults: (2..5)
                .map(|node| at(3000, Fault::Cut { client: 0, node, time: 60 * SECOND }))
                .collect(),
            ..base(setup, 30, 60)
        },
    },
    Story {
        name: "split-vote",
        about: text(
            "five clients ask five nodes at the same moment, and the votes are split",
            "五个客户端同时请求五个节点，选票被分散",
        ),
        setups: &[
            Setup::Redlock,
            Setup::RedlockPlain,
            Setup::RedlockTokens,
            Setup::RedissonRedlock,
        ],
        by_hand: &[],
        shown: text("", ""),
        spared: text(
            "There is nothing to prevent: a client without a majority releases and tries again after a \
             random pause.",
            "无需预防：没有获得多数派的客户端释放选票，随机等待后重试。",
        ),
        goes_wrong: never,
        plan: |setup| Plan {
            clients: vec![once(0, 100); 5],
            network: Network::GOOD,
            ..base(setup, 30, 3)
        },
    },
];

//! The stories: what happens, with which numbers, and what would have prevented it.

use std::time::Duration;

use super::base::{at, base, cut, node, once, renewing, waiting};
use super::tale::Tale;
use crate::simulator::{Behaviour, Bug, Fault, MS, Network, Plan, SECOND, Setup, run};

/// One story.
#[derive(Clone, Copy, Debug)]
pub struct Story {
    /// As it is written on a command line.
    pub name: &'static str,
    /// What it shows, in a line.
    pub about: &'static str,
    /// The default set-up of the story.
    pub setup: Setup,
    /// What would have prevented it, in a sentence.
    pub prevention: &'static str,
    plan: fn(Setup) -> Plan,
}

impl Story {
    /// The story of this name.
    pub fn find(name: &str) -> Option<&'static Self> {
        let name = if name == "no-expiry" { "setnx" } else { name };
        STORIES.iter().find(|story| story.name == name)
    }

    /// Plays it.
    pub fn play(&self, setup: Setup, seed: u64) -> Tale {
        let mut plan = (self.plan)(setup);
        if setup.admission() {
            // They have been there for a while, and know the nodes.
            plan.clients.iter_mut().for_each(|client| client.start = client.start.max(10 * MS));
        }
        let (seen, entries) = run(&plan, seed);
        Tale::new(self, plan, seen, entries)
    }
}

/// The clock of C jumps so many seconds just before the first renewal.
fn jumping(setup: Setup, seconds: i64) -> Plan {
    let jump = Fault::NodeClock { node: node(setup, 2), by: seconds * SECOND as i64 };
    Plan {
        clients: vec![renewing(0, 20_000), once(9750, 5000)],
        faults: [cut(setup, 0, &[3, 4], 25), cut(setup, 1, &[0, 1], 25), vec![at(9700, jump)]]
            .concat(),
        ..base(setup, 30, 40)
    }
}

const fn story(
    name: &'static str,
    setup: Setup,
    about: &'static str,
    prevention: &'static str,
    plan: fn(Setup) -> Plan,
) -> Story {
    Story { name, about, setup, prevention, plan }
}

/// All of them.
pub const STORIES: &[Story] = &[
    story(
        "setnx",
        Setup::PlainSet,
        "the holder dies, and its lock has no time limit: no client ever acquires it again",
        "A lease with a ttl ends by itself: SET key value NX PX ttl.",
        |setup| Plan {
            clients: vec![once(0, 10_000), once(1000, 5000)],
            faults: vec![at(5000, Fault::Crash { client: 0, back: u64::MAX })],
            ..base(setup, 3600, 60)
        },
    ),
    story(
        "setnx-expire",
        Setup::Single,
        "SETNX and EXPIRE are two commands, and the holder dies between them",
        "The lock and its time limit must be set in one step: SET key value NX PX ttl.",
        |setup| Plan {
            bug: Some(Bug::SetThenExpire),
            clients: vec![once(0, 10_000), once(1000, 5000)],
            faults: vec![(3 * MS / 2, Fault::Crash { client: 0, back: u64::MAX })],
            ..base(setup, 30, 60)
        },
    ),
    story(
        "timestamp-lock",
        Setup::Single,
        "SETNX with the time in the value: two take over after 5 s, and both win",
        "Taking over must compare what it replaces; a lease that the server ends needs no taking \
         over.",
        |setup| Plan {
            bug: Some(Bug::TimestampInTheValue),
            clients: vec![once(0, 4000), once(1500, 3000), once(2000, 3000)],
            faults: vec![at(1000, Fault::Crash { client: 0, back: u64::MAX })],
            ..base(setup, 5, 15)
        },
    ),
    story(
        "get-then-set",
        Setup::Single,
        "an acquire that is repeated by GET and then SET: two clients see a free lock, and both \
         set it",
        "Looking and taking must be one step, and be repeated with the id of the same attempt: \
         granted twice it is the same lease (lab lost-reply).",
        |setup| Plan {
            // A client that finds it taken looks again at the end of its time, and then sets it.
            bug: Some(Bug::TimestampInTheValue),
            clients: vec![once(0, 4000), once(1000, 3000), once(1200, 3000)],
            faults: vec![at(2000, Fault::Crash { client: 0, back: u64::MAX })],
            ..base(setup, 5, 15)
        },
    ),
    story(
        "bare-expire",
        Setup::Single,
        "a watchdog that renews by EXPIRE, without looking at the owner, prolongs another's lock",
        "A renewal must compare the owner and look at its own deadline, in one step.",
        |setup| Plan {
            bug: Some(Bug::RenewalByExpire),
            clients: vec![renewing(0, 100_000), once(31_000, 60_000), once(46_000, 5000)],
            faults: vec![
                at(5000, Fault::Pause { client: 0, time: 40 * SECOND }),
                at(40_000, Fault::Crash { client: 1, back: u64::MAX }),
            ],
            ..base(setup, 30, 95)
        },
    ),
    story(
        "late-release",
        Setup::PlainSet,
        "ttl 30 s, a pause until 35 s, another got in at 31 s: the late DEL removes his lock",
        "A release must compare the owner: only the attempt that was granted the lease may end it.",
        |setup| Plan {
            clients: vec![once(0, 5000), once(31_000, 20_000), once(32_000, 5000)],
            faults: vec![at(4000, Fault::Pause { client: 0, time: 31 * SECOND })],
            ..base(setup, 30, 60)
        },
    ),
    story(
        "lost-reply",
        Setup::Single,
        "the lock is granted, and the reply is lost",
        "Unknown is not refused: what may have been granted is given back, and the next attempt has \
         an id of its own.",
        |setup| Plan {
            clients: vec![once(100, 3000), once(500, 3000)],
            faults: vec![at(0, Fault::LoseReplies { client: 0, node: 0, time: SECOND / 5 })],
            ..base(setup, 30, 15)
        },
    ),
    story(
        "gc-pause",
        Setup::Single,
        "a pause of 35 s between the last look at the lock and the write, with a ttl of 30 s",
        "No lock can prevent it, since the write is late, not the lock: the resource must refuse \
         the older token.",
        |setup| Plan {
            clients: vec![once(0, 5000), once(1000, 5000)],
            faults: vec![at(5005, Fault::Pause { client: 0, time: 35 * SECOND })],
            ..base(setup, 30, 50)
        },
    ),
    story(
        "random-value",
        Setup::Single,
        "the same with a resource that compares the lock's random value: the late write is refused",
        "Such a resource stops a write that comes after the next holder's claim; it knows no order, so \
         that a claim that comes late wins (lab random-value-late).",
        |setup| Plan {
            by_value: true,
            clients: vec![once(0, 5000), once(1000, 5000)],
            faults: vec![at(5005, Fault::Pause { client: 0, time: 35 * SECOND })],
            ..base(setup, 30, 50)
        },
    ),
    story(
        "random-value-late",
        Setup::Single,
        "the same, but the claim is 35 s on its way: the old holder's write is taken, the new one's \
         refused",
        "A random value cannot tell which of two holders is the later one: a token that grows can.",
        |setup| Plan {
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
    ),
    story(
        "watchdog-pause",
        Setup::ZooKeeper,
        "a pause of 40 s stops the watchdog (the session's heartbeat) too, and the holder goes on",
        "A holder must look at its own clock before it acts, and the resource at the token: a \
         watchdog does not survive a pause.",
        |setup| Plan {
            clients: vec![renewing(0, 20_000), once(6000, 15_000)],
            faults: vec![at(5000, Fault::Pause { client: 0, time: 40 * SECOND })],
            ..base(setup, 30, 60)
        },
    ),
    story(
        "renewal-fails",
        Setup::Single,
        "the holder is cut off from its server, and its renewals fail",
        "The holder is notified before its lease ends, and stops: that is the conservative policy; the \
         aggressive one goes on at its own risk (--setup plain-set).",
        |setup| Plan {
            clients: vec![renewing(0, 80_000), once(5000, 5000)],
            faults: (0..setup.nodes())
                .map(|node| at(12_000, Fault::Cut { client: 0, node, time: 60 * SECOND }))
                .collect(),
            ..base(setup, 30, 60)
        },
    ),
    story(
        "pause-before-replies",
        Setup::RedlockPlain,
        "the lock is granted, and its replies are read after a pause of 35 s",
        "Validity counts from before the first request, and the clock is looked at last: such a \
         grant is refused by its own client.",
        |setup| Plan {
            limit: Duration::from_secs(60),
            clients: vec![once(1000, 5000), once(2000, 5000)],
            faults: vec![at(0, Fault::PauseAsker { time: 35 * SECOND })],
            ..base(setup, 30, 60)
        },
    ),
    story(
        "clock-jump",
        Setup::RedlockPlain,
        "A, B, C have the lock for 30 s, renewed every 10 s; the clock of C jumps 21 s before a \
         renewal, and C, D, E give it to another",
        "Servers must not let their clocks jump (slew, do not step); up to ttl less renewal interval is \
         borne (lab clock-jump-20), beyond that only the token protects.",
        |setup| jumping(setup, 21),
    ),
    story(
        "clock-jump-20",
        Setup::RedlockPlain,
        "the same with a jump of 20 s: the lease lasts until it is renewed",
        "There is nothing to prevent: a jump of ttl less renewal interval at the most is borne.",
        |setup| jumping(setup, 20),
    ),
    story(
        "node-restart",
        Setup::RedlockPlain,
        "A, B, C have the lock; C restarts empty, and C, D, E give it to another",
        "A node that may have forgotten must stay out until every lease that it can have granted is \
         over (admission: --setup redlock).",
        |setup| Plan {
            clients: vec![renewing(0, 20_000), once(6000, 5000)],
            faults: [
                cut(setup, 0, &[3, 4], 25),
                cut(setup, 1, &[0, 1], 25),
                vec![at(5000, Fault::Restart { node: node(setup, 2), time: 10 * MS })],
            ]
            .concat(),
            ..base(setup, 30, 60)
        },
    ),
    story(
        "majority-restart",
        Setup::Redlock,
        "three of five nodes forget: no node knows how high tokens have grown",
        "There is nothing to prevent: no client gets the lock until an operator allows it (leasehold quorum init \
         --after-loss), and then a ttl later.",
        |setup| Plan {
            clients: vec![once(0, 3000), once(6000, 5000)],
            faults: (0..setup.nodes().min(3))
                .map(|node| at(5000, Fault::Restart { node, time: 10 * MS }))
                .chain((setup == Setup::Redlock).then(|| at(40_000, Fault::Operator)))
                .collect(),
            ..base(setup, 30, 90)
        },
    ),
    story(
        "single-restart",
        Setup::Single,
        "the one Redis restarts empty while its holder works",
        "With ?admission=strict a server that may have forgotten waits until its leases are over \
         (--setup single-strict).",
        |setup| Plan {
            clients: vec![once(0, 20_000), once(6000, 5000)],
            faults: (0..setup.nodes())
                .map(|node| at(5000, Fault::Restart { node, time: 10 * MS }))
                .collect(),
            ..base(setup, 30, 50)
        },
    ),
    story(
        "failover",
        Setup::Replicated,
        "the replica takes over before it has heard of the lock",
        "Asynchronous replication cannot: what can is a quorum of independent nodes, a server that \
         keeps its data, or the token at the resource.",
        |setup| Plan {
            clients: vec![renewing(1000, 20_000), once(1500, 5000)],
            faults: vec![at(1010, Fault::Restart { node: 0, time: 10 * MS })],
            ..base(setup, 30, 40)
        },
    ),
    story(
        "partition",
        Setup::Redlock,
        "the holder is cut off from three of five nodes",
        "There is nothing to prevent: the holder is notified in time, and the others wait for one ttl.",
        |setup| Plan {
            clients: vec![renewing(0, 50_000), once(5000, 5000)],
            faults: (0..setup.nodes())
                .rev()
                .take(3)
                .map(|node| at(3000, Fault::Cut { client: 0, node, time: 60 * SECOND }))
                .collect(),
            ..base(setup, 30, 60)
        },
    ),
    story(
        "split-vote",
        Setup::Redlock,
        "five clients ask at the same moment, and the votes are split",
        "There is nothing to prevent: a client without a majority releases and tries again after a random pause.",
        |setup| Plan {
            clients: vec![once(0, 100); 5],
            network: Network::GOOD,
            ..base(setup, 30, 3)
        },
    ),
    story(
        "lost-wakeup",
        Setup::PlainSet,
        "a client finds the lock taken, the holder releases, and only then the client listens for a \
         release: it waits for the whole lease",
        "Being turned away and standing in line must be one step at the server (--setup single).",
        |setup| Plan {
            waiting: waiting(setup),
            clients: vec![once(0, 5000), once(5040, 2000)],
            network: Network { delay: (20 * MS, 20 * MS + 1), ..Network::GOOD },
            ..base(setup, 30, 40)
        },
    ),
    story(
        "herd",
        Setup::PlainSet,
        "nine wait for a lock, and each release notifies all of them: all ask, one gets it",
        "A release should be told to the first in line alone (--setup single).",
        |setup| Plan {
            waiting: waiting(setup),
            clients: std::iter::once(once(0, 1000))
                .chain((0..9).map(|client| once(100 + 20 * client, 200)))
                .collect(),
            ..base(setup, 30, 10)
        },
    ),
    story(
        "handover-crash",
        Setup::Single,
        "a process dies with the lock, whatever it passes on inside",
        "There is nothing to prevent: the lease ends after one ttl; a shorter ttl costs renewals only.",
        |setup| Plan {
            clients: vec![renewing(0, 20_000), once(1000, 5000)],
            faults: vec![at(5000, Fault::Crash { client: 0, back: u64::MAX })],
            ..base(setup, 30, 50)
        },
    ),
];

//! Which server is the master, as the sentinels or the nodes of a cluster name it, and when that changed.

use leasehold_test_servers::{Admin, RedisSentinels, RedisServer, Value};

use super::Cluster;
use crate::client::NAME;
use crate::master_switch::Switch;
use crate::setup::SetUp;
use crate::{MS, now};

/// The pause between two looks.
const PAUSE: u64 = 20 * MS;

/// What all that can name the master have named.
#[derive(Debug, Default)]
pub(crate) struct Masters {
    observers: Vec<Observer>,
    /// The port of the master that was named last.
    current: Option<u16>,
    due: u64,
    pub(crate) switches: Vec<Switch>,
    /// Each change of what one of them names, for the journal.
    pub(crate) changes: Vec<Change>,
}

/// An observer has named another master than before: its last other answer was to a question at `from`, 0 if this is its
/// first answer.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) from: u64,
    pub(crate) until: u64,
    pub(crate) observer: usize,
    pub(crate) port: u16,
}

/// A sentinel, or a node of a cluster.
#[derive(Debug, Default)]
struct Observer {
    admin: Option<Admin>,
    named: Option<u16>,
    /// When it was asked for that.
    asked: u64,
}

impl Masters {
    /// Asks those that are not stopped, if it is time.
    pub(crate) fn look(&mut self, cluster: &Cluster, stopped: impl Fn(usize) -> bool) {
        if !cluster.setup.is_replicated() || now() < self.due {
            return;
        }
        let servers = cluster.observers();
        self.observers.resize_with(servers.len(), Observer::default);
        for (at, server) in servers.into_iter().enumerate() {
            // Sentinels are not among the nodes.
            if cluster.setup == SetUp::Cluster && stopped(at) {
                continue;
            }
            let asked = now();
            if let Some(named) = self.observers[at].ask(server, cluster.setup) {
                self.name(at, named, asked, now());
            }
        }
        self.due = now() + PAUSE;
    }

    /// An observer that was asked at one time has named a master by another time.
    fn name(&mut self, at: usize, named: u16, asked: u64, answered: u64) {
        let observer = &mut self.observers[at];
        let (before, since) = (observer.named.replace(named), observer.asked);
        observer.asked = asked;
        let changed = before.is_some_and(|before| before != named);
        if before != Some(named) {
            let change = Change { from: since, until: answered, observer: at, port: named };
            self.changes.push(change);
        }
        if self.current.is_none() {
            self.current = Some(named);
        } else if changed && self.current != Some(named) {
            self.current = Some(named);
            self.switches.push(Switch { from: since, until: answered });
        } else if changed && let Some(last) = self.switches.last_mut() {
            // It may have been the first, though it was asked later. The switch lasts at least until it was asked for the
            // last time that it named another: until then clients that asked it found the old master.
            last.from = last.from.min(since);
            last.until = last.until.max(since);
        }
    }

    /// A server goes back to what it knew before, or to what another one knows, if it is the master.
    pub(crate) fn restarted(&mut self, cluster: &Cluster, at: usize, from: u64) {
        let port = cluster.nodes[at].redis().map(RedisServer::port_between);
        if cluster.setup.is_replicated() && port == self.current {
            self.switches.push(Switch { from, until: now() });
        }
    }
}

impl Cluster {
    /// Those that can name the master.
    fn observers(&self) -> Vec<&RedisServer> {
        match self.setup {
            SetUp::Sentinel => self.sentinels.iter().collect(),
            _ => self.nodes.iter().filter_map(|node| node.redis()).collect(),
        }
    }
}

impl Observer {
    fn ask(&mut self, server: &RedisServer, setup: SetUp) -> Option<u16> {
        let mut admin = self.admin.take().or_else(|| server.connect().ok())?;
        let named = match setup {
            SetUp::Sentinel => of_sentinel(&mut admin),
            _ => of_node(&mut admin),
        };
        self.admin = named.is_some().then_some(admin);
        named
    }
}

fn of_sentinel(admin: &mut Admin) -> Option<u16> {
    let words = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", RedisSentinels::NAME];
    admin.call(&words).ok()?.items().get(1)?.text().parse().ok()
}

/// Who serves the slot of the lock: all keys of a lock have its name in braces.
fn of_node(admin: &mut Admin) -> Option<u16> {
    let number = |value: &Value| value.text().parse::<u16>().ok();
    let slot = number(&admin.call(&["CLUSTER", "KEYSLOT", NAME]).ok()?)?;
    let slots = admin.call(&["CLUSTER", "SLOTS"]).ok()?;
    let port = |range: &Value| {
        let [first, last, master, ..] = range.items() else { return None };
        let serves = (number(first)?..=number(last)?).contains(&slot);
        number(master.items().get(1)?).filter(|_| serves)
    };
    slots.items().iter().find_map(port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_is_noted_once_from_before_the_first_who_may_have_named_it() {
        let mut masters = Masters::default();
        masters.observers.resize_with(2, Observer::default);
        for (at, named, asked) in
            [(0, 1, 10), (1, 1, 20), (0, 1, 30), (1, 2, 40), (0, 2, 50), (1, 2, 60), (0, 1, 70)]
        {
            masters.name(at, named, asked, asked + 1);
        }
        // The second says at 40 what it did not say at 20; the first may have said it at 30.
        let all = [Switch { from: 20, until: 41 }, Switch { from: 50, until: 71 }];
        assert_eq!(masters.switches, all);
        masters.name(1, 1, 80, 81);
        assert_eq!(masters.switches, all, "it says the same a little later");
        let mut masters = Masters::default();
        masters.observers.resize_with(2, Observer::default);
        for (at, named, asked) in [(0, 1, 10), (1, 1, 20), (1, 2, 30), (0, 2, 90)] {
            masters.name(at, named, asked, asked + 1);
        }
        assert_eq!(
            masters.switches,
            [Switch { from: 10, until: 31 }],
            "it was not asked meanwhile"
        );
        let mut masters = Masters::default();
        masters.observers.resize_with(2, Observer::default);
        for (at, named, asked) in
            [(0, 1, 10), (1, 1, 20), (1, 2, 30), (0, 1, 80), (1, 2, 85), (0, 2, 90)]
        {
            masters.name(at, named, asked, asked + 1);
        }
        assert_eq!(masters.switches, [Switch { from: 20, until: 80 }], "they disagree until 80");
    }
}

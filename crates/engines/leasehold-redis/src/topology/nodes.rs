//! Parses the answers of nodes about their cluster: which node serves which slots.

use std::collections::{HashMap, HashSet};

use leasehold_core::{Error, ErrorKind, Result};

use super::slot::SLOTS;
use crate::error::strange;
use crate::source::{HostPort, shown};

/// A node that serves slots, or may serve some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) place: HostPort,
    /// If two nodes claim a slot, the larger epoch wins.
    epoch: u64,
    /// The known replicas, available or not.
    pub(crate) replicas: usize,
}

/// Which node serves which slots, as far as it is known.
#[derive(Clone, Debug)]
pub(crate) struct Owners {
    pub(crate) owners: Vec<Owner>,
    /// For each slot the number of its node in `owners`, or the number for no node.
    slots: Vec<u16>,
    /// The epoch with which each slot was claimed.
    claims: Vec<u64>,
}

/// The number of a slot without a node.
const NOBODY: u16 = u16::MAX;
/// More masters are refused: Redis Cluster is made for up to 1000 nodes.
const MOST_OWNERS: usize = 4096;

impl Owners {
    /// Parses answers to `CLUSTER NODES`, each with the host that sent it. If they differ, the
    /// newest claim counts, as it does among the nodes. Hosts are named if certificates have names.
    pub(crate) fn read(answers: &[(String, String)], by_name: bool) -> Result<Self> {
        let (slots, claims) = (vec![NOBODY; SLOTS], vec![0; SLOTS]);
        let mut all = Self { owners: Vec::new(), slots, claims };
        for (host, text) in answers {
            all.add(host, text, by_name)?;
        }
        Ok(all)
    }

    fn add(&mut self, asked: &str, text: &str, by_name: bool) -> Result<()> {
        let mut replicas: HashMap<&str, usize> = HashMap::new();
        for fields in text.lines().map(fields) {
            if let [_, _, flags, master, ..] = fields.as_slice()
                && flags.contains("slave")
            {
                *replicas.entry(master).or_default() += 1;
            }
        }
        // In one answer each slot has one node. Twice as many are accepted.
        let mut left = 2 * SLOTS;
        for line in text.lines().filter(|line| !line.is_empty()) {
            let fields = fields(line);
            let [id, address, flags, _, _, _, epoch, _, slots @ ..] = fields.as_slice() else {
                return Err(strange(line));
            };
            let slots: Vec<&&str> = slots.iter().filter(|slots| !slots.starts_with('[')).collect();
            // A master without slots may get some: its pushes are needed from then on.
            let away = |why| flags.contains(why);
            let empty = slots.is_empty();
            if away("slave") || empty && ["fail", "handshake", "noaddr"].into_iter().any(away) {
                continue;
            }
            let place = place(address, asked, by_name)?;
            let replicas = replicas.get(id).copied().unwrap_or_default();
            let epoch = epoch.parse().map_err(|_| strange(line))?;
            let number = self.number(Owner { place, epoch, replicas });
            let number = number.ok_or_else(|| strange("too many masters"))?;
            for slots in slots {
                let claimed = self.claim(slots, number, epoch).ok_or_else(|| strange(line))?;
                left = left.checked_sub(claimed).ok_or_else(|| strange(line))?;
            }
        }
        Ok(())
    }

    /// Returns the number of a node, and keeps the newest data about it; `None` if there are too many.
    fn number(&mut self, owner: Owner) -> Option<u16> {
        let known = self.owners.iter().position(|known| known.place == owner.place);
        let at = known.unwrap_or(self.owners.len());
        if at >= MOST_OWNERS {
            return None;
        }
        if at == self.owners.len() {
            self.owners.push(owner.clone());
        }
        if self.owners[at].epoch < owner.epoch {
            self.owners[at] = owner;
        }
        u16::try_from(at).ok()
    }

    /// Parses `5` or `0-5460`; returns how many slots that are.
    fn claim(&mut self, slots: &str, number: u16, epoch: u64) -> Option<usize> {
        let (first, last) = slots.split_once('-').unwrap_or((slots, slots));
        let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        let slots = self.slots.get_mut(first..=last)?;
        let count = slots.len();
        for (slot, claim) in slots.iter_mut().zip(self.claims.get_mut(first..=last)?) {
            if *slot == NOBODY || *claim < epoch {
                (*slot, *claim) = (number, epoch);
            }
        }
        Some(count)
    }

    pub(crate) fn owner(&self, slot: u16) -> Option<&Owner> {
        let number = *self.slots.get(usize::from(slot))?;
        self.owners.get(usize::from(number)).filter(|_| number != NOBODY)
    }

    /// Assigns one slot to a node. Its number of replicas is not known yet, so the previous number
    /// is kept.
    pub(crate) fn give(&mut self, slot: u16, place: HostPort) {
        let replicas = self.owner(slot).map_or(0, |owner| owner.replicas);
        let number = self.number(Owner { place, epoch: 0, replicas });
        if let (Some(number), Some(slot)) = (number, self.slots.get_mut(usize::from(slot))) {
            *slot = number;
        }
    }

    /// Refuses a cluster in which no node serves some of the slots.
    pub(crate) fn check(&self) -> Result<()> {
        let without = |slot: &u16| *slot == NOBODY;
        let count = self.slots.iter().filter(|slot| without(slot)).count();
        let Some(first) = self.slots.iter().position(without) else { return Ok(()) };
        let what = format!(
            "no node of the cluster serves {count} of its {SLOTS} slots, for example slot {first}; \
             check CLUSTER NODES, and assign the slots (redis-cli --cluster fix)"
        );
        Err(Error::new(ErrorKind::Refused, what))
    }

    /// Iterates over the nodes that serve slots.
    pub(crate) fn serving(&self) -> impl Iterator<Item = &Owner> {
        let numbers: HashSet<u16> = self.slots.iter().copied().collect();
        let numbered = self.owners.iter().zip(0..);
        numbered.filter(move |(_, number)| numbers.contains(number)).map(|(owner, _)| owner)
    }

    /// Returns whether both have the same masters, and each slot has the same master with as many
    /// replicas.
    pub(crate) fn is_as(&self, other: &Self) -> bool {
        let places = |all: &Self| -> HashSet<HostPort> {
            all.owners.iter().map(|owner| owner.place.clone()).collect()
        };
        let alike = |one: &Owner, other: &Owner| {
            (&one.place, one.replicas) == (&other.place, other.replicas)
        };
        let same = (0..SLOTS as u16).all(|slot| match (self.owner(slot), other.owner(slot)) {
            (Some(one), Some(other)) => alike(one, other),
            (one, other) => one.is_none() && other.is_none(),
        });
        same && places(self) == places(other)
    }

    pub(crate) fn places(&self) -> String {
        self.owners.iter().map(|owner| shown(&owner.place)).collect::<Vec<_>>().join(", ")
    }
}

fn fields(line: &str) -> Vec<&str> {
    line.split_ascii_whitespace().collect()
}

/// Parses `host:port@bus[,name[,key=value]...]`. A node that does not know its own address omits
/// it.
fn place(address: &str, asked: &str, by_name: bool) -> Result<HostPort> {
    let mut parts = address.split(',');
    let at = parts.next().and_then(|at| at.split('@').next()).unwrap_or_default();
    let name = parts.next().filter(|name| by_name && !name.is_empty() && !name.contains('='));
    let (host, port) = at.rsplit_once(':').ok_or_else(|| strange(address))?;
    // The port is 0 if the address of the node is not known.
    let port = port.parse().map_err(|_error| strange(address))?;
    let host = name.unwrap_or(if host.is_empty() { asked } else { host });
    Ok((host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "\
aa 10.0.0.1:7000@17000 myself,master - 0 0 1 connected 0-5460 [7->-bb]
bb 10.0.0.2:7000@17000,name master - 0 1 2 connected 5461-10922 16383
cc 10.0.0.3:7000@17000 master,fail - 0 1 3 connected 10923-16382
dd 10.0.0.4:7000@17000 slave cc 0 1 3 connected
ee :0@0 master,noaddr - 0 1 0 disconnected
";

    fn read(texts: &[&str]) -> Owners {
        let answers: Vec<_> = texts.iter().map(|text| ("h".into(), (*text).into())).collect();
        Owners::read(&answers, false).unwrap()
    }

    fn owner(owners: &Owners, slot: usize) -> &str {
        &owners.owners[usize::from(owners.slots[slot])].place.0
    }

    #[test]
    fn slots_replicas_and_gaps_are_understood() {
        let mut owners = read(&[OLD]);
        owners.check().unwrap();
        assert_eq!(
            [0, 5460, 5461, 16382, 16383].map(|slot| owner(&owners, slot)),
            ["10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.2"]
        );
        assert_eq!(owners.owners.iter().map(|owner| owner.replicas).sum::<usize>(), 1);
        owners.give(5, ("10.0.0.9".into(), 1));
        assert_eq!((owner(&owners, 5), owner(&owners, 6)), ("10.0.0.9", "10.0.0.1"));
        assert!(owners.is_as(&owners.clone()) && !owners.is_as(&read(&[OLD])));
        let gap = read(&["aa :7000@17000 myself,master - 0 0 1 connected 1-16382\n"]);
        let error = gap.check().unwrap_err().to_string();
        assert!(error.contains("2 of its 16384 slots, for example slot 0"), "{error}");
        assert_eq!(gap.places(), "h:7000");
    }

    #[test]
    fn nodes_have_names_and_addresses_of_any_form() {
        for (address, by_name, host, port) in [
            ("10.0.0.1:7000@17000", true, "10.0.0.1", 7000),
            ("10.0.0.1:7000@17000,name", true, "name", 7000),
            ("10.0.0.1:7000@17000,name", false, "10.0.0.1", 7000),
            ("10.0.0.1:7000@17000,,shard-id=aa", true, "10.0.0.1", 7000),
            ("::1:7000@17000", false, "::1", 7000),
            (":7000@17000", true, "asked", 7000),
        ] {
            assert_eq!(place(address, "asked", by_name).unwrap(), (host.to_owned(), port));
        }
    }

    #[test]
    fn the_newest_claim_counts_whoever_is_asked_first() {
        let new = OLD
            .replace("slave cc 0 1 3 connected", "master - 0 1 4 connected 10923-16382")
            .replace("3 connected 10923-16382", "3 connected");
        for answers in [[OLD, new.as_str()], [new.as_str(), OLD]] {
            assert_eq!(owner(&read(&answers), 16382), "10.0.0.4");
        }
    }

    #[test]
    fn a_claim_counts_by_its_own_epoch() {
        // An old node reports that it had the slot long ago; it has newer slots since.
        let old = "aa 10.0.0.1:1@2 master - 0 0 1 connected 7\n\
            bb 10.0.0.2:1@2 master - 0 0 2 connected\n";
        let new = "aa 10.0.0.1:1@2 master - 0 0 3 connected 8\n\
            bb 10.0.0.2:1@2 master - 0 0 2 connected 7\n";
        for answers in [[old, new], [new, old]] {
            let all = read(&answers);
            assert_eq!([7, 8].map(|slot| owner(&all, slot)), ["10.0.0.2", "10.0.0.1"]);
        }
    }

    #[test]
    fn a_master_without_slots_is_known_and_serves_nothing() {
        let masters = |text: &str| {
            let all = read(&[text]);
            (all.owners.len(), all.serving().count())
        };
        let empty = "ff 10.0.0.6:7000@17000 master - 0 1 5 connected\n";
        assert_eq!(masters(OLD), (3, 3));
        assert_eq!(masters(&format!("{OLD}{empty}")), (4, 3));
        assert_eq!(masters(&format!("{OLD}{}", empty.replace("master", "master,fail?"))), (3, 3));
        assert!(!read(&[OLD]).is_as(&read(&[OLD, empty])));
    }

    #[test]
    fn work_for_one_answer_has_a_bound() {
        let is_refused = |text: &str| Owners::read(&[("h".into(), text.into())], false).is_err();
        let ranges =
            |count: usize| format!("aa h:1@2 master - 0 0 1 connected{}", " 0-16383".repeat(count));
        assert_eq!([1, 2, 3].map(|count| is_refused(&ranges(count))), [false, false, true]);
        let masters = |count: usize| -> String {
            (0..count).map(|port| format!("aa h:{port}@1 master - 0 0 1 connected\n")).collect()
        };
        assert_eq!(
            [MOST_OWNERS, MOST_OWNERS + 1].map(|count| is_refused(&masters(count))),
            [false, true]
        );
    }

    #[test]
    fn nonsense_is_an_error_and_no_panic() {
        for text in ["aa", "aa h:1 master - 0 0 1 connected 5-99999", "aa h master - 0 0 x c 1"] {
            assert!(Owners::read(&[("h".into(), text.into())], false).is_err(), "{text}");
        }
    }
}

//! The files, the processes, and what has been seen.

use super::{Forgetter, Holder, Inode, Setup};

/// Everything at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The inode that the path of the lock file leads to, while the file exists.
    pub path: Option<Inode>,
    /// Whether each inode is locked; the index is the inode.
    pub locked: Vec<bool>,
    /// The token in the record beside the lock file.
    pub record: Option<u8>,
    /// The true time in microseconds: one passes with each grant.
    pub clock: u8,
    /// How far the machine's clock is ahead of it.
    pub ahead: u8,
    /// The processes that acquire the lock.
    pub holders: Vec<Holder>,
    /// The processes that run `forget`.
    pub forgetters: Vec<Forgetter>,
    /// How many processes may still die.
    pub deaths: u8,
    /// The highest token that was ever granted.
    pub highest: u8,
    /// A holder's token was not above all earlier ones.
    pub went_back: bool,
    /// How many grants there were.
    pub grants: u8,
    /// `forget` has removed the lock file.
    pub removed: bool,
}

impl State {
    pub(super) fn new(setup: &Setup) -> Self {
        Self {
            path: None,
            locked: Vec::new(),
            record: None,
            clock: 1,
            ahead: setup.ahead,
            holders: vec![Holder::idle(setup.holds); usize::from(setup.holders)],
            forgetters: vec![Forgetter::Start; usize::from(setup.forgetters)],
            deaths: setup.deaths,
            highest: 0,
            went_back: false,
            grants: 0,
            removed: false,
        }
    }

    /// What the machine's clock shows.
    pub(super) fn now(&self) -> u8 {
        self.clock + self.ahead
    }

    /// `open` with `O_CREAT`.
    pub(super) fn open(&mut self) -> Inode {
        let locked = &mut self.locked;
        *self.path.get_or_insert_with(|| {
            locked.push(false);
            (locked.len() - 1) as Inode
        })
    }

    /// `F_OFD_SETLK`; false when another process has locked the inode.
    pub(super) fn lock(&mut self, inode: Inode) -> bool {
        !std::mem::replace(&mut self.locked[usize::from(inode)], true)
    }

    pub(super) fn unlock(&mut self, inode: Inode) {
        self.locked[usize::from(inode)] = false;
    }

    /// A holder has its token.
    pub(super) fn grants(&mut self, token: u8) {
        self.went_back |= token <= self.highest;
        self.highest = self.highest.max(token);
        self.grants += 1;
        self.clock += 1;
    }

    pub(super) fn holding(&self) -> usize {
        self.holders.iter().filter(|holder| matches!(holder, Holder::Holds { .. })).count()
    }
}

//! What a process does, one system call after the other.

use super::{Bug, Inode, Setup, State};

/// A process that acquires the lock; `left` is how often it still does after this time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Holder {
    /// It has no file open.
    Idle {
        /// How often it still acquires.
        left: u8,
    },
    /// It has opened the file.
    Opened {
        /// Which one.
        inode: Inode,
        /// How often it still acquires.
        left: u8,
    },
    /// It has locked the inode.
    Locked {
        /// Which one.
        inode: Inode,
        /// How often it still acquires.
        left: u8,
    },
    /// It has checked that the path leads to the inode.
    Checked {
        /// Which one.
        inode: Inode,
        /// How often it still acquires.
        left: u8,
    },
    /// It has read the record.
    Read {
        /// The inode that it has locked.
        inode: Inode,
        /// How often it still acquires.
        left: u8,
        /// The token that comes next.
        token: u8,
    },
    /// It has written the record.
    Written {
        /// The inode that it has locked.
        inode: Inode,
        /// How often it still acquires.
        left: u8,
        /// Its token.
        token: u8,
    },
    /// It has checked the path once more, and holds the lock.
    Holds {
        /// The inode that it has locked.
        inode: Inode,
        /// How often it still acquires.
        left: u8,
    },
}

/// A process that removes the files of the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Forgetter {
    /// It has not begun.
    Start,
    /// It has opened the file.
    Opened(Inode),
    /// It has locked the inode.
    Locked(Inode),
    /// It has checked that the path leads to the inode.
    Checked(Inode),
    /// It has checked that the clock is above the record's token.
    Below(Inode),
    /// It has removed the record.
    Removed(Inode),
    /// It has removed the lock file.
    Unlinked(Inode),
    /// It has finished.
    Done,
}

impl Holder {
    /// A process that acquires the lock `left` times.
    pub(super) fn idle(left: u8) -> Self {
        Self::Idle { left }
    }

    /// It has a next step.
    pub(super) fn acts(&self) -> bool {
        *self != Self::Idle { left: 0 }
    }

    /// It is between two steps of one attempt.
    pub(super) fn is_busy(&self) -> bool {
        !matches!(self, Self::Idle { .. })
    }

    pub(super) fn has_locked(&self) -> Option<Inode> {
        match *self {
            Self::Idle { .. } | Self::Opened { .. } => None,
            Self::Locked { inode, .. }
            | Self::Checked { inode, .. }
            | Self::Read { inode, .. }
            | Self::Written { inode, .. }
            | Self::Holds { inode, .. } => Some(inode),
        }
    }

    pub(super) fn step(self, setup: &Setup, state: &mut State) -> Self {
        let checks = setup.bug != Some(Bug::HolderIgnoresPath);
        let gone = |state: &State, inode| checks && state.path != Some(inode);
        match self {
            Self::Idle { left: 0 } => self,
            Self::Idle { left } => Self::Opened { inode: state.open(), left: left - 1 },
            // A file that another process has locked stays open until it is looked at again.
            Self::Opened { inode, left } if state.path == Some(inode) || !checks => {
                if state.lock(inode) { Self::Locked { inode, left } } else { self }
            }
            Self::Opened { left, .. } => Self::idle(left + 1),
            Self::Locked { inode, left } | Self::Written { inode, left, .. }
                if gone(state, inode) =>
            {
                state.unlock(inode);
                Self::idle(left + 1)
            }
            Self::Locked { inode, left } => Self::Checked { inode, left },
            Self::Checked { inode, left } => {
                let after = state.record.map_or(1, |token| token + 1);
                Self::Read { inode, left, token: after.max(state.now()) }
            }
            Self::Read { inode, left, token } => {
                state.record = Some(token);
                Self::Written { inode, left, token }
            }
            Self::Written { inode, left, token } => {
                state.grants(token);
                Self::Holds { inode, left }
            }
            Self::Holds { inode, left } => {
                state.unlock(inode);
                Self::idle(left)
            }
        }
    }
}

impl Forgetter {
    pub(super) fn has_locked(&self) -> Option<Inode> {
        match *self {
            Self::Start | Self::Opened(_) | Self::Done => None,
            Self::Locked(inode)
            | Self::Checked(inode)
            | Self::Below(inode)
            | Self::Removed(inode)
            | Self::Unlinked(inode) => Some(inode),
        }
    }

    pub(super) fn step(self, setup: &Setup, state: &mut State) -> Self {
        match self {
            Self::Start => Self::Opened(state.open()),
            Self::Opened(inode) if state.lock(inode) => Self::Locked(inode),
            Self::Locked(inode)
                if state.path == Some(inode) || setup.bug == Some(Bug::ForgetIgnoresPath) =>
            {
                Self::Checked(inode)
            }
            Self::Checked(inode)
                if state.record.is_none_or(|token| token < state.now())
                    || setup.bug == Some(Bug::ForgetIgnoresToken) =>
            {
                Self::Below(inode)
            }
            Self::Below(inode) => {
                state.record = None;
                Self::Removed(inode)
            }
            Self::Removed(inode) => {
                // By its name, whichever inode that leads to now.
                state.path = None;
                state.removed = true;
                Self::Unlinked(inode)
            }
            // Locked by another process, replaced, or with a token above the clock: left as it is.
            Self::Opened(_) | Self::Done => Self::Done,
            Self::Locked(inode) | Self::Checked(inode) | Self::Unlinked(inode) => {
                state.unlock(inode);
                Self::Done
            }
        }
    }
}

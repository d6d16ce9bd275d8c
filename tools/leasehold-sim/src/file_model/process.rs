//! How far a process has got, one system call after the other.

/// One version of the lock file: removing it and making it again gives another inode.
pub type Inode = u8;

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
}

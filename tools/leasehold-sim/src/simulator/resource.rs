//! What the lock protects: a number that is read, and written back one larger; with and without a
//! fence that refuses tokens below the highest it has seen.

/// One copy of the number.
#[derive(Clone, Debug, Default)]
pub(super) struct Resource {
    /// Refuses old tokens.
    fenced: bool,
    value: u64,
    highest: u64,
    /// How many writes were taken.
    pub(super) taken: u64,
    /// How many were refused.
    pub(super) refused: u64,
    /// A write with a token below one seen before was taken.
    pub(super) stale: u64,
}

impl Resource {
    pub(super) fn new(fenced: bool) -> Self {
        Self { fenced, ..Self::default() }
    }

    /// What is there. A fence takes note of who reads: the writer of what was read must not be
    /// overtaken.
    pub(super) fn read(&mut self, token: u64) -> u64 {
        self.highest = self.highest.max(token);
        self.value
    }

    /// False when it was refused.
    pub(super) fn write(&mut self, token: u64, value: u64) -> bool {
        if token < self.highest {
            if self.fenced {
                self.refused += 1;
                return false;
            }
            self.stale += 1;
        }
        self.highest = self.highest.max(token);
        self.value = value;
        self.taken += 1;
        true
    }

    /// Writes that were taken and of which nothing is left.
    pub(super) fn lost(&self) -> u64 {
        self.taken.saturating_sub(self.value)
    }
}

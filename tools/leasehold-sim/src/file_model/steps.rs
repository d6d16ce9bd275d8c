//! What each process does next, and what that does to the files.

use super::{Action, Bug, Forgetter, Holder, Inode, Setup, State};

impl Holder {
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

impl State {
    pub(super) fn apply(&mut self, setup: &Setup, action: Action) {
        match action {
            Action::Hold(number) => {
                let number = usize::from(number);
                self.holders[number] = self.holders[number].step(setup, self);
            }
            Action::Forget(number) => {
                let number = usize::from(number);
                self.forgetters[number] = self.forgetters[number].step(setup, self);
            }
            Action::HolderDies(number) => {
                let holder = &mut self.holders[usize::from(number)];
                let inode = holder.has_locked();
                *holder = Holder::idle(0);
                self.dies(inode);
            }
            Action::ForgetterDies(number) => {
                let forgetter = &mut self.forgetters[usize::from(number)];
                let inode = forgetter.has_locked();
                *forgetter = Forgetter::Done;
                self.dies(inode);
            }
            Action::SetClock => self.ahead = 0,
        }
    }

    fn dies(&mut self, inode: Option<Inode>) {
        self.deaths -= 1;
        inode.into_iter().for_each(|inode| self.unlock(inode));
    }

    /// When all processes have finished, a new one gets the lock.
    pub(super) fn can_be_acquired(&self, setup: &Setup) -> bool {
        let mut state = self.clone();
        // An attempt takes seven steps, and starts again at most once for each removal.
        for _ in 0..64 {
            let holders = (0..).zip(&state.holders).filter(|(_, holder)| holder.acts());
            let forgetters =
                (0..).zip(&state.forgetters).filter(|(_, one)| **one != Forgetter::Done);
            let next = holders
                .map(|(number, _)| Action::Hold(number))
                .chain(forgetters.map(|(number, _)| Action::Forget(number)))
                .find(|action| {
                    let mut after = state.clone();
                    after.apply(setup, *action);
                    after != state
                });
            match next {
                Some(action) => state.apply(setup, action),
                None => break,
            }
        }
        state.holders.push(Holder::idle(1));
        let number = state.holders.len() - 1;
        (0..8).any(|_| {
            state.apply(setup, Action::Hold(number as u8));
            matches!(state.holders[number], Holder::Holds { .. })
        })
    }
}

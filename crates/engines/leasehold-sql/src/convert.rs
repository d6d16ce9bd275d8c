//! Turns a lease into a lease of the other mode, in one step.

use leasehold_core::backend::{ConvertRequest, Converted, Grant, Mode, Term};
use leasehold_core::proto::handoff::Reach;
use leasehold_core::proto::read_write;
use leasehold_core::{Deadline, Error, ErrorKind, Result};

use crate::acquire::{question, used_up};
use crate::notifications::Notifications;
use crate::record::{Machine, Record};
use crate::store::{Done, Step, Store};

impl Store {
    /// Converts a lease. Returns the answer, and which other clients it concerns.
    pub(crate) async fn convert(
        &self,
        request: &ConvertRequest,
        until: Deadline,
    ) -> Result<(Converted, Notifications)> {
        let ConvertRequest { end, next, again, .. } = request;
        if end.name != next.name {
            let message = "a lease can only be converted for the same lock";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let (ending, writes) = (end.for_record(), next.mode == Mode::Exclusive);
        let act = |machine: &mut Machine, before: &Record, reach: Reach<'_>| {
            let now = before.now;
            let next = question(next, now.unix_us());
            match writes {
                true => machine.upgrade(now, &ending, &next, *again, reach),
                false => machine.downgrade(now, &ending, &next, reach),
            }
        };
        let attempts = &[end.attempt, next.attempt];
        let step = Step { name: &next.name, attempts, readers: true };
        let Done { answer, told, .. } = self.step(step, until, false, act).await?;
        let converted = match answer {
            read_write::Converted::Granted { tokens, waiters } => {
                Converted::Granted(Grant::new(tokens, Term::Ttl, waiters > 0))
            }
            read_write::Converted::Refused { waiters } => {
                Converted::Refused { wanted: waiters > 0 }
            }
            read_write::Converted::Lost => Converted::Lost,
            read_write::Converted::UsedUp => return Err(used_up()),
        };
        Ok((converted, told))
    }
}

//! A write transaction that stays open while the client decides what to write.

use std::fmt;

use leasehold_core::Deadline;

use super::{Lane, Pool, Used};
use crate::connection::Reply;
use crate::dialect::Packet;
use crate::error::{Fault, What, sort};

/// An open transaction. If it is dropped, the connection closes, and the database rolls back.
pub(crate) struct Transaction<'a>(Used<'a>);

impl Pool {
    /// Sends a packet that begins a transaction and only reads. Returns its replies, always within
    /// the limit.
    pub(crate) async fn begin(
        &self,
        packet: &Packet,
        until: Deadline,
    ) -> Result<(Vec<Reply>, Transaction<'_>), Fault> {
        let (mut open, mut was_locked) = (false, false);
        let run = self.run_on_any(Lane::Usual, packet, until, (&mut open, &mut was_locked));
        let begun = self.clock.within(Some(until), run).await;
        let (replies, used) = begun.unwrap_or_else(|| Err(Fault::late_behind_lock(was_locked)))?;
        Ok((replies, Transaction(used)))
    }
}

impl Transaction<'_> {
    /// Sends the packet that ends the transaction, and returns its replies, always within the limit.
    ///
    /// Sets `open` if the packet may have been carried out without a reply.
    pub(crate) async fn end(
        self,
        packet: &Packet,
        until: Deadline,
        open: &mut bool,
    ) -> Result<Vec<Reply>, Fault> {
        let Self(mut used) = self;
        let clock = &used.pool.clock;
        let ran = clock.within(Some(until), used.connection.run(&packet.text)).await;
        let fault = match ran {
            Some(Ok(replies)) => {
                used.give();
                return Ok(replies);
            }
            Some(Err(error)) => sort(error),
            None => Fault::late(),
        };
        if fault.what == What::Broken {
            *open |= !fault.error.kind().is_certain();
        } else if used.connection.roll_back().await.is_ok() {
            used.give();
        }
        Err(if *open { fault.uncertain() } else { fault })
    }
}

impl fmt::Debug for Transaction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Transaction")
    }
}

//! The rules of the record that the model checker can break.

use crate::rules::Breaks;

/// Selects the rule of the record that a test breaks on purpose.
#[doc(hidden)]
pub trait Rules: Breaks<Bug> + Default {}

impl<R: Breaks<Bug> + Default> Rules for R {}

/// A planted bug: one rule that the record does not keep.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bug {
    /// A reader joins the read phase although a writer is queued.
    ReaderJoinsPastQueuedWriter,
    /// A renewal extends the leases of all members.
    OneExpiryForAllMembers,
    /// A confirmation confirms the offers of all members.
    ConfirmationConfirmsAll,
    /// The record counts readers: a release of an attempt that has left counts as another reader.
    ReadersAreCounted,
    /// An upgrade that was repeated and refused can still succeed later.
    RefusedUpgradeIsNotSealed,
    /// An upgrade does not see readers whose offer is not confirmed.
    UpgradeIgnoresOffers,
    /// An upgrade passes the attempts in the queue.
    UpgradePassesQueue,
    /// An upgrade drops expired readers, and does not record that their leases were lost.
    UpgradeForgetsLostReaders,
    /// A writer gets the token of the read phase that it has upgraded from.
    UpgradeKeepsToken,
    /// A downgrade is a release and a new request.
    DowngradeQueuesAgain,
    /// The answer to a downgrade does not report that a writer waits.
    DowngradeHidesWaiters,
    /// The read phase after a downgrade has the token of the write phase.
    DowngradeKeepsToken,
    /// The answer to an acquire does not report that other attempts wait.
    GrantHidesWaiters,
    /// Only a new waiter notifies the members: the head of the queue does not repeat the notice,
    /// and the answer to a renewal does not report that other attempts wait.
    WaitersAreAnnouncedOnce,
    /// Readers stay queued when the only queued writer has left.
    LeavingWriterAdmitsNoReader,
    /// A waiter that sends no more requests stays in the queue.
    WaitersNeverLapse,
    /// The first waiter keeps its timer when the member with the longest lease leaves.
    LeavingMemberTellsNobody,
    /// Queued readers always precede queued writers.
    ReadersAlwaysFirst,
    /// Queued writers always precede queued readers.
    WritersAlwaysFirst,
    /// A read phase begins with the first queued reader alone.
    OneReaderPerPhase,
    /// One step sends and removes without a limit.
    StepsAreNotCapped,
    /// The verdict on a reader with the token of the last loss says that this reader lost its
    /// lease.
    AnotherReadersLossIsTold,
    /// The record does not refuse attempts that have ended.
    TombstonesAreIgnored,
}

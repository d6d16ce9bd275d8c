//! What a client does when a held lock is lost.

/// What the client does when a lease is lost while it is held. With every policy the guard becomes
/// invalid, [`Guard::lost`](crate::Guard::lost) returns, and cancellation tokens are cancelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnLoss {
    /// The conservative policy: [`Lock::run`](crate::Lock::run) stops the work. The default.
    #[default]
    Cancel,
    /// The permissive policy: [`Lock::run`](crate::Lock::run) lets the work continue. The work learns
    /// of the loss from [`Guard::lost`](crate::Guard::lost) or
    /// [`Guard::cancellation_token`](crate::Guard::cancellation_token).
    Notify,
    /// The process is aborted, for work that must not continue and cannot be stopped otherwise.
    Abort,
}

//! The decisions of a client: when it sends a request, what a reply or a push means, which task
//! gets a released lease, which attempts must be ended, and when the client stops trying.
//!
//! A driver sends the requests, delivers replies and messages to these machines, and does what they
//! return. The library's asynchronous driver and the model checker run the same code.
//!
//! | type | what it decides |
//! |---|---|
//! | [`PendingAttempt`] | what a client knows about an attempt that does not hold the lock, and what a reply or a push to it means |
//! | [`Acquire`] | when a waiting attempt sends its request again, and when its task stops trying |
//! | [`Attempts`] | how many attempts a call makes whose grants arrive too late |
//! | [`HeldTokens`], [`decide_release`], [`take_over`] | what happens to a lease when its holder releases it |
//! | [`decide_cache`], [`take_cached`] | whether a client keeps a lease that no task of it holds, and who takes it |
//! | [`decide_leave`] | what happens to an attempt when its task stops waiting |
//! | [`PendingRelease`] | how often a release is sent, and which attempt gets the reply to an exchange |
//! | [`ReleasePauses`] | when a release without a reply is sent again, and until when |
//! | [`decide_push`] | what a message means if no task waits with its attempt |
//! | [`SharedRead`] | whether another task of the process may join a read lease, and who ends it |
//! | [`Conversion`] | what a downgrade or an upgrade sends, and what its reply means |
//! | [`PushReference`] | until when a pushed lease is valid |

mod acquire;
mod attempts;
mod caching;
mod conversion;
mod hand_over;
mod held;
mod messages;
mod pending_attempt;
mod pending_release;
mod push;
mod reading;
mod rules;
mod unclaimed;

pub use acquire::{Acquire, Heard, Limits, Next, SLOW_POLL, Silence};
pub use attempts::Attempts;
pub use caching::{decide_cache, take_cached};
pub use conversion::{AfterConversion, Conversion, ConversionRequest};
pub use hand_over::{Leave, Release, Successor, decide_leave, decide_release, take_over};
pub use held::HeldTokens;
pub use messages::{ForwardedReply, Granted, Mail, Reply};
pub use pending_attempt::{AfterMail, AfterReply, PendingAttempt};
pub use pending_release::{
    AfterRelease, PendingRelease, ReleasePauses, ReleaseResult, stray, unwanted,
};
pub use push::PushReference;
pub use reading::SharedRead;
pub use rules::Sound;
#[doc(hidden)]
pub use rules::{Bug, Rules};
pub use unclaimed::{AfterPush, Pushed, Standing, decide_push};

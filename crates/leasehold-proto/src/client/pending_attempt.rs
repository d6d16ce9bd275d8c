//! An attempt that does not hold the lock yet, and that the engine may know.

use core::time::Duration;

use super::rules::Bug;
use super::{ForwardedReply, Granted, Mail, Reply, Rules, Sound};
use crate::handoff::ReleaseRequest;
use crate::{AttemptId, Deadline, Now};

/// What a client knows about an attempt that does not hold the lock.
///
/// The driver calls [`handle_sent`](Self::handle_sent) before it sends a request, and
/// [`handle_reply`](Self::handle_reply) with the result. If its task ends in between, the request
/// may still arrive: the attempt is suspect from then on. Messages go through
/// [`handle_mail`](Self::handle_mail).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PendingAttempt<R = Sound> {
    attempt: AttemptId,
    /// The engine may know it.
    known: bool,
    /// A request was not answered, and may arrive later.
    unanswered: bool,
    /// A request has no reply yet.
    asking: bool,
    /// Another task sent its request in exchange for that task's lease, and no answer has arrived.
    in_exchange: bool,
    /// Another client waits for the lock.
    wanted: bool,
    /// When to send the request (again); immediately if it is not set.
    ask_at: Option<Deadline>,
    rules: R,
}

/// What a reply means for the attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AfterReply<E> {
    /// It holds the lease.
    Hold(Granted),
    /// It waits until [`PendingAttempt::ask_at`], or for a message.
    Wait,
    /// Another attempt holds the lock, and the engine keeps no queue. Send the request again after
    /// this time at the latest, if the engine specifies one.
    Taken(Option<Duration>),
    /// The lock is free, and the next request removes more of the dead waiters that precede it.
    Free,
    /// The engine grants nothing for this long.
    Later(Duration, E),
    /// The attempt has ended: use another one.
    Over,
    /// The engine refused the request.
    Refused(E),
    /// No answer: send the request of the same attempt again.
    Unanswered(E),
}

/// What the messages for an attempt mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AfterMail<E> {
    /// It holds the lease.
    Granted(Granted),
    /// It sends its request again, at [`PendingAttempt::ask_at`].
    Reply(Now, Reply<E>),
    /// It asks now.
    Ask,
    /// It waits until [`PendingAttempt::ask_at`].
    Wait,
}

impl<R: Rules> PendingAttempt<R> {
    /// Creates an attempt that the engine does not know.
    pub fn new(attempt: AttemptId, rules: R) -> Self {
        Self {
            attempt,
            known: false,
            unanswered: false,
            asking: false,
            in_exchange: false,
            wanted: false,
            ask_at: None,
            rules,
        }
    }

    /// Creates an attempt whose request another task sends in exchange for its own lease. The
    /// attempt sends its own request at `ask_at` if no answer has arrived by then.
    pub fn in_exchange(attempt: AttemptId, ask_at: Deadline, rules: R) -> Self {
        Self { known: true, in_exchange: true, ask_at: Some(ask_at), ..Self::new(attempt, rules) }
    }

    /// Returns the id of the attempt.
    pub fn attempt(&self) -> AttemptId {
        self.attempt
    }

    /// Returns when to send the request (again); immediately if there is no time.
    pub fn ask_at(&self) -> Option<Deadline> {
        self.ask_at
    }

    /// Returns true if it is time to send the request: none is unanswered, and `ask_at` has passed.
    pub fn is_due(&self, now: Now) -> bool {
        !self.asking && self.ask_at.is_none_or(|ask_at| ask_at.has_passed(now))
    }

    /// Returns true while a request has no reply.
    pub fn is_asking(&self) -> bool {
        self.asking
    }

    /// Returns true if another task sent its request and has no answer yet.
    pub fn is_in_exchange(&self) -> bool {
        self.in_exchange
    }

    /// Returns true if the engine may know it. Such an attempt must be ended.
    pub fn is_known(&self) -> bool {
        self.known || self.asking
    }

    /// Returns true if a request may arrive after the attempt has ended. The engine must then
    /// refuse such a request.
    pub fn is_suspect(&self) -> bool {
        (self.unanswered || self.asking) && !self.rules.breaks(Bug::NeverSuspect)
            || self.in_exchange && !self.rules.breaks(Bug::ExchangeIsNotSuspect)
    }

    /// Makes the attempt ask at `at` or earlier.
    pub fn ask_by(&mut self, at: Deadline) {
        self.ask_at = Some(self.ask_at.map_or(at, |before| before.min(at)));
    }

    /// Sets when the attempt sends its request; immediately for `None`.
    pub fn set_ask_at(&mut self, at: Option<Deadline>) {
        self.ask_at = at;
    }

    /// Records that a request is sent. An earlier request without a reply counts as unanswered.
    pub fn handle_sent(&mut self) {
        self.unanswered |= self.asking;
        self.known |= self.asking;
        self.asking = true;
    }

    /// Records the message that another client waits for the lock. If it arrives before the grant,
    /// the grant reports it too.
    pub fn handle_wanted(&mut self) {
        self.wanted = !self.rules.breaks(Bug::WantedBeforeGrantIsForgotten);
    }

    /// Handles the reply to the request that was sent last.
    pub fn handle_reply<E>(&mut self, now: Now, reply: Reply<E>) -> AfterReply<E> {
        self.asking = false;
        match reply {
            Reply::Refused(error) => return AfterReply::Refused(error),
            Reply::Unanswered(error) => {
                (self.known, self.unanswered) = (true, true);
                return AfterReply::Unanswered(error);
            }
            _ => {}
        }
        self.handle_answer(now, reply)
    }

    /// Handles the reply to a request that another task sent. After a refusal, a task that inherits
    /// the attempt sends its own request.
    fn handle_forwarded<E>(&mut self, forwarded: ForwardedReply<E>) -> AfterMail<E> {
        self.in_exchange = false;
        self.unanswered |= forwarded.again && !self.rules.breaks(Bug::ExchangeIsNotSuspect);
        self.ask_at = None;
        AfterMail::Reply(forwarded.sent, forwarded.reply)
    }

    /// Handles a reply to a request of this task or of another one.
    pub fn handle_answer<E>(&mut self, now: Now, reply: Reply<E>) -> AfterReply<E> {
        match reply {
            Reply::Granted(granted) => {
                self.known = true;
                AfterReply::Hold(self.remember_wanted(granted))
            }
            Reply::Queued { ask_again } => {
                self.known = true;
                self.ask_at = Some(Deadline::after(now, ask_again));
                AfterReply::Wait
            }
            Reply::Busy { ask_again } => {
                self.known = true;
                match ask_again {
                    Some(Duration::ZERO) => {
                        self.ask_at = None;
                        AfterReply::Free
                    }
                    pause => AfterReply::Taken(pause),
                }
            }
            Reply::Later { ask_again, why } => {
                self.known = true;
                AfterReply::Later(ask_again, why)
            }
            Reply::Ended => {
                self.known = true;
                AfterReply::Over
            }
            Reply::Refused(error) => AfterReply::Refused(error),
            Reply::Unanswered(error) => AfterReply::Unanswered(error),
        }
    }

    /// Handles the messages that have arrived. While a request has no reply, they wait.
    pub fn handle_mail<E>(&mut self, mail: Mail<E>) -> AfterMail<E> {
        let Mail { granted, forwarded, ask_by, ask_again, broken: _, wanted } = mail;
        if wanted {
            self.handle_wanted();
        }
        if let Some(granted) = granted {
            return AfterMail::Granted(self.remember_wanted(granted));
        }
        if let Some(forwarded) = forwarded {
            return self.handle_forwarded(forwarded);
        }
        if let Some(at) = ask_by {
            self.ask_by(at);
        }
        if ask_again { AfterMail::Ask } else { AfterMail::Wait }
    }

    fn remember_wanted(&self, granted: Granted) -> Granted {
        Granted { wanted: granted.wanted || self.wanted, ..granted }
    }

    /// Returns the attempt for the next task of the process, which continues it. A request of the
    /// previous task may still arrive. If that task did not receive the reply to it, or did not
    /// read its messages, the next task sends its request immediately: the engine then repeats
    /// them.
    #[must_use]
    pub fn inherit(mut self, had_mail: bool) -> Self {
        self.known |= self.asking;
        self.unanswered |= self.asking;
        if had_mail || self.asking {
            self.ask_at = None;
        }
        self.asking = false;
        if self.rules.breaks(Bug::InheritedIsNotSuspect) {
            self.unanswered = false;
        }
        self
    }

    /// Records that the engine keeps no trace of the attempt, because it was not asked to queue it:
    /// only an unanswered request may still arrive.
    pub fn handle_not_kept(&mut self) {
        self.known = self.unanswered;
    }

    /// Returns how to end the attempt; `None` if the engine cannot know it.
    pub fn end(&self) -> Option<ReleaseRequest> {
        self.is_known().then(|| ReleaseRequest {
            attempt: self.attempt,
            base: None,
            last: None,
            suspect: self.is_suspect(),
            keep: None,
        })
    }
}

//! An attempt from its first request to its outcome, driven by hand.

use super::super::{ForwardedReply, Sound};
use super::*;
use crate::{AttemptId, ClientId, Token, TokenBlock};

type Subject = Acquire<&'static str>;

fn at(ms: u64) -> Now {
    Now { steady_ns: ms * 1_000_000, wall_ns: ms * 1_000_000 }
}

fn after(ms: u64) -> Deadline {
    Deadline::after(at(0), Duration::from_millis(ms))
}

const PATIENCE: Duration = Duration::from_secs(1);

fn limits(until: Option<u64>, waits: bool) -> Limits {
    Limits { start: at(0), until: until.map(after), patience: PATIENCE, waits }
}

fn attempt() -> AttemptId {
    AttemptId::new(ClientId::from_bits(1), 2, 3)
}

fn subject(limits: Limits) -> Subject {
    Acquire::new(PendingAttempt::new(attempt(), Sound), None, limits)
}

/// Sends a request at `sent` and handles the reply at `now`, with the longest pauses.
fn ask(
    acquire: &mut Subject,
    sent: u64,
    now: u64,
    reply: Reply<&'static str>,
) -> Next<&'static str> {
    acquire.handle_sent(at(sent));
    acquire.handle_reply(at(sent), at(now), reply, || u64::MAX)
}

fn queued(ms: u64) -> Reply<&'static str> {
    Reply::Queued { ask_again: Duration::from_millis(ms) }
}

fn granted() -> Granted {
    let tokens = TokenBlock::single(Token::new(7).unwrap());
    Granted { tokens, until: None, offer: false, wanted: false, slots: Vec::new() }
}

#[test]
fn a_new_attempt_asks_at_once_and_is_not_known() {
    let acquire = subject(limits(None, true));
    assert_eq!(acquire.pending().ask_at(), None);
    assert_eq!(acquire.pending().end(), None);
}

#[test]
fn a_task_that_ends_while_a_request_is_on_its_way_leaves_a_suspect_attempt() {
    let mut acquire = subject(limits(None, true));
    acquire.handle_sent(at(0));
    assert!(acquire.pending().end().unwrap().suspect);
    let inherited = acquire.into_parts().0.inherit(false);
    assert!(inherited.end().unwrap().suspect, "the request may still arrive");
}

#[test]
fn a_task_that_inherits_an_attempt_asks_when_the_reply_or_messages_were_not_read() {
    for (asking, had_mail) in [(false, false), (true, false), (false, true)] {
        let mut acquire = subject(limits(None, true));
        ask(&mut acquire, 0, 0, queued(1_000));
        if asking {
            acquire.handle_sent(at(10));
        }
        let inherited = acquire.into_parts().0.inherit(had_mail);
        assert_eq!(inherited.is_due(at(10)), asking || had_mail);
    }
}

#[test]
fn a_refused_request_leaves_nothing_to_end() {
    let mut acquire = subject(limits(None, true));
    assert_eq!(ask(&mut acquire, 0, 1, Reply::Refused("no")), Next::Fail("no"));
    assert_eq!(acquire.pending().end(), None);
}

#[test]
fn a_waiter_asks_when_the_engine_says_and_every_15_seconds_at_the_latest() {
    let mut acquire = subject(limits(None, true));
    assert_eq!(ask(&mut acquire, 0, 5, queued(100)), Next::Wait { answered: true });
    assert_eq!(acquire.pending().ask_at(), Some(after(105)));
    ask(&mut acquire, 5, 10, queued(3_600_000));
    assert_eq!(acquire.pending().ask_at(), Some(after(15_010)));
    assert!(!acquire.pending().end().unwrap().suspect);
}

#[test]
fn messages_make_it_ask_earlier_and_never_later() {
    let mut acquire = subject(limits(None, true));
    ask(&mut acquire, 0, 0, queued(1_000));
    let mail = |ask_by| Mail { ask_by: Some(after(ask_by)), ..Mail::default() };
    assert_eq!(acquire.handle_mail(at(1), mail(500)), Heard::Wait(after(500)));
    assert_eq!(acquire.handle_mail(at(1), mail(700)), Heard::Wait(after(500)));
    let asks = Mail { ask_again: true, ..mail(900) };
    assert_eq!(acquire.handle_mail(at(1), asks), Heard::Ask);
}

#[test]
fn a_message_that_a_client_outside_waits_counts_for_the_next_grant() {
    let mut acquire = subject(limits(None, true));
    ask(&mut acquire, 0, 0, queued(1_000));
    let mail = Mail { wanted: true, ..Mail::default() };
    assert_eq!(acquire.handle_mail(at(1), mail), Heard::Wait(after(1_000)));
    let mut mail = Mail { granted: Some(granted()), ..Mail::default() };
    let wanted = Heard::Granted(Granted { wanted: true, ..granted() });
    assert_eq!(acquire.handle_mail(at(2), mail.take()), wanted);
}

#[test]
fn a_pushed_lease_comes_before_other_messages() {
    let mut acquire = subject(limits(None, true));
    ask(&mut acquire, 0, 0, queued(1_000));
    let forwarded = ForwardedReply { sent: at(0), reply: queued(1), again: false };
    let mail = Mail {
        granted: Some(granted()),
        forwarded: Some(forwarded),
        ask_again: true,
        ..Mail::default()
    };
    assert_eq!(acquire.handle_mail(at(1), mail), Heard::Granted(granted()));
}

#[test]
fn messages_beside_a_forwarded_reply_are_handled_after_it() {
    let forwarded = ForwardedReply { sent: at(0), reply: queued(1_000), again: false };
    let mut mail = Mail { forwarded: Some(forwarded), ask_again: true, ..Mail::default() };
    let first = mail.take();
    assert!(first.forwarded.is_some() && !first.ask_again);
    assert!(mail.take().ask_again && mail.is_empty());
}

#[test]
fn an_exchange_that_was_repeated_leaves_its_attempt_suspect() {
    for again in [false, true] {
        let pending = PendingAttempt::in_exchange(attempt(), after(500), Sound);
        assert!(pending.is_suspect(), "no answer has arrived");
        let mut acquire = Acquire::new(pending, None, limits(None, true));
        let forwarded = ForwardedReply { sent: at(0), reply: queued(1_000), again };
        let mail = Mail { forwarded: Some(forwarded), ..Mail::default() };
        let Heard::Reply(sent, reply) = acquire.handle_mail(at(2), mail) else { panic!() };
        acquire.handle_forwarded(sent, at(2), reply, || 0);
        assert_eq!(acquire.pending().end().unwrap().suspect, again);
    }
}

#[test]
fn it_asks_a_silent_engine_until_its_patience_ends() {
    let mut acquire = subject(limits(None, true));
    let mut now = 0;
    let last = loop {
        let sent = now;
        match ask(&mut acquire, sent, sent + 10, Reply::Unanswered("silent")) {
            Next::Wait { answered: false } => {
                let ask_at = acquire.pending().ask_at().unwrap();
                now = ask_at.steady_ns() / 1_000_000;
                assert!(ask_at.steady_ns() <= after(1_000).steady_ns());
            }
            next => break next,
        }
    };
    assert_eq!(last, Next::Fail("silent"));
    assert_eq!(now, 1_000, "the last request is sent at the end of the patience");
    assert!(acquire.pending().end().unwrap().suspect);
}

#[test]
fn an_answer_ends_the_silence() {
    let mut acquire = subject(limits(None, true));
    ask(&mut acquire, 0, 900, Reply::Unanswered("silent"));
    ask(&mut acquire, 905, 910, queued(10));
    assert_eq!(acquire.last_error(), None);
    let next = ask(&mut acquire, 920, 1_500, Reply::Unanswered("silent"));
    assert_eq!(next, Next::Wait { answered: false });
}

#[test]
fn a_call_with_a_time_limit_reports_the_limit_and_asks_for_the_last_time_before_it() {
    let mut acquire = subject(limits(Some(400), true));
    let next = ask(&mut acquire, 0, 100, Reply::Unanswered("silent"));
    assert_eq!(next, Next::Wait { answered: false });
    // An answer that takes 125 ms, and 20 ms of margin, before 400 ms.
    assert!(acquire.pending().ask_at().unwrap().steady_ns() <= after(255).steady_ns());
    let next = ask(&mut acquire, 255, 400, Reply::Unanswered("silent"));
    assert_eq!(next, Next::TimedOut("silent"));
}

#[test]
fn a_task_that_inherits_a_long_silence_fails_at_once() {
    let mut first = subject(limits(None, true));
    ask(&mut first, 0, 900, Reply::Unanswered("silent"));
    let (pending, silence) = first.into_parts();
    let mut second = Acquire::new(pending.inherit(false), silence, limits(None, true));
    assert_eq!(second.fails_at_once(at(999)), None);
    assert_eq!(second.fails_at_once(at(1_000)), Some(&"silent"));
    // One that began later asks for as long as its own patience allows.
    second.limits.start = at(800);
    assert_eq!(second.fails_at_once(at(1_000)), None);
}

#[test]
fn a_broken_connection_begins_the_silence() {
    let mut acquire = subject(limits(None, true));
    ask(&mut acquire, 0, 0, queued(10_000));
    let mail = Mail { broken: Some(at(100)), ..Mail::default() };
    assert_eq!(acquire.handle_mail(at(100), mail), Heard::Wait(after(600)));
    let next = ask(&mut acquire, 600, 1_100, Reply::Unanswered("silent"));
    assert_eq!(next, Next::Fail("silent"), "the silence began at 100 ms");
}

#[test]
fn a_call_that_does_not_wait_asks_again_only_past_dead_waiters() {
    let mut acquire = subject(limits(Some(400), false));
    let free = || Reply::Busy { ask_again: Some(Duration::ZERO) };
    assert_eq!(ask(&mut acquire, 0, 1, free()), Next::AskAgain);
    assert_eq!(ask(&mut acquire, 1, 400, free()), Next::Taken);
    assert_eq!(acquire.pending().end(), None, "the engine keeps nothing");
    assert_eq!(ask(&mut acquire, 1, 2, Reply::Busy { ask_again: None }), Next::Taken);
    ask(&mut acquire, 2, 3, Reply::Unanswered("silent"));
    assert_eq!(ask(&mut acquire, 3, 4, Reply::Busy { ask_again: None }), Next::Taken);
    assert!(acquire.pending().end().is_some(), "an earlier request may still arrive");
}

#[test]
fn pauses_are_its_own_if_the_engine_does_not_say_when_to_ask() {
    let mut acquire = subject(limits(None, true));
    let mut last = 0;
    for expected in [2, 4, 8, 16, 32, 64, 128, 250, 250] {
        let next = ask(&mut acquire, last, last, Reply::Busy { ask_again: None });
        assert_eq!(next, Next::Wait { answered: true });
        let ask_at = acquire.pending().ask_at().unwrap().steady_ns().div_ceil(1_000_000);
        assert_eq!(ask_at - last, expected);
        last = ask_at;
    }
}

#[test]
fn a_reply_that_no_client_may_hold_yet_does_not_end_the_silence() {
    let mut acquire = subject(limits(None, true));
    let later = || Reply::Later { ask_again: Duration::from_secs(60), why: "joining" };
    assert_eq!(ask(&mut acquire, 0, 1, later()), Next::Wait { answered: false });
    assert_eq!(acquire.pending().ask_at(), Some(after(501)));
    assert_eq!(acquire.last_error(), Some(&"joining"));
    let mut acquire = subject(limits(None, false));
    assert_eq!(ask(&mut acquire, 0, 1, later()), Next::Fail("joining"));
}

#[test]
fn the_end_of_a_wait_is_the_end_of_the_call_or_the_time_to_ask() {
    let mut acquire = subject(limits(Some(100), true));
    ask(&mut acquire, 0, 0, queued(1_000));
    assert_eq!(acquire.handle_mail(at(1), Mail::default()), Heard::Wait(after(100)));
    assert!(acquire.handle_timeout(at(100)));
    assert!(!acquire.handle_timeout(at(99)));
    let mut acquire = subject(limits(Some(100), false));
    assert!(!acquire.handle_timeout(at(100)), "its last answer is reported");
}

//! `leasehold run`: holds locks while a command runs; one term of `leasehold elect`.

mod elect;
pub(crate) mod end;
mod environment;
mod job;
pub(crate) mod options;
mod supervisor;
mod wait;

use std::convert::Infallible;
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};
use nix::unistd::getpgrp;
use tokio::time::sleep;

use leasehold::{Deadline, LossReason, Name};

use self::job::{Ended, Interrupt, Job, State};
use self::options::{RunOptions, Wait};
use self::supervisor::Supervisor;
use self::wait::{NOT_WORTH_A_LINE, Outcome, ending_signal, obtain};
use crate::cli::Globals;
use crate::config::{Config, RunConfig};
use crate::failure::{Failure, code};
use crate::human;
use crate::lang::text;
use crate::on_lost::OnLost;
use crate::output::{self, Voice};
use crate::signals::Signals;
use crate::store::{Held, Store, Terms};
use crate::supervise::Orders;
use crate::terminal::Terminal;
use crate::timer;

/// How long messages may take to be written at the end; a stderr that is blocked longer does not
/// get them.
pub(crate) const LAST_WORDS: Duration = Duration::from_secs(1);

/// How many holders of a semaphore a status shows.
const SHOWN: usize = 100;

/// How long an interrupted waiter may take to leave the queue.
const LEAVE_WITHIN: Duration = Duration::from_secs(5);

/// Runs the command; returns the exit code of the command, or one of [`code`].
pub(crate) async fn run(
    options: impl FnOnce(&RunConfig) -> RunOptions,
    globals: &Globals,
    voice: Voice,
) -> Result<u8, Failure> {
    let config = Config::load(globals.config.as_deref())?;
    let options = options(&config.run);
    options.check()?;
    let mut signals =
        Signals::catch().map_err(|error| Failure::own(format!("cannot catch signals: {error}")))?;
    let store = tokio::select! {
        store = Store::connect(globals, &config) => store?,
        signal = ending_signal(&mut signals) => return Ok(ended_by(signal)),
    };
    if options.is_candidate {
        store.check_candidate(&options.name, &options.metadata)?;
    }
    for name in &options.names() {
        refuse_nested(&store, name, &options).await?;
    }
    let done = match options.is_candidate {
        true => elect::lead(&store, &options, &mut signals, voice).await,
        false => hold(&store, &options, &mut signals, voice).await,
    };
    if !matches!(done, Ok(Done { at_once: true, .. })) {
        // The background task cleans up the rest; a waiter that a signal ended must not stay in the
        // queue.
        let _ = tokio::time::timeout(LEAVE_WITHIN, store.close()).await;
    }
    let done = done?;
    Ok(match done.interrupted {
        Some(interrupt) => end::by_signal(interrupt, done.code),
        None => done.code,
    })
}

/// Refuses a lock that an enclosing run holds: the inner run would wait for itself. A daemon that
/// was started under a run may have outlived it, so the lock must also be held. A run may take other
/// slots of a semaphore, if those of the enclosing runs leave enough.
async fn refuse_nested(store: &Store, name: &str, options: &RunOptions) -> Result<(), Failure> {
    if let Some(limit) = options.limit {
        return refuse_nested_permit(store, name, limit, options).await;
    }
    if !environment::is_nested(&store.place(), name) || store.is_free(name).await? {
        return Ok(());
    }
    Err(Failure::own(format!(
        "the lock {name} is held by the enclosing `leasehold run`; this run would wait for itself"
    ))
    .next("remove the inner `leasehold run`, or give it another name"))
}

async fn refuse_nested_permit(
    store: &Store,
    name: &str,
    limit: u32,
    options: &RunOptions,
) -> Result<(), Failure> {
    let enclosing = environment::enclosing_permits(&store.place(), name);
    if options.wait == Wait::No || enclosing.is_empty() {
        return Ok(());
    }
    let permits = store.status(name).await?.permits;
    let holders = permits.map(|permits| permits.holders).unwrap_or_default();
    // Not all of many holders are shown.
    let is_held = |owner: &str| {
        holders.len() >= SHOWN || holders.iter().any(|one| one.holder.attempt.to_string() == owner)
    };
    let held = enclosing.iter().filter(|(owner, _)| is_held(owner)).map(|(_, slots)| slots);
    let held = held.fold(0_u32, |sum, slots| sum.saturating_add(*slots));
    if held == 0 || options.weight <= limit.saturating_sub(held) {
        return Ok(());
    }
    Err(Failure::own(format!(
        "the enclosing `leasehold run` holds {held} of {limit} slots of {name}; this run would wait for itself"
    ))
    .next("remove the inner `leasehold run`, or raise the limit of both"))
}

/// The end of a run.
struct Done {
    /// The exit code.
    code: u8,
    /// The loss of the lock ended the command, and no signal.
    was_lost: bool,
    /// End without waiting for the background task: it keeps the lock for its minimum hold, and a
    /// signal ended that wait; or the lock is lost.
    at_once: bool,
    /// A key of the terminal ended the command.
    interrupted: Option<Interrupt>,
}

impl From<u8> for Done {
    fn from(code: u8) -> Self {
        Self { code, was_lost: false, at_once: false, interrupted: None }
    }
}

/// Acquires the locks, runs the command, and releases the locks.
async fn hold(
    store: &Store,
    options: &RunOptions,
    signals: &mut Signals,
    voice: Voice,
) -> Result<Done, Failure> {
    let wanted = store.locks(
        &options.names(),
        &Terms {
            shared: options.shared,
            limit: options.limit,
            weight: options.weight,
            ttl: options.ttl,
            max_hold: options.max_hold,
            min_hold: options.min_hold,
            metadata: options.metadata.clone(),
        },
    )?;
    let obtained = obtain(&wanted, options, signals, voice).await.map_err(|mut failure| {
        if failure.code == code::CONFLICT {
            failure.code = options.conflict_exit_code;
        }
        failure
    });
    let held = match obtained? {
        Outcome::Held(held) => held,
        Outcome::Signal(signal) => return Ok(ended_by(signal).into()),
        Outcome::Conflict(taken) => {
            // Like flock: -n logs nothing, since a refusal is a normal result.
            if output::is_live() || voice.verbose || options.wait != Wait::No {
                let status = wanted.status(taken.as_ref(), |_| false).await;
                let taken = taken.as_ref().or(status.as_ref().map(|status| &status.name));
                let name = taken.map_or(options.name.as_str(), Name::as_str);
                voice.note(&wait::refusal(name, options, status.as_ref()));
            }
            return Ok(options.conflict_exit_code.into());
        }
    };
    for (name, token) in held.tokens() {
        voice.detail(&text!("holding {} with token {}", "持有 {}，令牌 {}", name, token));
    }
    output::settled().await;
    let keep_until = options.min_hold.map(timer::after);
    let worked = work(store, options, &held, signals, voice).await;
    let lost = worked.as_ref().ok().and_then(|ended| ended.lost);
    let keep = match &worked {
        Ok(ended) => !ended.was_told_to_end,
        Err(failure) => !failure.is_not_started(),
    };
    let keep_until = keep_until.filter(|_| keep);
    let interrupted = worked.as_ref().ok().and_then(|ended| ended.interrupted);
    if lost.is_none() && keep_until.is_some() && held.lingers() {
        tokio::select! {
            biased;
            is_ours = stay(&held, &options.name, keep_until, voice) => if !is_ours {
                // The command ended before.
                return Ok(Done { at_once: true, interrupted, ..worked?.code.into() });
            },
            signal = ending_signal(signals) => {
                // The lock ends with the minimum hold.
                let _ = tokio::time::timeout(LAST_WORDS, held.release(false)).await;
                return Ok(Done { at_once: true, ..ended_by(signal).into() });
            }
        }
    }
    tokio::select! {
        biased;
        code = give_back(held, options, lost, keep_until, voice) => {
            let Ended { code: ended, was_told_to_end, .. } = worked?;
            let interrupted = interrupted.filter(|_| code.is_none());
            let was_lost = lost.is_some() && !was_told_to_end;
            let code = code.unwrap_or(ended);
            Ok(Done { code, was_lost, at_once: lost.is_some(), interrupted })
        }
        signal = ending_signal(signals) => {
            Ok(Done { at_once: true, ..ended_by(signal).into() })
        },
    }
}

/// Runs the command to its end, and to the end of its process group.
async fn work(
    store: &Store,
    options: &RunOptions,
    held: &Held,
    signals: &mut Signals,
    voice: Voice,
) -> Result<Ended, Failure> {
    let terminal = Terminal::open();
    let home = getpgrp();
    let in_front = terminal.as_ref().and_then(Terminal::foreground) == Some(home);
    let foreground = in_front && !is_in_pipeline();
    let orders = Orders {
        kill_after: options.rest_kill_after(),
        foreground,
        home,
        command: options.command.clone(),
    };
    let environment = environment::of_command(store, &options.name, held);
    let kill_by = job::kill_by(held).filter(|_| options.on_lost == OnLost::Kill);
    let locks = held.descriptors();
    let supervisor = Supervisor::start(&orders, &locks, &environment, kill_by)
        .map_err(|error| Failure::own(format!("cannot start the supervisor: {error}")))?;
    drop(locks);
    // From now on this process may be in the background of the terminal, and still write messages.
    let mut ttou = SigSet::empty();
    ttou.add(Signal::SIGTTOU);
    let _ = ttou.thread_block();
    output::from_background();
    let program = options.command.first().map(|word| word.to_string_lossy().into_owned());
    Job {
        held,
        program: program.unwrap_or_default(),
        signals,
        supervisor,
        terminal,
        on_lost: options.on_lost,
        kill_after: options.kill_after,
        voice,
        state: State::new(foreground, kill_by),
    }
    .run()
    .await
}

/// Releases the lock, at once or after its minimum hold. Its code replaces the command's if the
/// lock was lost unnoticed.
///
/// A lock that is known to be lost is released only at the end of its longest hold, while it is
/// held for a moment more. Otherwise the store has ended it or is unreachable, so there is nothing
/// to wait for.
async fn give_back(
    held: Held,
    options: &RunOptions,
    lost: Option<LossReason>,
    keep_until: Option<Deadline>,
    voice: Voice,
) -> Option<u8> {
    if let Some(reason) = lost {
        if reason == LossReason::MaxHold {
            let left = held.remaining();
            let _ = tokio::time::timeout(left, held.release(keep_until.is_some())).await;
        }
        return None;
    }
    let lost = match held.release(keep_until.is_some()).await {
        Ok(None) => return None,
        Ok(Some(lost)) => lost,
        Err(failure) => {
            voice.warn(&text!(
                "{}; the lock may stay taken for its ttl",
                "{}；锁可能要到 ttl 结束才空出来",
                failure.told()
            ));
            return None;
        }
    };
    if options.on_lost != OnLost::Ignore {
        voice.warn(&text!(
            "the lock {} was lost before the command ended",
            "命令结束之前丢了锁 {}",
            lost
        ));
    }
    (options.on_lost == OnLost::Kill).then_some(code::LOST)
}

/// Keeps a lock for the rest of its minimum hold, if the store cannot, and prints that. Returns
/// early, with false, if the lock is lost.
async fn stay(held: &Held, name: &str, keep_until: Option<Deadline>, voice: Voice) -> bool {
    tokio::select! {
        biased;
        () = timer::until(keep_until) => true,
        _ = held.lost() => false,
        never = tell_stay(name, keep_until, voice) => match never {},
    }
}

async fn tell_stay(name: &str, keep_until: Option<Deadline>, voice: Voice) -> Infallible {
    sleep(NOT_WORTH_A_LINE).await;
    if let Some(left) = keep_until.map(timer::left).filter(|left| !left.is_zero()) {
        let left = human::span(left.max(Duration::from_secs(1)));
        let line = text!("keeping the lock {} for {} more", "锁 {} 还要保留 {}", name, left);
        if output::is_live() { voice.note(&line) } else { voice.detail(&line) }
    }
    std::future::pending().await
}

/// Returns the exit code after this signal.
fn ended_by(signal: Signal) -> u8 {
    code::SIGNAL.saturating_add(u8::try_from(signal as i32).unwrap_or(0))
}

/// Returns true if this process is (probably) part of a pipeline: another process of it may need
/// the terminal. The command then gets it when it asks for it, by being stopped.
fn is_in_pipeline() -> bool {
    use std::os::unix::fs::FileTypeExt;
    ["/proc/self/fd/0", "/proc/self/fd/1"]
        .iter()
        .any(|file| std::fs::metadata(file).is_ok_and(|meta| meta.file_type().is_fifo()))
}

//! `leasehold watch`: follows one lock, or several.

use std::collections::BTreeMap;
use std::io;

use leasehold::{AttemptId, LatchState, State, Status};

use crate::cli::{Globals, WatchArgs};
use crate::config::Config;
use crate::failure::{Failure, code};
use crate::follow::Followed;
use crate::lang::{text, told};
use crate::output::{self, Voice};
use crate::store::Store;
use crate::timer::now_unix_ms;
use crate::{human, sanitize, show, terminal};

/// The most locks that are followed at once.
const LIMIT: usize = 1000;

/// How many waiters of one lock get a row of the screen, or are named in the line of a change.
const ROWS: usize = 20;
const NAMED: usize = 3;

/// Moves the cursor home, and clears the screen.
const CLEAR: &str = "\x1b[H\x1b[J";

/// Follows the locks until it is interrupted, or its reader has gone.
pub(crate) async fn watch(
    args: &WatchArgs,
    globals: &Globals,
    voice: Voice,
) -> Result<u8, Failure> {
    let config = Config::load(globals.config.as_deref())?;
    let store = Store::connect(globals, &config).await?;
    let live = !args.json && terminal::can_redraw(&io::stdout());
    let mut seen = BTreeMap::new();
    let mut cut_off = false;
    let mut followed = Followed::default();
    loop {
        match look(&store, &args.prefix).await {
            Ok(all) => {
                cut_off = false;
                let alone = match all.as_slice() {
                    [one] => Some(&one.name),
                    _ => None,
                };
                followed.follow(&store, alone)?;
                let is_read = if live {
                    output::answer_part(format_args!("{CLEAR}{}", screen(&all))).await?
                } else {
                    changes(&mut seen, all, args.json).await?
                };
                if !is_read {
                    return Ok(0);
                }
            }
            Err(failure) if failure.code == code::UNAVAILABLE => {
                if !cut_off {
                    voice.warn(&text!("{}; retrying", "{}；正在重试", failure.told()));
                }
                cut_off = true;
            }
            Err(failure) => return Err(failure),
        }
        followed.next_look(args.interval).await;
    }
}

/// Returns all locks with this prefix; if there are none, or the store cannot list, the lock of
/// that name.
async fn look(store: &Store, prefix: &str) -> Result<Vec<Status>, Failure> {
    match store.list(prefix, LIMIT).await? {
        Some(all) if prefix.is_empty() || !all.is_empty() => Ok(all),
        _ => Ok(vec![store.status(prefix).await?]),
    }
}

/// Shows all locks; for a single lock also its queue.
fn screen(all: &[Status]) -> String {
    let width = terminal::width(io::stdout());
    let table = show::table(all, width);
    match all {
        [one] if show::waiting(one).is_some_and(|waiting| waiting > 0) => {
            format!("{table}\n{}", show::queue(one, ROWS, width))
        }
        _ => table,
    }
}

/// Prints the differences from the last poll. Returns false if the reader has gone.
async fn changes(
    seen: &mut BTreeMap<String, Mark>,
    all: Vec<Status>,
    json: bool,
) -> Result<bool, Failure> {
    let mut now = BTreeMap::new();
    for status in all {
        let (name, mark) = (status.name.as_str().to_owned(), Mark::of(&status));
        if seen.remove(&name).as_ref() != Some(&mark) && !print(&status, json).await? {
            return Ok(false);
        }
        now.insert(name, mark);
    }
    *seen = now;
    Ok(true)
}

/// The parts of a lock whose change is printed.
#[derive(PartialEq, Eq)]
struct Mark {
    state: State,
    token: Option<u64>,
    /// Who holds it beside others: readers, or permits with their tokens.
    holders: Vec<(AttemptId, u64)>,
    /// Of a semaphore.
    limit: Option<u32>,
    latch: Option<LatchState>,
    /// The waiters, in order, and how many more.
    queue: Option<(Vec<AttemptId>, usize)>,
}

impl Mark {
    fn of(status: &Status) -> Self {
        let readers = status.readers.iter().map(|reader| (reader.attempt, 0));
        let permits = status.permits.iter().flat_map(|permits| &permits.holders);
        let permits = permits.map(|one| (one.holder.attempt, one.token.get()));
        Self {
            state: status.state,
            token: status.token.map(|token| token.get()),
            holders: readers.chain(permits).collect(),
            limit: status.permits.as_ref().map(|permits| permits.limit),
            latch: status.latch.clone(),
            queue: status.waiters.as_ref().map(|all| {
                let attempts = all.iter().map(|waiter| waiter.holder.attempt).collect();
                (attempts, status.more_waiters)
            }),
        }
    }
}

async fn print(status: &Status, json: bool) -> Result<bool, Failure> {
    let now = now_unix_ms();
    if json {
        let mut object = show::json(status);
        object["time_unix_ms"] = now.into();
        return output::answer_part(format_args!("{}\n", sanitize::json(&object))).await;
    }
    let mut line = format!("{} {} ", human::moment(now), sanitize::clean(status.name.as_str()));
    line.push_str(&show::state_shown(status.state));
    if show::was_never_held(status) {
        line.push_str(&text!(", never held", "，从未被持有"));
    }
    if let (State::Unknown, Some(note)) = (status.state, &status.note) {
        line.push_str(&format!(": {}", sanitize::clean(&told(note))));
    }
    match show::held_by(status, NAMED) {
        Some(missing) if status.latch.is_some() => {
            line.push_str(&text!(", {}", "，{}", missing));
        }
        Some(holders) => line.push_str(&text!(" by {}", "，由 {}", holders)),
        None => {}
    }
    if let Some(token) = status.token {
        line.push_str(&text!(", token {}", "，令牌 {}", token));
    }
    if let (Some(waiting), Some(waiters)) = (show::waiting(status), &status.waiters) {
        line.push_str(&text!(", {} waiting", "，{} 个等待", waiting));
        let named: Vec<_> = waiters.iter().take(NAMED).map(|one| show::who(&one.holder)).collect();
        if !named.is_empty() {
            let more = if waiting > named.len() { ", …" } else { "" };
            line.push_str(&format!(": {}{more}", named.join(", ")));
        }
    }
    output::answer_part(format_args!("{line}\n")).await
}

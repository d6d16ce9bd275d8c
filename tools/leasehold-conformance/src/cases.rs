//! The cases, grouped by what they look at.

mod caching;
mod client;
mod dropped;
mod extend;
mod faults;
mod forced;
mod latches;
mod multi_locks;
mod names;
mod observers;
mod permits;
mod process;
mod protocol;
mod queue;
mod readers;
mod semaphores;
mod upgrades;

use std::time::Duration;

use leasehold_core::{Capability, Client, Name, State};

use crate::case::until_within;
use crate::{Case, Outcome};

/// All cases, in the order of the matrix.
pub fn cases() -> Vec<Case> {
    [
        protocol::CASES,
        queue::CASES,
        client::CASES,
        multi_locks::CASES,
        caching::CASES,
        extend::CASES,
        readers::CASES,
        upgrades::CASES,
        semaphores::CASES,
        latches::CASES,
        forced::CASES,
        permits::CASES,
        observers::CASES,
        faults::CASES,
        dropped::CASES,
        names::CASES,
        process::CASES,
    ]
    .concat()
}

fn always(_: &Capability) -> bool {
    true
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Waits until no client holds a lock or waits for it.
async fn free(client: &Client, name: &Name) -> Outcome {
    free_within(secs(10), client, name).await
}

/// The same with another limit.
async fn free_within(limit: Duration, client: &Client, name: &Name) -> Outcome {
    let free = || async {
        let status = client.lock(name).status().await;
        status.is_ok_and(|status| {
            status.state == State::Free && status.waiters.is_none_or(|waiters| waiters.is_empty())
        })
    };
    Ok(until_within(limit, "the lock is free and no client waits", free).await?)
}

/// A row of the table that each group of cases is.
macro_rules! case {
    ($name:ident, $applies:expr, $promise:literal) => {
        $crate::Case {
            name: stringify!($name),
            promise: $promise,
            applies: $applies,
            processes: false,
            bounded: false,
            run: |context| Box::pin($name(context)),
        }
    };
    (process $name:ident, $applies:expr, $promise:literal) => {
        $crate::Case { processes: true, ..case!($name, $applies, $promise) }
    };
    (bounded $($case:tt)+) => {
        $crate::Case { bounded: true, ..case!($($case)+) }
    };
}
use case;

//! Takes a lease that the client has cached. The decision is that of
//! [`leasehold_proto::client::take_cached`].

use std::sync::Arc;

use leasehold_proto::client::{Sound, take_cached};
use leasehold_proto::{Deadline, Now};

use crate::Name;
use crate::backend::{Mode, mode_of};
use crate::driver::Driver;
use crate::hold::Hold;
use crate::local_queue::{TakenCached, Wish};
use crate::options::Options;
use crate::release::Releasing;
use crate::shared::Shared;

/// Takes the lease that the client has cached of this lock: to write, or to read. Returns it as an error if the
/// task cannot use it: it must be [given back first](give_back_first). `None` if there is none.
pub(crate) fn take(
    shared: &Shared,
    name: &Name,
    options: &Options,
    wish: &Wish,
    now: Now,
) -> Option<Result<Arc<Hold>, Arc<Hold>>> {
    if shared.queues.cached() == 0 || wish.mode == Mode::Permit {
        return None;
    }
    let taken = shared.queues.take_cached(name, |from| {
        if wish.mode != mode_of(from.attempt) || wish.alone {
            return None;
        }
        let (lease, tokens) = take_cached(&from.lease(), &from.tokens, wish.terms, now, Sound)?;
        let mut hold = Hold::new(name.clone(), from.attempt, tokens, lease, now, from.is_suspect());
        hold.set_on_loss(wish.on_loss);
        hold.set_min_hold(options.min_hold);
        hold.set_cache(options.cache_time(shared.cache));
        let hold = Arc::new(hold);
        if wish.mode == Mode::Shared {
            // Before the lock on the queues ends: a message finds either the cached lease or its reader.
            shared.reading.begin(&hold, false);
        }
        Some(hold)
    })?;
    let (TakenCached::Fits { from, .. } | TakenCached::Unfit(from)) = &taken;
    shared.uncached(from.mode());
    match taken {
        TakenCached::Fits { from, hold } if shared.take_over(&from, &hold) => {
            tracing::debug!(%name, token = hold.token().get(), "cached lease taken");
            Some(Ok(hold))
        }
        TakenCached::Fits { hold, .. } => {
            // It was lost just now.
            match wish.mode {
                Mode::Shared => {
                    shared.reading.remove(&hold);
                }
                _ => shared.queues.lost(name, hold.attempt),
            }
            None
        }
        TakenCached::Unfit(from) => Some(Err(from)),
    }
}

/// Gives a lease back before its task asks the engine. What the engine does not answer in time
/// continues in the background.
pub(crate) async fn give_back_first(
    driver: &Arc<Driver>,
    from: Arc<Hold>,
    until: Option<Deadline>,
    now: Now,
) {
    let mut giving = Releasing::of_nobody(driver.clone(), from);
    driver.shared.clock.within(until, giving.give_back(now)).await;
}

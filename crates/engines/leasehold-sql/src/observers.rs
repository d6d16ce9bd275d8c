//! Marks the changes of observed names: by messages of the server while this client receives them,
//! otherwise by polling their stamps.
//!
//! A row in the table of observers asks other clients to notify this one. They look at the table
//! in the packet that writes, so a name without observers costs them no message.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Deadline, Name, Result};

use crate::connection::Value;
use crate::error::strange;
use crate::pool::Lane;
use crate::record::us;
use crate::status::name_of;
use crate::tables::Tables;
use crate::watch::Watch;

/// How long a row lasts; if its client dies, others notify it in vain for so long.
const LASTS: Duration = Duration::from_secs(60);
/// How often rows are renewed. A client of an earlier build sends no messages, so the stamps are
/// polled as often.
const RENEWED: Duration = Duration::from_secs(10);
/// How often stamps are polled without messages of the server, or after an error.
const POLLS: Duration = Duration::from_millis(500);
/// The time limit of one request.
const LIMIT: Duration = Duration::from_secs(5);

/// Keeps the rows of this client, and polls the stamps.
pub(crate) async fn run(watch: Arc<Watch>) {
    let clock = watch.store.clock.clone();
    let mut registered: BTreeSet<Name> = BTreeSet::new();
    // The last row has ended by then.
    let mut renew_at: Option<Deadline> = None;
    loop {
        let (gone, names) = watch.observed.sort();
        if names.is_empty() && registered.is_empty() {
            watch.observer_bell.notified().await;
            continue;
        }
        let listening = watch.is_listening();
        if !listening {
            registered.clear();
        }
        let is_new = names.iter().any(|name| !registered.contains(name));
        let is_due = renew_at.is_none_or(|at| at.has_passed(clock.now()));
        let looked = match listening {
            true if is_new || is_due || !gone.is_empty() => {
                let looked = watch.register(&names, &gone).await;
                if looked.is_ok() {
                    registered = names.iter().cloned().collect();
                    renew_at = Some(Deadline::after(clock.now(), RENEWED));
                }
                looked
            }
            true => Ok(()),
            false => watch.look_at(&names).await,
        };
        if let Err(error) = &looked {
            tracing::debug!(%error, "cannot observe");
        }
        // A transaction that was open when the row was written may not have seen it: look again soon.
        let pause = match listening && looked.is_ok() && !is_new {
            true => RENEWED,
            false => POLLS,
        };
        if is_new {
            renew_at = None;
        }
        // An observer that leaves rings no bell: its row is removed at the next turn.
        let until = Some(Deadline::after(clock.now(), pause));
        clock.within(until, watch.observer_bell.notified()).await;
    }
}

impl Watch {
    /// Asks other clients to notify this one of changes of these names, and not of those that are
    /// gone. Marks what has changed until then.
    async fn register(&self, names: &[Name], gone: &[Name]) -> Result<()> {
        let Tables { dialect, observers, .. } = &self.store.tables;
        let Some(client) = self.client() else { return Ok(()) };
        let (channel, clock) = (self.store.channel(client), dialect.now());
        let mut statements = Vec::new();
        for gone in gone {
            let gone = dialect.bytes(gone.as_str().as_bytes());
            statements.push(format!(
                "DELETE FROM {observers} WHERE name = {gone} AND channel = '{channel}'"
            ));
        }
        for name in names {
            let (name, lasts) = (dialect.bytes(name.as_str().as_bytes()), us(LASTS));
            statements.push(format!(
                "INSERT INTO {observers} (name, channel, until_us) \
                 VALUES ({name}, '{channel}', {clock} + {lasts}) \
                 ON CONFLICT (name, channel) DO UPDATE SET until_us = excluded.until_us"
            ));
        }
        // Another transaction must see the rows before the stamps are read here.
        let packet = dialect.atomic(&statements);
        let until = self.store.within(LIMIT);
        self.store.run(Lane::Usual, &packet, until).await?;
        self.look_at(names).await
    }

    /// Polls the stamps, and marks what has changed.
    async fn look_at(&self, names: &[Name]) -> Result<()> {
        let Tables { dialect, locks, .. } = &self.store.tables;
        if names.is_empty() {
            return Ok(());
        }
        let listed: Vec<String> =
            names.iter().map(|name| dialect.bytes(name.as_str().as_bytes())).collect();
        let packet = dialect.plain(&[format!(
            "SELECT name, stamp FROM {locks} WHERE name IN ({})",
            listed.join(", ")
        )]);
        let until = self.store.within(LIMIT);
        let replies = self.store.run(Lane::Usual, &packet, until).await?;
        let mut stamps = BTreeMap::new();
        for row in replies.iter().flat_map(|reply| &reply.rows) {
            let [name, stamp] = row.as_slice() else { return Err(strange("a short row")) };
            stamps.insert(name_of(name)?, Value::number(stamp)?);
        }
        self.observed.compare(names, &stamps);
        Ok(())
    }
}

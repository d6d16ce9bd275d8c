//! The readers of a lock: one row for each, and one about the last read phase.
//!
//! A reader's row counts only while the lock has the same token and is read. So a statement that
//! knows no readers ends their phase by taking the lock, and their rows are left over.

use leasehold_core::Result;
use leasehold_core::proto::read_write::{Member, Mode, Phase};

use super::{Record, Tag, attempt, client_number, list, nobody};
use crate::connection::Value;
use crate::error::strange;
use crate::tables::Tables;

/// How many rows of an ended phase one step removes at most; sweeps remove the others.
const REMOVED: u64 = 1000;

/// What the tables remember of read phases after their end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LastRead {
    /// The token of the last read phase.
    base: u64,
    /// The token of an earlier read phase in which a reader lost its lease.
    lost: u64,
}

/// Adds the readers to a record without them.
pub(super) fn read(record: &mut Record, rows: &[Vec<Value>]) -> Result<()> {
    for row in rows {
        let [owner, base, lost, until_us, confirmed, person] = row.as_slice() else {
            return Err(strange("a short row of a reader"));
        };
        let (attempt, base) = (attempt(owner)?, base.unsigned()?);
        if attempt == nobody() {
            record.last_read = Some(LastRead { base, lost: lost.unsigned()? });
            continue;
        }
        let known = record.stored.iter().any(|known| known.attempt == attempt);
        if record.parts.phase != Phase::Read || base != record.parts.base || known {
            continue;
        }
        let until_ns = until_us.unsigned()?.saturating_mul(1000);
        let confirmed = confirmed.number()? != 0;
        let tag = Tag { person: person.bytes()?.to_vec(), asked_us: record.since_us };
        record.stored.push(Member { attempt, until_ns, confirmed, tag });
    }
    let parts = &mut record.parts;
    if parts.phase == Phase::Read {
        parts.members.clone_from(&record.stored);
        let latest = record.stored.iter().max_by_key(|member| member.until_ns);
        parts.last = latest.map(|member| (member.attempt, member.tag.clone()));
    }
    if let Some(LastRead { base, lost }) = record.last_read {
        if parts.phase == Phase::Free && parts.base == base {
            parts.turn = Mode::Write;
        }
        if [base, lost].contains(&parts.lost) {
            parts.lost_mode = Mode::Read;
        }
    }
    Ok(())
}

impl Record {
    /// Returns the statements for the changes of the readers since `before`. `name` and `if_ours`
    /// are as in [`write`](Self::write).
    pub(super) fn write_readers(
        &mut self,
        tables: &Tables,
        name: &str,
        before: &Self,
        if_ours: &str,
    ) -> Vec<String> {
        let Tables { dialect, readers, .. } = tables;
        let reads = self.parts.phase == Phase::Read;
        let old = before.stored.as_slice();
        let new = if reads { self.parts.members.as_slice() } else { &[] };
        let ended = !(old.is_empty() || reads && self.parts.base == before.parts.base);
        let was = |member: &Member<Tag>| {
            let same = |known: &&Member<Tag>| known.attempt == member.attempt;
            old.iter().find(same).filter(|_| !ended)
        };
        let here = format!("name = {name} AND {if_ours}");
        let mut statements = Vec::new();
        if ended {
            let nobody = dialect.bytes(&nobody().to_bytes());
            let all = format!("attempt <> {nobody} AND {here}");
            statements.push(dialect.delete_some(readers, "attempt", &all, "attempt", REMOVED));
        }
        let stays = |member: &&Member<Tag>| new.iter().any(|one| one.attempt == member.attempt);
        let gone = old.iter().filter(|member| !ended && !stays(member));
        // A new reader may have a row of an earlier phase.
        let come = new.iter().filter(|member| was(member).is_none());
        let removed: Vec<_> = gone.chain(come.clone()).map(|member| member.attempt).collect();
        if !removed.is_empty() {
            let removed = list(*dialect, &removed);
            statements
                .push(format!("DELETE FROM {readers} WHERE attempt IN ({removed}) AND {here}"));
        }
        for member in come {
            let attempt = dialect.bytes(&member.attempt.to_bytes());
            let client = client_number(member.attempt.client());
            let person = dialect.bytes(&member.tag.person);
            let (base, until_us) = (self.parts.base, member.until_ns / 1000);
            let confirmed = u8::from(member.confirmed);
            statements.push(format!(
                "INSERT INTO {readers} (name, attempt, base, lost, until_us, confirmed, client, \
                 person) SELECT {name}, {attempt}, {base}, 0, {until_us}, {confirmed}, {client}, \
                 {person} FROM (SELECT 1 AS one) AS here WHERE {if_ours}"
            ));
        }
        for member in new {
            let Some(old) = was(member) else { continue };
            if (old.until_ns, old.confirmed) != (member.until_ns, member.confirmed) {
                let attempt = dialect.bytes(&member.attempt.to_bytes());
                let (until_us, confirmed) = (member.until_ns / 1000, u8::from(member.confirmed));
                statements.push(format!(
                    "UPDATE {readers} SET until_us = {until_us}, confirmed = {confirmed} \
                     WHERE attempt = {attempt} AND {here}"
                ));
            }
        }
        statements.extend(self.write_last_read(tables, name, if_ours));
        statements
    }

    /// Returns the statement that remembers the last read phase, if that has changed.
    fn write_last_read(&mut self, tables: &Tables, name: &str, if_ours: &str) -> Option<String> {
        let Tables { dialect, readers, .. } = tables;
        let (parts, known) = (&self.parts, self.last_read);
        let LastRead { base, lost } = known.unwrap_or_default();
        let base = if parts.phase == Phase::Read { parts.base } else { base };
        let read = parts.lost_mode == Mode::Read && parts.lost != base;
        let last = LastRead { base, lost: if read { parts.lost } else { lost } };
        if last == known.unwrap_or_default() {
            return None;
        }
        self.last_read = Some(last);
        let (nobody, LastRead { base, lost }) = (dialect.bytes(&nobody().to_bytes()), last);
        Some(match known {
            Some(_) => format!(
                "UPDATE {readers} SET base = {base}, lost = {lost} \
                 WHERE name = {name} AND attempt = {nobody} AND {if_ours}"
            ),
            None => format!(
                "INSERT INTO {readers} (name, attempt, base, lost, until_us, confirmed, client, \
                 person) SELECT {name}, {nobody}, {base}, {lost}, 0, 0, 0, {} \
                 FROM (SELECT 1 AS one) AS here WHERE {if_ours}",
                dialect.bytes(&[])
            ),
        })
    }
}

//! Writes the outcome of a step of a semaphore.

use leasehold_core::proto::semaphore::{Parts, PermitParts};
use leasehold_core::{Name, Result, Token};

use super::read::Stored;
use super::{bytes, too_long};
use crate::kind::{Kind, RETENTION};
use crate::record::{KindRow, Tag, list, us};
use crate::tables::Tables;

/// The most bytes of a record. A statement has twice as many, which the databases accept by default.
const LONGEST: usize = 4 << 20;

impl Stored {
    /// Returns the statements for the changes since this was read, which have an effect only if no
    /// other client wrote first; `None` if nothing changed. The same packet notifies clients, if the
    /// engine can.
    ///
    /// # Errors
    /// `Refused` if the record has become too long.
    pub(super) fn write(
        &self,
        tables: &Tables,
        name: &Name,
        after: &Parts<Tag>,
        stamp: i64,
        told: &[(String, String)],
    ) -> Result<Option<Vec<String>>> {
        // A request that stores nothing does not take a free name.
        let is_nothing = after.limit.is_none() && after.tombstones.is_empty();
        let same = self.exists && self.parts == *after && told.is_empty();
        if same || !self.exists && is_nothing {
            return Ok(None);
        }
        let Tables { dialect, locks, permits, .. } = tables;
        let name = dialect.bytes(name.as_str().as_bytes());
        let row = self.kind_row(after);
        let ours = format!("name = {name} AND stamp = {stamp}");
        let if_ours = format!("EXISTS (SELECT 1 FROM {locks} WHERE {ours})");
        let mut statements = vec![self.row.statement_of_kind(tables, &name, stamp, row)];
        let data = bytes::encode(after);
        if data.len() > LONGEST && after.queue.len() > self.parts.queue.len() {
            return Err(too_long(data.len()));
        }
        let used_until_us = row.used_until_us.max(self.row.now.unix_us());
        statements.extend(tables.write_data(&name, stamp, used_until_us, &data));
        if !self.exists {
            // Those of an earlier semaphore of this name.
            statements.push(format!("DELETE FROM {permits} WHERE name = {name} AND {if_ours}"));
        }
        let known = |permit: &PermitParts<Tag>, all: &[PermitParts<Tag>]| {
            let same = |one: &&PermitParts<Tag>| {
                one.attempt == permit.attempt && one.permit == permit.permit
            };
            all.iter().find(same).map(|one| (one.until_ns, one.confirmed))
        };
        let (old, new) = (&self.parts.permits, &after.permits);
        let gone = old.iter().filter(|permit| known(permit, new).is_none());
        let gone: Vec<_> = gone.map(|permit| permit.attempt).collect();
        if !gone.is_empty() {
            let gone = list(*dialect, &gone);
            statements.push(format!(
                "DELETE FROM {permits} WHERE name = {name} AND attempt IN ({gone}) AND {if_ours}"
            ));
        }
        for one in new {
            let PermitParts { attempt, permit, until_ns, confirmed, tag } = one;
            let attempt = dialect.bytes(&attempt.to_bytes());
            let (until_us, confirmed) = (until_ns / 1000, u8::from(*confirmed));
            match known(one, old) {
                Some(before) if before == (*until_ns, one.confirmed) => {}
                Some(_) => statements.push(format!(
                    "UPDATE {permits} SET until_us = {until_us}, confirmed = {confirmed} \
                     WHERE name = {name} AND attempt = {attempt} AND {if_ours}"
                )),
                None => {
                    let slots: Vec<u8> =
                        permit.slots.iter().flat_map(|slot| (*slot as u16).to_be_bytes()).collect();
                    let (slots, person) = (dialect.bytes(&slots), dialect.bytes(&tag.person));
                    let (base, top) = (permit.tokens.base(), permit.tokens.top());
                    statements.push(format!(
                        "INSERT INTO {permits} (name, attempt, base, top, slots, until_us, \
                         confirmed, person) SELECT {name}, {attempt}, {base}, {top}, {slots}, \
                         {until_us}, {confirmed}, {person} FROM {locks} WHERE {ours}"
                    ));
                }
            }
        }
        for (channel, word) in told {
            let notify = format!("SELECT pg_notify('{channel}', '{word}')");
            statements.push(format!("{notify} FROM {locks} WHERE {ours}"));
        }
        Ok(Some(statements))
    }

    /// Returns the row of the name after a step.
    fn kind_row(&self, after: &Parts<Tag>) -> KindRow {
        let now_us = self.row.now.unix_us();
        let used_until_us =
            after.permits.iter().map(|permit| permit.until_ns / 1000).max().unwrap_or(0);
        // A limit that was changed is kept: the next client would store the previous one.
        let is_changed = after.limit.is_some_and(|(_, version)| version > 1);
        let until_us = match is_changed {
            true => Token::MAX.get(),
            false => used_until_us.max(now_us).saturating_add(us(RETENTION)),
        };
        let top = after.slots.iter().map(|(_, mark)| mark.top).max().unwrap_or(0);
        let ended_us = after.tombstones.iter().map(|(_, until_ns)| until_ns.div_ceil(1000)).max();
        KindRow {
            used_until_us,
            limit: after.limit.map_or(0, |(limit, _)| limit.get()),
            top,
            has_queue: !after.queue.is_empty(),
            ended_us: ended_us.unwrap_or(0),
            ..KindRow::new(Kind::Semaphore, until_us)
        }
    }
}

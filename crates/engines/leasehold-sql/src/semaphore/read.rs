//! Asks the tables about a semaphore.

use leasehold_core::proto::semaphore::{MAX_LIMIT, Mark, Parts, Permit, PermitParts};
use leasehold_core::{Name, Result, Token, TokenBlock};

use super::{Machine, bytes};
use crate::connection::{Reply, Value};
use crate::dialect::Packet;
use crate::error::strange;
use crate::hold::Hold;
use crate::kind::Kind;
use crate::record::{Record, Tag, ask_row, attempt};
use crate::tables::Tables;

/// A semaphore as the tables store it.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    /// The row of its name.
    pub(crate) row: Record,
    /// The name belongs to it already.
    pub(crate) exists: bool,
    /// The tags of the permits are empty: only their rows have them.
    pub(crate) parts: Parts<Tag>,
}

/// What the replies to a question contain.
#[derive(Debug)]
pub(crate) enum Found {
    Stored(Box<Stored>),
    /// Another client wrote in between.
    Torn,
    /// The name belongs to another kind.
    Other(Kind),
}

/// Reads everything that a step needs: the row of the name first and its stamp again at the end.
pub(super) fn ask(tables: &Tables, name: &Name, hold: Hold) -> Packet {
    let Tables { dialect, permits, .. } = tables;
    let bytes = dialect.bytes(name.as_str().as_bytes());
    let statements = [
        ask_row(tables, name),
        tables.ask_data(&bytes),
        format!(
            "SELECT attempt, base, top, slots, until_us, confirmed FROM {permits} \
             WHERE name = {bytes}"
        ),
        tables.ask_stamp(&bytes),
    ];
    match hold {
        Hold::Everything => dialect.begin(&statements),
        _ => dialect.reading(&statements),
    }
}

/// Parses the replies.
pub(crate) fn read(replies: &[Reply]) -> Result<Found> {
    let [row, data, permits, last, ..] = replies else {
        return Err(strange("replies are missing"));
    };
    let row = Record::of_row(row.rows.first().ok_or_else(|| strange("no row"))?)?;
    if !row.is_whole(last)? {
        return Ok(Found::Torn);
    }
    let exists = match row.kind() {
        Some(Kind::Semaphore) => true,
        Some(kind) => return Ok(Found::Other(kind)),
        None => false,
    };
    let parts = match exists {
        true => {
            let data = data.rows.first().and_then(|row| row.first());
            // If the record was removed by hand, the next request stores the limit again.
            let mut parts = match data {
                Some(data) => bytes::decode(data.bytes()?)?,
                None => new(&row),
            };
            parts.permits = permits.rows.iter().map(|row| permit(row)).collect::<Result<_>>()?;
            // In the order of the machine, so that its next state can be compared.
            Machine::from(parts).into()
        }
        false => new(&row),
    };
    Ok(Found::Stored(Box::new(Stored { row, exists, parts })))
}

/// Returns the parts of a semaphore under a name that belongs to no kind. If the clock has not passed
/// the tokens of the name, because it was set back, the first tokens are above them.
fn new(row: &Record) -> Parts<Tag> {
    let top = row.parts.top;
    let slots = match top >= row.now.unix_us() {
        true => (0..MAX_LIMIT).map(|slot| (slot, Mark { top, lost: top })).collect(),
        false => Vec::new(),
    };
    Parts { limit: None, slots, permits: Vec::new(), queue: Vec::new(), tombstones: Vec::new() }
}

fn permit(row: &[Value]) -> Result<PermitParts<Tag>> {
    let [owner, base, top, slots, until_us, confirmed] = row else {
        return Err(strange("a short row of a permit"));
    };
    Ok(PermitParts {
        attempt: attempt(owner)?,
        permit: permit_of(base, top, slots)?,
        until_ns: until_us.unsigned()?.saturating_mul(1000),
        confirmed: confirmed.number()? != 0,
        tag: Tag { person: Vec::new(), asked_us: 0 },
    })
}

/// Parses the tokens and the slots of a permit.
pub(crate) fn permit_of(base: &Value, top: &Value, slots: &Value) -> Result<Permit> {
    let (base, top) = (base.unsigned()?, top.unsigned()?);
    let many = u32::try_from(top.saturating_sub(base)).unwrap_or(u32::MAX).saturating_add(1);
    let tokens = Token::new(base).and_then(|base| TokenBlock::new(base, many));
    Ok(Permit { tokens: tokens.ok_or_else(|| strange("no token"))?, slots: slots_of(slots)? })
}

/// Parses the slots of a permit: two bytes each.
pub(crate) fn slots_of(slots: &Value) -> Result<Vec<u32>> {
    let (pairs, rest) = slots.bytes()?.as_chunks::<2>();
    match rest {
        [] => Ok(pairs.iter().map(|pair| u32::from(u16::from_be_bytes(*pair))).collect()),
        _ => Err(strange("slots")),
    }
}

//! Removes the records of locks that are not needed any more.

use std::time::Duration;

use leasehold_core::{Result, StoreUrl};

use redis::Client;

use crate::connection::connect_to;
use crate::error::from_redis;
use crate::key::{Keys, SEMAPHORE};
use crate::quorum;
use crate::replica_policy::Policy;
use crate::topology::Store;

/// How long to wait for an answer.
const LIMIT: Duration = Duration::from_secs(5);
/// How many keys one step removes.
const STEP: usize = 500;

/// Removes the record of a free lock without waiters, if the clock has passed its tokens; otherwise
/// the next tokens would be lower. Its tombstones stay: they refuse late requests, even without a
/// record, and expire by themselves. A quorum node remembers its grants itself, but refuses late
/// requests by the record: it keeps that until a minute after the last lease would have ended. The record of a
/// semaphore is removed if no permit is held and no client waits, unless its limit was changed: the next client would
/// store the previous limit.
const FORGET: &str = "local r = redis.call('GETRANGE', KEYS[1], 0, 148)
    local clock = redis.call('TIME')
    local now = string.format('%010d%06d', clock[1], clock[2])
    local free = string.sub(r, 1, 2) == 'L1' and string.sub(r, 35, 35) == 'F'
        and string.sub(r, 36, 36) < '4' and string.sub(r, 85, 100) < now
        or string.sub(r, 1, 2) == 'Q1' and #r == 149 and string.sub(r, 54, 69) < now
        and (tonumber(string.sub(r, 70, 85)) or 1e16) + 60000000 < now + 0
    if string.sub(r, 1, 3) == 'S1-' and #r == 55 then
        local function last(key) return (redis.call('ZRANGE', key, 0, 0, 'REV', 'WITHSCORES')[2] or 0) + 0 end
        free = redis.call('EXISTS', KEYS[8]) == 0 and last(KEYS[10]) <= now + 0 and last(KEYS[13]) < now + 0
    end
    if not free or redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
    redis.call('UNLINK', KEYS[1], unpack(KEYS, 3)) return 1";

/// Removes the records of the free locks and semaphores whose names start with `names`, and returns their
/// number. A semaphore whose limit was changed keeps its record.
/// Without this call, a record stays for the time of the option `retain` (40 minutes) after the end of its last granted lease.
///
/// A record holds the granted tokens; without it, only the server's clock keeps the next tokens
/// above them. So a record stays while its tokens are ahead of that clock, which happens if the
/// clock was set back. After an acquire that was never answered, the tombstones of the lock
/// (`PREFIX:{NAME}:t`) stay for a minute, and refuse that acquire if it arrives late. For the same
/// reason a quorum keeps a record until a minute after the end of its last granted lease. All nodes
/// of a quorum must answer; the result is the highest number of a node.
///
/// # Errors
/// As [`connect`](crate::connect); records that were removed before the error stay removed.
pub async fn forget(mut url: StoreUrl, names: &str) -> Result<u64> {
    // It has no meaning here.
    Policy::take(&mut url)?;
    let mut removed = 0;
    if matches!(url.scheme().split_once('+'), Some((_, "sentinel" | "cluster"))) {
        let Store { what, prefix, .. } = Store::parse(url)?;
        for client in what.clients().await? {
            removed += forget_at(&client, &Keys::new(&prefix), names).await?;
        }
        return Ok(removed);
    }
    for address in quorum::addresses(url)? {
        let keys = Keys::new(&address.prefix);
        removed = removed.max(forget_at(&address.client, &keys, names).await?);
    }
    Ok(removed)
}

async fn forget_at(client: &Client, keys: &Keys, names: &str) -> Result<u64> {
    let mut connection = connect_to(client, LIMIT, None).await?;
    connection.set_response_timeout(LIMIT);
    let (mut cursor, mut removed) = (0_u64, 0);
    loop {
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(keys.pattern(names)).arg("COUNT").arg(STEP);
        let (next, found): (u64, Vec<String>) =
            scan.query_async(&mut connection).await.map_err(from_redis)?;
        let mut batch = redis::pipe();
        for key in found.iter().filter(|key| keys.name(key).is_some()) {
            let ends = ["", ":q", ":w", ":r", ":m", ":i", ":s"].iter().chain(&SEMAPHORE[2..]);
            let keys: Vec<String> = ends.map(|end| format!("{key}{end}")).collect();
            batch.cmd("EVAL").arg(FORGET).arg(keys.len()).arg(&keys);
        }
        if batch.cmd_iter().next().is_some() {
            let each: Vec<u64> = batch.query_async(&mut connection).await.map_err(from_redis)?;
            removed += each.iter().sum::<u64>();
        }
        cursor = next;
        if cursor == 0 {
            return Ok(removed);
        }
    }
}

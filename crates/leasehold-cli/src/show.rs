//! Shows a lock's status as a table row, as lines, and as JSON.

use leasehold::{Holder, LatchState, Permits, Permitted, State, Status, Waiter};
use serde_json::{Value, json};

use crate::human;
use crate::lang::{Lang, lang, text, told};
use crate::sanitize::clean;
use crate::table::{self, Cut};
use crate::timer::now_unix_ms;

/// The head of the table.
fn head() -> [&'static str; 6] {
    match lang() {
        Lang::English => ["NAME", "STATE", "HOLDER", "SINCE", "TOKEN", "WAITERS"],
        Lang::Chinese => ["名字", "状态", "持有者", "已持有", "令牌", "等待者"],
    }
}

/// What is cut if a row is too wide: first the token, which `status` and `--json` show. The process
/// id of a holder stays.
const CUTS: [Cut; 6] =
    [Cut::End, Cut::Never, Cut::BeforeSlash, Cut::Never, Cut::LeaveOut, Cut::Never];

/// How many waiters are listed.
const SHOWN: usize = 100;

/// Returns many locks as a table with a head, in this many columns.
pub(crate) fn table(all: &[Status], width: Option<usize>) -> String {
    let mut rows = vec![head().map(str::to_owned)];
    rows.extend(all.iter().map(row));
    table::fitted(&rows, CUTS, width)
}

/// Returns one lock in detail.
pub(crate) fn lines(status: &Status) -> String {
    let mut rows = vec![pair(text!("name", "名字"), clean(status.name.as_str()))];
    rows.push(pair(text!("state", "状态"), state_shown(status.state)));
    let free = status.state == State::Free;
    if let Some(latch) = &status.latch {
        rows.extend(parties(latch));
    } else if let Some(permits) = &status.permits {
        rows.push(pair(text!("limit", "上限"), permits.limit.to_string()));
        rows.push(pair(text!("in use", "使用中"), permits.held.to_string()));
        rows.extend(permitted(permits).lines().map(|line| pair("", line)));
    } else if !status.readers.is_empty() {
        let readers = status.readers.len().to_string();
        rows.push(pair(text!("readers", "读者"), readers));
        rows.extend(holders(&status.readers).lines().map(|line| pair("", line)));
    } else if let Some(holder) = &status.holder {
        let what = if free {
            text!("last holder", "上一个持有者")
        } else {
            text!("holder", "持有者")
        };
        rows.push(pair(what, who(holder)));
        if let Some(metadata) = &holder.metadata {
            rows.push(pair("", clean(metadata)));
        }
        rows.push(pair(text!("owner", "尝试"), holder.attempt.to_string()));
    }
    if let Some(token) = status.token {
        let what =
            if free { text!("last token", "上一个令牌") } else { text!("token", "令牌") };
        rows.push(pair(what, token.to_string()));
    }
    if let Some(since) = status.since_unix_ms {
        let what =
            if free { text!("last taken", "上次获取") } else { text!("since", "获取于") };
        rows.push(pair(what, human::ago(since, now_unix_ms())));
    }
    if let Some(remaining) = status.remaining {
        rows.push(pair(text!("remaining", "剩余"), human::span(remaining)));
    }
    if status.latch.is_some() {
        return table::aligned(&rows);
    }
    let waiters = waiting(status).map_or_else(|| text!("unknown", "未知"), |all| all.to_string());
    rows.push(pair(text!("waiters", "等待者"), waiters));
    rows.extend(queue(status, SHOWN, None).lines().map(|line| pair("", line)));
    match &status.note {
        Some(note) => rows.push(pair(text!("note", "说明"), clean(&told(note)))),
        None if was_never_held(status) => {
            rows.push(pair(text!("note", "说明"), text!("never held", "从未被持有")));
        }
        None => {}
    }
    table::aligned(&rows)
}

/// Returns the rows of a latch.
fn parties(latch: &LatchState) -> impl Iterator<Item = [String; 2]> {
    let rows = [
        pair(text!("generation", "代"), latch.generation.to_string()),
        pair(text!("parties", "参与者"), latch.parties.to_string()),
        pair(text!("missing", "还差"), latch.missing.to_string()),
    ];
    let counted = latch.counted.iter().enumerate().map(|(at, party)| {
        pair(if at == 0 { text!("counted", "已到") } else { String::new() }, clean(party))
    });
    rows.into_iter().chain(counted)
}

/// Returns the clients that read: name, attempt, metadata.
fn holders(readers: &[Holder]) -> String {
    let row = |reader: &Holder| {
        let metadata = reader.metadata.as_deref().map(clean).unwrap_or_default();
        [who(reader), reader.attempt.to_string(), metadata]
    };
    let rows: Vec<_> = readers.iter().map(row).collect();
    table::fitted(&rows, [Cut::BeforeSlash, Cut::Never, Cut::End], None)
}

/// Returns the permits of a semaphore: slots, holder, token, attempt, metadata.
fn permitted(permits: &Permits) -> String {
    let row = |one: &Permitted| {
        [
            slots(&one.slots),
            who(&one.holder),
            one.token.to_string(),
            one.holder.attempt.to_string(),
            one.holder.metadata.as_deref().map(clean).unwrap_or_default(),
        ]
    };
    let rows: Vec<_> = permits.holders.iter().map(row).collect();
    table::fitted(&rows, [Cut::Never, Cut::BeforeSlash, Cut::Never, Cut::Never, Cut::End], None)
}

/// Returns slots as ranges, such as `0-3,7`.
fn slots(all: &[u32]) -> String {
    let range = |run: &[u32]| match run {
        [first, .., last] => format!("{first}-{last}"),
        _ => run.first().map_or(String::new(), u32::to_string),
    };
    let runs: Vec<_> = all.chunk_by(|one, next| one + 1 == *next).map(range).collect();
    runs.join(",")
}

/// Returns how many clients wait, if the store knows.
pub(crate) fn waiting(status: &Status) -> Option<usize> {
    status.waiters.as_ref().map(|all| all.len() + status.more_waiters)
}

/// Returns the waiters in queue order, and how many more: place, name, since when, how long,
/// metadata.
pub(crate) fn queue(status: &Status, shown: usize, width: Option<usize>) -> String {
    let (all, now) = (status.waiters.as_deref().unwrap_or_default(), now_unix_ms());
    let row = |(at, waiter): (usize, &Waiter)| {
        [
            human::ordinal(at + 1),
            who(&waiter.holder),
            human::moment(waiter.since_unix_ms),
            since_when(waiter.since_unix_ms, now),
            waiter.holder.metadata.as_deref().map(clean).unwrap_or_default(),
        ]
    };
    let rows: Vec<_> = all.iter().take(shown).enumerate().map(row).collect();
    let cuts = [Cut::Never, Cut::BeforeSlash, Cut::Never, Cut::Never, Cut::End];
    let mut text = table::fitted(&rows, cuts, width);
    match waiting(status).unwrap_or_default() - rows.len() {
        0 => {}
        more => text.push_str(&text!("and {} more\n", "还有 {} 个\n", more)),
    }
    text
}

/// Returns one lock as a JSON object; unknown parts are null.
pub(crate) fn json(status: &Status) -> Value {
    let waiters = status.waiters.as_ref().map(|all| {
        let one = |(at, waiter): (usize, &Waiter)| {
            let mut object = holder(&waiter.holder);
            object["place"] = (at + 1).into();
            object["since_unix_ms"] = waiter.since_unix_ms.into();
            object["shared"] = waiter.shared.into();
            object["slots"] = waiter.slots.into();
            object
        };
        all.iter().enumerate().map(one).collect::<Vec<_>>()
    });
    let holders: &[Holder] = match status.state {
        State::Shared => &status.readers[..],
        State::Held => status.holder.as_slice(),
        _ => &[],
    };
    let with_token = |one: &Holder| {
        let mut object = holder(one);
        object["token"] = status.token.map(|token| token.get()).into();
        object
    };
    let mut holders: Vec<_> = holders.iter().map(with_token).collect();
    let with_slots = |one: &Permitted| {
        let mut object = holder(&one.holder);
        object["token"] = one.token.get().into();
        object["slots"] = one.slots.clone().into();
        object["remaining_ms"] = one.remaining.map(|rest| rest.as_millis() as u64).into();
        object
    };
    holders.extend(status.permits.iter().flat_map(|permits| &permits.holders).map(with_slots));
    let latch = status.latch.as_ref().map(|latch| {
        json!({
            "generation": latch.generation,
            "parties": latch.parties,
            "missing": latch.missing,
            "counted": latch.counted,
        })
    });
    let limit = status.permits.as_ref().map(|permits| (permits.limit, permits.held));
    let known = (status.holder.as_ref().map(holder), status.since_unix_ms);
    let (current, last) = match status.state {
        State::Free => ((None, None), known),
        _ => (known, (None, None)),
    };
    json!({
        "name": status.name.as_str(),
        "state": state(status.state),
        "holder": current.0,
        "holders": holders,
        "limit": limit.map(|(limit, _)| limit),
        "held_slots": limit.map(|(_, held)| held),
        "latch": latch,
        "since_unix_ms": current.1,
        "last_holder": last.0,
        "last_since_unix_ms": last.1,
        "token": status.token.map(|token| token.get()),
        "remaining_ms": status.remaining.map(|rest| rest.as_millis() as u64),
        "waiters": waiters,
        "more_waiters": status.waiters.as_ref().map(|_| status.more_waiters),
        "note": status.note,
    })
}

/// Returns true if the store knows no holder, now or before.
pub(crate) fn was_never_held(status: &Status) -> bool {
    let unknown = status.holder.is_none() && status.token.is_none() && status.permits.is_none();
    status.state == State::Free && unknown
}

/// Returns a holder as a JSON object.
pub(crate) fn holder(holder: &Holder) -> Value {
    json!({
        "host": holder.host,
        "pid": holder.pid,
        "owner": holder.attempt.to_string(),
        "metadata": holder.metadata,
    })
}

/// Returns the state as a word in the language of this process.
pub(crate) fn state_shown(of: State) -> String {
    match of {
        State::Free => text!("free", "空闲"),
        State::Held => text!("held", "持有"),
        State::Shared => text!("shared", "共享"),
        State::Permits => text!("permits", "许可"),
        State::Latch => text!("latch", "闭锁"),
        State::Kept => text!("kept", "保留"),
        _ => text!("unknown", "未知"),
    }
}

/// Returns the state as a word for programs.
pub(crate) fn state(state: State) -> &'static str {
    match state {
        State::Free => "free",
        State::Held => "held",
        State::Shared => "shared",
        State::Permits => "permits",
        State::Latch => "latch",
        State::Kept => "kept",
        _ => "unknown",
    }
}

/// Returns a holder as HOST/PID.
pub(crate) fn who(holder: &Holder) -> String {
    format!("{}/{}", clean(&holder.host), holder.pid)
}

/// Returns the holders of a lock that is not free: the first ones, and how many more.
pub(crate) fn held_by(status: &Status, named: usize) -> Option<String> {
    if let Some(permits) = status.permits.as_ref().filter(|permits| permits.held > 0) {
        let (held, limit) = (permits.held, permits.limit);
        return Some(text!("{} of {} slots", "{}/{} 个槽位", held, limit));
    }
    if let Some(latch) = &status.latch {
        let (missing, parties) = (latch.missing, latch.parties);
        return Some(text!("{} of {} missing", "还差 {}（共 {}）", missing, parties));
    }
    if status.readers.is_empty() {
        return status.holder.as_ref().filter(|_| status.state != State::Free).map(who);
    }
    let first: Vec<_> = status.readers.iter().take(named).map(who).collect();
    let mut text = first.join(", ");
    match status.readers.len() - first.len() {
        0 => {}
        more => text.push_str(&format!(" +{more}")),
    }
    Some(text)
}

fn row(status: &Status) -> [String; 6] {
    let taken = status.state != State::Free;
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let now = now_unix_ms();
    [
        clean(status.name.as_str()),
        state_shown(status.state),
        or_dash(held_by(status, 1)),
        or_dash(status.since_unix_ms.filter(|_| taken).map(|since| since_when(since, now))),
        or_dash(status.token.map(|token| token.to_string())),
        or_dash(waiting(status).map(|all| all.to_string())),
    ]
}

fn since_when(unix_ms: u64, now: u64) -> String {
    human::age(unix_ms, now).unwrap_or_else(human::just_now)
}

fn pair(key: impl Into<String>, value: impl Into<String>) -> [String; 2] {
    [key.into(), value.into()]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a set-up that fails is a failed test")]

    use std::time::Duration;

    use leasehold::Name;

    use super::*;

    #[test]
    fn a_latch_is_shown_with_its_parties() {
        let name = Name::new("import").unwrap();
        let stored = b"leasehold latch 1\n8 7 3\norders\n";
        let status = Status::of_latch(&name, stored, Some(Duration::from_secs(60)));
        let shown = lines(&status);
        for row in ["state", "latch", "generation", "8", "parties", "3", "missing", "2", "counted"]
        {
            assert!(shown.contains(row), "{row}: {shown}");
        }
        assert!(!shown.contains("waiters") && !shown.contains("holder"), "{shown}");
        assert!(table(std::slice::from_ref(&status), None).contains("2 of 3 missing"));
        let object = json(&status);
        assert_eq!((&object["state"], &object["holder"]), (&"latch".into(), &Value::Null));
        let latch = json!({ "generation": 8, "parties": 3, "missing": 2, "counted": ["orders"] });
        assert_eq!(object["latch"], latch);
        assert!(!was_never_held(&status));
    }

    #[test]
    fn a_latch_of_a_newer_version_is_shown_with_the_reason() {
        let name = Name::new("import").unwrap();
        let status = Status::of_latch(&name, b"leasehold latch 2\n", None);
        assert!(lines(&status).contains("newer version"), "{}", lines(&status));
        assert_eq!((status.state, status.latch), (State::Latch, None));
    }
}

//! Random steps of clients of ours and of rueidislock on the keys of one lock: the script does what a model of a majority
//! does, and a script with a planted bug does not.

use leasehold_sim::Dice;
use leasehold_test_servers::{Admin, Value};

use super::{ACQUIRE, DELETE, EXTEND, FORCE, LATE};
use crate::plain;

const KEYS: [&str; 3] = ["rueidislock:0:a", "rueidislock:1:a", "rueidislock:2:a"];
const MAJORITY: usize = 2;
const NOTES: &str = "leasehold:wire:{rueidislock:0:a}:rueidislock:0:a";
/// The owners: two attempts of ours, two of rueidislock.
const OWNERS: [&str; 4] =
    ["leasehold:one", "leasehold:two", "24 bytes of another one.", "24 bytes of another two."];
/// A token that the server has long passed.
const TOKEN: &str = "0000000000000001";
/// What a lease lasts, in ms, after an acquire and after a renewal.
const LASTS: [i64; 2] = [600_000, 900_000];
/// How long a call may take without the test failing, in ms.
const SLACK: i64 = 300_000;

const STEPS: usize = 150;
const SEEDS: u64 = 40;

/// The owner of each key, by its number.
type Keys = [Option<usize>; 3];

#[derive(Clone, Copy, Debug)]
enum Step {
    Acquire(usize),
    Renew(usize),
    Release(usize),
    /// Of rueidislock: one script on one key.
    Theirs(&'static str, usize, usize),
    /// The server lost a key.
    Lose(usize),
}

/// The script as the engine assembles it, with these texts replaced.
fn script(bugs: &[(&str, &str)]) -> String {
    let mut code = [
        "#!lua\nlocal RETAIN = 2400000\n",
        include_str!("../../../src/lua/time.lua"),
        include_str!("../../../src/lua/wire_start.lua"),
        include_str!("../../../src/lua/wire_set_nx.lua"),
        include_str!("../../../src/lua/wire_main.lua"),
    ]
    .concat();
    for (sound, bug) in bugs {
        assert_eq!(code.matches(sound).count(), 1, "{sound}");
        code = code.replace(sound, bug);
    }
    code
}

fn random(dice: &mut Dice) -> Step {
    let mut below = |limit: u64| dice.roll(limit) as usize;
    let (ours, theirs, key) = (below(2), 2 + below(2), below(3));
    match below(16) {
        0..4 => Step::Acquire(ours),
        4..6 => Step::Renew(ours),
        6..8 => Step::Release(ours),
        8..11 => Step::Theirs(ACQUIRE, theirs, key),
        11 => Step::Theirs(EXTEND, theirs, key),
        12 | 13 => Step::Theirs(DELETE, theirs, key),
        14 => Step::Theirs(FORCE, theirs, key),
        _ => Step::Lose(key),
    }
}

/// Returns the answers of ours that are right, and the keys afterwards. An acquire may also be put off.
fn expected(keys: Keys, step: Step) -> (&'static [&'static str], Keys) {
    let holds = |me: usize| keys.iter().filter(|owner| **owner == Some(me)).count() >= MAJORITY;
    let with = |me: usize| keys.map(|owner| owner.or(Some(me)));
    let without = |me: usize| keys.map(|owner| owner.filter(|owner| *owner != me));
    let put = |key: usize, owner: Option<usize>| {
        let mut keys = keys;
        keys[key] = owner;
        keys
    };
    match step {
        Step::Acquire(me) if holds(me) => (&["A"], with(me)),
        Step::Acquire(me) if keys == [None; 3] => (&["A", "G"], with(me)),
        Step::Acquire(_) => (&["B"], keys),
        Step::Renew(me) if holds(me) => (&["R"], with(me)),
        Step::Renew(me) => (&["L"], without(me)),
        Step::Release(me) if holds(me) => (&["R"], without(me)),
        // A release that is repeated has the first one's answer.
        Step::Release(me) => (&["R", "L", "U"], without(me)),
        Step::Theirs(ACQUIRE, who, key) => (&[], put(key, keys[key].or(Some(who)))),
        Step::Theirs(FORCE, who, key) => (&[], put(key, Some(who))),
        Step::Theirs(DELETE, who, key) => (&[], put(key, keys[key].filter(|owner| *owner != who))),
        Step::Theirs(..) => (&[], keys),
        Step::Lose(key) => (&[], put(key, None)),
    }
}

fn take(admin: &mut Admin, hash: &str, step: Step) -> String {
    let mut ours = |words: &[&str]| {
        let beside = format!("{NOTES}:attempt");
        let keys = ["EVALSHA", hash, "5", KEYS[0], NOTES, &beside, KEYS[1], KEYS[2]];
        admin.call(&[&keys[..], words].concat()).unwrap().text()
    };
    match step {
        Step::Acquire(me) => ours(&["A", OWNERS[me], &LASTS[0].to_string(), "a holder"]),
        Step::Renew(me) => ours(&["R", OWNERS[me], &LASTS[1].to_string(), TOKEN, "a holder"]),
        Step::Release(me) => ours(&["E", OWNERS[me], "1", "0"]),
        Step::Theirs(script, who, key) => {
            admin.call(&["EVAL", script, "1", KEYS[key], OWNERS[who], LATE]).unwrap();
            String::new()
        }
        Step::Lose(key) => {
            admin.call(&["DEL", KEYS[key]]).unwrap();
            String::new()
        }
    }
}

fn owners(admin: &mut Admin) -> Keys {
    let Value::Array(values) = admin.call(&[&["MGET"][..], &KEYS[..]].concat()).unwrap() else {
        panic!("no values");
    };
    let owner = |value: &Value| match value {
        Value::Bytes(bytes) => OWNERS.iter().position(|owner| owner.as_bytes() == bytes.as_slice()),
        _ => None,
    };
    [owner(&values[0]), owner(&values[1]), owner(&values[2])]
}

/// Returns the first difference from the model, if any.
fn difference(admin: &mut Admin, hash: &str, seed: u64) -> Option<String> {
    admin.call(&["FLUSHDB"]).unwrap();
    let mut dice = Dice::new(seed);
    let mut keys: Keys = [None; 3];
    for number in 0..STEPS {
        let step = random(&mut dice);
        let (answers, mut after) = expected(keys, step);
        let answer = take(admin, hash, step);
        let letter = answer.get(..1).unwrap_or_default();
        if letter == "G" {
            after = keys;
        }
        let found = owners(admin);
        let right = answers.is_empty() || answers.contains(&letter);
        if !right || found != after {
            return Some(format!(
                "seed {seed}, step {number}: {step:?} on {keys:?} answers {answer:?} and leaves {found:?}, not {after:?}"
            ));
        }
        let lasts = match step {
            Step::Acquire(me) if letter == "A" => Some((me, LASTS[0])),
            Step::Renew(me) if letter == "R" => Some((me, LASTS[1])),
            _ => None,
        };
        if let Some((me, lasts)) = lasts {
            for (key, _) in KEYS.iter().zip(found).filter(|(_, owner)| *owner == Some(me)) {
                let left = admin.call(&["PTTL", key]).unwrap().integer().unwrap_or(0);
                if !(lasts - SLACK..=lasts).contains(&left) {
                    return Some(format!("seed {seed}, step {number}: {key} ends in {left} ms"));
                }
            }
        }
        keys = found;
    }
    None
}

fn first_difference(admin: &mut Admin, bugs: &[(&str, &str)]) -> Option<String> {
    let hash = admin.call(&["SCRIPT", "LOAD", &script(bugs)]).unwrap().text();
    (0..SEEDS).find_map(|seed| difference(admin, &hash, seed))
}

pub(super) async fn the_script_does_what_a_majority_needs() {
    let server = plain();
    let mut admin = server.connect().unwrap();
    if let Some(difference) = first_difference(&mut admin, &[]) {
        panic!("{difference}");
    }
}

pub(super) async fn a_planted_bug_in_the_script_is_found() {
    let server = plain();
    let mut admin = server.connect().unwrap();
    for (sound, bug) in [
        ("local MAJORITY = (#LOCKS + 1) / 2", "local MAJORITY = 1"),
        ("local MAJORITY = (#LOCKS + 1) / 2", "local MAJORITY = #LOCKS"),
        ("for at = 4, #KEYS do", "for at = 4, 4 do"),
        ("if is_of(owner, ME) and most >= MAJORITY", "if is_of(owner, ME)"),
        ("if not owner or is_earlier(owner)", "if not owner or most < MAJORITY"),
        (
            "do redis.call('SET', key, ME, 'PX', ms) end",
            "do redis.call('SET', key, ME, 'PX', ms) break end",
        ),
        ("if value == ME then redis.call('PEXPIRE', key, ms) end", ""),
        ("if value == false then redis.call('SET'", "if value ~= ME then redis.call('SET'"),
        ("if value == false then redis.call('SET'", "if value == 1 then redis.call('SET'"),
        (
            "if is_of(value_of(key), owner) then redis.call('DEL', key) end",
            "redis.call('DEL', key)",
        ),
        ("  drop(ME)\n  local said", "  local said"),
        ("    drop(ME)\n    return 'L'", "    return 'L'"),
        ("  if look() ~= 'mine' then\n    drop(ME)\n    return 'L'\n  end\n", ""),
    ] {
        let found = first_difference(&mut admin, &[(sound, bug)]);
        assert!(found.is_some(), "not found: {bug:?} instead of {sound:?}");
    }
}

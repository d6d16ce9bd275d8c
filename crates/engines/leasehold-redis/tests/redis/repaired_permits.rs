//! Semaphores of which a key was lost, and semaphores with a part of a request: Redis that has cut off the end of its
//! append-only file within a transaction executes the transaction's beginning at its next start.

use leasehold_core::backend::{Answer, Renewed, Verdict};
use leasehold_test_servers::{RedisServer, RedisSettings};

use crate::partial::{commands, cut_off, each_part};
use crate::permits::{Held, KINDS, Kind, LIMIT, Scene, asks, end, granted, renew};
use crate::side::Side;
use crate::{Test, plain, secs, test};

pub(crate) const TESTS: &[Test] = &[
    test!(a_semaphore_that_lost_one_of_its_keys_keeps_no_half_permit),
    test!(a_semaphore_with_a_part_of_a_change_keeps_all_whole_permits),
    test!(a_part_of_any_request_for_a_permit_ends_no_other_permit),
];

/// Takes all slots that are free, one by one.
async fn take_free(side: &mut Side) -> Vec<u32> {
    let mut taken = Vec::new();
    loop {
        let ask = asks(side, secs(30), 1).with_wait(false);
        match side.acquire(&ask).await {
            Answer::Permit { slots, .. } => taken.extend(slots),
            Answer::Busy { .. } => return taken,
            other => panic!("{other:?}"),
        }
    }
}

async fn a_semaphore_that_lost_one_of_its_keys_keeps_no_half_permit() {
    // It may be unknown which slots a permit had, or how the last permit of a slot ended.
    for (key, verdict) in [
        (":pe", Verdict::Lost),
        (":pi", Verdict::Unknown),
        (":pf", Verdict::Released),
        (":pm", Verdict::Unknown),
    ] {
        let kept = verdict == Verdict::Released;
        let server = plain();
        let mut side = Side::connect(&server.url()).await;
        let (one, two) = (asks(&mut side, secs(30), 1), asks(&mut side, secs(30), 1));
        let (held, free) = (granted(&side, &one).await, granted(&side, &two).await);
        side.release(&end(&two, &free)).await.unwrap();
        server.admin(&["DEL", &format!("leasehold:{{a}}{key}")]).unwrap();
        let expected = if kept { Renewed::Renewed } else { Renewed::Lost };
        assert_eq!(renew(&side, &one, &held).await.unwrap(), expected, "{key}");
        let next = asks(&mut side, secs(30), if kept { LIMIT - 1 } else { LIMIT });
        let after = granted(&side, &next).await;
        assert_eq!(after.1, if kept { vec![1, 2] } else { vec![0, 1, 2] }, "{key}");
        assert!(after.0.tokens.base() > held.0.tokens.base(), "{key}");
        assert_eq!(side.verdict(&end(&next, &after)).await, Verdict::Released, "{key}");
        assert_eq!(side.verdict(&end(&one, &held)).await, verdict, "{key}");
    }
}

async fn a_semaphore_with_a_part_of_a_change_keeps_all_whole_permits() {
    // The first permit has slot 0, and the other one slot 2. An attempt that the client does not know has the letter f.
    let other = "f".repeat(32);
    let permit = |base: &str, slots: &str| format!("{other}O{base}{base}{base}{slots};0000");
    let (early, late) = (permit("0000000000000001", "0"), permit("9007199254740000", "0"));
    let end_of_other = "9007199254740000";
    for (changes, kept) in [
        (vec![vec![":pf", "ZADD", "0", "0"]], [true, true]),
        (vec![vec![":pf", "ZREM", "1"]], [true, true]),
        (vec![vec![":pe", "ZREMRANGEBYRANK", "0", "0"]], [false, true]),
        (vec![vec![":pi", "ZREMRANGEBYRANK", "0", "0"]], [false, true]),
        (vec![vec![":pe", "ZADD", end_of_other, &other]], [true, true]),
        (vec![vec![":pi", "ZADD", "0", &late]], [true, true]),
        (
            vec![vec![":pe", "ZADD", end_of_other, &other], vec![":pi", "ZADD", "0", &early]],
            [true, true],
        ),
        // It was granted later, so the first one had ended.
        (
            vec![vec![":pe", "ZADD", end_of_other, &other], vec![":pi", "ZADD", "0", &late]],
            [false, true],
        ),
        // As many members as before, but others.
        (
            vec![vec![":pe", "ZREMRANGEBYRANK", "0", "0"], vec![":pe", "ZADD", "1", &other]],
            [false, true],
        ),
    ] {
        let server = plain();
        let mut side = Side::connect(&server.url()).await;
        let asked = [(); 3].map(|()| asks(&mut side, secs(30), 1));
        let first = granted(&side, &asked[0]).await;
        let free = granted(&side, &asked[1]).await;
        let last = granted(&side, &asked[2]).await;
        side.release(&end(&asked[1], &free)).await.unwrap();
        for change in &changes {
            let key = format!("leasehold:{{a}}{}", change[0]);
            server.admin(&[&[change[1], &key], &change[2..]].concat()).unwrap();
        }
        let mut taken = take_free(&mut side).await;
        for (ask, held, kept) in [(&asked[0], &first, kept[0]), (&asked[2], &last, kept[1])] {
            let expected = if kept { Renewed::Renewed } else { Renewed::Lost };
            assert_eq!(renew(&side, ask, held).await.unwrap(), expected, "{changes:?}");
            if kept {
                taken.extend(&held.1);
            }
        }
        taken.sort_unstable();
        let is_of_other = changes.iter().any(|change| change.last() == Some(&late.as_str()));
        let expected = if is_of_other && !kept[0] { vec![1, 2] } else { vec![0, 1, 2] };
        assert_eq!(taken, expected, "{changes:?}");
    }
}

async fn a_part_of_any_request_for_a_permit_ends_no_other_permit() {
    each_part(&KINDS, a_part).await;
}

/// Cuts the file within a command of the request. False if it has fewer commands.
async fn a_part(kind: Kind, cut: usize) -> bool {
    let what = format!("{kind:?}, {cut} commands");
    let mut server = RedisServer::start(RedisSettings::new().append_only()).unwrap();
    let mut side = Side::connect(&server.url()).await;
    let beside = asks(&mut side, secs(30), 1);
    let held = granted(&side, &beside).await;
    let scene = Scene::set(&mut side, kind, secs(30)).await;
    let before = server.aof_bytes().unwrap();
    scene.send(&side, kind).await.unwrap();
    let appended = server.appended_after(before).unwrap();
    let Some(&kept) = commands(&appended).get(cut) else { return false };
    cut_off(&mut server, appended.len() - kept);

    // A permit that is granted after it, and the restart that executes the part of the request.
    let mut writer = Side::connect(&server.url()).await;
    let ask = asks(&mut writer, secs(30), 1).with_wait(false);
    let granted: Option<Held> = match writer.acquire(&ask).await {
        Answer::Permit { grant, slots } => Some((grant, slots)),
        Answer::Busy { .. } => None,
        other => panic!("{what}: {other:?}"),
    };
    assert_eq!(renew(&writer, &beside, &held).await.unwrap(), Renewed::Renewed, "{what}");
    server.kill();
    server.start_again().unwrap();

    let mut side = Side::connect(&server.url()).await;
    let taken = take_free(&mut side).await;
    for (ask, held) in [(&beside, Some(&held)), (&ask, granted.as_ref())] {
        let Some(held) = held else { continue };
        assert!(taken.iter().all(|slot| !held.1.contains(slot)), "{what}: {taken:?}");
        assert_eq!(renew(&side, ask, held).await.unwrap(), Renewed::Renewed, "{what}");
        assert_eq!(side.verdict(&end(ask, held)).await, Verdict::Released, "{what}");
    }
    for key in server.admin(&["KEYS", "*"]).unwrap().items() {
        let key = key.text();
        let is_kept = key == "leasehold:{a}" && kind == Kind::Limit;
        // Without its record a tombstone refuses no request.
        if !is_kept && !key.ends_with(":t") {
            let left = server.admin(&["PTTL", &key]).unwrap().integer();
            assert!(left > Some(0), "{key} stays: {what}");
        }
    }
    true
}

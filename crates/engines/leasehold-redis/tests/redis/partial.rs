//! Redis that has cut off the end of its append-only file within a transaction keeps the transaction's beginning in
//! the file. It executes it at its next start, as a part of the next transaction.

use leasehold_conformance::until;
use leasehold_core::backend::{Answer, Backend, Grant, Mode, Renewed, Verdict};
use leasehold_core::{State, Token};
use leasehold_test_servers::{RedisServer, RedisSettings};

use crate::readers::{KINDS, Kind, Scene};
use crate::side::{Side, name, release};
use crate::{Test, secs, test};

pub(crate) const TESTS: &[Test] = &[
    test!(a_part_of_any_request_of_a_reader_repeats_no_token_and_blocks_no_client),
    test!(a_rewritten_file_keeps_what_was_locked_after_the_end_was_cut_off),
    test!(readers_of_a_phase_that_came_back_have_a_token_below_the_next_writers),
];

/// Where the commands begin that a request wrote, but for the first one.
pub(crate) fn commands(appended: &[u8]) -> Vec<usize> {
    appended.windows(3).enumerate().filter(|(_, at)| at == b"\r\n*").map(|(at, _)| at + 2).collect()
}

/// Tries a request of each kind, cut off after each of its commands; `part` says whether it has so many.
pub(crate) async fn each_part<K: Copy>(kinds: &[K], part: impl AsyncFn(K, usize) -> bool) {
    let mut parts = 0;
    for kind in kinds {
        let mut cut = 0;
        while part(*kind, cut).await {
            cut += 1;
        }
        parts += cut;
    }
    assert!(parts > 30, "requests of {parts} commands");
}

/// Cuts the file off so many bytes before its end, where a command begins, and starts the server again.
pub(crate) fn cut_off(server: &mut RedisServer, bytes: usize) {
    server.kill();
    // The first bytes of the command stay, so that the server finds the file cut off.
    server.truncate_aof((bytes - 3) as u64).unwrap();
    server.start_again().unwrap();
}

async fn a_part_of_any_request_of_a_reader_repeats_no_token_and_blocks_no_client() {
    each_part(&KINDS, a_part).await;
}

/// Cuts the file within a command of the request. False if it has fewer commands.
async fn a_part(kind: Kind, cut: usize) -> bool {
    let settings = RedisSettings::new().append_only();
    let mut server = RedisServer::start(settings).unwrap();
    let mut side = Side::connect(&server.url()).await;
    let scene = Scene::set(&mut side, kind, secs(30)).await;
    let before = server.aof_bytes().unwrap();
    scene.send(&side, kind).await.unwrap();
    let appended = server.appended_after(before).unwrap();
    let Some(&kept) = commands(&appended).get(cut) else { return false };
    let mut last = scene.grant.map(|grant| grant.tokens.base());
    if let Some(token) = side.status().await.token {
        last = last.max(Some(token));
    }
    cut_off(&mut server, appended.len() - kept);

    // A transaction after it: its end is that of the one that was cut off.
    let mut writer = Side::connect(&server.url()).await;
    let write = writer.request(secs(30));
    let what = format!("{kind:?}, {cut} commands");
    if let Answer::Granted(grant) = writer.acquire(&write).await {
        assert!(Some(grant.tokens.base()) > last, "{what}");
        last = Some(grant.tokens.base());
    }
    server.kill();
    server.start_again().unwrap();
    goes_on(&server, last, &what).await;
    true
}

/// What follows the beginning of a transaction belongs to it, up to the end of the next transaction, and Redis drops a
/// transaction without an end at its next start.
async fn a_rewritten_file_keeps_what_was_locked_after_the_end_was_cut_off() {
    let mut server = RedisServer::start(RedisSettings::new().append_only()).unwrap();
    let mut side = Side::connect(&server.url()).await;
    let before = server.aof_bytes().unwrap();
    let read = side.request(secs(30)).with_mode(Mode::Shared).with_tokens(1);
    side.granted(&read).await;
    let appended = server.appended_after(before).unwrap();
    // SELECT, MULTI, and the first bytes of another command stay.
    cut_off(&mut server, appended.len() - commands(&appended)[1]);
    server.rewrite_aof().unwrap();

    let mut side = Side::connect(&server.url()).await;
    let before = server.aof_bytes().unwrap();
    let write = side.request(secs(30));
    let grant = side.granted(&write).await;
    let appended = String::from_utf8(server.appended_after(before).unwrap()).unwrap();
    assert!(!appended.contains("MULTI"), "the test needs a single command: {appended}");
    server.kill();
    server.start_again().unwrap();
    let mut side = Side::connect(&server.url()).await;
    let other = side.request(secs(30)).with_wait(false);
    assert!(matches!(side.acquire(&other).await, Answer::Busy { .. }));
    assert_eq!(side.renew(&write, grant).await.unwrap(), Renewed::Renewed);
}

/// The end of the file is lost after a phase of readers and a writer. A fence that has seen the writer's token takes that of
/// the readers for stale. A later writer has a larger token than all.
async fn readers_of_a_phase_that_came_back_have_a_token_below_the_next_writers() {
    let mut server = RedisServer::start(RedisSettings::new().append_only()).unwrap();
    let mut side = Side::connect(&server.url()).await;
    let read = side.request(secs(60)).with_mode(Mode::Shared).with_tokens(1);
    let phase = side.granted(&read).await;
    let before = server.aof_bytes().unwrap();
    assert_eq!(side.verdict(&release(&read, phase)).await, Verdict::Released);
    let write = side.request(secs(30));
    let written = side.granted(&write).await;
    assert_eq!(side.verdict(&release(&write, written)).await, Verdict::Released);
    let lost = server.appended_after(before).unwrap();
    cut_off(&mut server, lost.len());

    let mut side = Side::connect(&server.url()).await;
    let again = side.request(secs(60)).with_mode(Mode::Shared).with_tokens(1);
    let joined = side.granted(&again).await;
    assert_eq!(joined.tokens.base(), phase.tokens.base());
    assert!(joined.tokens.base() < written.tokens.base());
    let write = side.request(secs(60));
    side.queued(&write).await;
    let last = side.request(secs(60)).with_mode(Mode::Shared).with_wait(false);
    assert!(matches!(side.acquire(&last).await, Answer::Busy { .. }), "beside a waiting writer");
    for (reader, grant) in [(&read, phase), (&again, joined)] {
        assert_eq!(side.verdict(&release(reader, grant)).await, Verdict::Released);
    }
    assert!(side.granted(&write).await.tokens.base() > written.tokens.base());
}

/// Ends what is held by force. Readers and writers then take turns, with tokens above the last one.
async fn goes_on(server: &RedisServer, mut last: Option<Token>, what: &str) {
    let mut side = Side::connect(&server.url()).await;
    let free = || async {
        let status = side.status().await;
        if let Some(token) = status.token.filter(|_| status.state != State::Free) {
            side.backend.force_release(&name(), token).await.unwrap();
        }
        status.state == State::Free
    };
    until(&format!("it is free: {what}"), free).await.unwrap();
    for _ in 0..2 {
        let reads = [(); 2].map(|()| side.request(secs(30)).with_mode(Mode::Shared).with_tokens(1));
        let mut grants = Vec::new();
        for read in &reads {
            grants.push(side.granted(read).await);
        }
        let base = |grant: &Grant| grant.tokens.base();
        assert!(Some(base(&grants[0])) > last, "a reader's token: {what}");
        assert_eq!(base(&grants[0]), base(&grants[1]), "{what}");
        let write = side.request(secs(30));
        side.queued(&write).await;
        for (read, grant) in reads.iter().zip(&grants) {
            assert_eq!(side.verdict(&release(read, *grant)).await, Verdict::Released, "{what}");
        }
        let (attempt, grant) = side.pushed().await;
        assert_eq!(attempt, write.attempt, "{what}");
        assert!(base(&grant) > base(&grants[0]), "a writer's token: {what}");
        assert_eq!(side.verdict(&release(&write, grant)).await, Verdict::Released, "{what}");
        last = Some(base(&grant));
    }
    for key in server.admin(&["KEYS", "*"]).unwrap().items() {
        let key = key.text();
        if key.ends_with(":t") {
            // Without its record a tombstone refuses no request. The next one under this name makes the key expire.
            continue;
        }
        assert!(server.admin(&["PTTL", &key]).unwrap().integer() > Some(0), "{key} stays: {what}");
    }
}

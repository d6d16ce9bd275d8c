//! Readers of several processes: who enters when, the dead, the stopped, and clients from before
//! there were readers.

use std::collections::HashMap;
use std::io::Write;
use std::time::Duration;

use leasehold_core::backend::{
    AcquireRequest, Answer, Backend, Event, EventSink, Grant, Mode, Renewal, Renewed, Verdict,
};
use leasehold_core::clock::{Clock, ManualClock};
use leasehold_core::{AttemptId, ClientId, ErrorKind, State, Token};
use leasehold_file::FileBackend;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use nix::sys::signal::Signal;

use crate::helper::Helper;
use crate::kit::{Kit, SOON, attempt, name, request, until, walk};

/// After this a waiter that is stopped is passed by the next.
const PASSED_WITHIN: Duration = Duration::from_millis(800);

fn reads(attempt: AttemptId) -> AcquireRequest {
    request("a", attempt, true).with_mode(Mode::Shared)
}

fn writes(attempt: AttemptId) -> AcquireRequest {
    request("a", attempt, true)
}

/// Asks once; the grant, if there is one.
async fn ask(kit: &Kit, request: &AcquireRequest) -> Option<Grant> {
    match kit.backend.acquire(request.clone()).await.unwrap() {
        Answer::Granted(grant) => Some(grant),
        Answer::Queued { .. } => None,
        other => panic!("{other:?}"),
    }
}

async fn enters(kit: &Kit, request: &AcquireRequest) -> Token {
    ask(kit, request).await.unwrap_or_else(|| panic!("{request:?} waits")).tokens.base()
}

async fn waits(kit: &Kit, request: &AcquireRequest) {
    let granted = ask(kit, request).await;
    assert!(granted.is_none(), "{request:?}: {granted:?}");
}

async fn leaves(kit: &Kit, request: &AcquireRequest, token: Token) {
    assert_eq!(kit.release("a", request.attempt, token).await, Verdict::Released);
}

async fn until_waiting(kit: &Kit, count: usize) {
    until("so many wait", SOON, async || {
        let waiters = kit.status("a").await.waiters.unwrap();
        (waiters.len() == count).then_some(())
    })
    .await;
}

#[tokio::test]
async fn all_readers_that_wait_when_a_writer_leaves_enter_before_the_next_and_later_ones_do_not() {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::open(dir.path());
    let (holder, before) = kit.lock("a").await;
    let all = [reads, writes, reads, writes, reads].map(|mode| mode(attempt()));
    for request in &all {
        waits(&kit, request).await;
    }
    kit.release("a", holder, before).await;
    waits(&kit, &all[1]).await;
    let phase = enters(&kit, &all[2]).await;
    assert!(phase > before);
    let late = reads(attempt());
    waits(&kit, &late).await;
    assert_eq!(enters(&kit, &all[0]).await, phase);
    // Also when the others have left already: it belongs to the phase.
    leaves(&kit, &all[0], phase).await;
    leaves(&kit, &all[2], phase).await;
    assert_eq!(kit.status("a").await.state, State::Free);
    waits(&kit, &all[1]).await;
    waits(&kit, &late).await;
    assert_eq!(enters(&kit, &all[4]).await, phase);
    waits(&kit, &all[1]).await;
    leaves(&kit, &all[4], phase).await;
    waits(&kit, &late).await;
    waits(&kit, &all[3]).await;
    let write = enters(&kit, &all[1]).await;
    assert!(write > phase);
    waits(&kit, &late).await;
    leaves(&kit, &all[1], write).await;
    waits(&kit, &all[3]).await;
    let next = enters(&kit, &late).await;
    assert!(next > write);
    waits(&kit, &all[3]).await;
    leaves(&kit, &late, next).await;
    let last = enters(&kit, &all[3]).await;
    leaves(&kit, &all[3], last).await;
    assert_eq!(walk(dir.path()), ["format", "locks/a.json", "locks/a.lock"]);
}

#[tokio::test]
async fn a_reader_behind_two_writers_is_woken_when_the_first_enters_and_when_it_leaves() {
    let dir = tempfile::tempdir().unwrap();
    let (kit, other) = (Kit::open(dir.path()), Kit::open(dir.path()));
    let first = reads(attempt());
    let phase = enters(&kit, &first).await;
    let writers = [writes(attempt()), writes(attempt())];
    for writer in &writers {
        waits(&kit, writer).await;
    }
    let reader = reads(attempt());
    waits(&other, &reader).await;
    leaves(&kit, &first, phase).await;
    let write = enters(&kit, &writers[0]).await;
    until("the push of the entry", SOON, async || (other.heard() > 0).then_some(())).await;
    waits(&other, &reader).await;
    let heard = other.heard();
    leaves(&kit, &writers[0], write).await;
    until("the push of the end", SOON, async || (other.heard() > heard).then_some(())).await;
    assert!(enters(&other, &reader).await > write);
}

#[tokio::test]
async fn readers_enter_when_the_writer_before_them_gives_up() {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::open(dir.path());
    let first = reads(attempt());
    let phase = enters(&kit, &first).await;
    let writer = writes(attempt());
    waits(&kit, &writer).await;
    let second = reads(attempt());
    waits(&kit, &second).await;
    kit.end_attempt("a", writer.attempt).await;
    assert_eq!(enters(&kit, &second).await, phase);
    // The renewal tells a reader that a writer waits, and a grant does.
    assert_eq!(kit.renew("a", first.attempt, phase).await, Renewed::Renewed);
    waits(&kit, &writes(attempt())).await;
    assert_eq!(kit.renew("a", first.attempt, phase).await, Renewed::Wanted);
    assert!(ask(&kit, &second).await.unwrap().wanted);
}

#[tokio::test]
async fn a_phase_that_no_writer_was_before_takes_no_reader_past_a_writer() {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::open(dir.path());
    let first = reads(attempt());
    let phase = enters(&kit, &first).await;
    let [given_up, early, writer, late] =
        [writes, reads, writes, reads].map(|mode| mode(attempt()));
    for request in [&given_up, &early, &writer, &late] {
        waits(&kit, request).await;
    }
    leaves(&kit, &first, phase).await;
    kit.end_attempt("a", given_up.attempt).await;
    waits(&kit, &late).await;
    waits(&kit, &writer).await;
    let next = enters(&kit, &early).await;
    assert!(next > phase);
    waits(&kit, &late).await;
    leaves(&kit, &early, next).await;
    waits(&kit, &late).await;
    enters(&kit, &writer).await;
}

#[tokio::test]
async fn a_reader_is_told_when_a_writer_of_another_process_begins_to_wait() {
    let dir = tempfile::tempdir().unwrap();
    let backend = FileBackend::open(dir.path(), Clock::system()).unwrap();
    let (sink, mut events) = EventSink::channel();
    backend.attach(ClientId::from_bits(1), sink);
    let reader = reads(attempt());
    let answer = backend.acquire(reader.clone()).await.unwrap();
    assert!(matches!(answer, Answer::Granted(Grant { wanted: false, .. })), "{answer:?}");
    let beside = Helper::start(&["read", dir.path().to_str().unwrap(), "a"]);
    let kit = Kit::open(dir.path());
    until("the other reads", SOON, async || {
        (kit.status("a").await.readers.len() == 2).then_some(())
    })
    .await;
    drop(beside);
    until("it has gone", SOON, async || (kit.status("a").await.readers.len() == 1).then_some(()))
        .await;
    assert!(events.try_recv().is_none(), "told of a reader");
    let _writer = Helper::start(&["hold", dir.path().to_str().unwrap(), "a"]);
    let event = tokio::time::timeout(SOON, events.recv()).await.unwrap();
    let Some(Event::Wanted { attempt, .. }) = event else { panic!("{event:?}") };
    assert_eq!(attempt, reader.attempt);
}

/// Redisson PR 7098 and PR 7251: the renewal of one reader prolonged the lease of another, dead one.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_is_killed_leaves_and_is_not_shown() {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::open(dir.path());
    let mut dead = Helper::start(&["read", dir.path().to_str().unwrap(), "a"]);
    let token: u64 = dead.next().unwrap().parse().unwrap();
    let reader = reads(attempt());
    assert_eq!(enters(&kit, &reader).await.get(), token);
    let status = kit.status("a").await;
    assert_eq!((status.state, status.readers.len()), (State::Shared, 2));
    dead.signal(Signal::SIGKILL);
    assert!(dead.was_killed());
    let status = kit.status("a").await;
    assert_eq!(status.readers.len(), 1, "{status:?}");
    assert_eq!(status.readers[0].attempt, reader.attempt);
    let writer = writes(attempt());
    waits(&kit, &writer).await;
    leaves(&kit, &reader, Token::new(token).unwrap()).await;
    let write = enters(&kit, &writer).await;
    leaves(&kit, &writer, write).await;
    // The next phase removes its card.
    let next = enters(&kit, &reads(attempt())).await;
    assert!(next > write);
    let cards = std::fs::read_dir(dir.path().join("locks/a.readers")).unwrap().count();
    assert_eq!(cards, 1);
}

/// A stopped waiter, the one behind it, and whether the lock is read or written before.
async fn passes_a_stopped_one(role: &str, behind: fn(AttemptId) -> AcquireRequest, before: Mode) {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::open(dir.path());
    let holder = match before {
        Mode::Shared => reads(attempt()),
        _ => writes(attempt()),
    };
    let token = enters(&kit, &holder).await;
    let mut stopped = Helper::start(&[role, dir.path().to_str().unwrap(), "a"]);
    until_waiting(&kit, 1).await;
    stopped.stop();
    let hand = ManualClock::new();
    let waiter = Kit::with_clock(dir.path(), hand.clock());
    let request = behind(attempt());
    let answer = waiter.backend.acquire(request.clone()).await.unwrap();
    let Answer::Queued { mut ask_again, .. } = answer else { panic!("{answer:?}") };
    leaves(&kit, &holder, token).await;
    let mut waited = Duration::ZERO;
    let passed = loop {
        hand.advance(ask_again);
        waited += ask_again;
        assert!(waited <= PASSED_WITHIN, "{role} is waited for after {waited:?}");
        match waiter.backend.acquire(request.clone()).await.unwrap() {
            Answer::Granted(grant) => break grant.tokens.base(),
            Answer::Queued { ask_again: next, .. } => ask_again = next,
            other => panic!("{other:?}"),
        }
        assert!(!ask_again.is_zero(), "it asks without a pause");
    };
    if request.mode == Mode::Shared {
        assert!(passed > token, "a phase that passes a writer is a new one");
    }
    stopped.signal(Signal::SIGCONT);
    waiter.release("a", request.attempt, passed).await;
    assert!(stopped.next().unwrap().parse::<u64>().unwrap() >= passed.get());
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_pass_a_writer_that_is_stopped_and_writers_a_reader_within_the_bound() {
    passes_a_stopped_one("hold", reads, Mode::Shared).await;
    passes_a_stopped_one("read", writes, Mode::Exclusive).await;
}

#[tokio::test]
async fn a_directory_that_is_removed_is_a_loss_for_all_readers() {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::open(dir.path());
    let all = [reads(attempt()), reads(attempt())];
    let token = enters(&kit, &all[0]).await;
    enters(&kit, &all[1]).await;
    std::fs::remove_dir_all(dir.path().join("locks")).unwrap();
    let writer = writes(attempt());
    let next = enters(&kit, &writer).await;
    assert!(next > token);
    for reader in &all {
        assert_eq!(kit.renew("a", reader.attempt, token).await, Renewed::Lost);
        assert_eq!(kit.release("a", reader.attempt, token).await, Verdict::Lost);
    }
    leaves(&kit, &writer, next).await;
}

#[tokio::test]
async fn a_phase_whose_record_cannot_be_written_holds_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::open(dir.path());
    // A directory in the place of the draft cannot be written by any user.
    let draft = dir.path().join("locks/a.tmp");
    std::fs::create_dir(&draft).unwrap();
    std::fs::write(draft.join("x"), "").unwrap();
    let reader = reads(attempt());
    kit.backend.acquire(reader.clone()).await.unwrap_err();
    assert_eq!(kit.status("a").await.state, State::Free);
    std::fs::remove_dir_all(&draft).unwrap();
    let token = enters(&kit, &writes(attempt())).await;
    assert!(token.get() > 1);
}

#[tokio::test]
async fn a_reader_whose_card_cannot_be_written_holds_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::open(dir.path());
    std::fs::write(dir.path().join("locks/a.readers"), "").unwrap();
    let error = kit.backend.acquire(reads(attempt())).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert_eq!(kit.status("a").await.state, State::Free);
}

/// What a client of revision c26c1cc does: the kernel's lock on byte 0, then the record without a mode.
#[tokio::test]
async fn a_client_from_before_there_were_readers_waits_for_them_and_they_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::open(dir.path());
    let reader = reads(attempt());
    let phase = enters(&kit, &reader).await;
    let mut options = std::fs::OpenOptions::new();
    let old = options.read(true).write(true).open(dir.path().join("locks/a.lock")).unwrap();
    let lock = |kind: i32| {
        let range = libc::flock {
            l_type: kind as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: 0,
            l_len: 1,
            l_pid: 0,
        };
        fcntl(&old, FcntlArg::F_OFD_SETLK(&range)).is_ok()
    };
    assert!(!lock(libc::F_WRLCK), "an old client writes beside a reader");
    leaves(&kit, &reader, phase).await;
    assert!(lock(libc::F_WRLCK));
    assert!(ask(&kit, &reads(attempt())).await.is_none(), "a reader beside an old client");
    let record = dir.path().join("locks/a.json");
    let mut text: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&record).unwrap()).unwrap();
    let own = phase.get() + 1_000_000_000_000;
    text["token"] = own.into();
    text.as_object_mut().unwrap().remove("read").expect("the record does not name the phase");
    let mut file = std::fs::File::create(&record).unwrap();
    write!(file, "{text}").unwrap();
    assert!(lock(libc::F_UNLCK));
    let next = reads(attempt());
    assert!(enters(&kit, &next).await.get() > own);
}

#[test]
fn a_writer_is_never_beside_a_reader_while_processes_are_killed() {
    const PROCESSES: usize = 5;
    const KILLS: usize = 60;
    let memory = std::path::Path::new("/dev/shm");
    let dir = tempfile::tempdir_in(memory).or_else(|_| tempfile::tempdir()).unwrap();
    let (store, witness) = (dir.path().join("store"), dir.path().join("witness"));
    for file in [&witness, &witness.with_extension("last")] {
        std::fs::write(file, "").unwrap();
    }
    let start = || {
        let (store, witness) = (store.to_str().unwrap(), witness.to_str().unwrap());
        Helper::start(&["read-and-write", store, "a", witness])
    };
    let mut helpers: Vec<Helper> = (0..PROCESSES).map(|_| start()).collect();
    let (mut holds, mut modes) = (0, HashMap::new());
    let mut last = 0;
    for kill in 0..KILLS {
        let victim = kill % PROCESSES;
        // At another point of its work each time.
        for _ in 0..=(kill * 7 % 11) {
            let line = helpers[victim].next().expect("it runs until it is killed");
            let words: Vec<&str> = line.split(' ').collect();
            let [mode, token, alone] = words[..] else { panic!("{line}") };
            let token: u64 = token.parse().unwrap();
            assert_eq!(alone, "true", "{line}: a writer beside another holder");
            holds += 1;
            let before = modes.insert(token, mode.to_owned());
            let shared = before.is_none_or(|before| before == "read" && mode == "read");
            assert!(shared, "token {token} was given to a writer and another one");
            last = last.max(token);
        }
        helpers[victim].signal(Signal::SIGKILL);
        helpers[victim] = start();
    }
    drop(helpers);
    assert!(holds > KILLS && modes.len() > 1, "{holds} holds");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let kit = Kit::open(&store);
        let (attempt, token) = kit.lock("a").await;
        assert!(token.get() > last);
        let renewal = Renewal::new(name("a"), attempt, token, SOON);
        assert!(matches!(kit.backend.renew(&[renewal]).await[..], [Ok(Renewed::Renewed)]));
        kit.release("a", attempt, token).await;
    });
}

#[tokio::test]
async fn forget_leaves_a_lock_that_clients_read_under_or_wait_for() {
    let dir = tempfile::tempdir().unwrap();
    let (kit, operator) = (Kit::open(dir.path()), Kit::open(dir.path()));
    let (one, two, writer) = (reads(attempt()), reads(attempt()), writes(attempt()));
    let phase = enters(&kit, &one).await;
    assert_eq!(enters(&kit, &two).await, phase);
    assert_eq!(operator.backend.forget("").unwrap(), 0, "two clients read");
    leaves(&kit, &one, phase).await;
    assert_eq!(operator.backend.forget("").unwrap(), 0, "a client reads");
    waits(&kit, &writer).await;
    leaves(&kit, &two, phase).await;
    assert_eq!(operator.backend.forget("").unwrap(), 0, "a client waits");
    let write = enters(&kit, &writer).await;
    assert!(write > phase);
    leaves(&kit, &writer, write).await;
    assert_eq!(operator.backend.forget("").unwrap(), 1);
    assert_eq!(walk(dir.path()), ["format"]);
    let again = reads(attempt());
    assert!(enters(&kit, &again).await > write);
}

//! Tests of the book: how acquires, releases and renewals of one attempt interact.

use leasehold_core::ClientId;

use super::*;

const NOW: Now = Now { steady_ns: 1_000_000_000, wall_ns: 1_000_000_000 };

fn attempt(number: u32) -> AttemptId {
    AttemptId::new(ClientId::from_bits(1), number, 0)
}

fn name() -> Name {
    Name::new("a").unwrap()
}

fn line() -> Line {
    Line { name: name(), permits: false }
}

fn later(secs: u64) -> Now {
    let ns = secs * 1_000_000_000;
    Now { steady_ns: NOW.steady_ns + ns, wall_ns: NOW.wall_ns + ns }
}

fn end(number: u32) -> ReleaseRequest {
    ReleaseRequest::new(name(), attempt(number)).with_suspect(true)
}

fn node(session: u64) -> OwnNode {
    OwnNode { path: "/l/a/x".into(), czxid: 7, session }
}

/// A book in which attempt 1 holds for ten seconds, in session 1.
fn held() -> Attempts {
    let mut book = Attempts::default();
    assert!(matches!(book.begin(attempt(1), &line(), 1), Begun::New));
    book.create(attempt(1), || ()).unwrap();
    assert!(book.set_node(attempt(1), node(1)));
    let until = Deadline::after(NOW, Duration::from_secs(9));
    let ends = Deadline::after(NOW, Duration::from_secs(10));
    let token = Token::new(7).unwrap();
    assert!(book.hold(attempt(1), Lease { node: node(1), token, until, ends, slots: Vec::new() }));
    book
}

#[test]
fn late_nodes_are_removed_except_the_one_in_use() {
    let mut book = Attempts::default();
    let nodes = || vec!["/l/a/late".to_owned(), "/l/a/x".to_owned()];
    let due = |book: &mut Attempts, secs| book.late(later(secs), Duration::from_secs(1));
    book.begin(attempt(1), &line(), 1);
    book.create(attempt(1), || ()).unwrap();
    book.repeat(NOW, attempt(1));
    assert!(book.has_left() && due(&mut book, 0).is_empty());
    assert_eq!(due(&mut book, 1), [(line(), vec![attempt(1)])].into());
    assert!(due(&mut book, 1).is_empty());
    // Until it has a node, it may use any of them.
    assert_eq!(book.superfluous(attempt(1), nodes()), None);
    book.create(attempt(1), || ()).unwrap();
    assert_eq!(book.superfluous(attempt(1), nodes()), None);
    assert!(book.set_node(attempt(1), node(1)));
    assert_eq!(book.superfluous(attempt(1), nodes()).unwrap(), ["/l/a/late"]);
    book.end(NOW, &end(1));
    assert_eq!(book.superfluous(attempt(1), nodes()).unwrap(), nodes());
    for second in [3, 5, 7] {
        assert_eq!(due(&mut book, second).len(), 1);
        book.searched(attempt(1));
    }
    assert!(due(&mut book, 9).is_empty());
}

#[test]
fn nothing_is_created_for_an_attempt_that_has_ended() {
    let mut book = Attempts::default();
    assert_eq!(book.end(NOW, &end(1)), (Verdict::Gone, false));
    assert!(matches!(book.begin(attempt(1), &line(), 1), Begun::Ended));
    assert!(book.create(attempt(1), || ()).is_none());
    assert!(!book.set_node(attempt(1), node(1)));
}

#[test]
fn a_creation_without_an_answer_is_looked_for_by_whoever_comes_next() {
    let mut book = Attempts::default();
    book.begin(attempt(1), &line(), 1);
    book.create(attempt(1), || ()).unwrap();
    assert!(matches!(book.begin(attempt(1), &line(), 1), Begun::Search));
    assert_eq!(book.end(NOW, &end(1)), (Verdict::Gone, true));
    let (_, left) = book.clear(attempt(1)).unwrap();
    assert!(left.search && left.path.is_none());
}

#[test]
fn a_seat_of_an_earlier_session_is_looked_for_and_never_claimed() {
    let mut book = Attempts::default();
    book.begin(attempt(1), &line(), 1);
    book.create(attempt(1), || ()).unwrap();
    book.set_node(attempt(1), node(1));
    assert!(matches!(book.begin(attempt(1), &line(), 1), Begun::Queued(_)));
    assert!(matches!(book.begin(attempt(1), &line(), 2), Begun::Search));
}

#[test]
fn a_lease_is_over_with_its_session_and_with_its_time() {
    let mut book = held();
    assert!(matches!(book.begin(attempt(1), &line(), 2), Begun::Ended));
    assert_eq!(book.lose_session(NOW, 2), []);
    assert_eq!(book.lose_session(NOW, 1), [attempt(1)]);
    assert_eq!(book.end(NOW, &end(1)).0, Verdict::Lost);
    let mut book = held();
    assert_eq!(book.due(later(9)), []);
    assert_eq!(book.due(later(10)), [attempt(1)]);
    assert_eq!(book.end(later(10), &end(1)), (Verdict::Lost, true));
    assert_eq!(book.next_end(), None);
}

#[test]
fn a_renewal_moves_the_end_and_never_back() {
    let mut book = held();
    for secs in [20, 5] {
        let ends = Deadline::after(NOW, Duration::from_secs(secs));
        assert!(book.renew(attempt(1), ends, ends));
        assert_eq!(book.next_end(), Some(later(20).steady_ns));
    }
    book.end(NOW, &end(1));
    let ends = Deadline::after(NOW, Duration::from_secs(99));
    assert!(!book.renew(attempt(1), ends, ends), "a released lease was renewed");
}

#[test]
fn a_release_that_finds_nothing_has_lost_unless_it_was_sent_before() {
    for (found, tried, verdict) in [
        (true, false, Verdict::Released),
        (false, false, Verdict::Lost),
        (false, true, Verdict::Unknown),
    ] {
        let mut book = held();
        assert_eq!(book.end(NOW, &end(1)), (Verdict::Released, true));
        assert_eq!(book.cleared(attempt(1), found, tried), verdict);
        assert_eq!(book.end(NOW, &end(1)), (verdict, false), "a repeated release");
    }
}

#[test]
fn what_is_left_is_remembered_until_it_is_removed() {
    let mut book = held();
    book.end(NOW, &end(1));
    for secs in 1..2_000 {
        book.end(later(secs), &end(secs as u32 + 1));
    }
    assert!(book.has_left());
    assert_eq!(book.left_behind(later(2_000), Duration::from_secs(1)), [attempt(1)]);
    assert_eq!(book.left_behind(later(2_000), Duration::from_secs(1)), []);
    book.cleared(attempt(1), true, false);
    assert!(!book.has_left());
    assert!(book.known.len() < 400, "{}", book.known.len());
}

fn lease(token: u64) -> Lease {
    let until = Deadline::after(NOW, Duration::from_secs(9));
    let ends = Deadline::after(NOW, Duration::from_secs(10));
    Lease { node: node(1), token: Token::new(token).unwrap(), until, ends, slots: Vec::new() }
}

fn convert(book: &mut Attempts, next: u32) -> Conversion {
    book.convert((attempt(1), Token::new(7)), attempt(next), &name(), 1)
}

#[test]
fn a_converted_lease_is_that_of_the_next_attempt_alone() {
    let mut book = held();
    assert!(matches!(convert(&mut book, 2), Conversion::New(_)));
    book.create(attempt(2), || ()).unwrap();
    assert!(matches!(convert(&mut book, 2), Conversion::Search(_)), "its answer is not known");
    assert!(book.converted(NOW, attempt(1), attempt(2), lease(8)));
    assert!(matches!(convert(&mut book, 2), Conversion::Done(_)));
    assert!(matches!(convert(&mut book, 3), Conversion::Over(None)), "converted twice");
    // The end of the first lease removes no node.
    assert_eq!(book.end(NOW, &end(1)), (Verdict::Released, false));
    assert!(book.lease(attempt(2), Token::new(8).unwrap()).is_some());
    assert_eq!(book.end(NOW, &end(2)), (Verdict::Released, true));
    assert!(matches!(convert(&mut book, 2), Conversion::Over(None)));
}

#[test]
fn a_refused_conversion_stays_refused_and_the_lease_goes_on() {
    let mut book = held();
    convert(&mut book, 2);
    book.refuse(NOW, attempt(2));
    assert!(matches!(convert(&mut book, 2), Conversion::Over(Some(_))));
    assert!(book.lease(attempt(1), Token::new(7).unwrap()).is_some());
    assert!(!book.has_left(), "nothing was sent");
}

#[test]
fn a_conversion_of_a_lease_that_has_ended_leaves_its_node_to_be_removed() {
    let mut book = held();
    convert(&mut book, 2);
    book.create(attempt(2), || ()).unwrap();
    book.lose(NOW, attempt(1));
    assert!(!book.converted(NOW, attempt(1), attempt(2), lease(8)));
    let (_, left) = book.clear(attempt(2)).unwrap();
    assert_eq!(left.path.as_deref(), Some("/l/a/x"));
    // The other way round: the next attempt was ended before the answer arrived.
    let mut book = held();
    convert(&mut book, 3);
    book.create(attempt(3), || ()).unwrap();
    assert_eq!(book.end(NOW, &end(3)), (Verdict::Gone, true));
    assert!(!book.converted(NOW, attempt(1), attempt(3), lease(8)));
    assert!(book.has_left() && book.expects_late(attempt(3)));
}

//! Sets of numbers: all kinds give the same answers.

use std::collections::BTreeSet;

use leasehold_filters::ErrorKind;
use leasehold_filters::bitmap::{Dense, Operation, Redis, Sparse};
use leasehold_test_servers::{RedisServer, Value};
use proptest::test_runner::{Config, TestRunner};

use super::{Test, secs, server, test};

pub(crate) const TESTS: &[Test] = &[
    test!(sets_are_sets_and_sort),
    test!(the_algebra_is_that_of_sets),
    test!(redis_says_the_same),
    test!(a_large_number_takes_one_chunk),
    test!(bad_input_is_refused),
];

const ALL: [Operation; 4] = [Operation::And, Operation::Or, Operation::Xor, Operation::AndNot];

fn plain(operation: Operation, a: &BTreeSet<u64>, b: &BTreeSet<u64>) -> Vec<u64> {
    match operation {
        Operation::And => a.intersection(b).copied().collect(),
        Operation::Or => a.union(b).copied().collect(),
        Operation::Xor => a.symmetric_difference(b).copied().collect(),
        Operation::AndNot => a.difference(b).copied().collect(),
        other => panic!("{other:?}"),
    }
}

fn property(test: impl Fn(BTreeSet<u64>, BTreeSet<u64>)) {
    let numbers = || proptest::collection::btree_set(0..1_000_u64, 0..300);
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::default() });
    let run = |(a, b)| {
        test(a, b);
        Ok(())
    };
    runner.run(&(numbers(), numbers()), run).unwrap();
}

async fn sets_are_sets_and_sort() {
    property(|numbers, removed| {
        let (dense, mut sparse) = (Dense::new(1_000).unwrap(), Sparse::new());
        // The largest first.
        for number in numbers.iter().rev() {
            assert!(dense.insert(*number).unwrap() && sparse.insert(*number));
            assert!(!dense.insert(*number).unwrap() && !sparse.insert(*number));
        }
        for number in &removed {
            let was = numbers.contains(number);
            assert_eq!((dense.contains(*number), sparse.contains(*number)), (was, was));
            assert_eq!((dense.remove(*number), sparse.remove(*number)), (was, was));
        }
        let left = plain(Operation::AndNot, &numbers, &removed);
        assert_eq!(dense.iter().collect::<Vec<_>>(), left);
        assert_eq!(sparse.iter().collect::<Vec<_>>(), left);
        assert_eq!((dense.len(), sparse.len()), (left.len() as u64, left.len() as u64));
        assert_eq!((dense.is_empty(), sparse.is_empty()), (left.is_empty(), left.is_empty()));
    });
}

async fn the_algebra_is_that_of_sets() {
    property(|a, b| {
        let dense = |numbers: &BTreeSet<u64>| {
            let dense = Dense::new(numbers.last().map_or(0, |last| last + 1)).unwrap();
            numbers.iter().for_each(|number| assert!(dense.insert(*number).unwrap()));
            dense
        };
        let sparse = |numbers: &BTreeSet<u64>| numbers.iter().copied().collect::<Sparse>();
        for operation in ALL {
            let made = plain(operation, &a, &b);
            let of_dense = dense(&a).combined(operation, &dense(&b)).unwrap();
            assert_eq!(of_dense.iter().collect::<Vec<_>>(), made, "{operation:?}");
            let of_sparse = sparse(&a).combined(operation, &sparse(&b));
            assert_eq!(of_sparse.iter().collect::<Vec<_>>(), made, "{operation:?}");
        }
    });
}

fn open(server: &RedisServer, name: &str) -> Redis {
    Redis::open(&server.url(), name, secs(10)).unwrap()
}

async fn redis_says_the_same() {
    let server = server();
    let (one, other, made) = (open(&server, "one"), open(&server, "other"), open(&server, "made"));
    // In several chunks, some of which only one of them has; the second of a pair is the shorter.
    let spread = |factor: u64| (0..400).map(|number| number * number * factor).collect();
    let (a, b): (BTreeSet<u64>, BTreeSet<u64>) = (spread(21), spread(14));
    one.insert_many(&a.iter().copied().collect::<Vec<_>>()).await.unwrap();
    other.insert_many(&b.iter().copied().collect::<Vec<_>>()).await.unwrap();
    made.insert_many(&[7, u64::MAX]).await.unwrap();
    for operation in ALL {
        made.set_to(&one, operation, &other).await.unwrap();
        let numbers = plain(operation, &a, &b);
        assert_eq!(made.load().await.unwrap().iter().collect::<Vec<_>>(), numbers, "{operation:?}");
        assert_eq!(made.count().await.unwrap(), numbers.len() as u64);
    }
    // Into one of the two.
    one.set_to(&one, Operation::AndNot, &other).await.unwrap();
    let left = one.load().await.unwrap();
    assert_eq!(left.iter().collect::<Vec<_>>(), plain(Operation::AndNot, &a, &b));
    for set in [&one, &other, &made] {
        set.clear().await.unwrap();
        assert_eq!(set.count().await.unwrap(), 0);
    }
    assert_eq!(server.admin(&["DBSIZE"]).unwrap(), Value::Integer(0));
}

async fn a_large_number_takes_one_chunk() {
    let server = server();
    let set = open(&server, "large");
    for number in [0, 1 << 40, u64::MAX] {
        assert!(set.insert(number).await.unwrap());
        assert!(!set.insert(number).await.unwrap());
        assert!(set.contains(number).await.unwrap());
    }
    assert!(!set.contains(1 << 41).await.unwrap() && !set.remove(1 << 41).await.unwrap());
    assert_eq!(server.admin(&["DBSIZE"]).unwrap(), Value::Integer(4));
    let used: u64 = server.info("used_memory_dataset").unwrap().parse().unwrap();
    assert!(used < 2 << 20, "{used} bytes");
    assert!(set.remove(1 << 40).await.unwrap());
    assert_eq!(set.load().await.unwrap().iter().collect::<Vec<_>>(), [0, u64::MAX]);
}

async fn bad_input_is_refused() {
    let server = server();
    let dense = Dense::new(100).unwrap();
    let error = dense.insert(100).unwrap_err();
    assert_eq!(error.to_string(), "number is 100; it must be below 100");
    assert!(!dense.contains(100) && !dense.remove(u64::MAX));
    assert!(Dense::new(u64::MAX).unwrap_err().to_string().starts_with("bound is"));
    assert!(
        Redis::open(&server.url(), "a b", secs(1)).unwrap_err().to_string().starts_with("name")
    );
    let set = open(&server, "taken");
    server.admin(&["SET", "{leasehold-bitmap:taken}", "foreign"]).unwrap();
    assert_eq!(set.insert(1).await.unwrap_err().kind(), ErrorKind::Foreign);
    assert_eq!(set.count().await.unwrap_err().kind(), ErrorKind::Foreign);
}

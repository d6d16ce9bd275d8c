//! The promises of routing for every set of members, and values that other languages compute too.

use std::collections::HashMap;

use proptest::prelude::*;
use proptest::sample::Index;

use super::Members;
use super::hash::Key;
use crate::ErrorKind;

/// Sets with names of all kinds, half of them with equal weights.
fn sets(size: std::ops::Range<usize>) -> impl Strategy<Value = Vec<(String, f64)>> {
    let names = proptest::collection::btree_set("\\PC{1,12}", size);
    (names, any::<bool>(), any::<u64>()).prop_map(|(names, even, draw)| {
        let weight = |at: usize| match even {
            true => 1.0,
            false => 1.0 + (draw.rotate_left(7 * at as u32) % 9) as f64 / 2.0,
        };
        names.into_iter().enumerate().map(|(at, name)| (name, weight(at))).collect()
    })
}

fn set(members: &[(String, f64)]) -> Members {
    let add = |builder: super::MembersBuilder, (name, weight): &(String, f64)| {
        builder.weighted(name, *weight)
    };
    members.iter().fold(Members::builder(), add).build().unwrap()
}

/// `count` keys that no other draw of `seed` has.
fn keys(seed: u64, count: usize) -> impl Iterator<Item = String> {
    (0..count).map(move |at| format!("{seed:x}/{at}"))
}

fn counts(members: &Members, keys: impl Iterator<Item = String>) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for key in keys {
        *counts.entry(members.owner_of(key).to_owned()).or_default() += 1;
    }
    counts
}

proptest! {
    #[test]
    fn the_order_of_the_list_changes_nothing(
        list in sets(1..12),
        by in any::<Index>(),
        key in any::<Vec<u8>>(),
    ) {
        let mut turned = list.clone();
        turned.rotate_left(by.index(list.len()));
        turned.reverse();
        let (one, two) = (set(&list), set(&turned));
        prop_assert_eq!(one.owners_of(&key, list.len()), two.owners_of(&key, list.len()));
        prop_assert_eq!(one, two);
    }

    #[test]
    fn the_next_in_preference_owns_the_key_when_those_before_are_gone(
        list in sets(2..12),
        key in any::<Vec<u8>>(),
    ) {
        let mut members = set(&list);
        let order = members.owners_of(&key, usize::MAX).into_iter().map(str::to_owned);
        let order: Vec<_> = order.collect();
        prop_assert_eq!(order.len(), list.len());
        for (at, owner) in order.iter().enumerate() {
            prop_assert_eq!(members.owner_of(&key), owner);
            prop_assert_eq!(members.owners_of(&key, 2).len(), (order.len() - at).min(2));
            if at + 1 < order.len() {
                members = members.without(owner).unwrap();
            }
        }
    }

    #[test]
    fn only_the_keys_of_the_one_that_leaves_move(
        list in sets(2..12),
        who in any::<Index>(),
        seed: u64,
    ) {
        let before = set(&list);
        let leaving = &list[who.index(list.len())].0;
        let after = before.without(leaving).unwrap();
        prop_assert!(before.contains(leaving) && !after.contains(leaving));
        for key in keys(seed, 200) {
            let owner = before.owner_of(&key);
            if owner != leaving {
                prop_assert_eq!(owner, after.owner_of(&key));
            }
        }
        let back = after.with(leaving.as_str(), list[who.index(list.len())].1).unwrap();
        prop_assert_eq!(back, before);
    }

    #[test]
    fn a_new_weight_moves_keys_to_or_from_that_member_alone(
        list in sets(2..12),
        who in any::<Index>(),
        weight in 0.1_f64..10.0,
        seed: u64,
    ) {
        let before = set(&list);
        let (changed, old) = &list[who.index(list.len())];
        let after = before.with(changed.as_str(), weight).unwrap();
        for key in keys(seed, 200) {
            let (from, to) = (before.owner_of(&key), after.owner_of(&key));
            if from != to {
                prop_assert_eq!(if weight > *old { to } else { from }, changed);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4))]

    #[test]
    fn equal_members_own_equal_shares(names in proptest::collection::btree_set("\\PC{1,12}", 10), seed: u64) {
        let members = Members::new(names).unwrap();
        let counts = counts(&members, keys(seed, 100_000));
        // Within 5 % of the ideal 10,000: five standard deviations.
        prop_assert!(counts.len() == 10, "{counts:?}");
        prop_assert!(counts.values().all(|count| (9_500..=10_500).contains(count)), "{counts:?}");
    }

    #[test]
    fn weights_are_shares(weights in proptest::collection::vec(1_u32..=3, 4), seed: u64) {
        let list: Vec<_> =
            weights.iter().enumerate().map(|(at, w)| (format!("node-{at}"), f64::from(*w))).collect();
        let counts = counts(&set(&list), keys(seed, 100_000));
        for (name, weight) in list {
            let ideal = 100_000.0 * weight / f64::from(weights.iter().sum::<u32>());
            let off = counts[&name] as f64 / ideal - 1.0;
            prop_assert!(off.abs() < 0.05, "{name}: {off:+.3} of {counts:?}, weights {weights:?}");
        }
    }

    #[test]
    fn one_of_ten_that_leaves_moves_a_tenth_of_the_keys(who in 0_usize..10, seed: u64) {
        let before = Members::new((0..10).map(|at| format!("app-{at}"))).unwrap();
        let after = before.without(format!("app-{who}")).unwrap();
        let moved = keys(seed, 100_000).filter(|key| before.owner_of(key) != after.owner_of(key));
        let moved = moved.count();
        // Within one point of the ideal 10 %: ten standard deviations.
        prop_assert!((9_000..=11_000).contains(&moved), "{moved} of 100,000 keys moved");
    }
}

/// Computed by another program, from the `xxhash` package of Python and `math.log`.
#[test]
fn other_languages_compute_the_same_hashes() {
    for (key, member, hash) in [
        ("orders/555", "a", 0xa4d8_7679_bc48_e592),
        ("orders/555", "b", 0xba0b_d9b1_e82e_6a13),
        ("orders/555", "c", 0x99c7_dfcd_f7c4_2ea1),
        ("", "a", 0x2954_a8c1_d262_a51e),
        ("键", "实例-1", 0x24f4_94e7_26f5_355f),
        (&"x".repeat(40), "app-1.internal", 0xbccc_b09b_c68e_7771),
    ] {
        assert_eq!(Key::new(key.as_bytes()).with(member), hash, "{key:?} {member:?}");
    }
}

#[test]
fn other_languages_compute_the_same_owners() {
    let even = Members::new(["a", "b", "c", "d"]).unwrap();
    let weighted = Members::builder().weighted("a", 1.0).weighted("b", 2.0);
    let weighted = weighted.weighted("c", 3.5).weighted("d", 0.25).build().unwrap();
    for (key, equal, by_weight) in [
        ("orders/0", "cbad", "cbad"),
        ("orders/1", "dcab", "cdab"),
        ("orders/2", "dcab", "cbda"),
        ("orders/3", "acbd", "cbad"),
        ("orders/4", "cbad", "cbad"),
        ("orders/5", "dabc", "adcb"),
        ("orders/6", "bcad", "cbad"),
        ("orders/7", "dacb", "cadb"),
        ("orders/555", "badc", "cbad"),
        ("键", "dcba", "dcba"),
        ("", "dcba", "cdba"),
    ] {
        assert_eq!(even.owners_of(key, 4).concat(), equal, "{key:?}");
        assert_eq!(weighted.owners_of(key, 4).concat(), by_weight, "{key:?}");
        assert_eq!(weighted.owner_of(key), &by_weight[..1], "{key:?}");
    }
}

#[test]
fn a_wrong_list_names_the_field_the_value_and_what_is_allowed() {
    let of = |weight| Members::builder().member("a").weighted("b", weight).build();
    let none: [&str; 0] = [];
    for (list, message) in [
        (Members::new(none), "members: the list is empty; at least one member is needed"),
        (
            Members::new(["a"]).unwrap().without("a"),
            "members: the list is empty; at least one member is needed",
        ),
        (Members::new(["a", "b", "a"]), "member \"a\": occurs twice; name each member once"),
        (Members::new(["a", ""]), "member 2: name: is empty; a name has 1 to 512 bytes"),
        (
            Members::new(["x".repeat(513)]),
            "member 1: name: has 513 bytes; a name has 1 to 512 bytes",
        ),
        (
            Members::new(["a\0b"]),
            "member 1: name: has the control character U+0000 at byte 1; \
             a name is UTF-8 without control characters",
        ),
        (of(0.0), "weight of member \"b\": 0; 1e-6 to 1e12 is allowed"),
        (of(-1.0), "weight of member \"b\": -1; 1e-6 to 1e12 is allowed"),
        (of(f64::NAN), "weight of member \"b\": NaN; 1e-6 to 1e12 is allowed"),
        (of(f64::INFINITY), "weight of member \"b\": inf; 1e-6 to 1e12 is allowed"),
        (of(1.1e12), "weight of member \"b\": 1100000000000; 1e-6 to 1e12 is allowed"),
        (
            of(1.0).unwrap().with("c", 1e-7),
            "weight of member \"c\": 0.0000001; 1e-6 to 1e12 is allowed",
        ),
    ] {
        let error = list.unwrap_err();
        assert_eq!((error.kind(), error.message()), (ErrorKind::Invalid, message));
    }
    for (weight, name) in [(1e-6, "a".repeat(512)), (1e12, "名字".to_owned())] {
        Members::builder().member("other").weighted(name, weight).build().unwrap();
    }
}

#[test]
fn the_last_member_owns_everything() {
    let members = Members::builder().weighted("a", 7.0).build().unwrap();
    assert!(keys(1, 100).all(|key| members.owner_of(key) == "a"));
    assert_eq!(members.owners_of("k", 3), ["a"]);
    assert!(members.owners_of("k", 0).is_empty());
    assert_eq!(members.without("b").unwrap(), members);
    assert_eq!(members.iter().collect::<Vec<_>>(), [("a", 7.0)]);
}

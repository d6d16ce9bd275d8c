//! Many processes, one number: no update is lost, and tokens grow.

use crate::support::WorkDir;

#[test]
fn eight_loops_of_two_hundred_runs_count_to_sixteen_hundred() {
    let place = WorkDir::new();
    count(&place, &place.store());
}

/// Eight loops add one two hundred times each, under the lock of this store.
pub(crate) fn count(place: &WorkDir, store: &str) {
    count_in(place, store, 200);
}

/// The same so many times each.
pub(crate) fn count_in(place: &WorkDir, store: &str, times: usize) {
    place.write("number", "0\n");
    let step = "read n < number; echo $((n + 1)) > number; echo $LEASEHOLD_TOKEN >> tokens";
    let line = format!(
        "i=0; while [ $i -lt {times} ]; do i=$((i + 1))
         $LEASEHOLD --store {} run -q counter -- sh -c '{step}' || exit; done",
        store
    );
    let start = || place.program("sh").arg("-c").arg(&line).spawn().unwrap();
    let all: Vec<_> = (0..8).map(|_| start()).collect();
    for mut child in all {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(place.read("number"), format!("{}\n", 8 * times));
    let tokens: Vec<u64> =
        place.read("tokens").lines().map(|token| token.parse().unwrap()).collect();
    assert_eq!(tokens.len(), 8 * times);
    assert!(tokens.is_sorted_by(|a, b| a < b), "each larger than the one before");
}

//! Each story of a read-write lock or a semaphore goes wrong with the recipe, and not with Leasehold.

use std::collections::BTreeSet;

use leasehold_sim::lab::{
    Hold, Language, Practice, PrimitiveStory, PrimitiveTale, Want, draw_primitive,
    primitive_stories,
};

const SEEDS: std::ops::Range<u64> = 0..200;

/// What comes of each story: whether it goes wrong; who holds from which tenth of a second to which, with
/// which token and slot; who waits in vain.
const OUTCOMES: &[(&str, &str, &str)] = &[
    (
        "writer-starvation",
        "WRONG: r1 0.0-1.0, r2 0.4-1.4, r3 0.8-1.8, r1 1.3-2.3, r2 1.6-2.6, r3 2.0-3.0, r1 2.4-3.4, \
         r2 2.8-3.8, r3 3.2-4.2, r1 3.6-4.6, r2 4.0-end, r3 4.4-end, w1 in vain, w2 in vain, \
         writes 0/0, torn 0",
        "spared: r1 0.0-1.0 #33, r2 0.4-1.4 #33, r3 0.8-1.8 #33, w1 1.8-2.3 #34, r2 2.4-3.4 #35, \
         r1 2.4-3.4 #35, r3 2.4-3.4 #35, w2 3.4-3.9 #36, r2 3.9-4.9 #37, r1 3.9-4.9 #37, \
         r3 3.9-4.9 #37, r1 5.0-end #38, r2 5.0-end #38, r3 5.0-end #38, writes 0/0, torn 0",
    ),
    (
        "paused-writer",
        "WRONG: w1 0.0-29.7 #33, r2 30.0-45.0 #34, r1 30.0-44.0 #34, writes 1/0, torn 2",
        "spared: w1 0.0-29.7 #33, r2 30.0-45.0 #34, r1 30.0-44.0 #34, writes 0/1, torn 0",
    ),
    (
        "lost-permits",
        "WRONG: c1 0.0-5.0, c2 1.1-8.1, c3 8.2-12.0, c4 in vain, c5 in vain, writes 0/0, torn 0",
        "spared: c1 0.0-5.0 #33 in 0, c2 1.1-8.1 #33 in 1, c3 8.1-12.0 #34 in 1, c4 30.0-45.0 #34 in 0, \
         c5 38.1-44.1 #35 in 1, writes 0/0, torn 0",
    ),
];

fn story(name: &str) -> &'static PrimitiveStory {
    PrimitiveStory::find(name).expect("a story of this name")
}

fn tenths(time: u64) -> String {
    format!("{:.1}", time as f64 / 1000.0)
}

fn outcome(tale: &PrimitiveTale) -> String {
    let mut out = if tale.went_wrong() { "WRONG:" } else { "spared:" }.to_owned();
    for hold in tale.holds() {
        let until = hold.until.map_or_else(|| "end".to_owned(), tenths);
        out += &format!(" {} {}-{until}", short(tale, hold.client), tenths(hold.from));
        out += &hold.token.map(|token| format!(" #{token}")).unwrap_or_default();
        out += &hold.slot.map(|slot| format!(" in {slot}")).unwrap_or_default();
        out += ",";
    }
    for client in tale.in_vain() {
        out += &format!(" {} in vain,", short(tale, client));
    }
    let (accepted, refused) = tale.writes();
    out + &format!(" writes {accepted}/{refused}, torn {}", tale.torn_reads())
}

/// A client's name with the first letter of its role.
fn short(tale: &PrimitiveTale, client: usize) -> String {
    let name = tale.name(client, Language::English);
    let (role, number) = name.split_once(' ').unwrap();
    format!("{}{number}", &role[..1])
}

fn holders(tale: &PrimitiveTale, want: Want) -> Vec<&Hold> {
    tale.holds().iter().filter(|hold| hold.want == want).collect()
}

fn overlap(one: &Hold, other: &Hold) -> bool {
    let end = |hold: &Hold| hold.until.unwrap_or(u64::MAX);
    one.from < end(other) && other.from < end(one)
}

#[test]
fn every_story_comes_out_as_the_table_says() {
    let now: Vec<(&str, String, String)> = primitive_stories()
        .iter()
        .map(|story| {
            let [recipe, ours] = Practice::ALL.map(|practice| outcome(&story.play(practice, 1)));
            (story.name, recipe, ours)
        })
        .collect();
    let now: Vec<_> = now.iter().map(|(name, a, b)| (*name, a.as_str(), b.as_str())).collect();
    assert_eq!(now, OUTCOMES);
}

#[test]
fn what_a_story_of_a_primitive_shows_does_not_depend_on_the_seed() {
    for story in primitive_stories() {
        for seed in SEEDS {
            assert!(story.play(Practice::Recipe, seed).went_wrong(), "{}, seed {seed}", story.name);
            let tale = story.play(Practice::Leasehold, seed);
            assert!(!tale.went_wrong(), "{}, seed {seed}: {}", story.name, outcome(&tale));
            assert_eq!(tale.in_vain(), [0; 0], "{}, seed {seed}", story.name);
        }
    }
}

/// In the recipes too: no story depends on a lock that does not exclude.
#[test]
fn a_writer_never_holds_beside_another_client_and_no_slot_is_held_twice() {
    for (story, practice) in primitive_stories().iter().flat_map(|s| Practice::ALL.map(|p| (s, p)))
    {
        for seed in SEEDS {
            let tale = story.play(practice, seed);
            for (at, one) in tale.holds().iter().enumerate() {
                for other in tale.holds()[..at].iter().filter(|other| overlap(one, other)) {
                    let place =
                        format!("{} {practice}, seed {seed}: {one:?} {other:?}", story.name);
                    assert!(one.want != Want::Write && other.want != Want::Write, "{place}");
                    assert!(one.slot.is_none() || one.slot != other.slot, "{place}");
                }
            }
        }
    }
}

#[test]
fn every_later_phase_and_every_later_holder_of_a_slot_has_a_larger_token() {
    for (story, seed) in primitive_stories().iter().flat_map(|s| SEEDS.map(move |seed| (s, seed))) {
        let tale = story.play(Practice::Leasehold, seed);
        for (at, one) in tale.holds().iter().enumerate() {
            assert!(one.token.is_some(), "{}, seed {seed}: {one:?}", story.name);
            for earlier in tale.holds()[..at].iter().filter(|other| other.slot == one.slot) {
                let together = one.want == Want::Read && earlier.want == Want::Read;
                let grows = earlier.token < one.token || together && earlier.token == one.token;
                assert!(grows, "{}, seed {seed}: {earlier:?} {one:?}", story.name);
            }
        }
    }
}

/// A read takes 1 s and a write 0.5 s, messages take some milliseconds, and the second writer waits for
/// the read phase between the two.
#[test]
fn waiting_writers_enter_after_one_phase_each_and_the_readers_together_between_them() {
    for seed in SEEDS {
        let starved = story("writer-starvation").play(Practice::Recipe, seed);
        assert!(holders(&starved, Want::Write).is_empty(), "seed {seed}");
        assert!(holders(&starved, Want::Read).len() >= 10, "seed {seed}");

        let tale = story("writer-starvation").play(Practice::Leasehold, seed);
        let place = format!("seed {seed}: {}", outcome(&tale));
        let [first, second] = holders(&tale, Want::Write)[..] else { panic!("{place}") };
        // They ask by 1.05 s and 1.35 s.
        assert!(first.from < 1050 + 1000 + 50, "{place}");
        assert!(second.from < first.from + 500 + 1000 + 100, "{place}");
        let between = |hold: &&Hold| (first.from..second.from).contains(&hold.from);
        let between: Vec<&Hold> = holders(&tale, Want::Read).into_iter().filter(between).collect();
        let readers: BTreeSet<usize> = between.iter().map(|hold| hold.client).collect();
        assert_eq!((between.len(), readers.len()), (3, 3), "{place}");
        assert!(between.iter().all(|hold| hold.token == between[0].token), "{place}");
        let ends = (between[0].from, between[2].from);
        assert!(ends.1 - ends.0 < 20, "{place}");
        assert!(holders(&tale, Want::Read).last().unwrap().from > second.from, "{place}");
    }
}

#[test]
fn a_late_write_among_readers_is_refused_by_the_fence_only_if_they_have_announced_their_token() {
    for seed in SEEDS {
        let tale = story("paused-writer").play(Practice::Recipe, seed);
        assert_eq!((tale.writes(), tale.torn_reads()), ((1, 0), 2), "seed {seed}");
        let tale = story("paused-writer").play(Practice::Leasehold, seed);
        assert_eq!((tale.writes(), tale.torn_reads()), ((0, 1), 0), "seed {seed}");
        // The readers read in either case, with one token.
        let readers = holders(&tale, Want::Read);
        assert_eq!(readers.iter().map(|hold| hold.token).collect::<Vec<_>>(), [Some(34); 2]);
    }
}

#[test]
fn permits_of_crashed_holders_come_back_as_slots_and_not_as_a_count() {
    for seed in SEEDS {
        let tale = story("lost-permits").play(Practice::Recipe, seed);
        assert_eq!((tale.lost_permits(), tale.in_vain()), (2, vec![3, 4]), "seed {seed}");
        let tale = story("lost-permits").play(Practice::Leasehold, seed);
        let granted: Vec<_> = tale.holds().iter().map(|hold| (hold.client, hold.slot)).collect();
        let slots = [(0, Some(0)), (1, Some(1)), (2, Some(1)), (3, Some(0)), (4, Some(1))];
        assert_eq!(granted, slots, "seed {seed}");
        // A ttl of 30 s after the last request of each crashed holder, at 0 s and by 12 s.
        let [.., fourth, fifth] = tale.holds() else { panic!("five holds") };
        assert!((30_000..30_100).contains(&fourth.from), "seed {seed}: {fourth:?}");
        assert!((38_000..42_100).contains(&fifth.from), "seed {seed}: {fifth:?}");
    }
}

#[test]
fn every_story_of_a_primitive_is_told_and_drawn_in_every_language() {
    for (story, practice) in primitive_stories().iter().flat_map(|s| Practice::ALL.map(|p| (s, p)))
    {
        let tale = story.play(practice, 1);
        for (language, end) in [(Language::English, '.'), (Language::Chinese, '。')] {
            let lines = tale.lines(language);
            assert!((5..50).contains(&lines.len()), "{} {practice}: {lines:?}", story.name);
            assert!(lines.is_sorted_by_key(|(time, _)| *time), "{}", story.name);
            let foreign = |text: &str| text.chars().any(|letter| letter >= '\u{2e80}');
            let chinese = language == Language::Chinese;
            assert!(lines.iter().all(|(_, line)| foreign(line) == chinese), "{lines:?}");
            let moral = tale.moral(language);
            assert!(moral.matches(end).count() >= 2, "{}: {moral}", story.name);
            let picture = draw_primitive(&tale, language);
            assert!(picture.starts_with("<svg") && picture.ends_with("</svg>\n"));
            assert!(!picture.contains("NaN") && !picture.contains("inf"), "{}", story.name);
            assert_eq!(picture.matches("class=\"hold\"").count(), tale.holds().len());
            super::lab::check_texts(&picture, story.name);
        }
    }
}

#[test]
fn a_picture_of_a_primitive_has_the_sentence_of_its_story_as_its_title() {
    let tale = story("lost-permits").play(Practice::Recipe, 1);
    let picture = draw_primitive(&tale, Language::English);
    assert!(picture.contains(">A semaphore has two permits; one holder crashes"), "{picture}");
    assert!(picture.contains(">permits left<"), "{picture}");
    let tale = story("paused-writer").play(Practice::Leasehold, 1);
    let picture = draw_primitive(&tale, Language::Chinese);
    assert!(picture.contains(">令牌检查<") && picture.contains("写者在写入前停顿"), "{picture}");
}

//! Each story of a cache goes wrong with the usual recipe, and not with Leasehold's cache.

use leasehold_sim::lab::{CacheStory, CacheTale, Language, Practice, cache_stories, draw_cache};

/// The tests that drive the real cache into the same orders of events.
const RECIPES: &str = include_str!("../../../../crates/leasehold-cache/tests/cache/recipes.rs");

/// What comes of each story: whether it goes wrong; what the cache, the process and the database say at the
/// end; loads, and how many of them at once; fills that were refused; hits that differ from the database.
const OUTCOMES: &[(&str, &str, &str)] = &[
    ("cache-two-writers", "wrong 2 - 3, 0/0 0 0", "right 3 - 3, 1/1 0 0"),
    ("delete-before-commit", "wrong 1 - 2, 1/1 0 0", "right 2 - 2, 2/1 1 0"),
    ("delete-after-commit", "wrong 1 - 2, 1/1 0 0", "right 2 - 2, 2/1 1 0"),
    ("delayed-double-delete", "wrong 1 - 2, 1/1 0 0", "right 2 - 2, 2/1 1 0"),
    ("lease-by-order", "wrong 1 - 2, 1/1 0 0", "right 2 - 2, 2/2 1 0"),
    ("token-per-client", "wrong 1 - 2, 2/2 1 0", "right 2 - 2, 2/2 1 0"),
    ("process-before-redis", "wrong - 1 2, 0/0 0 0", "right - - 2, 0/0 0 0"),
    ("queue-after-failure", "wrong 1 - 2, 0/0 0 1", "right 2 - 2, 2/1 1 0"),
    ("cache-first", "wrong 2 - 1, 0/0 0 0", "right 1 - 1, 1/1 0 0"),
    ("avalanche", "wrong 1 - 1, 20/20 0 0", "right 1 - 1, 20/3 0 0"),
    ("penetration", "wrong - - 1, 20/1 0 0", "right - - 1, 1/1 0 0"),
    ("hot-key", "wrong 1 - 1, 20/20 0 0", "right 1 - 1, 1/1 0 0"),
    ("cache-snapshot", "wrong 1 - 2, 0/0 0 1", "right 2 - 2, 1/1 0 0"),
];

fn outcome(tale: &CacheTale) -> String {
    let (cache, process, database) = tale.at_rest();
    let value = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |one| one.to_string());
    format!(
        "{} {} {} {}, {}/{} {} {}",
        if tale.went_wrong() { "wrong" } else { "right" },
        value(cache.flatten()),
        value(process),
        value(database),
        tale.loads(),
        tale.loads_at_once(),
        tale.refused_fills(),
        tale.stale_hits()
    )
}

#[test]
fn every_recipe_breaks_in_its_story_and_leasehold_does_not() {
    let names: Vec<&str> = cache_stories().iter().map(|story| story.name).collect();
    let expected: Vec<&str> = OUTCOMES.iter().map(|(name, ..)| *name).collect();
    assert_eq!(names, expected);
    let all = cache_stories().iter().zip(OUTCOMES);
    for (story, (name, recipe, leasehold)) in all {
        assert_eq!(outcome(&story.play(Practice::Recipe, 1)), *recipe, "{name}");
        assert_eq!(outcome(&story.play(Practice::Leasehold, 1)), *leasehold, "{name}");
    }
}

#[test]
fn what_a_story_of_a_cache_shows_does_not_depend_on_the_seed() {
    for story in cache_stories() {
        for seed in 0..50 {
            assert!(story.play(Practice::Recipe, seed).went_wrong(), "{}, seed {seed}", story.name);
            let tale = story.play(Practice::Leasehold, seed);
            assert!(!tale.went_wrong() && !tale.lies(), "{}, seed {seed}", story.name);
            assert_eq!(tale.stale_hits(), 0, "{}, seed {seed}", story.name);
        }
    }
}

#[test]
fn each_recipe_names_the_test_of_the_real_cache() {
    let named: Vec<&CacheStory> =
        cache_stories().iter().filter(|story| !story.test.is_empty()).collect();
    assert_eq!(named.len(), 9);
    for story in named {
        let test = format!("test!({})", story.test);
        assert!(RECIPES.contains(&test), "{}: there is no {test}", story.name);
    }
}

#[test]
fn every_story_of_a_cache_is_told_and_drawn_in_every_language() {
    for story in cache_stories() {
        for practice in Practice::ALL {
            let tale = story.play(practice, 1);
            for (language, end) in [(Language::English, '.'), (Language::Chinese, '。')] {
                let lines = tale.lines(language);
                assert!((2..80).contains(&lines.len()), "{} {practice}: {lines:?}", story.name);
                assert!(lines.is_sorted_by_key(|(time, _)| *time), "{}", story.name);
                let foreign = |text: &str| text.chars().any(|letter| letter >= '\u{2e80}');
                let chinese = language == Language::Chinese;
                assert!(lines.iter().all(|(_, line)| foreign(line) == chinese), "{lines:?}");
                let moral = tale.moral(language);
                assert!(moral.matches(end).count() >= 2, "{}: {moral}", story.name);
                let picture = draw_cache(&tale, language);
                assert!(picture.starts_with("<svg") && picture.ends_with("</svg>\n"));
                assert!(!picture.contains("NaN") && !picture.contains("inf"), "{}", story.name);
                assert_eq!(picture.matches("class=\"load\"").count(), tale.loads());
                super::lab::check_texts(&picture, story.name);
            }
        }
    }
}

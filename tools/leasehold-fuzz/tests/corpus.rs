//! Runs each fuzz target with its corpus, and with changes of it.
//!
//! The number of inputs is fixed, and so is the seed: a run takes less than two seconds a target, and two runs are the same.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use fastrand::Rng;
use leasehold_fuzz::{Target, corpus, folder, mutated, targets};
use libtest_mimic::{Arguments, Failed, Trial};

/// The seed of the changes, and how many changed inputs each target reads.
const CHANGED: (u64, usize) = (7, 1_000);

/// Another seed and number, to search longer: `SEED:COUNT`.
const VARIABLE: &str = "LEASEHOLD_FUZZ";

/// The length of an input that is repeated. A reader whose time grows with the square of it does not end soon.
const LONG: usize = 1 << 16;

/// How many inputs are repeated.
const MOST_LONG: usize = 8;

fn main() {
    let mut trials: Vec<Trial> =
        targets().into_iter().map(|target| Trial::test(target.0, move || run(target))).collect();
    trials.push(Trial::test("each_target_has_a_corpus_and_a_program", complete));
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn run((name, read): Target) -> Result<(), Failed> {
    let seeds = corpus(name)?;
    let attempt = |input: &[u8]| {
        catch_unwind(AssertUnwindSafe(|| read(input))).map_err(|_| {
            let shown = &input[..input.len().min(2_000)];
            Failed::from(format!("{name} failed on the input \"{}\"", shown.escape_ascii()))
        })
    };
    for seed in &seeds {
        attempt(seed)?;
    }
    for seed in seeds.iter().filter(|seed| !seed.is_empty()).take(MOST_LONG) {
        attempt(&seed.repeat(LONG / seed.len()))?;
    }
    let (seed, count) = changed()?;
    let mut rng = Rng::with_seed(seed);
    for _ in 0..count {
        attempt(&mutated(&seeds, &mut rng))?;
    }
    Ok(())
}

fn changed() -> Result<(u64, usize), Failed> {
    let Ok(text) = std::env::var(VARIABLE) else { return Ok(CHANGED) };
    let (seed, count) = text.split_once(':').ok_or("LEASEHOLD_FUZZ: write SEED:COUNT")?;
    Ok((seed.parse()?, count.parse()?))
}

/// cargo-fuzz finds the programs in a manifest, and the inputs in folders: both name all targets and no other.
fn complete() -> Result<(), Failed> {
    let known: BTreeSet<String> = targets().iter().map(|(name, _)| (*name).to_owned()).collect();
    let mut folders = BTreeSet::new();
    for entry in std::fs::read_dir(folder())? {
        folders.insert(entry?.file_name().to_string_lossy().into_owned());
    }
    let manifest = std::fs::read_to_string(folder().join("../Cargo.toml"))?;
    let programs = manifest.split("[[bin]]\nname = \"").skip(1);
    let programs: BTreeSet<String> =
        programs.filter_map(|text| Some(text.split_once('"')?.0.to_owned())).collect();
    match (known == folders, known == programs) {
        (true, true) => Ok(()),
        _ => Err(format!("targets {known:?}, folders {folders:?}, programs {programs:?}").into()),
    }
}

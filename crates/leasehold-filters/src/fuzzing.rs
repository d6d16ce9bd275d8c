//! Readers of input from outside, for fuzz targets alone: a program must not use this module.

use leasehold_core::fuzzing::{Target, text};

use crate::bloom::generation::Generation;
use crate::bloom::shape::Hashed;

/// The targets of this crate.
pub const TARGETS: &[Target] = &[("filter-generation", generation)];

/// The generation in the header of a filter.
fn generation(input: &[u8]) {
    let text = text(input);
    let Some(generation) = Generation::read(&text) else { return };
    assert_eq!(generation.text(), text, "a generation is read back");
    let (item, shape) = (Hashed::of(input), generation.shape);
    let _ = (shape.shard(item), shape.places(item).count(), shape.reads(item).count());
    let _ = (shape.stats(0), generation.name(), generation.stamps(0).count());
}

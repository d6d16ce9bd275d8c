//! Random numbers from a seed.

/// A generator whose whole state is one number (Steele, Lea, Flood: "Fast splittable pseudorandom
/// number generators", 2014).
#[derive(Clone, Copy, Debug)]
pub struct Dice(u64);

impl Dice {
    /// The same seed gives the same numbers.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `sides`, which is not zero.
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) % sides
    }

    /// True once in so many times.
    pub fn one_in(&mut self, sides: u64) -> bool {
        self.roll(sides) == 0
    }
}

//! Sets of numbers as bits: in this process, dense or sparse, and in Redis.
//!
//! | set | for | memory |
//! |---|---|---|
//! | [`Dense`] | numbers below a bound, many threads at once | a bit for each number below the bound |
//! | [`Sparse`] | any numbers, one writer | two bytes a number, less where they lie close (Roaring) |
//! | [`Redis`] | any numbers, many processes | 64 KiB for each range of 524,288 numbers that has a member |
//!
//! ```
//! use leasehold_filters::bitmap::{Operation, Sparse};
//!
//! let monday: Sparse = [1, 2, 1_000_000_007].into_iter().collect();
//! let tuesday: Sparse = [2, 3, 1_000_000_007].into_iter().collect();
//! let both = monday.combined(Operation::And, &tuesday);
//! assert_eq!(both.iter().collect::<Vec<_>>(), [2, 1_000_000_007]);
//! ```
//!
//! A bitmap sorts distinct numbers in the time that it takes to write and read them once:
//!
//! ```
//! use leasehold_filters::bitmap::Dense;
//!
//! let numbers = [870, 3, 512, 64, 65, 999];
//! let bits = Dense::new(1_000)?;
//! for number in numbers {
//!     assert!(bits.insert(number)?, "{number} is there twice");
//! }
//! assert_eq!(bits.iter().collect::<Vec<_>>(), [3, 64, 65, 512, 870, 999]);
//! # Ok::<_, leasehold_filters::Error>(())
//! ```

mod dense;
mod redis;
mod sparse;

pub use dense::Dense;
pub use redis::Redis;
pub use sparse::Sparse;

/// Selects how two sets are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Numbers in both sets.
    And,
    /// Numbers in at least one of the sets.
    Or,
    /// Numbers in exactly one of the sets.
    Xor,
    /// Numbers in the first set, but not in the second.
    AndNot,
}

//! Checks the limit of a semaphore, and the number of slots of a permit.

use core::fmt;

/// The largest limit of a semaphore.
pub const MAX_LIMIT: u32 = 10_000;
/// The largest number of slots of one permit.
pub const MAX_SLOTS: u32 = 1_024;

/// How many slots of a semaphore may be in use at once: 1 to [`MAX_LIMIT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Limit(u32);

/// How many slots a client requests, and the limit that it expects: 1 to [`MAX_SLOTS`] slots, and
/// at most the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Demand {
    slots: u32,
    limit: Limit,
}

/// The error for a limit or a number of slots that is not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutOfRange {
    /// The limit is not between 1 and [`MAX_LIMIT`].
    Limit(u32),
    /// The number of slots is not between 1 and `most`.
    Slots {
        /// The number of requested slots.
        slots: u32,
        /// The limit, or [`MAX_SLOTS`] if that is less.
        most: u32,
    },
}

impl Limit {
    /// Creates a limit.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] unless it is between 1 and [`MAX_LIMIT`].
    pub fn new(limit: u32) -> Result<Self, OutOfRange> {
        match limit {
            1..=MAX_LIMIT => Ok(Self(limit)),
            _ => Err(OutOfRange::Limit(limit)),
        }
    }

    /// Returns the number.
    pub fn get(self) -> u32 {
        self.0
    }
}

impl Demand {
    /// Creates a demand for `slots` slots of a semaphore with this limit.
    ///
    /// ```
    /// use leasehold_proto::semaphore::Demand;
    ///
    /// assert!(Demand::new(3, 4).is_ok());
    /// let error = Demand::new(5, 4).unwrap_err().to_string();
    /// assert_eq!(error, "slots must be between 1 and 4, got 5: a permit has at most 1024 slots, and no more than the limit");
    /// ```
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] unless the limit is between 1 and [`MAX_LIMIT`], and the number of slots between
    /// 1 and the limit and at most [`MAX_SLOTS`].
    pub fn new(slots: u32, limit: u32) -> Result<Self, OutOfRange> {
        let limit = Limit::new(limit)?;
        let most = limit.get().min(MAX_SLOTS);
        match (1..=most).contains(&slots) {
            true => Ok(Self { slots, limit }),
            false => Err(OutOfRange::Slots { slots, most }),
        }
    }

    /// Returns the number of slots.
    pub fn slots(self) -> u32 {
        self.slots
    }

    /// Returns the limit that the client expects.
    pub fn limit(self) -> Limit {
        self.limit
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limit(limit) => {
                write!(f, "limit must be between 1 and {MAX_LIMIT}, got {limit}")
            }
            Self::Slots { slots, most } => write!(
                f,
                "slots must be between 1 and {most}, got {slots}: a permit has at most {MAX_SLOTS} slots, and no more than the limit"
            ),
        }
    }
}

impl core::error::Error for OutOfRange {}

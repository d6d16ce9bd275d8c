//! The setters that all blocking builders of locks have.

use std::time::Duration;

use leasehold_core::OnLoss;

use super::{Lock, MultiLock, RwLock, Semaphore};

/// Writes the setters of a builder, which has a method `with`, as those of the async type of this
/// name.
macro_rules! knobs {
    ($of:ident) => {
        impl $of {
            #[doc = concat!("See [`crate::", stringify!($of), "::ttl`].")]
            pub fn ttl(self, ttl: Duration) -> Self {
                self.with(|lock| lock.ttl(ttl))
            }

            #[doc = concat!("See [`crate::", stringify!($of), "::renew_after`].")]
            pub fn renew_after(self, after: Duration) -> Self {
                self.with(|lock| lock.renew_after(after))
            }

            #[doc = concat!("See [`crate::", stringify!($of), "::wait`].")]
            pub fn wait(self, wait: Duration) -> Self {
                self.with(|lock| lock.wait(wait))
            }

            #[doc = concat!("See [`crate::", stringify!($of), "::max_hold`].")]
            pub fn max_hold(self, max_hold: Duration) -> Self {
                self.with(|lock| lock.max_hold(max_hold))
            }

            #[doc = concat!("See [`crate::", stringify!($of), "::min_hold`].")]
            pub fn min_hold(self, min_hold: Duration) -> Self {
                self.with(|lock| lock.min_hold(min_hold))
            }

            #[doc = concat!("See [`crate::", stringify!($of), "::on_loss`].")]
            pub fn on_loss(self, on_loss: OnLoss) -> Self {
                self.with(|lock| lock.on_loss(on_loss))
            }

            #[doc = concat!("See [`crate::", stringify!($of), "::metadata`].")]
            pub fn metadata(self, metadata: impl Into<String>) -> Self {
                self.with(|lock| lock.metadata(metadata))
            }

            #[doc = concat!("See [`crate::", stringify!($of), "::fair`].")]
            pub fn fair(self, fair: bool) -> Self {
                self.with(|lock| lock.fair(fair))
            }
        }
    };
}

knobs!(Lock);
knobs!(MultiLock);
knobs!(RwLock);
knobs!(Semaphore);

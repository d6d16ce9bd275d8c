//! The setters that all builders of locks have.

use std::sync::Arc;
use std::time::Duration;

use crate::OnLoss;
use crate::lock::Lock;
use crate::multi_lock::MultiLock;
use crate::rw_lock::RwLock;
use crate::semaphore::Semaphore;

/// Writes the setters of a builder, which has the fields `client` and `options`.
macro_rules! knobs {
    ($builder:ty) => {
        impl $builder {
            /// Sets how long the lease lasts without renewal, and so how soon other clients can
            /// acquire the lock after a crash. The client renews it every third of the ttl while
            /// the guard lives. 10 ms to 24 h, default 30 s. On engines whose leases end with the
            /// session, it only sets how often the client checks health. If the engine grants only
            /// less ([`Capability::longest_ttl`](crate::Capability)), the ttl is shortened to that.
            pub fn ttl(mut self, ttl: Duration) -> Self {
                self.options.ttl = Some(ttl);
                self
            }

            /// Sets the time from one renewal to the next. It is at least 200 ms (a fiftieth of a ttl below
            /// 10 s), and ends before the loss would be reported. Default: a third of the ttl. Each renewal
            /// is sent up to a tenth earlier, at random.
            pub fn renew_after(mut self, after: Duration) -> Self {
                self.options.renew_after = Some(after);
                self
            }

            /// Sets how long an acquire waits at most. Default: forever. Methods named `..._within`
            /// override it, and methods named `try_...` do not wait for the lock.
            pub fn wait(mut self, wait: Duration) -> Self {
                self.options.wait = Some(wait);
                self
            }

            /// Sets the longest hold: the guard ends this long after it was granted, even if it is renewed
            /// or the program forgets it. 10 ms to 365 d, default none; at least the lease and the minimum
            /// hold.
            pub fn max_hold(mut self, max_hold: Duration) -> Self {
                self.options.max_hold = Some(max_hold);
                self
            }

            /// Sets the minimum hold: the lock stays taken for at least this long after it was acquired, so
            /// that a short job does not run twice on machines whose clocks differ. Up to 24 h, default 0.
            /// If the engine cannot keep the lock without the client ([`Guard::lingers`](crate::Guard::lingers)), the release
            /// waits; after a dropped guard it waits in the background. If the runtime ends before, the
            /// lock ends with its ttl or session.
            pub fn min_hold(mut self, min_hold: Duration) -> Self {
                self.options.min_hold = min_hold;
                self
            }

            /// Sets what a loss does besides making the guard invalid. Default:
            /// [`OnLoss::Cancel`](crate::OnLoss::Cancel).
            pub fn on_loss(mut self, on_loss: OnLoss) -> Self {
                self.options.on_loss = on_loss;
                self
            }

            /// Sets a text that `status` shows beside host and process id; at most 1 KiB, default none.
            pub fn metadata(mut self, metadata: impl Into<String>) -> Self {
                let origin = self.client.shared().origin.with_metadata(metadata.into());
                self.options.origin = Some(Arc::new(origin));
                self
            }

            /// Sets whether this acquire waits behind the clients that already wait. Default: true.
            /// With `false`, it may overtake them if a lease, an offer or a minimum hold has just
            /// expired; a release still hands the lock to the first waiter. Tasks of this process
            /// may pass a lease to each other for 1 s instead of 20 ms while other clients wait.
            /// This gives more throughput, and longer waits for others. On engines without
            /// [`unfair`](crate::Capability::unfair) no client overtakes another.
            pub fn fair(mut self, fair: bool) -> Self {
                self.options.fair = fair;
                self
            }
        }
    };
}

knobs!(Lock);
knobs!(MultiLock);
knobs!(RwLock);
knobs!(Semaphore);

//! The methods that the blocking guards of read-write locks and semaphores share.

/// Writes what the guards that wrap an async guard have.
macro_rules! guards {
    ($($guard:ident),*) => { $(
        impl $guard {
            fn new(guard: crate::$guard, runtime: &super::Own) -> Self {
                runtime.answered();
                Self { guard: Some(guard), runtime: runtime.clone() }
            }

            /// See [`crate::Guard::name`].
            pub fn name(&self) -> &leasehold_core::Name {
                self.as_async().name()
            }

            /// See [`crate::Guard::attempt`].
            pub fn attempt(&self) -> leasehold_core::AttemptId {
                self.as_async().attempt()
            }

            /// See [`crate::Guard::token`].
            pub fn token(&self) -> leasehold_core::Token {
                self.as_async().token()
            }

            /// See [`crate::Guard::is_valid`].
            #[must_use = "a check without effect: `ensure` returns an error"]
            pub fn is_valid(&self) -> bool {
                self.as_async().is_valid()
            }

            /// See [`crate::Guard::remaining`].
            pub fn remaining(&self) -> std::time::Duration {
                self.as_async().remaining()
            }

            /// See [`crate::Guard::deadline`].
            pub fn deadline(&self) -> Option<leasehold_core::Deadline> {
                self.as_async().deadline()
            }

            /// See [`crate::Guard::ensure`].
            ///
            /// # Errors
            /// As there.
            pub fn ensure(&self, margin: std::time::Duration) -> leasehold_core::Result<()> {
                self.as_async().ensure(margin)
            }

            /// See [`crate::Guard::extend`].
            ///
            /// # Errors
            /// As there; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) inside an async task.
            pub fn extend(&self, duration: std::time::Duration) -> leasehold_core::Result<()> {
                self.runtime.block_on(self.as_async().extend(duration))?
            }

            /// See [`crate::Guard::confirm`].
            ///
            /// # Errors
            /// As there; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) inside an async task.
            pub fn confirm(&self) -> leasehold_core::Result<()> {
                self.runtime.block_on(self.as_async().confirm())?
            }

            /// Waits until the lock is lost; see [`crate::Guard::lost`].
            ///
            /// # Errors
            /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) inside an async task.
            pub fn lost(&self) -> leasehold_core::Result<leasehold_core::LossReason> {
                self.runtime.block_on(self.as_async().lost())
            }

            /// See [`crate::Guard::cancellation_token`]. Blocking code can ask its `is_cancelled`.
            #[must_use = "the token does nothing unless the work looks at it"]
            pub fn cancellation_token(&self) -> leasehold_core::CancellationToken {
                self.as_async().cancellation_token()
            }

            /// See [`crate::Guard::lingers`].
            pub fn lingers(&self) -> bool {
                self.as_async().lingers()
            }

            /// Returns the async guard.
            pub fn as_async(&self) -> &crate::$guard {
                match &self.guard {
                    Some(guard) => guard,
                    None => unreachable!("what takes the guard consumes this one"),
                }
            }
        }

        impl Drop for $guard {
            fn drop(&mut self) {
                if let Some(guard) = self.guard.take() {
                    self.runtime.release_dropped(guard.lingers(), guard.release());
                }
            }
        }
    )* };
}

pub(super) use guards;

//! A loss is reported before the lease has ended, to every client that was not paused at that
//! moment. Source: the design's second promise, "loss is known before it hurts".

#[derive(Debug, Default)]
pub(super) struct Loss {
    pub(super) late: u64,
}

impl Loss {
    pub(super) fn told(&mut self, in_time: bool) {
        self.late += u64::from(!in_time);
    }

    pub(super) fn is_broken(&self) -> bool {
        self.late > 0
    }
}

//! The watcher's task: one stream for all watches of a client, opened again when it breaks.

use std::collections::VecDeque;
use std::time::Duration;

use leasehold_core::backend::Event;
use leasehold_core::clock::Clock;
use leasehold_core::proto::Backoff;
use leasehold_core::{AttemptId, Deadline};
use leasehold_etcd_api::WatchResponse;
use tokio::sync::mpsc;

use super::WatchOrder;
use super::notices::{Ears, Then};
use super::stream::{Request, WatchStream};
use super::table::{Table, Watched, What};

/// A lock held for less than this is not watched: a watch costs as much as the lock itself.
const SETTLED: Duration = Duration::from_secs(1);
/// A lock held to read for less than this does not look for writers: its lease ends by itself.
const EXPECTS: Duration = Duration::from_millis(100);
/// Interval and timeout of probes on a stream with watches: a stopped member does not close it.
const PROBE: Duration = Duration::from_secs(3);
/// The first and the longest pause between two openings of the stream. A stream that lasts as long
/// as the longest pause resets the pause.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

pub(super) struct WatchTask {
    ears: Ears,
    clock: Clock,
    orders: mpsc::UnboundedReceiver<WatchOrder>,
    watched: Table,
    /// The numbers of watches that must be created on a reopened stream.
    unmade: VecDeque<i64>,
    /// Messages that arrived during a send.
    heard: VecDeque<WatchResponse>,
    /// Watches to cancel.
    over: VecDeque<i64>,
    /// Own keys, and when their watches start.
    later: VecDeque<(Deadline, AttemptId, Watched)>,
    /// The writers behind readers, and when their watches start.
    soon: VecDeque<(Deadline, AttemptId, Watched)>,
    /// When the next probe is sent.
    probe_at: Option<Deadline>,
    /// A probe was sent and no message has arrived since.
    probed: bool,
}

fn pause(pauses: &mut Backoff) -> Duration {
    pauses.next(fastrand::u64(..)).max(PAUSES.0)
}

/// The result of a step.
enum Step {
    Send(Request),
    Nothing,
    /// The stream is broken.
    Broken,
    /// All watchers were dropped, so no order can arrive.
    Over,
}

impl WatchTask {
    pub(super) fn new(
        ears: Ears,
        clock: Clock,
        orders: mpsc::UnboundedReceiver<WatchOrder>,
    ) -> Self {
        Self {
            ears,
            clock,
            orders,
            watched: Table::default(),
            unmade: VecDeque::new(),
            heard: VecDeque::new(),
            over: VecDeque::new(),
            later: VecDeque::new(),
            soon: VecDeque::new(),
            probe_at: None,
            probed: false,
        }
    }

    pub(super) async fn run(mut self) {
        let mut pauses = Backoff::new(PAUSES.0, PAUSES.1);
        let mut stream: Option<WatchStream> = None;
        let mut broken = false;
        let mut opened = self.clock.now();
        loop {
            if stream.is_none() && !self.watched.is_empty() {
                stream = self.open().await;
                opened = self.clock.now();
                match &stream {
                    None => {
                        broken = true;
                        self.ears.say(Event::Broken);
                        self.clock.sleep(pause(&mut pauses)).await;
                        // Attempts that were removed meanwhile need no watch.
                        while let Ok(order) = self.orders.try_recv() {
                            self.handle(order);
                        }
                        continue;
                    }
                    Some(_) if std::mem::take(&mut broken) => self.ears.say(Event::Reset),
                    Some(_) => {}
                }
            }
            let step = self.step(stream.as_mut()).await;
            let sent = match (step, &mut stream) {
                (Step::Over, _) => return,
                (Step::Broken, _) => false,
                (Step::Send(request), Some(stream)) => {
                    stream.send(request, &self.watched, &mut self.heard, &self.clock).await
                }
                (Step::Nothing, Some(_)) | (_, None) => true,
            };
            if !sent {
                stream = None;
                broken = true;
                self.ears.say(Event::Broken);
                let lasted = self.clock.now().steady_ns.saturating_sub(opened.steady_ns);
                pauses.lasted(Duration::from_nanos(lasted));
                self.clock.sleep(pause(&mut pauses)).await;
            }
        }
    }

    /// Opens the stream with the oldest watch; the others are created on it one by one.
    async fn open(&mut self) -> Option<WatchStream> {
        let first = self.watched.numbers().min()?;
        let (_, watched) = self.watched.get(first)?;
        let stream = WatchStream::open(&self.ears.members, &self.clock, first, watched).await?;
        self.probed = false;
        self.probe_at = Some(Deadline::after(self.clock.now(), PROBE));
        self.heard.clear();
        self.over.clear();
        self.unmade = self.watched.numbers().filter(|number| *number != first).collect();
        Some(stream)
    }

    /// Waits for the next order, message or timer, and processes it.
    async fn step(&mut self, stream: Option<&mut WatchStream>) -> Step {
        if let Some(response) = self.heard.pop_front() {
            return self.hear(&response);
        }
        if let Some(number) = self.over.pop_front() {
            return Step::Send(Request::Cancel(number));
        }
        let unmade = stream.is_some() && !self.unmade.is_empty();
        let due = [&self.later, &self.soon].into_iter().filter_map(|queue| queue.front());
        let due = due.map(|(due, ..)| *due).reduce(|one, other| one.min(other));
        let probe_at = self.probe_at.filter(|_| stream.is_some() && !self.watched.is_empty());
        let index = stream.as_ref().map(|stream| stream.index);
        let (clock, members) = (self.clock.clone(), self.ears.members.clone());
        let at = |moment: Option<Deadline>| {
            let clock = clock.clone();
            async move {
                match moment {
                    Some(moment) => clock.sleep_until(moment).await,
                    None => std::future::pending().await,
                }
            }
        };
        let response = async {
            match stream {
                Some(stream) => stream.next().await,
                None => std::future::pending().await,
            }
        };
        let moved = async {
            match index {
                Some(index) => members.moved(index).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            response = response => match response {
                Some(response) => self.hear(&response),
                None => self.handle_stream_end(index),
            },
            () = moved => Step::Broken,
            () = at(due) => self.watch_settled(),
            order = self.orders.recv() => match order {
                Some(order) => self.handle(order),
                None => Step::Over,
            },
            () = std::future::ready(()), if unmade => match self.unmade.pop_front() {
                Some(number) => Step::Send(Request::Create { number, instead: None }),
                None => Step::Nothing,
            },
            () = at(probe_at) => match std::mem::replace(&mut self.probed, true) {
                true => self.handle_stream_end(index),
                false => {
                    self.probe_at = Some(Deadline::after(self.clock.now(), PROBE));
                    Step::Send(Request::Probe)
                }
            },
        }
    }

    fn hear(&mut self, response: &WatchResponse) -> Step {
        self.probed = false;
        match self.ears.hear(response, &mut self.watched) {
            Then::Nothing => Step::Nothing,
            Then::Cancel(number) => Step::Send(Request::Cancel(number)),
            Then::Broken => Step::Broken,
        }
    }

    /// Handles a stream that has ended or is silent.
    fn handle_stream_end(&self, index: Option<usize>) -> Step {
        if let Some(index) = index {
            self.ears.members.move_on(index);
        }
        Step::Broken
    }

    fn handle(&mut self, order: WatchOrder) -> Step {
        match order {
            WatchOrder::Watch(attempt, watched) if watched.what.waits() => {
                match self.watched.watches(attempt, &watched) {
                    true => Step::Nothing,
                    false => self.watch(attempt, watched),
                }
            }
            WatchOrder::Watch(attempt, watched) => {
                let is_own = matches!(watched.what, What::Own | What::Bound);
                let (after, queue) = match is_own {
                    true => (SETTLED, &mut self.later),
                    false => (EXPECTS, &mut self.soon),
                };
                let due = Deadline::after(self.clock.now(), after);
                queue.push_back((due, attempt, watched));
                // It waits for no key now.
                match self.watched.remove_wait(attempt) {
                    Some(number) => Step::Send(Request::Cancel(number)),
                    None => Step::Nothing,
                }
            }
            WatchOrder::Leave(attempt) => {
                self.over.extend(self.watched.remove_all(attempt));
                Step::Nothing
            }
        }
    }

    fn watch(&mut self, attempt: AttemptId, watched: Watched) -> Step {
        // Cancel the existing watch: the deletion of its key may not have been reported yet.
        let (number, instead) = self.watched.add(attempt, watched);
        Step::Send(Request::Create { number, instead })
    }

    fn watch_settled(&mut self) -> Step {
        let (now, attempts) = (self.clock.now(), &self.ears.attempts);
        let next = [&mut self.later, &mut self.soon].into_iter().find_map(|queue| {
            while queue.front().is_some_and(|(due, ..)| due.has_passed(now)) {
                match queue.pop_front() {
                    Some((_, attempt, watched)) if attempts.holds(attempt) => {
                        return Some((attempt, watched));
                    }
                    _ => {}
                }
            }
            None
        });
        match next {
            Some((attempt, watched)) => self.watch(attempt, watched),
            None => Step::Nothing,
        }
    }
}

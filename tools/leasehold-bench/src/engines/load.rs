//! The measurements of an engine, for any client: pairs, hand-offs, and the round trip.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::Result;
use crate::pairs::{Sample, Times, Worker, drive};
use crate::store::StoreAddress;

/// Clients that one lock goes to and fro between.
const CLIENTS: usize = 2;

/// A client of an engine.
pub(super) trait Engine: Sized + Send + Sync + 'static {
    /// One task's way to one lock.
    type Taker: Taker;

    /// Connects.
    fn open(place: &StoreAddress) -> impl Future<Output = Result<Self>> + Send;

    /// For the lock of this name.
    fn taker(&self, name: String) -> Self::Taker;

    /// The cheapest question that the server answers; false where there is no server to ask.
    fn ask(&mut self) -> impl Future<Output = Result<bool>> + Send;

    /// Ends it.
    fn close(self) -> impl Future<Output = ()> + Send;
}

/// One task's way to one lock.
pub(super) trait Taker: Send + 'static {
    /// Acquires it; waits while another client holds it.
    fn acquire(&mut self) -> impl Future<Output = Result<()>> + Send;

    /// Gives it back.
    fn release(&mut self) -> impl Future<Output = Result<()>> + Send;
}

/// What was measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figures {
    /// `None` where only hand-offs are measured.
    pub(super) pairs: Option<Sample>,
    /// Times in a second that the lock went from one task to another.
    pub(super) handoffs_per_s: f64,
    /// Time there and back of a task that does nothing else, in microseconds.
    pub(super) round_trip_us: Option<f64>,
}

/// Measures all of it.
pub(super) async fn figures<E: Engine>(
    place: &StoreAddress,
    tasks: usize,
    times: Times,
) -> Result<Figures> {
    let round_trip_us = round_trip_us::<E>(place, times).await?;
    let client = E::open(place).await?;
    let alone = (0..tasks).map(|task| Alone(client.taker(place.name(task)))).collect();
    let pairs = drive(alone, times, place.server_pids()).await?;
    let mut clients = vec![client];
    while clients.len() < CLIENTS {
        clients.push(E::open(place).await?);
    }
    // Of tasks that stand one behind the other, each is another client's.
    let last = Arc::new(AtomicUsize::new(usize::MAX));
    let one_of_many = |number: usize| OneOfMany {
        taker: clients[number % CLIENTS].taker(place.name(tasks)),
        number,
        last: last.clone(),
        came: false,
    };
    let many = (0..CLIENTS * tasks).map(one_of_many).collect();
    let handoffs_per_s = drive(many, times, place.server_pids()).await?.per_s;
    for client in clients {
        client.close().await;
    }
    Ok(Figures { pairs: Some(pairs), handoffs_per_s, round_trip_us })
}

async fn round_trip_us<E: Engine>(place: &StoreAddress, times: Times) -> Result<Option<f64>> {
    let mut client = E::open(place).await?;
    if !client.ask().await? {
        return Ok(None);
    }
    let asked = drive(vec![Asking(client)], times, &[]).await?;
    Ok(Some(1e6 / asked.per_s))
}

/// A task that asks the cheapest question.
struct Asking<E>(E);

impl<E: Engine> Worker for Asking<E> {
    async fn pair(&mut self) -> Result<()> {
        self.0.ask().await.map(drop)
    }
}

/// A task that has a lock of its own.
struct Alone<T>(T);

impl<T: Taker> Worker for Alone<T> {
    async fn pair(&mut self) -> Result<()> {
        self.0.acquire().await?;
        self.0.release().await
    }
}

/// A task that wants the lock of all.
struct OneOfMany<T> {
    taker: T,
    number: usize,
    /// Who had it last.
    last: Arc<AtomicUsize>,
    /// Whether it came from another the last time.
    came: bool,
}

impl<T: Taker> Worker for OneOfMany<T> {
    async fn pair(&mut self) -> Result<()> {
        self.taker.acquire().await?;
        self.came = self.last.swap(self.number, Ordering::Relaxed) != self.number;
        self.taker.release().await
    }

    /// Only when it came from another: who asks again at once may get it again.
    fn counts(&self) -> bool {
        self.came
    }
}

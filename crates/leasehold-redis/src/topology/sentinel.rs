//! The master that sentinels name: asked of all of them, and followed when they switch.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use leasehold_core::clock::Clock;
use leasehold_core::proto::Backoff;
use leasehold_core::{Error, ErrorKind, Result, StoreUrl};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, PushInfo, PushKind};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::seeds::{Maker, Seeds};
use super::{Place, shown};
use crate::address::invalid;
use crate::error::{from_redis, strange};
use crate::supervisor::{send, within};

/// How long one sentinel may take to answer. All are asked at once, and waited for.
const LIMIT: Duration = Duration::from_secs(1);
/// Pauses before one that does not answer is listened to again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// How often each is asked again.
const ASK: Duration = Duration::from_secs(10);
const PORT: u16 = 26379;
const OPTIONS: &[&str] =
    &["sentinel-password", "sentinel-password-file", "sentinel-tls", "sentinel-user"];
const CHANNEL: &str = "+switch-master";

/// The sentinels that watch one master.
pub(crate) struct Sentinels {
    name: String,
    sentinels: Vec<(Place, Client)>,
    /// Makes the clients of masters.
    maker: Maker,
    known: Mutex<Known>,
    /// The newest that was heard of since.
    newest: watch::Sender<Option<Said>>,
    listeners: Mutex<Option<JoinSet<()>>>,
}

impl fmt::Debug for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sentinels")
            .field("name", &self.name)
            .field("sentinels", &self.places())
            .field("current", &self.current())
            .finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Known {
    /// The master that connections were last told of.
    current: Option<Said>,
    /// What each sentinel has said last.
    heard: HashMap<usize, Said>,
    /// What was the newest at the last try, if it failed.
    tried: Option<Said>,
}

/// What a sentinel says of the master.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Said {
    /// Of the switch that made it the master: the larger, the newer.
    epoch: u64,
    place: Place,
    /// Replicas that it knows of, whether they are there or not.
    replicas: usize,
}

impl Said {
    /// The same master since the same switch.
    fn is_as(&self, other: &Self) -> bool {
        (self.epoch, &self.place) == (other.epoch, &other.place)
    }
}

/// A URL of sentinels, understood.
pub(crate) struct Watched {
    pub(crate) sentinels: Sentinels,
    pub(crate) prefix: String,
    pub(crate) place: String,
}

/// Understands `redis+sentinel://[user[:password]@]host[:port],.../master-name`. User and password
/// are those of the servers.
pub(crate) fn parse(mut url: StoreUrl, options: &[&str]) -> Result<Watched> {
    let mut take = |option: &str| url.take(option);
    let (user, secret) = (take("sentinel-user"), take("sentinel-password"));
    let secret = StoreUrl::password(take("sentinel-password-file").as_deref(), secret)?;
    let tls = match take("sentinel-tls").as_deref() {
        None | Some("on") => true,
        Some("off") => false,
        Some(other) => {
            return Err(invalid(format!("sentinel-tls {other:?}; on or off is allowed")));
        }
    };
    let seeds = Seeds::parse(url, PORT, &[OPTIONS, options].concat())?;
    let Some(name) = seeds.rest else {
        return Err(invalid(
            "no master name; write redis+sentinel://one:26379,two:26379/NAME, with the name that \
             stands in `sentinel monitor NAME`"
                .into(),
        ));
    };
    let maker = seeds.maker.with_login(user, secret);
    let maker = if tls { maker } else { maker.without_tls() };
    let sentinel = |place: Place| {
        let client = maker.client(&place.0, place.1)?;
        Ok((place, client))
    };
    let sentinels = Sentinels {
        name,
        sentinels: seeds.hosts.into_iter().map(sentinel).collect::<Result<_>>()?,
        maker: seeds.maker,
        known: Mutex::default(),
        newest: watch::Sender::new(None),
        listeners: Mutex::default(),
    };
    Ok(Watched { sentinels, prefix: seeds.prefix, place: seeds.place })
}

impl Sentinels {
    /// Asks all sentinels for the master. The one that has seen the newest switch is believed.
    pub(crate) async fn master(self: &Arc<Self>) -> Result<Client> {
        self.known().tried = self.newest.borrow().clone();
        let asking = self.sentinels.iter().map(|(_, client)| self.ask(client));
        let answers = join_all(asking).await;
        let heard = answers.iter().enumerate();
        let heard = heard.filter_map(|(number, said)| Some((number, said.clone().ok()?)));
        self.known().heard = heard.collect();
        let said = newest(self.said(answers)?)?;
        tracing::debug!(name = %self.name, master = %shown(&said.place), "sentinels name the master");
        let client = self.maker.client(&said.place.0, said.place.1);
        {
            let mut known = self.known();
            (known.current, known.tried) = (Some(said.clone()), None);
        }
        self.newest.send_replace(Some(said));
        self.listen();
        client
    }

    /// What they said, with their places; or why none of them said anything.
    fn said(&self, answers: Vec<Result<Said>>) -> Result<Vec<(String, Said)>> {
        let (mut said, mut errors) = (Vec::new(), Vec::new());
        for ((place, _), answer) in self.sentinels.iter().zip(answers) {
            match answer {
                Ok(answer) => said.push((shown(place), answer)),
                Err(error) => {
                    tracing::debug!(sentinel = %shown(place), %error, "a sentinel is of no help");
                    errors.push((shown(place), error));
                }
            }
        }
        if !said.is_empty() {
            return Ok(said);
        }
        // What a person must put right comes before what may pass.
        let worst = errors.iter().find(|(_, error)| error.kind().is_certain());
        let Some((place, error)) = worst.or(errors.first()) else {
            return Err(invalid("no sentinels".into()));
        };
        let what = format!("no sentinel names the master; {place} says: {error}");
        Err(Error::new(error.kind(), what).with_source(error.clone()))
    }

    async fn ask(&self, client: &Client) -> Result<Said> {
        let asking = async {
            let (mut connection, _pushes) = connect(client).await?;
            self.ask_on(&mut connection).await
        };
        tokio::time::timeout(LIMIT, asking).await.unwrap_or_else(|_| Err(silent()))
    }

    async fn ask_on(&self, connection: &mut MultiplexedConnection) -> Result<Said> {
        let mut command = redis::cmd("SENTINEL");
        command.arg("MASTER").arg(&self.name);
        let answer = send(connection, &command).await.map_err(|error| self.explain(error))?;
        let fields: HashMap<String, String> =
            redis::from_redis_value(answer).map_err(|error| strange(error.to_string()))?;
        let field = |name: &str| fields.get(name).map(String::as_str).unwrap_or_default();
        let number = |name: &str| field(name).parse::<u64>().map_err(|_| strange(&fields));
        let port = field("port").parse().map_err(|_| strange(&fields))?;
        Ok(Said {
            epoch: number("config-epoch")?,
            place: (field("ip").to_owned(), port),
            replicas: number("num-slaves")? as usize,
        })
    }

    /// An error of a sentinel, with what to do about it.
    fn explain(&self, error: redis::RedisError) -> Error {
        let text = error.to_string();
        if text.contains("No such master") {
            let what = format!(
                "the sentinels watch no master {:?}; the name stands in `sentinel monitor NAME`",
                self.name
            );
            return Error::new(ErrorKind::Invalid, what).with_source(error);
        }
        if text.contains("unknown command") {
            let what = "this is no Sentinel; name sentinels in redis+sentinel:, a server in redis:";
            return Error::new(ErrorKind::Unsupported, what).with_source(error);
        }
        from_redis(error)
    }

    /// Returns when a sentinel says that another server has become the master; not again for one
    /// that has been tried in vain.
    pub(crate) async fn moved(&self) {
        let mut newest = self.newest.subscribe();
        let other = |said: &Option<Said>| {
            let known = self.known();
            let is = |other: &Option<Said>| match (said, other) {
                (Some(said), Some(other)) => said.is_as(other),
                (said, other) => said.is_none() && other.is_none(),
            };
            !is(&known.current) && !is(&known.tried)
        };
        if newest.wait_for(other).await.is_err() {
            std::future::pending().await
        }
    }

    /// A sentinel has said who the master is.
    fn hear(&self, number: usize, said: Said) {
        let mut known = self.known();
        known.heard.insert(number, said.clone());
        let Known { current: Some(current), heard, .. } = &mut *known else { return };
        if said.is_as(current) {
            let counts = heard.values().filter(|said| said.is_as(current));
            current.replicas = counts.map(|said| said.replicas).max().unwrap_or_default();
            return;
        }
        let elsewhere = said.place != current.place;
        drop(known);
        let newer = |before: &Option<Said>| before.as_ref().is_some_and(|it| said.epoch > it.epoch);
        self.newest.send_if_modified(|newest| {
            let news = elsewhere && newer(newest);
            if news {
                *newest = Some(said.clone());
            }
            news
        });
    }

    /// The server that the sentinels name is no master, or not yet.
    pub(crate) fn not_yet(&self) -> Error {
        let current = self.current().map(|said| shown(&said.place)).unwrap_or_default();
        let what = format!("{current}, which the sentinels name as the master, is a replica (yet)");
        Error::new(ErrorKind::Unavailable, what)
    }

    /// How many replicas the master is known to have.
    pub(crate) fn replicas(&self) -> usize {
        self.current().map_or(0, |said| said.replicas)
    }

    fn current(&self) -> Option<Said> {
        self.known().current.clone()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The name that they watch the master by.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Each with its place.
    pub(crate) fn each(&self) -> impl Iterator<Item = (String, &Client)> {
        self.sentinels.iter().map(|(place, client)| (shown(place), client))
    }

    fn places(&self) -> Vec<String> {
        self.sentinels.iter().map(|(place, _)| shown(place)).collect()
    }

    /// Listens to each sentinel, from the first use on, for as long as this lives.
    fn listen(self: &Arc<Self>) {
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        if listeners.is_some() {
            return;
        }
        let tasks = listeners.insert(JoinSet::new());
        for (number, (_, client)) in self.sentinels.iter().enumerate() {
            tasks.spawn(listen(number, client.clone(), Arc::downgrade(self)));
        }
    }
}

/// Listens to one sentinel, and connects to it anew whenever that ends.
async fn listen(number: usize, client: Client, sentinels: Weak<Sentinels>) {
    let clock = Clock::system();
    let mut pauses = Backoff::new(PAUSES.0, PAUSES.1);
    loop {
        let since = clock.now();
        follow(number, &client, &sentinels, &clock).await;
        let lasted = clock.now().steady_ns.saturating_sub(since.steady_ns);
        pauses.lasted(Duration::from_nanos(lasted));
        if let Some(sentinels) = sentinels.upgrade() {
            sentinels.known().heard.remove(&number);
        }
        clock.sleep(pauses.next(fastrand::u64(..)).max(PAUSES.0)).await;
    }
}

/// One connection to one sentinel, until it breaks.
async fn follow(number: usize, client: &Client, sentinels: &Weak<Sentinels>, clock: &Clock) {
    let Ok((mut connection, mut pushes)) = connect(client).await else { return };
    if within(LIMIT, connection.subscribe(CHANNEL)).await.is_err() {
        return;
    }
    loop {
        // At first too: a switch may have come before. Replicas come without a word.
        let Some(sentinels) = sentinels.upgrade() else { return };
        let asking = tokio::time::timeout(LIMIT, sentinels.ask_on(&mut connection));
        let Ok(Ok(said)) = asking.await else { return };
        sentinels.hear(number, said);
        drop(sentinels);
        tokio::select! {
            push = pushes.recv() => match push {
                Some(push) if push.kind != PushKind::Disconnection => {}
                _ => return,
            },
            () = clock.sleep(ASK) => {}
        }
    }
}

/// A connection to a sentinel, with what it pushes.
async fn connect(
    client: &Client,
) -> Result<(MultiplexedConnection, mpsc::UnboundedReceiver<PushInfo>)> {
    let (sender, pushes) = mpsc::unbounded_channel();
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(LIMIT))
        .set_response_timeout(None)
        .set_push_sender(sender);
    let connecting = client.get_multiplexed_async_connection_with_config(&config);
    Ok((within(LIMIT, connecting).await?, pushes))
}

/// The answer of the newest switch; of several the one that most give, with the most replicas.
fn newest(said: Vec<(String, Said)>) -> Result<Said> {
    let epoch = said.iter().map(|(_, said)| said.epoch).max();
    let newest: Vec<&(String, Said)> =
        said.iter().filter(|(_, said)| Some(said.epoch) == epoch).collect();
    let votes = |place: &Place| newest.iter().filter(|(_, said)| said.place == *place).count();
    let most = newest.iter().map(|(_, said)| votes(&said.place)).max().unwrap_or_default();
    let mut first = newest.iter().filter(|(_, said)| votes(&said.place) == most);
    let Some((by, chosen)) = first.next() else { return Err(invalid("no sentinels".into())) };
    if let Some((other, said)) = first.find(|(_, said)| said.place != chosen.place) {
        let what = format!(
            "the sentinels do not agree: {by} names {} as the master, {other} {}",
            shown(&chosen.place),
            shown(&said.place)
        );
        return Err(Error::new(ErrorKind::Unavailable, what));
    }
    let alike = newest.iter().filter(|(_, said)| said.place == chosen.place);
    let replicas = alike.map(|(_, said)| said.replicas).max().unwrap_or_default();
    Ok(Said { replicas, ..chosen.clone() })
}

fn silent() -> Error {
    Error::new(ErrorKind::Unavailable, format!("the sentinel did not answer in {LIMIT:?}"))
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn said(answers: &[(u64, u16)]) -> Vec<(String, Said)> {
        let said = |&(epoch, port)| Said { epoch, place: ("m".to_owned(), port), replicas: 2 };
        answers.iter().map(|answer| ("s:1".to_owned(), said(answer))).collect()
    }

    #[test]
    fn the_newest_switch_is_believed_and_then_the_most() {
        for (answers, chosen) in
            [(&[(1, 1)][..], 1), (&[(1, 1), (1, 1), (2, 2)], 2), (&[(0, 1), (0, 2), (0, 2)], 2)]
        {
            assert_eq!(newest(said(answers)).unwrap().place.1, chosen, "{answers:?}");
        }
        let error = newest(said(&[(3, 1), (3, 2), (2, 2)])).unwrap_err();
        assert!(error.to_string().contains("do not agree"), "{error}");
    }

    fn watched(current: &Said) -> Sentinels {
        let url = StoreUrl::parse("redis+sentinel://127.0.0.1:1,127.0.0.1:2/main").unwrap();
        let sentinels = parse(url, &[]).unwrap().sentinels;
        sentinels.known().current = Some(current.clone());
        sentinels.newest.send_replace(Some(current.clone()));
        sentinels
    }

    #[test]
    fn replicas_are_counted_anew_and_by_whoever_knows_most() {
        let first = Said { epoch: 1, place: ("m".to_owned(), 1), replicas: 2 };
        let sentinels = watched(&first);
        for (number, replicas, known) in [(0, 2, 2), (1, 4, 4), (0, 3, 4), (1, 1, 3)] {
            sentinels.hear(number, Said { replicas, ..first.clone() });
            assert_eq!(sentinels.replicas(), known);
        }
        // Those of another master are not ours.
        sentinels.hear(1, Said { epoch: 2, place: ("m".to_owned(), 2), replicas: 9 });
        sentinels.hear(0, Said { replicas: 2, ..first });
        assert_eq!(sentinels.replicas(), 2);
    }

    #[test]
    fn a_switch_is_told_once_until_a_newer_one_comes() {
        let first = Said { epoch: 1, place: ("m".to_owned(), 1), replicas: 2 };
        let second = Said { epoch: 2, place: ("m".to_owned(), 2), replicas: 2 };
        let third = Said { epoch: 3, place: ("m".to_owned(), 3), replicas: 2 };
        let sentinels = watched(&first);
        let moved = || sentinels.moved().now_or_never().is_some();
        sentinels.hear(0, Said { replicas: 3, ..first });
        assert!(!moved(), "the same master");
        sentinels.hear(0, second.clone());
        assert!(moved());
        // It was looked for in vain.
        sentinels.known().tried = Some(second.clone());
        sentinels.hear(1, Said { replicas: 1, ..second.clone() });
        assert!(!moved());
        sentinels.hear(1, third);
        assert!(moved());
        sentinels.hear(0, second);
        assert!(moved(), "an older one is no news");
    }
}

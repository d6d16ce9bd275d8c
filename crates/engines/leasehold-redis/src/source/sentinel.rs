//! The master that sentinels name: the client asks all sentinels, and follows when they switch.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use leasehold_core::clock::Clock;
use leasehold_core::proto::Backoff;
use leasehold_core::{Error, ErrorKind, Result, StoreUrl};
use redis::aio::MultiplexedConnection;
use redis::{Client, PushInfo, PushKind};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::seeds::{Maker, Seeds};
use super::{HostPort, shown};
use crate::address::invalid;
use crate::command::{send, within};
use crate::connection::connect_to;
use crate::error::{from_redis, strange};

/// How long one sentinel may take to answer. All are asked at once.
const LIMIT: Duration = Duration::from_secs(1);
/// The first and longest pause before a silent sentinel is tried again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// How often each sentinel is asked again.
const ASK: Duration = Duration::from_secs(10);
const PORT: u16 = 26379;
const OPTIONS: &[&str] =
    &["sentinel-password", "sentinel-password-file", "sentinel-tls", "sentinel-user"];
const CHANNEL: &str = "+switch-master";

/// The sentinels that watch one master.
pub(crate) struct Sentinels {
    name: String,
    sentinels: Vec<(HostPort, Client)>,
    /// Creates the clients of masters.
    maker: Maker,
    known: Mutex<Known>,
    /// The newest report since then.
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
    /// The master that connections used last.
    current: Option<Said>,
    /// The last report of each sentinel.
    heard: HashMap<usize, Said>,
    /// The newest report at the last try, if that failed.
    tried: Option<Said>,
}

/// The report of a sentinel about the master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    /// The epoch of the switch that made it the master; a larger epoch is newer.
    epoch: u64,
    place: HostPort,
    /// The replicas that the sentinel knows, available or not.
    replicas: usize,
}

impl Said {
    /// Parses the answer to `SENTINEL MASTER`.
    pub(crate) fn of(fields: &HashMap<String, String>) -> Result<Self> {
        let field = |name: &str| fields.get(name).map(String::as_str).unwrap_or_default();
        let number = |name: &str| field(name).parse::<u64>().map_err(|_| strange(fields));
        let port = field("port").parse().map_err(|_| strange(fields))?;
        // During a failover, until the other replicas follow, the leading sentinel reports the
        // address of the old master with the epoch of the new one. The following switch must count
        // as newer.
        let switching = field("flags").split(',').any(|flag| flag == "failover_in_progress");
        Ok(Self {
            epoch: number("config-epoch")?.saturating_sub(u64::from(switching)),
            place: (field("ip").to_owned(), port),
            replicas: number("num-slaves")? as usize,
        })
    }

    /// Returns true for the same master since the same switch.
    fn is_as(&self, other: &Self) -> bool {
        (self.epoch, &self.place) == (other.epoch, &other.place)
    }
}

/// A parsed URL of sentinels.
pub(crate) struct Watched {
    pub(crate) sentinels: Sentinels,
    pub(crate) prefix: String,
    pub(crate) retain: Duration,
    pub(crate) place: String,
}

/// Parses `redis+sentinel://[user[:password]@]host[:port],.../master-name`. User and password are
/// those of the servers.
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
            "the master name is missing; write redis+sentinel://one:26379,two:26379/NAME, with \
             the name in `sentinel monitor NAME`"
                .into(),
        ));
    };
    let maker = seeds.maker.with_login(user, secret);
    let maker = if tls { maker } else { maker.without_tls() };
    let sentinel = |place: HostPort| {
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
    Ok(Watched { sentinels, prefix: seeds.prefix, retain: seeds.retain, place: seeds.place })
}

impl Sentinels {
    /// Asks all sentinels for the master. The answer with the newest switch counts.
    pub(crate) async fn master(self: &Arc<Self>) -> Result<Client> {
        let before = self.newest.borrow().clone();
        self.known().tried = before.clone();
        let asking = self.sentinels.iter().map(|(_, client)| self.ask(client));
        let answers = join_all(asking).await;
        let heard = answers.iter().enumerate();
        let heard = heard.filter_map(|(number, said)| Some((number, said.clone().ok()?)));
        self.known().heard = heard.collect();
        let said = self.adopt(before.as_ref(), newest(self.said(answers)?)?);
        tracing::debug!(name = %self.name, master = %shown(&said.place), "sentinels name the master");
        let client = self.maker.client(&said.place.0, said.place.1);
        self.listen();
        client
    }

    /// Makes the answer of the sentinels the current master and returns it. If a newer report
    /// arrived since `before`, while they were asked, that one counts: it arrives only once.
    fn adopt(&self, before: Option<&Said>, answer: Said) -> Said {
        let mut adopted = answer;
        self.newest.send_modify(|newest| match newest {
            Some(heard) if Some(&*heard) != before && heard.epoch > adopted.epoch => {
                adopted = heard.clone();
            }
            newest => *newest = Some(adopted.clone()),
        });
        let mut known = self.known();
        (known.current, known.tried) = (Some(adopted.clone()), None);
        adopted
    }

    /// Returns the answers with their places, or why no sentinel answered.
    fn said(&self, answers: Vec<Result<Said>>) -> Result<Vec<(String, Said)>> {
        let (mut said, mut errors) = (Vec::new(), Vec::new());
        for ((place, _), answer) in self.sentinels.iter().zip(answers) {
            match answer {
                Ok(answer) => said.push((shown(place), answer)),
                Err(error) => {
                    tracing::debug!(sentinel = %shown(place), %error, "a sentinel gave no usable answer");
                    errors.push((shown(place), error));
                }
            }
        }
        if !said.is_empty() {
            return Ok(said);
        }
        // Errors that an operator must fix come before temporary errors.
        let worst = errors.iter().find(|(_, error)| error.kind().is_certain());
        let Some((place, error)) = worst.or(errors.first()) else {
            return Err(invalid("no sentinels".into()));
        };
        let what = format!("no sentinel names the master; the answer of {place}: {error}");
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
        Said::of(&fields)
    }

    /// Adds what to do to the error of a sentinel.
    fn explain(&self, error: redis::RedisError) -> Error {
        let text = error.to_string();
        if text.contains("No such master") {
            let what = format!(
                "the sentinels watch no master {:?}; use the name in `sentinel monitor NAME`",
                self.name
            );
            return Error::new(ErrorKind::Invalid, what).with_source(error);
        }
        if text.contains("unknown command") {
            let what = "the server is not a Sentinel; name sentinels in redis+sentinel:, a server in redis:";
            return Error::new(ErrorKind::Unsupported, what).with_source(error);
        }
        from_redis(error)
    }

    /// Returns when a sentinel reports another server as the master, but not again for a server
    /// that failed.
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

    /// Records the master that a sentinel reports.
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

    /// The error for a server that the sentinels name, but that is not a master, or not yet.
    pub(crate) fn not_yet(&self) -> Error {
        let current = self.current().map(|said| shown(&said.place)).unwrap_or_default();
        let what = format!(
            "{current}, which the sentinels name as the master, is still a replica; retrying"
        );
        Error::new(ErrorKind::Unavailable, what)
    }

    /// Returns how many replicas the master is known to have.
    pub(crate) fn replicas(&self) -> usize {
        self.current().map_or(0, |said| said.replicas)
    }

    fn current(&self) -> Option<Said> {
        self.known().current.clone()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the name under which they watch the master.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Iterates over the sentinels with their places.
    pub(crate) fn each(&self) -> impl Iterator<Item = (String, &Client)> {
        self.sentinels.iter().map(|(place, client)| (shown(place), client))
    }

    fn places(&self) -> Vec<String> {
        self.sentinels.iter().map(|(place, _)| shown(place)).collect()
    }

    /// Listens to each sentinel, from the first use on, for as long as this exists.
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

/// Listens to one sentinel, and reconnects whenever the connection ends.
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

/// Follows one connection to one sentinel, until it breaks.
async fn follow(number: usize, client: &Client, sentinels: &Weak<Sentinels>, clock: &Clock) {
    let Ok((mut connection, mut pushes)) = connect(client).await else { return };
    if within(LIMIT, connection.subscribe(CHANNEL)).await.is_err() {
        return;
    }
    loop {
        // Also at the start: a switch may have happened before. New replicas are not reported.
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

/// Connects to a sentinel; returns the connection with its pushes.
async fn connect(
    client: &Client,
) -> Result<(MultiplexedConnection, mpsc::UnboundedReceiver<PushInfo>)> {
    let (sender, pushes) = mpsc::unbounded_channel();
    Ok((connect_to(client, LIMIT, Some(sender)).await?, pushes))
}

/// Returns the answer with the newest switch. Of several, it returns the most frequent one, with
/// the most replicas.
fn newest(said: Vec<(String, Said)>) -> Result<Said> {
    let epoch = said.iter().map(|(_, said)| said.epoch).max();
    let newest: Vec<&(String, Said)> =
        said.iter().filter(|(_, said)| Some(said.epoch) == epoch).collect();
    let votes = |place: &HostPort| newest.iter().filter(|(_, said)| said.place == *place).count();
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
        // Replicas of another master do not count.
        sentinels.hear(1, Said { epoch: 2, place: ("m".to_owned(), 2), replicas: 9 });
        sentinels.hear(0, Said { replicas: 2, ..first });
        assert_eq!(sentinels.replicas(), 2);
    }

    #[test]
    fn an_answer_during_a_failover_is_older_than_its_switch() {
        let fields = |flags: &str, port: &str| {
            [
                ("config-epoch", "5"),
                ("flags", flags),
                ("ip", "m"),
                ("port", port),
                ("num-slaves", "2"),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into()
        };
        let during = Said::of(&fields("master,failover_in_progress", "1")).unwrap();
        let after = Said::of(&fields("master", "2")).unwrap();
        assert!(during.epoch < after.epoch);
        let sentinels = watched(&during);
        sentinels.hear(0, after);
        assert!(sentinels.moved().now_or_never().is_some());
    }

    #[test]
    fn a_switch_that_is_heard_of_while_sentinels_are_asked_is_not_forgotten() {
        let said = |epoch| Said { epoch, place: ("m".to_owned(), epoch as u16), replicas: 2 };
        let sentinels = watched(&said(1));
        let before = sentinels.newest.borrow().clone();
        sentinels.hear(0, said(2));
        assert_eq!(sentinels.adopt(before.as_ref(), said(1)), said(2));
        assert_eq!(sentinels.current(), Some(said(2)));
        assert!(
            sentinels.moved().now_or_never().is_none(),
            "the client is already connected to it"
        );
        // Earlier reports are older than an answer, for any epoch: sentinels may be new.
        let before = sentinels.newest.borrow().clone();
        assert_eq!(sentinels.adopt(before.as_ref(), said(1)), said(1));
        assert_eq!(sentinels.current(), Some(said(1)));
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
        // The client could not connect to it.
        sentinels.known().tried = Some(second.clone());
        sentinels.hear(1, Said { replicas: 1, ..second.clone() });
        assert!(!moved());
        sentinels.hear(1, third);
        assert!(moved());
        sentinels.hear(0, second);
        assert!(moved(), "an older report has no effect");
    }
}

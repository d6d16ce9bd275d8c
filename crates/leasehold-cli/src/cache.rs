//! `leasehold cache`: the outbox of a cache's invalidations, and its relay.

use leasehold_cache::outbox::{Database, Outbox, Relay, RelayStats};
use leasehold_cache::{Error, ErrorKind};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::{CacheCommand, CacheInitArgs, CacheRelayArgs, Globals, OutboxArgs};
use crate::config::Config;
use crate::failure::{Failure, code};
use crate::say::{self, Voice};
use crate::timer::now_unix_ms;
use crate::{human, locate};

/// Makes the table, or works it off.
pub(crate) async fn cache(
    command: &CacheCommand,
    globals: &Globals,
    voice: Voice,
) -> Result<u8, Failure> {
    match command {
        CacheCommand::Init(args) => init(args, voice).await,
        CacheCommand::Relay(args) => relay(args, globals, voice).await,
    }
}

async fn init(args: &CacheInitArgs, voice: Voice) -> Result<u8, Failure> {
    let (outbox, database) = open(&args.outbox)?;
    if args.print {
        let statements = database.statements(&outbox);
        let text: String = statements.iter().map(|statement| format!("{statement};\n")).collect();
        say::answer(text)?;
        return Ok(0);
    }
    database.create(&outbox).await.map_err(failed)?;
    voice.note("the table is there");
    Ok(0)
}

async fn relay(args: &CacheRelayArgs, globals: &Globals, voice: Voice) -> Result<u8, Failure> {
    let config = Config::load(globals.config.as_deref())?;
    let store = locate::store_url(globals.store.as_deref(), &config)?;
    if !["redis", "unix:"].iter().any(|scheme| store.starts_with(scheme)) {
        return Err(Failure::own("cache relay: the store is no Redis server, where a cache is")
            .next("name it: --store redis://host:port"));
    }
    let (outbox, database) = open(&args.outbox)?;
    let builder = database.relay(&outbox).batch(args.batch).poll(args.poll);
    let relay = builder.claim(args.claim).tries(args.tries).open(&store).map_err(failed)?;
    // What is wrong with the database for good is said at once.
    relay.parked(1).await.map_err(failed)?;
    if args.retry_parked {
        let rows = relay.unpark().await.map_err(failed)?;
        voice.note(&format!("{rows} parked rows are tried anew"));
    }
    if args.once {
        let done = relay.once().await;
        tell(&relay.stats(), args.json, voice)?;
        return done.map(|_| 0).map_err(failed);
    }
    run(&relay, args, voice).await
}

/// Works until it is told to end.
async fn run(relay: &Relay, args: &CacheRelayArgs, voice: Voice) -> Result<u8, Failure> {
    let cannot = |error| Failure::own(format!("cannot catch signals: {error}"));
    let mut terminate = signal(SignalKind::terminate()).map_err(cannot)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(cannot)?;
    let told = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    let mut last = None;
    let telling = async {
        loop {
            tokio::time::sleep(args.interval).await;
            let stats = relay.stats();
            // JSON is for machines, which want to see that it is alive.
            if (args.json || last.as_ref() != Some(&stats)) && !tell(&stats, args.json, voice)? {
                return Ok::<_, Failure>(());
            }
            last = Some(stats);
        }
    };
    let stop = async {
        tokio::select! {
            () = told => Ok(()),
            // Nobody reads on.
            done = telling => done,
        }
    };
    let (ended, end) = tokio::sync::oneshot::channel();
    let stop = async {
        let _ = ended.send(stop.await);
    };
    relay.run(stop).await;
    end.await.unwrap_or(Ok(()))?;
    tell(&relay.stats(), args.json, voice)?;
    Ok(0)
}

/// Says how it goes; false when nobody reads it.
fn tell(stats: &RelayStats, json: bool, voice: Voice) -> Result<bool, Failure> {
    if json {
        let object = json!({
            "time_unix_ms": now_unix_ms(),
            "delivered": stats.delivered,
            "refused": stats.refused,
            "parked": stats.parked,
            "failures": stats.failures,
            "parked_rows": stats.parked_rows,
            "oldest_ms": u64::try_from(stats.oldest.as_millis()).unwrap_or(u64::MAX),
            "problem": stats.problem,
        });
        return say::answer_part(format_args!("{}\n", crate::foreign::json(&object)));
    }
    let mut line = format!("{} delivered", stats.delivered);
    if !stats.oldest.is_zero() {
        line.push_str(&format!(", the oldest waits for {}", human::span(stats.oldest)));
    }
    if stats.parked_rows > 0 {
        line.push_str(&format!(", {} parked (see the column problem)", stats.parked_rows));
    }
    match &stats.problem {
        Some(problem) => voice.warn(&format!("{line}; {problem}; trying again")),
        None => voice.note(&line),
    }
    Ok(true)
}

fn open(args: &OutboxArgs) -> Result<(Outbox, Database), Failure> {
    let outbox = Outbox::named(&args.table).map_err(failed)?;
    let database = Database::open(&args.database)
        .map_err(|error| Failure::own(format!("--database: {error}")))?;
    Ok((outbox, database))
}

fn failed(error: Error) -> Failure {
    let text = error.to_string();
    match error.kind() {
        ErrorKind::Unavailable | ErrorKind::Database => {
            let failure = Failure::with_code(code::UNAVAILABLE, text);
            match error.kind() {
                ErrorKind::Database => {
                    failure.next("if the table is missing: leasehold cache init --database URL")
                }
                _ => failure,
            }
        }
        _ => Failure::own(text),
    }
}

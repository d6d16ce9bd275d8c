//! `leasehold cache`: carries the invalidations of a cache from its database to its server.

#[cfg(feature = "nats")]
mod apply;
mod init;
mod live;
mod relay;

use leasehold::StoreUrl;
use leasehold_outbox::{Database, Outbox};
use leasehold_outbox::{Error, ErrorKind};

use crate::cli::{CacheCommand, Globals};
use crate::config::Config;
use crate::failure::{Failure, code};
use crate::locate;
use crate::output::Voice;

/// Creates what is needed, or carries invalidations.
pub(crate) async fn cache(
    command: &CacheCommand,
    globals: &Globals,
    voice: Voice,
) -> Result<u8, Failure> {
    match command {
        CacheCommand::Init(args) => init::init(args, voice).await,
        CacheCommand::Relay(args) => relay::relay(args, globals, voice).await,
        #[cfg(feature = "nats")]
        CacheCommand::Apply(args) => apply::apply(args, globals, voice).await,
    }
}

fn open(database: &str, table: &str) -> Result<(Outbox, Database), Failure> {
    let outbox = Outbox::named(table).map_err(failed)?;
    let database =
        Database::open(database).map_err(|error| Failure::own(format!("--database: {error}")))?;
    Ok((outbox, database))
}

/// Returns the Redis server of the cache.
fn redis(globals: &Globals, command: &str) -> Result<String, Failure> {
    let config = Config::load(globals.config.as_deref())?;
    let store = locate::store_url(globals.store.as_deref(), &config)?.url;
    if ["redis", "unix:"].iter().any(|scheme| store.starts_with(scheme)) {
        return Ok(store);
    }
    let what = format!("cache {command}: the store is not a Redis server, which a cache needs");
    Err(Failure::own(what).next("name it: --store redis://host:port"))
}

fn failed(error: Error) -> Failure {
    let text = error.to_string();
    match error.kind() {
        ErrorKind::Unavailable => Failure::of_kind(code::UNAVAILABLE, text, "服务器不可用")
            .next("check the URLs (--store, --to, --from), and that the servers run"),
        ErrorKind::Database => Failure::of_kind(code::UNAVAILABLE, text, "数据库出错"),
        _ => Failure::of_kind(code::OWN, text, "参数无效"),
    }
}

/// Does the same, with the next step for an error of the database of this URL.
fn failed_at(database: &str) -> impl Fn(Error) -> Failure {
    let place = StoreUrl::parse(database).map_or_else(|_| String::new(), |url| url.to_string());
    move |error| match error.kind() {
        ErrorKind::Database => failed(error).next(format!(
            "check that {place} (--database) runs; if the table is missing: \
             leasehold cache init --database URL"
        )),
        _ => failed(error),
    }
}

//! By way of NATS JetStream, with the real server: what the relay puts into the stream, receivers apply.

mod deaths;
mod misuse;
mod refusals;
mod through;

use std::sync::Arc;

use leasehold_outbox::{NatsTransport, Receiver, ReceiverStats};
use leasehold_test_servers::{NatsServer, NatsSettings, Needs};
use libtest_mimic::Trial;
use serde_json::{Value, json};
use sqlx::{Pool, Sqlite};
use tokio::task::JoinHandle;

use super::database::{Databases, trial};
use super::until;

/// Each on SQLite: what a stream does, the table does not see.
macro_rules! nats {
    ($databases:expr, $($module:ident::$name:ident $(, $needs:ident)?;)*) => {
        vec![$({
            let name = concat!("nats::", stringify!($module), "::", stringify!($name));
            let trial = trial("sqlite", name, $databases, |databases| async move {
                $module::$name(databases.sqlite().await).await;
            });
            let missing = Needs::Nats.is_missing() $(|| Needs::$needs.is_missing())?;
            if missing { trial.with_ignored_flag(true) } else { trial }
        }),*]
    };
}

pub(crate) fn trials(databases: &Arc<Databases>) -> Vec<Trial> {
    nats!(
        databases,
        deaths::a_server_killed_before_it_has_acknowledged_loses_nothing;
        deaths::a_relay_that_dies_after_publishing_puts_nothing_into_the_stream_twice;
        deaths::a_receiver_that_dies_in_mid_batch_loses_nothing;
        deaths::a_server_that_was_killed_is_found_again;
        misuse::what_cannot_be_used_is_named_without_its_secrets;
        misuse::a_stream_that_is_not_there_is_no_delivery;
        misuse::a_stream_or_consumer_that_will_not_do_is_named;
        misuse::a_user_who_may_not_publish_is_told_so;
        refusals::what_the_stream_refuses_is_parked;
        refusals::a_full_stream_parks_nothing;
        refusals::while_redis_is_down_messages_wait_and_none_is_given_up;
        refusals::what_redis_refuses_is_given_up_and_stands_in_nobodys_way;
        refusals::what_no_relay_has_written_is_given_up;
        through::each_change_goes_through_once;
        through::a_row_more_is_a_message_more;
        through::receivers_of_one_durable_share_and_those_of_another_see_all;
        through::a_relay_that_is_stopped_ends_in_time_and_keeps_its_rows;
        through::a_receiver_that_is_stopped_ends_its_batch_or_gives_it_back;
        through::over_tls, OpenSsl;
    )
}

const STREAM: &str = "leasehold-cache";

/// A server with a stream.
async fn broker() -> NatsServer {
    let nats = NatsServer::start(NatsSettings::new()).unwrap();
    NatsTransport::open(&nats.url()).unwrap().create().await.unwrap();
    nats
}

fn info(nats: &NatsServer) -> Value {
    nats.request(&format!("$JS.API.STREAM.INFO.{STREAM}"), &json!({})).unwrap()
}

/// Messages that the stream keeps.
fn messages(nats: &NatsServer) -> u64 {
    info(nats)["state"]["messages"].as_u64().unwrap()
}

/// Those that a durable has not been given, or has not acknowledged.
fn left(nats: &NatsServer, durable: &str) -> u64 {
    let subject = format!("$JS.API.CONSUMER.INFO.{STREAM}.{durable}");
    let info = nats.request(&subject, &json!({})).unwrap();
    info["num_pending"].as_u64().unwrap() + info["num_ack_pending"].as_u64().unwrap()
}

/// Changes the stream's configuration.
fn configure(nats: &NatsServer, key: &str, value: impl Into<Value>) {
    let mut config = info(nats)["config"].clone();
    config[key] = value.into();
    nats.request(&format!("$JS.API.STREAM.UPDATE.{STREAM}"), &config).unwrap();
}

/// Runs a receiver as long as the test.
fn receive(receiver: &Arc<Receiver>) -> JoinHandle<()> {
    let receiver = Arc::clone(receiver);
    tokio::spawn(async move { receiver.run(std::future::pending()).await })
}

async fn until_received(what: &str, of: &Receiver, so: impl Fn(&ReceiverStats) -> bool) {
    until(what, || std::future::ready(so(&of.stats()))).await;
}

/// Rows of these keys, as many transactions.
async fn changes(pool: &Pool<Sqlite>, outbox: &leasehold_outbox::Outbox, keys: &[String]) {
    // None of them is read here, and Redis need not be up for them.
    let cache = super::cache("redis://127.0.0.1:1");
    for key in keys {
        super::change(pool, outbox, &cache, &[key]).await;
    }
}

fn keys(count: usize) -> Vec<String> {
    (0..count).map(|at| format!("key {at}")).collect()
}

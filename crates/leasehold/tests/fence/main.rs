//! Late writes are refused at real resources: values in Redis, services behind the HTTP layer.

#![allow(clippy::unwrap_used)]

mod announced;
mod http;
mod owner;
mod paused;
mod redis;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use ::redis::AsyncConnectionConfig;
use ::redis::aio::MultiplexedConnection;
use leasehold_conformance::runner;
use leasehold_test_servers::{Needs, RedisServer, RedisSettings};
use libtest_mimic::{Arguments, Trial};

/// No test takes longer than this; one that does hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// One trial per function; those that are given a connection are left out without a server.
macro_rules! trials {
    ($server:expr, plain: [$($module:ident::$plain:ident),* $(,)?], redis: [$($redis:ident::$name:ident),* $(,)?]) => {{
        let server = $server;
        vec![
            $(trial(concat!(stringify!($module), "::", stringify!($plain)), $module::$plain()),)*
            $({
                let server = server.clone();
                let left_out = server.is_none();
                trial(concat!(stringify!($redis), "::", stringify!($name)), async move {
                    let server = server.unwrap();
                    $redis::$name(connect(&server).await, server).await;
                })
                .with_ignored_flag(left_out)
            },)*
        ]
    }};
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let is_missing = Needs::Redis.is_missing();
    let server = (!is_missing).then(|| Arc::new(RedisServer::start(RedisSettings::new()).unwrap()));
    let trials = trials!(server.clone(),
        plain: [
            paused::a_paused_holders_late_write_is_refused_in_memory,
            announced::a_late_write_is_refused_in_memory_once_readers_announce,
            announced::a_late_write_is_refused_by_http_once_readers_announce,
            announced::a_lost_reader_cannot_announce,
            http::an_older_token_is_refused_per_resource,
            http::a_request_without_a_token_is_refused_unless_allowed,
            http::a_malformed_token_names_the_header,
            http::the_handler_finds_the_token,
            http::the_server_says_what_the_resource_is,
            http::an_older_request_is_refused_while_a_newer_one_is_at_work,
            http::a_request_let_in_before_is_not_stopped,
            http::after_a_token_has_passed_no_smaller_one_does,
        ],
        redis: [
            paused::a_paused_holders_late_write_is_refused_by_redis,
            announced::a_late_write_is_refused_by_redis_once_readers_announce,
            redis::an_older_token_changes_nothing,
            redis::tokens_compare_as_numbers_over_the_whole_range,
            redis::of_concurrent_writers_the_last_token_stays,
            redis::flushed_scripts_are_sent_again_and_applied_once,
            redis::the_token_outlives_its_value,
            redis::a_deleted_value_is_not_brought_back,
            redis::an_announced_token_refuses_before_the_first_write,
            redis::a_foreign_fence_is_left_as_it_is,
            redis::a_full_server_refuses_a_value_and_lets_it_be_deleted,
            redis::an_older_value_is_taken_over_and_read_by_plain_get,
            owner::a_claimed_key_stops_the_owner_before,
            owner::a_late_writer_passes_until_the_new_owner_has_claimed,
            owner::a_late_claim_passes_and_locks_the_later_owner_out,
        ]
    );
    let code = libtest_mimic::run(&arguments, trials).exit_code();
    drop(server);
    code
}

fn trial(name: &str, test: impl Future<Output = ()> + Send + 'static) -> Trial {
    runner::trial(name, LIMIT, || test)
}

async fn connect(server: &RedisServer) -> MultiplexedConnection {
    let client = ::redis::Client::open(server.url()).unwrap();
    // The usual half a second is no time on a machine that has much to do.
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(LIMIT))
        .set_response_timeout(Some(LIMIT));
    client.get_multiplexed_async_connection_with_config(&config).await.unwrap()
}

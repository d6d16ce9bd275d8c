//! A filter in Redis by `BITFIELD` and `BITFIELD_RO`, beside a script that looks at one bit after the other.

use std::time::Duration;

use leasehold_filters::bloom::{Answer, Redis};
use leasehold_test_servers::{RedisServer, RedisSettings};
use redis::Script;
use redis::aio::MultiplexedConnection;

use super::BloomArgs;
use crate::Result;
use crate::common::Common;
use crate::measure::median;
use crate::metric::{CALL_US, CLIENT_US_PER_REQUEST, REQUESTS_PER_S, SERVER_US_PER_REQUEST};
use crate::pairs::load::{Sample, Times, Worker, drive};
use crate::progress::Progress;
use crate::row::{Row, Setup};
use crate::runtime::Flavour;

const ITEMS: u32 = 100_000;
const ERROR_RATE: f64 = 0.001;
/// As many bits and hashes as the filter has.
const BITS: u64 = 1_443_583;
const HASHES: usize = 10;

const LUA_CHECK: &str = "for i = 1, #ARGV do \
    if redis.call('GETBIT', KEYS[1], ARGV[i]) == 0 then return 0 end end return 1";
const LUA_ADD: &str = "for i = 1, #ARGV do redis.call('SETBIT', KEYS[1], ARGV[i], 1) end return 1";

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Work {
    /// An item is added.
    Add,
    /// An item is asked for that was added: all of its bits are looked at.
    Check,
}

impl Work {
    const ALL: [Self; 2] = [Self::Add, Self::Check];

    fn name(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Check => "check",
        }
    }
}

const SUBJECTS: [&str; 2] = ["leasehold", "lua"];

pub(super) fn steps(args: &BloomArgs) -> usize {
    let Common { rounds, .. } = &args.common;
    args.tasks.len() * args.common.flavours().len() * 4 * *rounds as usize
}

pub(super) fn measure(args: &BloomArgs, progress: &Progress) -> Result<Vec<Row>> {
    let window = Duration::from_millis(if args.common.quick { 300 } else { 1_500 });
    let times = Times { warm_up: window / 5, window };
    let mut rows = Vec::new();
    for runtime in args.common.flavours().iter().copied() {
        for tasks in args.tasks.iter().copied() {
            for work in Work::ALL {
                let mut samples = [Vec::new(), Vec::new()];
                for _ in 0..args.common.rounds {
                    for (subject, samples) in SUBJECTS.iter().zip(&mut samples) {
                        progress.begin(format!("{subject}: {}, {tasks} tasks", work.name()));
                        samples.push(sample(subject, runtime, tasks, work, times)?);
                        progress.done();
                    }
                }
                for (subject, samples) in SUBJECTS.into_iter().zip(&samples) {
                    let setup = Setup::new("bloom", "redis", runtime).with("work", work.name());
                    let setup = Setup { subject, tasks, ..setup };
                    let of = |figure: &dyn Fn(&(Sample, f64)) -> f64| {
                        median(&samples.iter().map(figure).collect::<Vec<f64>>())
                    };
                    rows.push(setup.row(REQUESTS_PER_S, of(&|(sample, _)| sample.per_s)));
                    rows.push(
                        setup.row(CLIENT_US_PER_REQUEST, of(&|(sample, _)| sample.client_us)),
                    );
                    let server = of(&|(sample, _)| sample.server_us.unwrap_or_default());
                    rows.push(setup.row(SERVER_US_PER_REQUEST, server));
                    rows.push(setup.row(CALL_US, of(&|(_, call_us)| *call_us)));
                }
            }
        }
    }
    Ok(rows)
}

/// And the server's time for one call, as it counts it itself.
fn sample(
    subject: &'static str,
    runtime: Flavour,
    tasks: usize,
    work: Work,
    times: Times,
) -> Result<(Sample, f64)> {
    let server = RedisServer::start(RedisSettings::new())?;
    let (url, pid) = (server.url(), server.pid());
    let sample = runtime.run(async move {
        match subject {
            "leasehold" => {
                let filter = Redis::builder("bench", ITEMS.into(), ERROR_RATE);
                let filter =
                    filter.create(true).redis_limit(Duration::from_secs(10)).open(&url).await?;
                for some in (0..ITEMS).collect::<Vec<_>>().chunks(2_000) {
                    let items: Vec<String> = some.iter().map(|item| item.to_string()).collect();
                    filter.add_many(&items).await?;
                }
                let asker = |_| Ours { filter: filter.clone(), work };
                drive((0..tasks).map(asker).collect(), times, &[pid]).await
            }
            _ => {
                let connection = crate::multiplexed(&url).await?;
                let script = Script::new(if work == Work::Add { LUA_ADD } else { LUA_CHECK });
                let asker = |_| Lua { connection: connection.clone(), script: script.clone() };
                let mut workers: Vec<Lua> = (0..tasks).map(asker).collect();
                workers[0].fill().await?;
                drive(workers, times, &[pid]).await
            }
        }
    })?;
    let command = match (subject, work) {
        ("lua", _) => "evalsha",
        (_, Work::Add) => "bitfield",
        (_, Work::Check) => "bitfield_ro",
    };
    let stats = server.info(&format!("cmdstat_{command}"))?;
    let call_us = stats.split(',').find_map(|field| field.strip_prefix("usec_per_call="));
    Ok((sample, call_us.ok_or("the server counts no calls")?.parse()?))
}

struct Ours {
    filter: Redis,
    work: Work,
}

impl Worker for Ours {
    async fn pair(&mut self) -> Result<()> {
        let item = fastrand::u32(..ITEMS).to_string();
        match self.work {
            Work::Add => Ok(self.filter.add(item).await?),
            Work::Check if self.filter.check(&item).await == Answer::Maybe => Ok(()),
            Work::Check => Err(format!("{item} was added and is not there").into()),
        }
    }
}

struct Lua {
    connection: MultiplexedConnection,
    script: Script,
}

impl Lua {
    /// Every bit is set, so that each is looked at.
    async fn fill(&mut self) -> Result<()> {
        let ones = vec![0xff_u8; (BITS as usize).div_ceil(8)];
        let set = redis::cmd("SET").arg("bits").arg(ones).exec_async(&mut self.connection).await;
        Ok(set?)
    }
}

impl Worker for Lua {
    async fn pair(&mut self) -> Result<()> {
        let mut call = self.script.key("bits");
        for _ in 0..HASHES {
            call.arg(fastrand::u64(..BITS));
        }
        match call.invoke_async::<u8>(&mut self.connection).await? {
            1 => Ok(()),
            other => Err(format!("the script says {other}").into()),
        }
    }
}

//! `stock`: how many pieces of one item are sold in a second, by each way not to oversell it.

mod databases;
mod picture;
#[allow(dead_code, reason = "the example has more to show")]
mod shop;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sqlx::{Encode, Pool, Type};

use crate::common::{Common, count};
use crate::in_turn::in_turn;
use crate::measure::median;
use crate::metric::{CLIENT_US_PER_SALE, SALES_PER_S};
use crate::pairs::load::{Sample, Times, Worker, drive};
use crate::row::{Row, Setup};
use crate::runtime::Flavour;
use crate::store::{Store, StoreAddress};
use crate::{Result, output};

use databases::{Databases, Engine};
use shop::{Shop, Talk, Way};

/// `stock [OPTIONS]`
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct StockArgs {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Numbers of buyers, who all want the same item
    #[arg(long, value_name = "N,..", default_value = "1,64", value_delimiter = ',', value_parser = count)]
    pub(crate) tasks: Vec<usize>,
    /// Databases, each a server (or file) of our own
    #[arg(
        long,
        value_name = "ENGINE,..",
        default_value = "sqlite,postgres,mysql",
        value_delimiter = ','
    )]
    pub(crate) engines: Vec<Engine>,
}

/// More than can be sold.
const PIECES: i64 = 1_000_000_000;

/// One line of the table.
#[derive(Clone, Debug)]
struct Case {
    engine: Engine,
    runtime: Flavour,
    tasks: usize,
    way: Way,
    /// Where the lock is; the other ways need none.
    store: Option<Store>,
}

/// Measures and reports; `stores` are those for the lock.
pub(crate) fn run(args: &StockArgs, stores: &[Store]) -> Result<()> {
    output::check(&args.common)?;
    let times = match args.common.quick {
        true => Times { warm_up: Duration::from_millis(200), window: Duration::from_millis(500) },
        false => Times { warm_up: Duration::from_millis(500), window: Duration::from_secs(2) },
    };
    let (databases, notes) = Databases::start(&args.engines);
    let rows = measure(args, stores, &databases, times)?;
    output::write(&args.common, &rows, &notes, &picture::picture(&rows))
}

fn measure(
    args: &StockArgs,
    stores: &[Store],
    databases: &Databases,
    times: Times,
) -> Result<Vec<Row>> {
    let cases = plan(args, stores, databases);
    let samples = in_turn(&cases, args.common.rounds, Case::told, |case| {
        let sample = case.sample(databases, times);
        sample.map_err(|error| format!("{}: {error}", case.told()).into())
    })?;
    Ok(cases.iter().zip(&samples).flat_map(|(case, samples)| case.rows(samples)).collect())
}

fn plan(args: &StockArgs, stores: &[Store], databases: &Databases) -> Vec<Case> {
    let mut cases = Vec::new();
    for engine in databases.started() {
        for runtime in args.common.flavours() {
            for tasks in &args.tasks {
                let (runtime, tasks) = (*runtime, *tasks);
                let case = |way, store| Case { engine, runtime, tasks, way, store };
                cases.push(case(Way::Pessimistic, None));
                cases.push(case(Way::Optimistic, None));
                cases.extend(stores.iter().map(|store| case(Way::Lock, Some(store.clone()))));
            }
        }
    }
    cases
}

impl Case {
    fn sample(&self, databases: &Databases, times: Times) -> Result<Sample> {
        let place = self.store.as_ref().unwrap_or(&Store::Memory).place()?;
        let (way, tasks) = (self.way, self.tasks);
        let url = databases.url(self.engine)?;
        match self.engine {
            Engine::Sqlite => self.runtime.run(async move {
                sell(databases::sqlite(&url).await?, &place, way, tasks, times).await
            }),
            Engine::Postgres => self.runtime.run(async move {
                sell::<sqlx::Postgres>(databases::pool(&url).await?, &place, way, tasks, times)
                    .await
            }),
            Engine::Mysql => self.runtime.run(async move {
                sell::<sqlx::MySql>(databases::pool(&url).await?, &place, way, tasks, times).await
            }),
        }
    }

    fn rows(&self, samples: &[Sample]) -> Vec<Row> {
        let setup = Setup::new("stock", self.engine.name(), self.runtime);
        let mut setup = Setup { subject: self.way.name(), tasks: self.tasks, ..setup };
        if let Some(store) = &self.store {
            setup = setup.with("store", store.backend());
        }
        let of =
            |figure: fn(&Sample) -> f64| median(&samples.iter().map(figure).collect::<Vec<f64>>());
        vec![
            setup.row(SALES_PER_S, of(|sample| sample.per_s)),
            setup.row(CLIENT_US_PER_SALE, of(|sample| sample.client_us)),
        ]
    }

    fn told(&self) -> String {
        let (engine, runtime) = (self.engine.name(), self.runtime.name());
        format!("{engine} {runtime}, {} tasks: {}", self.tasks, self.way.name())
    }
}

/// One buyer, who comes again and again; each purchase has a number of its own.
struct Buyer<E: Talk> {
    shop: Arc<Shop<E>>,
    way: Way,
    purchases: Arc<AtomicU64>,
}

impl<E: Talk> Worker for Buyer<E>
where
    i64: for<'q> Encode<'q, E> + Type<E>,
{
    async fn pair(&mut self) -> Result<()> {
        let purchase = self.purchases.fetch_add(1, Ordering::Relaxed);
        match self.shop.buy(self.way, purchase).await? {
            true => Ok(()),
            false => Err("sold out".into()),
        }
    }
}

async fn sell<E: Talk>(
    pool: Pool<E>,
    place: &StoreAddress,
    way: Way,
    tasks: usize,
    times: Times,
) -> Result<Sample>
where
    i64: for<'q> Encode<'q, E> + Type<E>,
{
    let client = place.connect().await?;
    let shop = Arc::new(Shop::new(pool.clone(), client.lock(place.name(0)))?);
    shop.stock(PIECES).await?;
    let purchases = Arc::new(AtomicU64::new(1));
    let buyer = |_| Buyer { shop: shop.clone(), way, purchases: purchases.clone() };
    let sample = drive((0..tasks).map(buyer).collect(), times, &[]).await?;
    let books = shop.books().await?;
    if !books.balance() {
        return Err(format!("the books do not balance: {books:?}").into());
    }
    shop.close().await?;
    client.close().await;
    pool.close().await;
    Ok(sample)
}

//! Starts a server, and ends it so that no promise to a client is broken.

use std::fmt;
use std::time::Duration;

use axum::extract::DefaultBodyLimit;
use axum::{Router, middleware};
use leasehold::Error;
use leasehold::clock::Clock;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use crate::app::App;
use crate::listen::{self, Bound};
use crate::settings::Settings;
use crate::{api, metrics, pages, safety, tls};

/// How long clients that wait may take to leave the queue of a store.
const LEAVING: Duration = Duration::from_secs(2);

/// A server that is bound and not started yet.
pub struct Server {
    app: App,
    bound: Bound,
    tls: Option<TlsAcceptor>,
    stop: watch::Sender<bool>,
    settings: Settings,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("place", &self.place()).finish_non_exhaustive()
    }
}

impl Server {
    /// Checks the settings, and binds the socket.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](leasehold::ErrorKind::Invalid) if settings contradict each other, a
    /// file cannot be used, or the address is taken.
    pub async fn bind(settings: Settings) -> Result<Self, Error> {
        settings.check()?;
        let (stop, stopping) = watch::channel(false);
        let app = App::new(&settings, Clock::system(), stopping)?;
        let tls = settings.tls_cert.as_deref().zip(settings.tls_key.as_deref());
        let tls = tls.map(|(cert, key)| tls::acceptor(cert, key)).transpose()?;
        let bound = Bound::new(&settings.listen).await?;
        Ok(Self { app, bound, tls, stop, settings })
    }

    /// Returns where it is reached: a URL, or `unix:` and a path.
    pub fn place(&self) -> String {
        self.bound.shown(self.tls.is_some())
    }

    /// Serves until `stop` ends. Waiting requests then end with an error, and streams with a last
    /// line. Leases stay taken for the validity that their clients were sent last: on stores that
    /// keep a lease without its process, the server leaves at once; on the others it waits that long.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let Self { app, bound, tls, stop: sender, settings } = self;
        let watching: Vec<_> =
            app.stores.iter().map(|shown| tokio::spawn(app.clone().watch(shown.clone()))).collect();
        let routes = routes(app.clone(), settings.limits.body);
        let serving = listen::serve(app.clone(), &bound, tls, routes, settings.limits.connections);
        let stopping = async {
            stop.await;
            sender.send_replace(true);
        };
        tokio::join!(serving, stopping);
        app.leases.running.ended().await;
        watching.iter().for_each(|task| task.abort());
        for shown in &app.stores {
            if let Some(client) = shown.store.connected_now() {
                let _ = tokio::time::timeout(LEAVING, client.close()).await;
            }
        }
    }
}

pub(crate) fn routes(app: App, body: usize) -> Router {
    Router::new()
        .merge(api::routes())
        .merge(pages::routes())
        .merge(metrics::routes())
        .method_not_allowed_fallback(api::wrong_method)
        .layer(middleware::from_fn_with_state(app.clone(), safety::protect))
        .layer(DefaultBodyLimit::max(body))
        .with_state(app)
}

//! `leasehold serve`: runs the server until a signal ends it.

use leasehold_serve::{Limits, Server, Settings, StoreSetting};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cli::{Globals, ServeArgs};
use crate::config::Config;
use crate::failure::Failure;
use crate::lang::text;
use crate::locate;
use crate::output::Voice;

/// Serves until TERM or INT. A second signal ends it without waiting for the leases of clients.
pub(crate) fn serve(args: ServeArgs, globals: &Globals, voice: Voice) -> Result<u8, Failure> {
    let settings = settings(args, globals)?;
    let cannot = |error| Failure::own(format!("cannot start: {error}"));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(leasehold_serve::threads())
        .enable_all()
        .build()
        .map_err(cannot)?;
    let served = runtime.block_on(run(settings, voice));
    runtime.shutdown_background();
    served
}

async fn run(settings: Settings, voice: Voice) -> Result<u8, Failure> {
    let cannot = |error| Failure::own(format!("cannot catch signals: {error}"));
    let mut terminate = signal(SignalKind::terminate()).map_err(cannot)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(cannot)?;
    let is_read_only =
        settings.token_file.is_none() && matches!(settings.listen, leasehold_serve::Listen::Tcp(_));
    let server = Server::bind(settings).await.map_err(refused)?;
    voice.note(&text!("listening on {}", "正在监听 {}", server.place()));
    if is_read_only {
        voice.note(&text!(
            "locks are shown and cannot be held: that needs --token-file, or --listen unix:PATH",
            "只能查看锁，不能持有：要持有锁，请使用 --token-file 或 --listen unix:PATH"
        ));
    }
    let mut stops = async || either(&mut terminate, &mut interrupt).await;
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let serving = server.run(async {
        // If the sender has gone, the server ends.
        let _ = stopped.await;
    });
    let signals = async {
        stops().await;
        voice.note(&text!(
            "stopping; a second signal does not wait for the leases of clients",
            "正在停止；再次收到信号时不再等待客户端的租约"
        ));
        let _ = stop.send(());
        stops().await;
    };
    tokio::select! {
        () = serving => {}
        () = signals => {}
    }
    Ok(0)
}

async fn either(one: &mut Signal, other: &mut Signal) {
    tokio::select! {
        _ = one.recv() => {}
        _ = other.recv() => {}
    }
}

fn settings(args: ServeArgs, globals: &Globals) -> Result<Settings, Failure> {
    let config = Config::load(globals.config.as_deref())?;
    let mut stores = Vec::new();
    for text in &args.store {
        let mut store: StoreSetting =
            text.parse().map_err(|why| Failure::own(format!("--store: {why}")))?;
        store.url = locate::store_url(Some(&store.url), &config)?.url;
        stores.push(store);
    }
    if stores.is_empty() {
        let url = locate::store_url(None, &config)?.url;
        let store = url.parse().map_err(|why| Failure::own(format!("--store: {why}")))?;
        stores.push(store);
    }
    let mut limits = Limits::default();
    limits.connections = args.max_connections as usize;
    limits.holds = args.max_holds as usize;
    limits.holds_per_token = args.max_holds_per_token as usize;
    limits.queue = args.max_queue as usize;
    let mut settings = Settings::new(stores);
    settings.listen = args.listen;
    settings.hosts = args.host;
    settings.token_file = args.token_file;
    settings.tls_cert = args.tls_cert;
    settings.tls_key = args.tls_key;
    settings.allow_force_release = args.allow_force_release;
    settings.audit_file = args.audit_file;
    settings.limits = limits;
    Ok(settings)
}

/// The message of such an error has its next step.
fn refused(error: leasehold::Error) -> Failure {
    Failure::of_error(crate::failure::code::OWN, &error)
}

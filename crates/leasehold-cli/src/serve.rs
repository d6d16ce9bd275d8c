//! `leasehold serve`: runs the server until a signal ends it.

use leasehold_serve::{Limits, Server, Settings, StoreSetting};
use nix::sys::signal::Signal;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::cli::{Globals, ServeArgs};
use crate::config::Config;
use crate::failure::Failure;
use crate::lang::text;
use crate::locate;
use crate::output::Voice;
use crate::signals::Signals;

/// The signals that end the server. HUP comes when its terminal is closed.
const ENDING: [Signal; 3] = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP];

/// The files that the server needs beside connections of clients: stores, logs, certificates.
const OWN_FILES: u64 = 128;

/// Serves until TERM, INT or HUP (the terminal is closed). A second signal ends it without waiting for the leases of clients.
pub(crate) fn serve(args: ServeArgs, globals: &Globals, voice: Voice) -> Result<u8, Failure> {
    let mut settings = settings(args, globals)?;
    fit_to_open_files(&mut settings.limits, voice);
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
    let mut signals = Signals::catch_of(&ENDING).map_err(cannot)?;
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
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let serving = server.run(async {
        // If the sender has gone, the server ends.
        let _ = stopped.await;
    });
    let stopping = async {
        signals.next().await;
        voice.note(&text!(
            "stopping; a second signal does not wait for the leases of clients",
            "正在停止；再次收到信号时不再等待客户端的租约"
        ));
        let _ = stop.send(());
        signals.next().await;
    };
    tokio::select! {
        () = serving => {}
        () = stopping => {}
    }
    Ok(0)
}

/// Allows as many open files as the system does, and not more connections than these. Without one for
/// its store, the server would lose the leases of its clients.
fn fit_to_open_files(limits: &mut Limits, voice: Voice) {
    let allowed = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: allowed.maximum, maximum: allowed.maximum };
    // Where that is refused, the old limit holds.
    let _ = setrlimit(Resource::Nofile, raised);
    let Some(files) = getrlimit(Resource::Nofile).current else { return };
    let most = usize::try_from(files.saturating_sub(OWN_FILES)).unwrap_or(usize::MAX).max(1);
    if limits.connections > most {
        limits.connections = most;
        voice.note(&text!(
            "at most {} connections, since the system allows {} open files (ulimit -n)",
            "最多 {} 个连接，因为系统只允许打开 {} 个文件（ulimit -n）",
            most,
            files
        ));
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

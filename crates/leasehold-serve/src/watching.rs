//! Watches the locks whose pages are open: an engine that pushes changes shows holds that end between
//! two scans.

use std::sync::Arc;
use std::time::Duration;

use leasehold::{Client, Lock, LockChanges};

use crate::app::{App, Shown};
use crate::moment::Moment;
use crate::noted::Viewed;

/// How often it looks without a push: the end of a lease by time is none.
const EVERY: Duration = Duration::from_secs(1);

/// Watches a lock while the result lives. `None` if the store pushes no changes, or too many locks are
/// watched: scans see its changes then.
pub(crate) fn watch(app: &App, shown: &Arc<Shown>, name: &str) -> Option<Viewed> {
    let client: Client = shown.store.connected_now()?;
    if !client.capability().observe {
        return None;
    }
    let lock = client.lock(name);
    // Before the first look: a change after it is then never missed.
    let changes = lock.changes().ok()?;
    let (viewed, must_start) = shown.noted.view(name)?;
    if must_start {
        tokio::spawn(run(app.clone(), shown.clone(), lock, changes));
    }
    Some(viewed)
}

async fn run(app: App, shown: Arc<Shown>, lock: Lock, mut changes: LockChanges) {
    let Ok(name) = lock.name().map(ToString::to_string) else { return };
    let mut looked = Moment::now(&app.clock);
    loop {
        if let Ok(status) = lock.status().await {
            looked = Moment::now(&app.clock);
            for event in shown.noted.watched(&name, status, app.clock.now().unix_ms()) {
                app.note(&shown.store.name, &name, event);
            }
        }
        if shown.noted.is_left(&name, looked) {
            return;
        }
        changes.within(EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use leasehold::clock::Clock;
    use tokio::sync::watch as channel;

    use super::*;
    use crate::settings::{Settings, StoreSetting};

    /// A server that scans only when the test says so.
    async fn app() -> (App, Arc<Shown>, Client, channel::Sender<bool>) {
        let setting = StoreSetting { name: "main".into(), url: "memory:".into() };
        let (stop, stopping) = channel::channel(false);
        let app = App::new(&Settings::new(vec![setting]), Clock::system(), stopping).unwrap();
        let shown = app.stores[0].clone();
        shown.store.connect().await;
        let client = shown.store.client().await.unwrap();
        (app, shown, client, stop)
    }

    fn words(app: &App) -> Vec<(&'static str, Option<u64>)> {
        let history = app.history.of("main", "a");
        history.iter().map(|event| (event.what.word(), event.token)).collect()
    }

    async fn until(what: &str, mut so: impl FnMut() -> bool) {
        let waited = async {
            while !so() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(60), waited).await;
        waited.unwrap_or_else(|_| panic!("in vain until {what}"));
    }

    async fn scan(app: &App, shown: &Shown, client: &Client) {
        let after = shown.scans.scan(client).await.unwrap();
        for (name, event) in shown.noted.scanned(&after) {
            app.note("main", &name, event);
        }
    }

    #[tokio::test]
    async fn an_open_page_sees_holds_between_two_scans_and_nothing_twice() {
        let (app, shown, client, _stop) = app().await;
        scan(&app, &shown, &client).await;
        let lock = client.lock("a");
        // No page is open: a hold between two scans leaves no trace.
        lock.acquire().await.unwrap().release().await.unwrap();
        scan(&app, &shown, &client).await;
        assert_eq!(words(&app), []);

        let (one, other) = (watch(&app, &shown, "a").unwrap(), watch(&app, &shown, "a").unwrap());
        let mut expected = Vec::new();
        for _ in 0..20 {
            let guard = lock.acquire().await.unwrap();
            let token = Some(guard.token().get());
            expected.push(("acquired", token));
            until("the hold is seen", || words(&app) == expected).await;
            guard.release().await.unwrap();
            expected.push(("freed", token));
            until("its end is seen", || words(&app) == expected).await;
        }
        scan(&app, &shown, &client).await;
        assert_eq!(words(&app), expected);

        // The scans go on where the watch has ended.
        let guard = lock.acquire().await.unwrap();
        expected.push(("acquired", Some(guard.token().get())));
        until("the hold is seen", || words(&app) == expected).await;
        drop((one, other));
        let ended = || shown.noted.is_left("a", Moment::now(&app.clock));
        until("the watch has ended", ended).await;
        scan(&app, &shown, &client).await;
        assert_eq!(words(&app), expected);
        let token = Some(guard.token().get());
        guard.release().await.unwrap();
        scan(&app, &shown, &client).await;
        expected.push(("freed", token));
        assert_eq!(words(&app), expected);
    }

    #[tokio::test]
    async fn no_more_than_a_hundred_locks_are_watched() {
        let (app, shown, _client, _stop) = app().await;
        let all: Vec<_> = (0..150).filter_map(|n| watch(&app, &shown, &n.to_string())).collect();
        assert_eq!(all.len(), 100);
        assert!(watch(&app, &shown, "7").is_some(), "one that is watched already");
    }
}

//! The proxy's front door.

use std::sync::Arc;

use super::connection;
use super::sockets::{Listener, Target};
use super::state::{Link, Shared};

/// Takes connections, except while they are to be refused.
pub(super) async fn listen(at: Target, listener: Listener, shared: Arc<Shared>) {
    let mut listener = Some(listener);
    loop {
        let refuse = shared.lock().refuse;
        if refuse {
            if let Some(listener) = listener.take() {
                listener.close();
            }
        } else if listener.is_none() {
            listener = Listener::bind(&at).await.ok();
        }
        shared.change(|state| state.listening = listener.is_some());
        let accepted = async {
            match &listener {
                Some(listener) => listener.accept().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = shared.until(|state| state.closed) => return,
            () = shared.until(|state| state.refuse != refuse) => {}
            client = accepted => {
                let Ok((source, client)) = client else { continue };
                let id = shared.change(|state| {
                    state.counts.connections += 1;
                    let link = Link { source, ..Link::default() };
                    state.links.insert(state.counts.connections, link);
                    state.counts.connections
                });
                tokio::spawn(connection::serve(id, shared.clone(), client));
            }
        }
    }
}

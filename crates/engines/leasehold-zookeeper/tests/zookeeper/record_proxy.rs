//! A proxy that finds one request, such as one that stores a record, and loses or delays it or its answer.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// What a request that stores a record contains, of a lock and of a semaphore, and no other one.
const RECORDS: [&[u8]; 2] = [br#"{"token":"#, br#"{"limit":"#];

/// The operation that looks whether a node exists, and watches it.
pub(crate) const EXISTS: i32 = 3;

/// What becomes of a request. If it or its answer is lost, its connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The server never gets it.
    Request,
    /// The server executes it, and its answer is lost.
    Answer,
    /// The server gets it when the test delivers it.
    Delayed,
}

/// Tells the request by its frame.
type Chosen = Box<dyn Fn(&[u8]) -> bool + Send>;
type Armed = Mutex<Option<(Chosen, Loss)>>;

/// Between clients and one server.
pub(crate) struct RecordProxy {
    pub(crate) address: SocketAddr,
    armed: Arc<Armed>,
    delivery: Arc<Notify>,
    task: JoinHandle<()>,
}

impl RecordProxy {
    pub(crate) async fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (armed, delivery) = (Arc::<Armed>::default(), Arc::<Notify>::default());
        let task = tokio::spawn({
            let (armed, delivery) = (armed.clone(), delivery.clone());
            async move {
                while let Ok((client, _)) = listener.accept().await {
                    let Ok(server) = TcpStream::connect(server).await else { continue };
                    tokio::spawn(forward(client, server, armed.clone(), delivery.clone()));
                }
            }
        });
        Self { address, armed, delivery, task }
    }

    /// Loses the next request that stores a record, or its answer.
    pub(crate) fn lose(&self, loss: Loss) {
        let stores = |frame: &[u8]| {
            RECORDS.into_iter().any(|record| frame.windows(record.len()).any(|part| part == record))
        };
        *self.armed.lock().unwrap() = Some((Box::new(stores), loss));
    }

    /// Delays the next request with this operation for the node at `path`.
    pub(crate) fn delay(&self, operation: i32, path: &str) {
        let length = (path.len() as i32).to_be_bytes();
        let begin = [&operation.to_be_bytes()[..], &length, path.as_bytes()].concat();
        let is_it = move |frame: &[u8]| frame.get(8..).is_some_and(|rest| rest.starts_with(&begin));
        *self.armed.lock().unwrap() = Some((Box::new(is_it), Loss::Delayed));
    }

    /// Lets the server get the request that was delayed.
    pub(crate) fn deliver(&self) {
        self.delivery.notify_one();
    }

    /// Whether that has happened.
    pub(crate) fn has_lost(&self) -> bool {
        self.armed.lock().unwrap().is_none()
    }
}

impl Drop for RecordProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Forwards a connection until it ends, or until a request or answer is lost.
async fn forward(client: TcpStream, server: TcpStream, armed: Arc<Armed>, delivery: Arc<Notify>) {
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    // The id of the request whose answer is lost.
    let lost = Arc::new(Mutex::new(None));
    tokio::select! {
        () = requests(from_client, to_server, (&armed, &delivery), &lost) => {}
        () = answers(from_server, to_client, &lost) => {}
    }
}

async fn requests(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    (armed, delivery): (&Armed, &Notify),
    lost: &Mutex<Option<[u8; 4]>>,
) {
    while let Some(frame) = frame(&mut from).await {
        let found = armed.lock().unwrap().take_if(|(is_it, _)| is_it(&frame));
        match found.map(|(_, loss)| loss) {
            None => {}
            Some(Loss::Request) => return,
            Some(Loss::Answer) => *lost.lock().unwrap() = id(&frame),
            Some(Loss::Delayed) => delivery.notified().await,
        }
        if to.write_all(&frame).await.is_err() {
            return;
        }
    }
}

async fn answers(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, lost: &Mutex<Option<[u8; 4]>>) {
    while let Some(frame) = frame(&mut from).await {
        let is_lost = lost.lock().unwrap().is_some_and(|lost| id(&frame) == Some(lost));
        if is_lost || to.write_all(&frame).await.is_err() {
            return;
        }
    }
}

/// A frame has four bytes of length; a request and its answer then have the same four bytes of id.
async fn frame(from: &mut OwnedReadHalf) -> Option<Vec<u8>> {
    let mut frame = vec![0; 4];
    from.read_exact(&mut frame).await.ok()?;
    let length = u32::from_be_bytes(frame.clone().try_into().ok()?) as usize;
    frame.resize(4 + length, 0);
    from.read_exact(frame.get_mut(4..)?).await.ok()?;
    Some(frame)
}

fn id(frame: &[u8]) -> Option<[u8; 4]> {
    frame.get(4..8)?.try_into().ok()
}

//! One connection through the proxy: requests up, replies and pushes down, and what befalls them.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::sleep;

use super::Direction::{ClientToServer, ServerToClient};
use super::sockets::{self, Reader, Writer};
use super::state::{Action, Shared};
use crate::resp::{self, Value};

/// What becomes of the reply to a request that the server has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Deliver,
    Drop,
    Silence,
    Reset,
}

/// What both directions know.
#[derive(Debug, Default)]
struct Talk {
    /// One for each request whose reply has not come.
    fates: VecDeque<Fate>,
    /// Requests that made the connection what it is: sent again to another server.
    greeting: Vec<Vec<u8>>,
    resp3: bool,
    subscribed: bool,
    /// A reply was lost: nothing more goes down.
    silent: bool,
    opaque: bool,
    /// A request has been taken in and is not in `fates` yet.
    busy: bool,
    client_gone: bool,
    /// All that the server has said has gone down, or is lost.
    server_gone: bool,
}

struct Connection {
    id: u64,
    shared: Arc<Shared>,
    talk: Mutex<Talk>,
}

/// Commands that are answered by pushes, one for each channel, and not by a reply.
const SUBSCRIBING: [&str; 6] =
    ["subscribe", "psubscribe", "ssubscribe", "unsubscribe", "punsubscribe", "sunsubscribe"];
const MESSAGES: [&str; 3] = ["message", "pmessage", "smessage"];
/// Bytes of one read at least: pgbouncer refuses a client whose first message comes in several pieces.
const PIECE: usize = 16 * 1024;
/// How much a cut connection takes from its client.
const MOST_UNREAD: usize = 16 * PIECE;
const GREETING: [&str; 4] = ["hello", "auth", "select", "client"];

/// Serves a client until it or the server has gone, or the connection is killed.
pub(super) async fn serve(id: u64, shared: Arc<Shared>, client: (Reader, Writer)) {
    let opaque = !shared.lock().is_framed(id);
    let talk = Mutex::new(Talk { opaque, ..Talk::default() });
    let connection = Connection { id, shared, talk };
    // A reset is what both sides see when the streams are dropped.
    let _ = connection.run(client).await;
    connection.shared.change(|state| state.links.remove(&id));
}

impl Connection {
    async fn run(&self, (mut reader, mut writer): (Reader, Writer)) -> io::Result<()> {
        let mut unread = Vec::new();
        loop {
            let (target, moves) = {
                let state = self.shared.lock();
                let moves = state.links.get(&self.id).map_or(0, |link| link.moves);
                (state.target.clone(), moves)
            };
            let killed = self.shared.until(|state| {
                state.links.get(&self.id).is_none_or(|link| link.killed) || state.closed
            });
            let moved = self
                .shared
                .until(|state| state.links.get(&self.id).is_some_and(|link| link.moves != moves));
            let pumps = async {
                self.until_open(&mut reader, &mut unread).await?;
                let (mut from_server, mut to_server) = sockets::connect(&target).await?;
                self.greet(&mut to_server).await?;
                let up = self.up(&mut reader, &mut unread, &mut to_server);
                let down = self.down(&mut from_server, &mut writer);
                tokio::try_join!(up, down).map(drop)
            };
            tokio::select! {
                biased;
                () = killed => return Ok(()),
                () = moved => {
                    let talk = self.talk();
                    if !talk.fates.is_empty() || talk.silent || talk.busy {
                        return Ok(());
                    }
                }
                result = pumps => return result,
            }
        }
    }

    fn talk(&self) -> MutexGuard<'_, Talk> {
        self.talk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while nothing gets to the server. A connection that is made meanwhile reaches the server no earlier than
    /// the cut ends, and not at all if its client has gone by then: its first packet would be lost.
    async fn until_open(&self, reader: &mut Reader, unread: &mut Vec<u8>) -> io::Result<()> {
        let open = self.shared.until(|state| !state.is_cut(self.id, ClientToServer));
        let gone = async {
            loop {
                if unread.len() > MOST_UNREAD {
                    std::future::pending::<()>().await;
                }
                unread.reserve(PIECE);
                if reader.read_buf(unread).await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
        };
        tokio::select! {
            biased;
            () = open => Ok(()),
            ended = gone => ended,
        }
    }

    /// Tells another server what the first one was told.
    async fn greet(&self, to_server: &mut Writer) -> io::Result<()> {
        let greeting = {
            let mut talk = self.talk();
            let dropped = talk.greeting.iter().map(|_| Fate::Drop).collect();
            talk.fates = dropped;
            talk.greeting.concat()
        };
        to_server.write_all(&greeting).await
    }

    async fn up(&self, from: &mut Reader, unread: &mut Vec<u8>, to: &mut Writer) -> io::Result<()> {
        loop {
            // What was left by the server before comes first.
            while let Some((args, bytes)) = self.next_frame(unread) {
                self.talk().busy = true;
                self.shared.until(|state| !state.is_cut(self.id, ClientToServer)).await;
                if self.request(args.as_ref(), &bytes, to).await.is_err() {
                    // What the server has said before it went still goes down.
                    let server_gone = self.shared.until(|_| self.talk().server_gone);
                    tokio::select! {
                        () = server_gone => {}
                        () = until_end(from) => self.client_goes(),
                    }
                    return Ok(());
                }
                self.talk().busy = false;
            }
            unread.reserve(PIECE);
            let length = from.read_buf(unread).await.unwrap_or(0);
            let latency = self.shared.lock().latency(self.id);
            if latency > Duration::ZERO {
                sleep(latency).await;
            }
            if length == 0 {
                self.shared.until(|state| !state.is_cut(self.id, ClientToServer)).await;
                to.shutdown().await.ok();
                self.client_goes();
                return Ok(());
            }
        }
    }

    fn client_goes(&self) {
        self.talk().client_gone = true;
        self.shared.change(|_| ());
    }

    /// The next frame and its bytes; all that is there when it is not the protocol.
    fn next_frame(&self, unread: &mut Vec<u8>) -> Option<(Option<Value>, Vec<u8>)> {
        let mut talk = self.talk();
        if !talk.opaque {
            match resp::frame(unread) {
                Ok(None) => return None,
                Ok(Some((value, length))) => {
                    return Some((Some(value), unread.drain(..length).collect()));
                }
                Err(_) => talk.opaque = true,
            }
        }
        (!unread.is_empty()).then(|| (None, std::mem::take(unread)))
    }

    /// Sends a request on, or whatever a fault makes of it.
    async fn request(
        &self,
        frame: Option<&Value>,
        bytes: &[u8],
        to: &mut Writer,
    ) -> io::Result<()> {
        let mut fates = vec![Fate::Deliver];
        let mut copies = 1;
        if let Some(frame) = frame {
            let args: Vec<&[u8]> = frame.items().iter().map(bytes_of).collect();
            if args.is_empty() {
                return Ok(());
            }
            let action = self.shared.lock().request(self.id, &args);
            match action {
                None => {}
                Some(Action::LoseReply) => fates = vec![Fate::Silence],
                Some(Action::ResetAtReply) => fates = vec![Fate::Reset],
                Some(Action::Duplicate) => {
                    fates.push(Fate::Drop);
                    copies = 2;
                }
                Some(Action::Hold(released)) => {
                    self.shared.until(|_| released.load(Ordering::SeqCst)).await;
                }
                Some(Action::Delay(time)) => sleep(time).await,
            }
            // A cut that came while it was held.
            self.shared.until(|state| !state.is_cut(self.id, ClientToServer)).await;
            self.note(&args, bytes, &fates);
        }
        self.shared.lock().counts.bytes[ClientToServer as usize] += (bytes.len() * copies) as u64;
        let rewritten = self.shared.lock().rewritten(bytes);
        for _ in 0..copies {
            to.write_all(rewritten.as_deref().unwrap_or(bytes)).await?;
        }
        Ok(())
    }

    /// Remembers what the replies to come are for.
    fn note(&self, args: &[&[u8]], bytes: &[u8], fates: &[Fate]) {
        let is = |arg: &[u8], names: &[&str]| {
            names.iter().any(|name| arg.eq_ignore_ascii_case(name.as_bytes()))
        };
        let mut talk = self.talk();
        if is(args[0], &GREETING) {
            talk.greeting.push(bytes.to_vec());
            talk.resp3 |= is(args[0], &["hello"]) && args.get(1) == Some(&&b"3"[..]);
        }
        if is(args[0], &SUBSCRIBING) {
            talk.subscribed = true;
        } else {
            talk.fates.extend(fates);
        }
    }

    async fn down(&self, from: &mut Reader, to: &mut Writer) -> io::Result<()> {
        let mut unread = Vec::new();
        let mut client_there = true;
        loop {
            unread.reserve(PIECE);
            let length = from.read_buf(&mut unread).await?;
            while let Some((frame, mut bytes)) = self.next_frame(&mut unread) {
                self.shared.until(|state| !state.is_cut(self.id, ServerToClient)).await;
                self.shared.lock().name_ports(&mut bytes);
                if self.reply(frame.as_ref(), &bytes)? && client_there {
                    client_there = to.write_all(&bytes).await.is_ok();
                }
            }
            if length == 0 {
                self.shared.until(|state| !state.is_cut(self.id, ServerToClient)).await;
                if self.talk().silent {
                    self.shared.until(|_| self.talk().client_gone).await;
                }
                to.shutdown().await.ok();
                self.talk().server_gone = true;
                self.shared.change(|_| ());
                return Ok(());
            }
        }
    }

    /// Whether what the server sent goes to the client.
    fn reply(&self, frame: Option<&Value>, bytes: &[u8]) -> io::Result<bool> {
        let mut talk = self.talk();
        let kind = frame.map_or(Kind::Unknown, |frame| talk.kind(frame));
        let fate = match kind {
            Kind::Reply => talk.fates.pop_front().unwrap_or(Fate::Deliver),
            _ => Fate::Deliver,
        };
        talk.silent |= fate == Fate::Silence;
        let silent = talk.silent;
        drop(talk);
        let mut state = self.shared.lock();
        state.counts.bytes[ServerToClient as usize] += bytes.len() as u64;
        state.counts.replies += u64::from(kind == Kind::Reply);
        state.counts.pushes += u64::from(kind == Kind::Message);
        if fate == Fate::Reset {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let swallowed = kind == Kind::Message && state.swallow_pushes;
        Ok(!silent && !swallowed && fate != Fate::Drop)
    }
}

/// Takes what a client sends, without doing anything with it, until it has gone.
async fn until_end(from: &mut Reader) {
    let mut bytes = [0; 1024];
    while from.read(&mut bytes).await.is_ok_and(|length| length > 0) {}
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Reply,
    /// A push that was not asked for.
    Message,
    /// The answer to a subscription, which comes as a push.
    Confirmation,
    /// Not the protocol.
    Unknown,
}

impl Talk {
    fn kind(&self, frame: &Value) -> Kind {
        let first = frame.items().first().map(Value::text).unwrap_or_default();
        let confirmation = SUBSCRIBING.contains(&first.as_str());
        match frame {
            Value::Push(_) if confirmation => Kind::Confirmation,
            Value::Push(_) => Kind::Message,
            // The older protocol has arrays for both, on connections that have subscribed.
            Value::Array(_) if self.subscribed && !self.resp3 && confirmation => Kind::Confirmation,
            Value::Array(_)
                if self.subscribed && !self.resp3 && MESSAGES.contains(&first.as_str()) =>
            {
                Kind::Message
            }
            _ => Kind::Reply,
        }
    }
}

fn bytes_of(value: &Value) -> &[u8] {
    match value {
        Value::Bytes(bytes) => bytes,
        _ => &[],
    }
}

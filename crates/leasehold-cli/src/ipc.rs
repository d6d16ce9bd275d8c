//! The messages between the supervisor and `leasehold` over their socket.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use leasehold::MultiLock;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// A report of the supervisor about the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// It starts after this report; the number is its process id, and that of its process group.
    Spawned(i32),
    /// It could not be started; the number is the system's error code.
    Failed(i32),
    /// A signal stopped it.
    Stopped(i32),
    /// It ended by itself with this code.
    Exited(i32),
    /// A signal ended it.
    Killed(i32),
    /// No process of its group is left; another group may soon have its number.
    Gone,
}

impl Report {
    /// The bytes of a report: a tag and a number.
    pub(crate) const LEN: usize = 5;

    /// Encodes the report.
    pub(crate) fn encode(self) -> [u8; Self::LEN] {
        let (tag, number) = match self {
            Self::Spawned(number) => (b'S', number),
            Self::Failed(number) => (b'F', number),
            Self::Stopped(number) => (b'T', number),
            Self::Exited(number) => (b'X', number),
            Self::Killed(number) => (b'K', number),
            Self::Gone => (b'G', 0),
        };
        let [a, b, c, d] = number.to_be_bytes();
        [tag, a, b, c, d]
    }

    /// Decodes what [`encode`](Self::encode) wrote; `None` for anything else.
    pub(crate) fn decode([tag, a, b, c, d]: [u8; Self::LEN]) -> Option<Self> {
        let number = i32::from_be_bytes([a, b, c, d]);
        Some(match tag {
            b'S' => Self::Spawned(number),
            b'F' => Self::Failed(number),
            b'T' => Self::Stopped(number),
            b'X' => Self::Exited(number),
            b'K' => Self::Killed(number),
            b'G' => Self::Gone,
            _ => return None,
        })
    }
}

/// The most descriptors at once: the standard input, and two for each lock.
const MOST: usize = 1 + 2 * MultiLock::MAX_NAMES;

/// Sends descriptors to the other end.
pub(crate) fn send_descriptors(socket: &UnixStream, all: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(all)) {
        return Err(io::Error::other("too many descriptors"));
    }
    rustix::io::retry_on_intr(|| {
        sendmsg(socket, &[IoSlice::new(b"!")], &mut ancillary, SendFlags::NOSIGNAL)
    })?;
    Ok(())
}

/// Receives the descriptors of [`send_descriptors`]; a command inherits none of them.
pub(crate) fn receive_descriptors(socket: &UnixStream) -> io::Result<Vec<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let read = rustix::io::retry_on_intr(|| {
        recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)
    })?;
    if read.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut all = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            all.extend(descriptors);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;

    #[test]
    fn a_report_survives_the_wire() {
        for report in
            [Report::Spawned(i32::MAX), Report::Failed(2), Report::Killed(9), Report::Gone]
        {
            assert_eq!(Report::decode(report.encode()), Some(report));
        }
        assert_eq!(Report::decode(*b"?0000"), None);
    }

    #[test]
    fn as_many_descriptors_arrive_as_a_run_may_have_locks() {
        let (here, there) = UnixStream::pair().unwrap();
        let all: Vec<_> = (0..MOST).map(|_| here.as_fd()).collect();
        send_descriptors(&here, &all).unwrap();
        assert_eq!(receive_descriptors(&there).unwrap().len(), MOST);
    }

    #[test]
    fn a_descriptor_arrives_as_the_same_open_file() {
        let (here, there) = UnixStream::pair().unwrap();
        let (mut reader, writer) = UnixStream::pair().unwrap();
        send_descriptors(&here, &[writer.as_fd()]).unwrap();
        drop(writer);
        let mut all = receive_descriptors(&there).unwrap();
        let mut received = UnixStream::from(all.pop().unwrap());
        received.write_all(b"x").unwrap();
        drop(received);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "x");
    }
}

//! Replaces the backend on systems without open file description locks.

use std::path::Path;

use leasehold_core::backend::{
    AcquireRequest, Answer, Backend, BoxFuture, Ended, EventSink, ReleaseRequest, Renewal, Renewed,
};
use leasehold_core::clock::Clock;
use leasehold_core::doctor::Diagnosis;
use leasehold_core::{Capability, ClientId, Error, ErrorKind, Forced, Name, Result, Status, Token};

/// The file backend, which this system does not support.
#[derive(Debug)]
pub enum FileBackend {}

impl FileBackend {
    /// Always returns an error.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`]: only 64-bit Linux and Android have the locks that it needs.
    pub fn open(_path: &Path, _clock: Clock) -> Result<Self> {
        Err(Error::new(
            ErrorKind::Unsupported,
            "the file backend needs open file description locks, which exist on 64-bit \
             Linux and Android only; choose another store, such as sqlite: or redis:",
        ))
    }
}

impl FileBackend {
    /// Always returns an error.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn diagnose(path: &Path, clock: &Clock) -> Result<Diagnosis> {
        Self::open(path, clock.clone()).map(|never| match never {})
    }

    /// Cannot be called, because no value of this type exists.
    ///
    /// # Errors
    /// None.
    pub fn forget(&self, _names: &str) -> Result<u64> {
        match *self {}
    }
}

/// The backend for `wire=flock`, which this system does not support either.
#[derive(Debug)]
pub struct FlockBackend(FileBackend);

impl FlockBackend {
    /// Always returns an error.
    ///
    /// # Errors
    /// As [`FileBackend::open`].
    pub fn open(path: &Path, _suffix: &str, clock: Clock) -> Result<Self> {
        FileBackend::open(path, clock).map(Self)
    }

    /// Always returns an error.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn diagnose(path: &Path, _suffix: &str) -> Result<Diagnosis> {
        FileBackend::diagnose(path, &Clock::system())
    }
}

impl Backend for FileBackend {
    fn capability(&self) -> &Capability {
        match *self {}
    }

    fn place(&self) -> String {
        match *self {}
    }

    fn attach(&self, _: ClientId, _: EventSink) {
        match *self {}
    }

    fn acquire(&self, _: AcquireRequest) -> BoxFuture<'_, Result<Answer>> {
        match *self {}
    }

    fn renew<'a>(&'a self, _: &'a [Renewal]) -> BoxFuture<'a, Vec<Result<Renewed>>> {
        match *self {}
    }

    fn release(&self, _: ReleaseRequest) -> BoxFuture<'_, Result<Ended>> {
        match *self {}
    }

    fn status<'a>(&'a self, _: &'a Name) -> BoxFuture<'a, Result<Status>> {
        match *self {}
    }

    fn list<'a>(&'a self, _: &'a str, _: usize) -> BoxFuture<'a, Result<Vec<Status>>> {
        match *self {}
    }

    fn force_release<'a>(&'a self, _: &'a Name, _: Token) -> BoxFuture<'a, Result<Forced>> {
        match *self {}
    }
}

impl Backend for FlockBackend {
    fn capability(&self) -> &Capability {
        match self.0 {}
    }

    fn place(&self) -> String {
        match self.0 {}
    }

    fn attach(&self, _: ClientId, _: EventSink) {
        match self.0 {}
    }

    fn acquire(&self, _: AcquireRequest) -> BoxFuture<'_, Result<Answer>> {
        match self.0 {}
    }

    fn renew<'a>(&'a self, _: &'a [Renewal]) -> BoxFuture<'a, Vec<Result<Renewed>>> {
        match self.0 {}
    }

    fn release(&self, _: ReleaseRequest) -> BoxFuture<'_, Result<Ended>> {
        match self.0 {}
    }

    fn status<'a>(&'a self, _: &'a Name) -> BoxFuture<'a, Result<Status>> {
        match self.0 {}
    }

    fn list<'a>(&'a self, _: &'a str, _: usize) -> BoxFuture<'a, Result<Vec<Status>>> {
        match self.0 {}
    }

    fn force_release<'a>(&'a self, _: &'a Name, _: Token) -> BoxFuture<'a, Result<Forced>> {
        match self.0 {}
    }
}

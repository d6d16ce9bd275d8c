//! Why a call failed.

use std::fmt;

/// The result of a call.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a call failed. Only [`Status`](Self::Status) says that the server may have executed it.
#[derive(Debug)]
pub enum Error {
    /// The URL is not valid, or its TLS options are not.
    Transport(tonic::transport::Error),
    /// The server's error, or that of the connection.
    Status(tonic::Status),
    /// The server's token is no value of a header.
    Token(tonic::metadata::errors::InvalidMetadataValue),
    /// The runtime ended a call, or a time limit of the caller did.
    Io(std::io::Error),
    /// The lease to keep alive has expired.
    NoLease,
    /// The server has closed the stream.
    Closed,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transport(error) => write!(f, "transport error: {error}"),
            Self::Status(status) => write!(f, "grpc request error: {status}"),
            Self::Token(error) => write!(f, "invalid token: {error}"),
            Self::Io(error) => write!(f, "io error: {error}"),
            Self::NoLease => write!(f, "lease not found"),
            Self::Closed => write!(f, "the server closed the stream"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Transport(error) => Some(error),
            Self::Status(status) => Some(status),
            Self::Token(error) => Some(error),
            Self::Io(error) => Some(error),
            Self::NoLease | Self::Closed => None,
        }
    }
}

impl From<tonic::transport::Error> for Error {
    fn from(error: tonic::transport::Error) -> Self {
        Self::Transport(error)
    }
}

impl From<tonic::Status> for Error {
    fn from(status: tonic::Status) -> Self {
        Self::Status(status)
    }
}

impl From<tonic::metadata::errors::InvalidMetadataValue> for Error {
    fn from(error: tonic::metadata::errors::InvalidMetadataValue) -> Self {
        Self::Token(error)
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

/// Returns the error of a stream that takes no more requests.
pub(crate) fn closed<T>(_: tokio::sync::mpsc::error::SendError<T>) -> Error {
    Error::Closed
}

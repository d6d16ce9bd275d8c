//! Delivery by NATS JetStream: the relay publishes changes to a stream, and receivers apply them.

mod connection;
pub(crate) mod message;
mod publish;
mod pull;
mod receiver;
mod settings;
mod stats;
mod stream;
pub(crate) mod url;

pub use publish::NatsTransport;
pub use receiver::Receiver;
pub use settings::ReceiverBuilder;
pub use stats::ReceiverStats;
pub(crate) use url::is_nats;

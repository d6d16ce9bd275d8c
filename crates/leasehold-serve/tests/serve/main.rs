//! The server over its socket: what it promises, and attempts to break each safety rule.

mod api;
mod ending;
mod events;
mod force;
mod hold;
mod hostile;
mod pages;
mod safety;
mod support;

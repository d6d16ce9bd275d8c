//! Model checking of the protocols of `leasehold-proto`: every order of events within a bound.

pub mod handoff_model;

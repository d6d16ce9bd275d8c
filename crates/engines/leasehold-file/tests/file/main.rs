//! The file backend against real processes, signals, full disks and hostile names.
#![cfg(all(any(target_os = "linux", target_os = "android"), target_pointer_width = "64"))]
#![allow(clippy::unwrap_used)] // What a test helper panics on fails the test.

mod crash;
mod damage;
mod helper;
mod kit;
mod latches;
mod names;
mod permits;
mod processes;
mod readers;
mod semantics;
mod waiter_queue;
mod wire;

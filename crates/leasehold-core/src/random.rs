//! Random bits for identities, from the kernel at each call. A generator in the process would be
//! copied with its state when a virtual machine is cloned or resumed from a snapshot.
//!
//! **Unstable**, as [`backend`](crate::backend) is: it is for authors of engines.

use leasehold_proto::Now;

use crate::clock::Clock;

/// Returns 64 random bits that no copy of this process draws too.
///
/// They come from the kernel, without a buffer, mixed with the time. A limit remains: a guest
/// kernel whose own generator is copied too (Linux before 5.18, or a hypervisor without a VM
/// generation id) gives both copies the same bits until it is reseeded. Then only the time differs.
pub fn fresh() -> u64 {
    fresh_at(Clock::system().now())
}

/// Does the same for a caller that has just read the clock.
pub(crate) fn fresh_at(now: Now) -> u64 {
    // Any odd factor works: it spreads the low bits, in which times differ, over all bits.
    let time = (now.wall_ns ^ now.steady_ns.rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    // A client cannot be created on a kernel without randomness.
    time ^ getrandom::u64().unwrap_or_else(|_| fastrand::u64(..))
}

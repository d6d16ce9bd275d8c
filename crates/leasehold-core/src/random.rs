//! Random bits for identities: from the kernel at each call. The state of a generator in the process
//! is copied with it when a virtual machine is cloned or resumed from a snapshot.

use crate::clock::Clock;

/// 64 random bits that no copy of this process draws as well.
///
/// They are drawn from the kernel, without a buffer, and the time is mixed in. What remains: a guest
/// kernel whose own generator is copied too (Linux before 5.18, or a hypervisor without a VM generation
/// id) gives both copies the same bits until it has been reseeded; then the time alone tells them apart.
pub fn fresh() -> u64 {
    let now = Clock::system().now();
    // Any odd factor: it spreads the low bits, in which the times differ, over all of them.
    let time = (now.wall_ns ^ now.steady_ns.rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    // A kernel without randomness is refused when the client is made.
    time ^ getrandom::u64().unwrap_or_else(|_| fastrand::u64(..))
}

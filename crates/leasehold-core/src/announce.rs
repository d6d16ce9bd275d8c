//! A reader's token is announced to the resource, so that late writes are refused while it reads.

use crate::{Fenced, Guard, Result, Token};

/// A fence that can refuse smaller tokens from now on, without a write of data.
///
/// `R` names the resource, in the form that the fence needs: its name, or a connection and a key.
/// [`Guard::announce`] calls it.
pub trait Announce<R> {
    /// Makes `resource` refuse tokens smaller than `token`. It returns [`Fenced::Written`] if no
    /// larger token has been seen.
    ///
    /// # Errors
    /// Those of the fence's check. After an error it is unknown whether the token was stored; a
    /// retry is safe.
    fn announce(&self, resource: R, token: Token) -> impl Future<Output = Result<Fenced>> + Send;
}

impl Guard {
    /// Announces this guard's token to a resource: from then on the resource refuses the writes of
    /// all earlier holders. Call it before you read what a paused writer could still change, or what
    /// you will compute a write from. All readers of a phase announce the same token, so they do not
    /// refuse each other. The resource of each fence is in the module `fence` of `leasehold`.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`](crate::ErrorKind::Lost), with [`Stale`](crate::Stale) as its source, if the
    /// resource has seen a larger token: the lock was lost. Otherwise as [`Announce::announce`].
    pub async fn announce<R>(&self, fence: &impl Announce<R>, resource: R) -> Result<()> {
        Ok(fence.announce(resource, self.token()).await?.into_result()?)
    }
}

//! Turns a lease into a lease of the other mode, in one step.

use leasehold_core::backend::{ConvertRequest, Converted};
use leasehold_core::{Error, ErrorKind, Result};

use crate::backend::RedisBackend;
use crate::batcher::text;
use crate::call_limit::limit;
use crate::{reply, request, shared};

impl RedisBackend {
    pub(crate) async fn convert_lease(&self, request: ConvertRequest) -> Result<Converted> {
        let ConvertRequest { end, next, .. } = &request;
        if end.name != next.name {
            let what = "redis: a lease can only be converted for the same lock";
            return Err(Error::new(ErrorKind::Invalid, what));
        }
        request::acquire_fits(next)?;
        let command = shared::conversion(self.route.scripts(), &self.keys, &request);
        let (key, within) = (self.keys.of(&next.name), limit(next.ttl));
        let answer = self.route.run_patiently(&key, &command, false, within).await?;
        let converted = reply::converted(&text(answer)?, &key)?;
        if let (Converted::Granted(grant), Some(replicas)) = (converted, &self.replicas) {
            replicas.forget(end.attempt);
            let name = next.name.clone();
            let (asks, granted) = ((next.attempt, next.mode), (grant, None));
            self.secure(replicas, name, asks, granted, next.ttl).await?;
        }
        Ok(converted)
    }
}

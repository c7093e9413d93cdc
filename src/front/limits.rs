//! What one address may ask for: so many requests, so much of the processor, so many wrong credentials.

use std::{net::IpAddr, num::NonZeroU32, sync::Arc, time::Duration};

use axum::http::HeaderMap;
use tollhouse_base::{
    rate::Rate,
    share::{Shares, Turn},
    uses::Tally,
};
use tollhouse_call::CallError;
use tollhouse_config::HttpSettings;
use tollhouse_money::Offered;
use tollhouse_replica::Tallies;

use super::{
    address::network,
    failures::{Failures, Sender},
    fault::{Fault, Policy},
    faults::Code,
};

/// Frames that an address may send at once beyond those of its requests, as a multiple of those per second.
const FRAMES_AT_ONCE: NonZeroU32 = NonZeroU32::new(4).unwrap();

/// The limits of each client address.
#[derive(Debug)]
pub struct Limits {
    /// Requests.
    rate: Option<Arc<Rate<IpAddr>>>,
    /// HTTP/2 frames that belong to no request or answer.
    frames: Option<Arc<Rate<IpAddr>>>,
    /// Of the processor.
    shares: Arc<Shares>,
    /// Wrong credentials.
    failures: Option<Arc<Failures>>,
}

impl Limits {
    /// The limits that are set, on the host at `base_url`.
    #[must_use]
    pub fn new(settings: &HttpSettings, shares: Arc<Shares>, base_url: &str) -> Self {
        let failures = settings.auth_failures.map(|per_minute| Arc::new(Failures::new(per_minute, base_url)));
        let rate = settings.rate_limit.map(Rate::new).map(Arc::new);
        let frames = settings.intake.connections.overhead_frames;
        let frames = frames.map(|frames| Rate::with_burst(frames, frames.saturating_mul(FRAMES_AT_ONCE))).map(Arc::new);
        Self { rate, frames, shares, failures }
    }

    /// What is counted of addresses that may come to other hosts as well.
    #[must_use]
    pub fn tallies(&self) -> Tallies {
        let rate = self.rate.iter().map(|rate| ("address", Arc::clone(rate) as Arc<dyn Tally>));
        rate.chain(self.failures.iter().flat_map(|failures| failures.tallies())).collect()
    }

    /// Forgets addresses that have been quiet, so that memory stays flat.
    pub fn forget_quiet(&self) {
        if let Some(rate) = &self.rate {
            rate.forget_quiet();
        }
        if let Some(frames) = &self.frames {
            frames.forget_quiet();
        }
        if let Some(failures) = &self.failures {
            failures.forget_quiet();
        }
        self.shares.forget_quiet();
    }

    /// The counter of HTTP/2 frames that belong to no request or answer, if there is a limit.
    pub(super) fn frames(&self) -> Option<&Arc<Rate<IpAddr>>> {
        self.frames.as_ref()
    }

    /// Charges an address for processor time that its connections took beside its requests.
    pub(super) fn spend(&self, address: IpAddr, time: Duration) {
        self.shares.spend(network(address), time);
    }

    /// Counts a request of an address.
    ///
    /// # Errors
    ///
    /// 429, when it asks too often.
    pub(crate) fn count(&self, address: IpAddr) -> Result<(), Fault> {
        let (Some(rate), Some(seconds)) = (&self.rate, self.wait(address)) else { return Ok(()) };
        let message = format!("more than {} requests per second from your address", rate.per_second());
        let policy = Policy { name: "address", most: rate.per_second(), window_secs: 1 };
        Err(Fault::rate_limited(policy, seconds, message))
    }

    /// Counts a request of an address: seconds until it may make it, if it may not now.
    pub fn wait(&self, address: IpAddr) -> Option<u64> {
        self.rate.as_ref()?.wait(&network(address))
    }

    /// A turn of an address, of what nobody knows the cost of yet.
    ///
    /// # Errors
    ///
    /// 429, when it has used more than its share of the processor and others want it.
    pub async fn turn(&self, address: IpAddr) -> Result<Turn, Fault> {
        self.shares.turn(network(address), Duration::ZERO).await.map_err(|over| CallError::OverShare(over).into())
    }

    /// Who counts the wrong credentials of requests, if anybody does.
    pub(super) fn failures(&self) -> Option<&Failures> {
        self.failures.as_deref()
    }

    /// The sender of a request with these headers, as wrong credentials are counted by. `None` where nobody counts them.
    pub fn sender(&self, address: IpAddr, headers: &HeaderMap) -> Option<Sender> {
        Some(self.failures.as_ref()?.sender(address, headers))
    }

    /// The offer, with an observer that counts its developer credit if no credit has the token. An answer that streams, or comes
    /// in a message, does not say so in its head. A credit that is not looked up, as for a free tool, is not counted: nobody
    /// learns anything of it.
    pub fn observed(&self, sender: Option<Sender>, mut offered: Offered) -> Offered {
        if let (Some(failures), Some(sender), Offered::Credit(credit)) = (&self.failures, sender, &mut offered) {
            credit.observer = Some(Failures::observer(failures, sender));
        }
        offered
    }

    /// [`Limits::observed`], of an offer that came in a message, where nobody has looked at it before.
    ///
    /// # Errors
    ///
    /// 429, when credit is offered and its sender has failed too often.
    pub fn limit_credit(&self, sender: Option<Sender>, offered: Offered) -> Result<Offered, Fault> {
        if let Offered::Credit(_) = &offered {
            self.may_show_credential(sender)?;
        }
        Ok(self.observed(sender, offered))
    }

    /// Refuses a sender that shows wrong credentials too often, where nobody has looked at it before.
    ///
    /// # Errors
    ///
    /// 429, when it has failed too often.
    pub fn may_show_credential(&self, sender: Option<Sender>) -> Result<(), Fault> {
        self.failures.as_ref().zip(sender).map_or(Ok(()), |(failures, sender)| failures.check(sender))
    }

    /// Counts a guess at what a payment was made for, which its payer alone knows, as a wrong credential.
    pub fn wrong_guess(&self, sender: Option<Sender>) {
        if let (Some(failures), Some(sender)) = (&self.failures, sender) {
            failures.count(sender);
        }
    }

    /// Counts a wrong credential that is refused in a message, where nobody looks at the answer's head.
    pub fn wrong_credential(&self, sender: Option<Sender>, refused: &Fault) {
        if let (Some(failures), Some(sender), Code::Unauthorized) = (&self.failures, sender, refused.code()) {
            failures.count(sender);
        }
    }
}

//! The host's side of a handler's ops: what a running call may reach, and the reaching of it.
//!
//! A worker only asks. [`Ops`] holds the grant of one call and answers; nothing of the world is
//! reachable except through the scoped values it hands out ([`Kv`], [`Files`], [`Guard`]), each
//! bound to the call's endpoint and limits. The [`Grant`] behind it is shared with the catalogue:
//! what an admin takes back, a running call loses at its next op. A request goes to no host but those of
//! the grant ([`AllowedHosts`]): the guard asks them at each step, redirects too.
//!
//! It does *not* count ops or cut log lines: the pool does both before anything comes here.

#![warn(missing_docs)]

mod agrees;
mod failure;
mod files;
mod grant;
mod grants;
pub mod guard;
mod hosts;
mod http;
mod keepers;
mod kv;
mod log;
mod progress;
mod redact;
mod scope;
mod scratch;
pub mod secret;
mod till;

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, OnceLock, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use tollhouse_base::{clock::Clock, id::EndpointId};
use tollhouse_objects::Objects;
use tollhouse_pool::OpHost;
use tollhouse_protocol::{LogLevel, LogLine, OpFailure, OpRequest, OpValue, Said};
use tollhouse_replica::Replica;
use tollhouse_store::{Batch, Store, StoreError};

pub use self::{
    agrees::check_kept,
    files::{Files, object_of},
    grant::{Grant, Granted},
    grants::CallGrants,
    guard::{Guard, GuardSettings},
    hosts::{AllowedHosts, HostPatternError},
    keepers::{Keepers, Kept},
    kv::Kv,
    log::{Followed, LogEntry, LogPage, LogPlace, LogQuery, LogSettings, Logs},
    progress::ProgressUpdate,
    redact::Redactor,
    scratch::Scratch,
    till::Till,
};
use crate::{
    guard::Recorded,
    secret::{Secrets, Visibility},
};

/// What the ops of all calls share. One per host.
pub struct CapabilityServices {
    kv: Kv,
    files: Files,
    guard: Guard,
    logs: Logs,
    secrets: Arc<Secrets>,
    replica: Arc<Replica>,
    recorded: RwLock<HashMap<EndpointId, Arc<Recorded>>>,
}

impl CapabilityServices {
    /// Puts the services together. Must be called inside a tokio runtime: the log's writer is a task.
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        clock: Clock,
        guard: Guard,
        objects: Arc<Objects>,
        logs: LogSettings,
        secrets: Arc<Secrets>,
        replica: Arc<Replica>,
    ) -> Arc<Self> {
        Arc::new(Self {
            kv: Kv::new(Arc::clone(&store), clock.clone()),
            files: Files::new(Arc::clone(&store), clock.clone(), objects),
            guard,
            logs: Logs::start(store, clock, logs),
            secrets,
            replica,
            recorded: RwLock::default(),
        })
    }

    /// The logs of all endpoints, to read and to follow.
    #[must_use]
    pub fn logs(&self) -> &Logs {
        &self.logs
    }

    /// The client for addresses that others name.
    #[must_use]
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// The files of all endpoints.
    #[must_use]
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// The secrets of all endpoints.
    #[must_use]
    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// Has requests of an endpoint get recorded answers from its next one on; `None` has the servers answer again. It is for whoever
    /// runs this host in their own process: nothing of it is stored.
    pub fn answer_recorded(&self, endpoint: &EndpointId, recorded: Option<Arc<Recorded>>) {
        let mut all = self.recorded.write().unwrap_or_else(PoisonError::into_inner);
        match recorded {
            Some(recorded) => _ = all.insert(endpoint.clone(), recorded),
            None => _ = all.remove(endpoint),
        }
    }

    fn recorded(&self, endpoint: &EndpointId) -> Option<Arc<Recorded>> {
        self.recorded.read().unwrap_or_else(PoisonError::into_inner).get(endpoint).map(Arc::clone)
    }

    /// Waits until what calls have left to be written is written: changes of files, and lines of the log.
    pub async fn finish(&self) {
        self.files.finish().await;
        self.logs.flush().await;
    }

    /// Has nobody store secrets, keys or files of an endpoint from this commit on, at any host: the one that deletes it.
    pub fn close(&self, batch: &mut Batch, endpoint: &EndpointId) {
        secret::added::close(batch, endpoint);
        self.kv.close(batch, endpoint);
        self.files.close(batch, endpoint);
    }

    /// Forgets that an endpoint was closed. For a time when no call of it can be running any more, once it [is forgotten](Self::forget).
    pub fn release(&self, batch: &mut Batch, endpoint: &EndpointId) {
        secret::added::release(batch, endpoint);
        self.kv.release(batch, endpoint);
        self.files.release(batch, endpoint);
    }

    /// Removes all that a deleted endpoint kept: secrets, keys, files, log lines. Calling it again is safe, and goes on where it was cut
    /// short. [Close](Self::close) the endpoint first, so that a call that still runs stores nothing after.
    ///
    /// # Errors
    ///
    /// Those of the store; what was removed by then stays removed.
    pub async fn forget(&self, endpoint: &EndpointId) -> Result<(), StoreError> {
        self.answer_recorded(endpoint, None);
        self.secrets.forget(endpoint).await?;
        self.kv.forget(endpoint).await?;
        self.logs.forget(endpoint).await?;
        // Last: a bucket may take its time.
        self.files.forget(endpoint).await
    }

    /// Has contents of files of which no entry is left deleted soon, in the background.
    pub fn collect_soon(&self) {
        self.files.collect_soon();
    }
}

impl fmt::Debug for CapabilityServices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CapabilityServices").finish_non_exhaustive()
    }
}

/// The ops of one call.
pub struct Ops {
    call: CallGrants,
    services: Arc<CapabilityServices>,
    http: http::Counters,
    redactor: OnceLock<Redactor>,
    /// Finds the values that the handler itself must not see.
    hidden: OnceLock<Redactor>,
    listener: Option<progress::Listener>,
    /// Where a dry run keeps what it keeps.
    scratch: Option<Arc<Scratch>>,
    /// What the handler says that the call costs.
    till: Arc<Till>,
    host_failed: AtomicBool,
}

impl Ops {
    /// What a call with these grants may ask. Default: it keeps what its endpoint keeps, and nobody hears its progress.
    #[must_use]
    pub fn new(call: CallGrants, services: Arc<CapabilityServices>) -> Self {
        let (http, redactor, hidden) = (http::Counters::default(), OnceLock::new(), OnceLock::new());
        Self {
            call,
            services,
            http,
            redactor,
            hidden,
            listener: None,
            scratch: None,
            till: Arc::default(),
            host_failed: AtomicBool::new(false),
        }
    }

    /// Keeps nothing of the endpoint's: its kv, its files and its log are those of `scratch`.
    #[must_use]
    pub fn in_scratch(mut self, scratch: Arc<Scratch>) -> Self {
        self.scratch = Some(scratch);
        self
    }

    /// Has the handler say in `till` what the call costs. Default: its price is fixed.
    #[must_use]
    pub fn with_till(mut self, till: Arc<Till>) -> Self {
        self.till = till;
        self
    }

    /// Lets `hear` have what the handler tells its caller, as it comes. It must not block.
    #[must_use]
    pub fn with_listener(mut self, hear: impl Fn(ProgressUpdate) + Send + Sync + 'static) -> Self {
        self.listener = Some(progress::Listener::new(hear));
        self
    }

    /// Hides the values of the call's secrets: for texts that leave the host in another way than by its log.
    #[must_use]
    pub fn redactor(&self) -> &Redactor {
        self.redactor.get_or_init(|| Redactor::new(self.call.secrets.iter().map(|secret| secret.value.as_str())))
    }

    /// Hides, from the handler, what only servers may get: one of them may send it back.
    fn hidden(&self) -> &Redactor {
        let hidden = self.call.secrets.iter().filter(|secret| secret.visibility == Visibility::Auth);
        self.hidden.get_or_init(|| Redactor::new(hidden.map(|secret| secret.value.as_str())))
    }

    /// Whether an op was not done by a fault of the host's: what the handler makes of that is none of its own.
    #[must_use]
    pub fn host_failed(&self) -> bool {
        self.host_failed.load(Ordering::Relaxed)
    }

    /// Writes a line of the host's own into the builder's log, such as why a call ended. Cleaned
    /// and redacted like the handler's lines; needs no grant.
    pub fn report(&self, level: LogLevel, message: &str, fields: serde_json::Value) {
        let mut entry = LogEntry::new(self.services.logs.now(), level, message, fields, &self.call.call_id, self.redactor());
        entry.owner = self.call.by_owner;
        self.keep(entry);
    }

    fn keep(&self, entry: LogEntry) {
        match &self.scratch {
            Some(scratch) => scratch.log(entry),
            None => self.services.logs.write(&self.call.owner, &self.call.endpoint_id, entry),
        }
    }

    async fn perform(&self, request: OpRequest) -> Result<OpValue, OpFailure> {
        macro_rules! perform {
            ($($(#[$about:meta])* $part:ident.$method:ident $op:ident $request:ident {
                $($(#[$what:meta])* $field:ident: $kind:ty = $given:ident,)*
            } $($writes:ident)?;)*) => {
                match request {
                    $(OpRequest::$request { $($field),* } => {
                        // Nothing is reached but from behind the gate of its capability.
                        let part = self.$part(&*self.call.grant.$part()?);
                        part.$method($($field),*).await
                    })*
                    OpRequest::Sleep { ms } => {
                        // A call has no use for a timer beyond its own end.
                        tokio::time::sleep(Duration::from_millis(ms.min(self.call.limits.wall_ms))).await;
                        Ok(OpValue::None)
                    }
                    // No call pays what another one says, whatever the worker makes of it.
                    OpRequest::Charge { call, .. } if call != self.call.call_id.as_str() => Err(failure::call_ended()),
                    OpRequest::Charge { usd, .. } => self.till.charge(&usd).map(|()| OpValue::None),
                }
            };
        }
        tollhouse_protocol::ops!(perform)
    }

    fn kv(&self, _: &Granted) -> kv::Scoped<'_> {
        let kv = self.scratch.as_ref().map_or(&self.services.kv, |scratch| &scratch.kv);
        kv.scoped(&self.call.owner, &self.call.endpoint_id, &self.call.limits)
    }

    fn files(&self, _: &Granted) -> files::Scoped {
        let files = self.scratch.as_ref().map_or(&self.services.files, |scratch| &scratch.files);
        files.scoped(&self.call.owner, &self.call.endpoint_id, &self.call.limits)
    }

    fn http_get_json(&self, granted: &Granted) -> http::Outgoing<'_> {
        let hosts = granted.hosts.clone();
        let recorded = self.services.recorded(&self.call.endpoint_id);
        http::Outgoing { guard: &self.services.guard, hosts, call: &self.call, counters: &self.http, hidden: self.hidden(), recorded }
    }
}

impl OpHost for Ops {
    fn op(&self, request: OpRequest) -> BoxFuture<'_, Result<OpValue, OpFailure>> {
        Box::pin(async {
            let done = match self.services.replica.is_fenced() {
                false => self.perform(request).await,
                // Its grant may have been taken back.
                true => Err(failure::fenced()),
            };
            if done.as_ref().is_err_and(failure::is_the_hosts) {
                self.host_failed.store(true, Ordering::Relaxed);
            }
            done
        })
    }

    fn log(&self, line: LogLine) {
        if self.call.grant.logs().is_err() {
            return;
        }
        let entry = LogEntry::of_handler(self.services.logs.now(), &line, &self.call, self.redactor());
        self.keep(entry);
    }

    fn progress(&self, said: Said) {
        if let Some(listener) = &self.listener {
            listener.hear(&said, &self.call.limits, self.redactor());
        }
    }

    fn used(&self, _cpu: Duration) {}
}

#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;

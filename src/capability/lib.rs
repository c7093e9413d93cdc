//! The host's side of a handler's ops: what a running call may do, and doing it.
//!
//! A worker can only send requests. [`Ops`] holds the grant of one call and answers them. Everything outside is
//! reachable only through the scoped values that it provides ([`Kv`], [`Files`], [`Guard`]), each bound to the call's
//! tool and limits. The [`Grant`] behind it is shared with the catalog: if an admin revokes something, a running call
//! loses it at its next op. Requests go only to the hosts of the grant ([`AllowedHosts`]), which the guard checks at
//! each hop, including redirects.
//!
//! It does *not* count ops or cut log lines: the pool has already done both.

mod answer_stream;
mod call_body;
mod consistency;
mod data_kind;
mod dry_run;
mod failure;
mod fetch;
mod files;
mod grant;
pub mod guard;
mod hosts;
mod http;
mod kv;
mod log;
mod metered_charge;
mod object_sample;
mod progress;
mod redact;
mod response;
pub mod secret;
mod usage;

use std::{
    collections::HashMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use tollhouse_base::{boxed, clock::Clock, id::EndpointId, lock::Lock};
use tollhouse_objects::Objects;
use tollhouse_pool::OpHost;
use tollhouse_protocol::{LogLevel, LogLine, OpFailure, OpRequest, OpValue, ProgressMessage};
use tollhouse_replica::Replica;
use tollhouse_store::{Batch, Store, StoreError};

pub use self::{
    answer_stream::{AnswerStream, StreamHead},
    call_body::{CallBody, on_body_thread},
    consistency::check_objects,
    data_kind::{DataKind, KindTurn},
    dry_run::DryRunStore,
    files::{Files, object_of},
    grant::{CallGrants, Grant, Granted},
    guard::{Guard, GuardSettings},
    hosts::{AllowedHosts, HostPatternError, host_of_entry},
    kv::Kv,
    log::{FollowedLine, LogEntry, LogPage, LogPosition, LogQuery, LogSettings, Logs},
    metered_charge::MeteredCharge,
    object_sample::sample_files,
    progress::ProgressUpdate,
    redact::{PieceRedactor, Redactor},
};
use crate::{
    guard::RecordedAnswers,
    secret::{Placeholders, Secret, Secrets, Visibility},
};

/// The services that the ops of all calls share. One per host.
pub struct CapabilityServices {
    kv: Kv,
    pub files: Files,
    /// The client for addresses that others supply.
    pub guard: Guard,
    /// The logs of all tools, for reading and following.
    pub logs: Logs,
    pub secrets: Arc<Secrets>,
    replica: Arc<Replica>,
    recorded: Lock<HashMap<EndpointId, Arc<RecordedAnswers>>>,
}

impl CapabilityServices {
    /// Creates the services. Call it inside a tokio runtime, because the log's writer is a task.
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
            recorded: Lock::default(),
        })
    }

    /// Answers the next requests of a tool with recorded responses, or with real ones again if `recorded` is `None`. It is
    /// for a process that embeds this host, and stores nothing.
    pub fn answer_recorded(&self, endpoint: &EndpointId, recorded: Option<Arc<RecordedAnswers>>) {
        let mut all = self.recorded.lock();
        match recorded {
            Some(recorded) => _ = all.insert(endpoint.clone(), recorded),
            None => _ = all.remove(endpoint),
        }
    }

    /// Waits until all pending writes of calls are done: changes of files, and log lines.
    #[boxed]
    pub async fn finish(&self) {
        self.files.finish().await;
        self.logs.flush().await;
    }

    /// Prevents secrets, keys and files of a tool from being stored from this commit on, on any host. Part of the commit
    /// that deletes the tool.
    pub fn close(&self, batch: &mut Batch, endpoint: &EndpointId) {
        secret::added_count::close(batch, endpoint);
        kv::USAGE.close(batch, endpoint);
        files::USAGE.close(batch, endpoint);
    }

    /// Removes the mark that a tool is closed. Call it when none of its calls can be running, after [`Self::forget`].
    pub fn release(&self, batch: &mut Batch, endpoint: &EndpointId) {
        secret::added_count::release(batch, endpoint);
        kv::USAGE.release(batch, endpoint);
        files::USAGE.release(batch, endpoint);
    }

    /// Removes all data of a deleted tool: secrets, keys, files, log lines. Repeating it is safe and continues after an
    /// interruption. [Close](Self::close) the tool first, so that running calls store nothing afterwards.
    ///
    /// # Errors
    ///
    /// Errors of the store. Data removed before the error stays removed.
    #[boxed]
    pub async fn forget(&self, endpoint: &EndpointId) -> Result<(), StoreError> {
        self.answer_recorded(endpoint, None);
        self.secrets.forget(endpoint).await?;
        self.kv.forget(endpoint).await?;
        self.logs.forget(endpoint).await?;
        // Last, because a bucket can be slow.
        self.files.forget(endpoint).await
    }

    /// Wakes the background task that deletes file contents without an entry.
    pub fn schedule_collection(&self) {
        self.files.schedule_collection();
    }
}

pub struct Ops {
    call: CallGrants,
    services: Arc<CapabilityServices>,
    http: http::HttpCounters,
    redactor: OnceLock<Redactor>,
    /// Finds secrets that the handler itself must not see.
    hidden: OnceLock<Redactor>,
    listener: Option<progress::Listener>,
    scratch: Option<Arc<DryRunStore>>,
    /// The charge that the handler sets for the call.
    charge: Arc<MeteredCharge>,
    /// The body of the call, if it is not JSON.
    body: Option<Arc<CallBody>>,
    /// The receiver of a streamed answer, if the caller can take one.
    answer_stream: Option<Arc<dyn AnswerStream>>,
    host_failed: AtomicBool,
}

impl Ops {
    /// Creates the ops of a call with these grants. By default, data is stored for the tool, and nobody receives
    /// progress.
    pub fn new(call: CallGrants, services: Arc<CapabilityServices>) -> Self {
        let (http, redactor, hidden) = (http::HttpCounters::default(), OnceLock::new(), OnceLock::new());
        Self {
            call,
            services,
            http,
            redactor,
            hidden,
            listener: None,
            scratch: None,
            charge: Arc::default(),
            body: None,
            answer_stream: None,
            host_failed: AtomicBool::new(false),
        }
    }

    /// Uses the kv, files and log of `dry_run` instead of the tool's own.
    #[must_use]
    pub fn with_dry_run(mut self, scratch: Arc<DryRunStore>) -> Self {
        self.scratch = Some(scratch);
        self
    }

    /// Lets the handler set the call's charge in `metered_charge`. Default: the price is fixed.
    #[must_use]
    pub fn with_charge(mut self, charge: Arc<MeteredCharge>) -> Self {
        self.charge = charge;
        self
    }

    /// Lets the handler read a body that is not JSON. Default: the call has none.
    #[must_use]
    pub fn with_body(mut self, body: Option<Arc<CallBody>>) -> Self {
        self.body = body;
        self
    }

    /// Sends a streamed answer to `stream`. Default: the call cannot stream.
    #[must_use]
    pub fn with_answer_stream(mut self, stream: Arc<dyn AnswerStream>) -> Self {
        self.answer_stream = Some(stream);
        self
    }

    /// Sends the handler's progress messages to `on_update` as they come. It must not block.
    #[must_use]
    pub fn with_listener(mut self, on_update: impl Fn(ProgressUpdate) + Send + Sync + 'static) -> Self {
        self.listener = Some(progress::Listener::new(on_update));
        self
    }

    /// Returns a redactor for the call's secrets and their placeholders, for texts that leave the host by other
    /// ways than the log.
    pub fn redactor(&self) -> &Redactor {
        self.redactor.get_or_init(|| Redactor::new(self.call.secrets.iter().flat_map(Secret::redacted)))
    }

    /// Returns a redactor that hides secrets from the handler which only servers may get, because a server may send one
    /// back.
    fn hidden(&self) -> &Redactor {
        let hidden = self.call.secrets.iter().filter(|secret| secret.visibility != Visibility::Env);
        self.hidden.get_or_init(|| Redactor::new(hidden.map(|secret| secret.value.as_str())))
    }

    /// Returns whether an op failed because of the host. The handler is then not responsible for the outcome.
    pub fn host_failed(&self) -> bool {
        self.host_failed.load(Ordering::Relaxed)
    }

    /// Writes a line of the host into the builder's log, such as why a call ended. It is cleaned and redacted like the
    /// handler's lines, and needs no grant.
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
                        // Every op passes the gate of its capability.
                        let part = self.$part(&*self.call.grant.$part()?);
                        part.$method($($field),*).await
                    })*
                    OpRequest::Sleep { ms } => {
                        // A timer longer than the call is useless.
                        tokio::time::sleep(Duration::from_millis(ms.min(self.call.limits.wall_ms))).await;
                        Ok(OpValue::None)
                    }
                    // A call can only charge for itself, whatever the worker sends.
                    OpRequest::Charge { call, .. } if call != self.call.call_id.as_str() => Err(failure::call_ended()),
                    OpRequest::Charge { usd, .. } => self.charge.charge(&usd).map(|()| OpValue::None),
                    OpRequest::BodyRead { offset } => match &self.body {
                        Some(body) => body.answer(offset).await,
                        None => Ok(OpValue::None),
                    },
                    OpRequest::StreamOpen { status, headers, first } => {
                        self.answer_stream()?.open(StreamHead { status, headers }, first).await.map(|()| OpValue::None)
                    }
                    OpRequest::StreamWrite { chunk } => self.answer_stream()?.write(chunk).await.map(|()| OpValue::None),
                    OpRequest::FetchRead { id } => {
                        let part = self.fetch(&*self.call.grant.fetch()?);
                        part.read(id).await
                    }
                    // It needs no grant, because it gives nothing.
                    OpRequest::FetchCancel { id } => {
                        self.http.requests.cancel(id);
                        Ok(OpValue::None)
                    }
                }
            };
        }
        tollhouse_protocol::ops!(perform)
    }

    fn answer_stream(&self) -> Result<&dyn AnswerStream, OpFailure> {
        self.answer_stream.as_deref().ok_or_else(failure::no_stream)
    }

    fn kv(&self, _: &Granted) -> kv::EndpointKv<'_> {
        let kv = self.scratch.as_ref().map_or(&self.services.kv, |scratch| &scratch.kv);
        kv.scoped(&self.call.owner, &self.call.endpoint_id, &self.call.limits)
    }

    fn files(&self, _: &Granted) -> files::EndpointFiles {
        let files = self.scratch.as_ref().map_or(&self.services.files, |scratch| &scratch.files);
        files.scoped(&self.call.owner, &self.call.endpoint_id, &self.call.limits)
    }

    fn http_get_json(&self, granted: &Granted) -> http::OutgoingRequest<'_> {
        self.outgoing(granted)
    }

    fn fetch(&self, granted: &Granted) -> http::OutgoingRequest<'_> {
        self.outgoing(granted)
    }

    fn outgoing(&self, granted: &Granted) -> http::OutgoingRequest<'_> {
        let (hosts, requested_hosts) = (granted.hosts.clone(), granted.requested_hosts.clone());
        let recorded = self.services.recorded.lock().get(&self.call.endpoint_id).map(Arc::clone);
        http::OutgoingRequest {
            guard: &self.services.guard,
            hosts,
            requested_hosts,
            call: &self.call,
            counters: &self.http,
            hidden: self.hidden(),
            placeholders: Placeholders::of(&self.call.secrets),
            recorded,
        }
    }
}

impl OpHost for Ops {
    fn op(&self, request: OpRequest) -> BoxFuture<'_, Result<OpValue, OpFailure>> {
        Box::pin(async {
            let done = match self.services.replica.is_fenced() {
                false => self.perform(request).await,
                // The call's grant may have been revoked without this host knowing.
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

    fn progress(&self, message: ProgressMessage) {
        if let Some(listener) = &self.listener {
            listener.update(&message, &self.call.limits, self.redactor());
        }
    }

    fn used(&self, _cpu: Duration) {}
}

#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;

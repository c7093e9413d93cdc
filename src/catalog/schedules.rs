//! Schedules of endpoints: when each runs next, and which host runs it.
//!
//! A run is claimed before it begins, in a durable commit that only one host can make. So a run is never done twice: if
//! the host ends between claim and run, the run is lost. Another host then finds the claim after its time and
//! [reports](ScheduleTurn::lost) it. A tool has one run at a time. If occurrences of an expression pass meanwhile, or
//! while no host lives, it runs once for all of them, as of the latest one.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use tollhouse_base::{
    boxed,
    clock::Timestamp,
    id::{CallId, EndpointId},
    log_gate::LogGate,
};
use tollhouse_store::{Batch, Direction, Durability, IndexEntry, Range, StoreError, Table, TerminatedText, schema};
use tollhouse_tool::{Availability, Cron, Endpoint, Owner, Slug};

use super::{Catalog, FindError, LiveEndpoint, PublishError, schedule_check::MAX_SCHEDULES_OF_BUILDER};

const SCHEDULES: Table<EndpointId, ScheduleState> = schema::SCHEDULES.indexed(&[due, count]);
const DUE: Table<(Timestamp, EndpointId), ()> = schema::SCHEDULES_DUE.holding();
const COUNTS: Table<(TerminatedText<String>, EndpointId), CronCount> = schema::SCHEDULES_OF.holding();
tollhouse_store::json_values!(ScheduleState);
tollhouse_store::postcard_values!(CronCount);

/// Time beyond the time limit of a call after which a run counts as lost, in milliseconds. A run waits for a slot before
/// its time begins.
const LOST_AFTER_MS: u64 = 60_000;

/// The last second that a record can hold: 9999-12-30, 22:00 UTC. A later time is read as another one, and then the
/// index of due times does not match its row.
const NEVER: Timestamp = Timestamp(253_402_207_200_000);

/// Endpoints read at once.
const PAGE: usize = 64;

static UNREADABLE: LogGate = LogGate::every(Duration::from_secs(3_600));
static UNREADABLE_TOOL: LogGate = LogGate::every(Duration::from_secs(3_600));

/// Maximum attempts to store the end of a run, while others change the schedules.
const MAX_ATTEMPTS: usize = 8;

/// The schedules of an endpoint, as they are stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ScheduleState {
    slug: Slug,
    owner: Owner,
    crons: Vec<CronState>,
    running: Option<ScheduleClaim>,
    /// Number of failed runs since the last one that succeeded.
    failures: u32,
}

/// An expression, and when it is due.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct CronState {
    cron: String,
    next: Timestamp,
}

/// A run that a host has begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleClaim {
    pub call: CallId,
    /// The expression that was due.
    pub cron: String,
    /// The occurrence for which it runs.
    pub at: Timestamp,
    /// When the run counts as lost.
    until: Timestamp,
}

impl ScheduleClaim {
    /// Creates a run without a record in the store.
    pub fn now(call: CallId, cron: String, now: Timestamp) -> Self {
        Self { call, cron, at: now, until: now }
    }
}

/// Number of schedules of an endpoint.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct CronCount(u32);

/// An endpoint whose schedules are due.
#[derive(Debug, Clone)]
pub struct DueSchedule {
    pub owner: Owner,
    pub endpoint: EndpointId,
}

/// The result of a host's turn at an endpoint's schedules.
#[derive(Default)]
pub struct ScheduleTurn {
    /// The run to do now, and the endpoint. `None` if another host was faster, or the endpoint takes no calls.
    pub run: Option<(ScheduleClaim, Arc<LiveEndpoint>)>,
    /// An earlier run that did not end, for the record of the endpoint.
    pub lost: Option<(ScheduleClaim, Arc<LiveEndpoint>)>,
    /// Number of runs that have failed in a row, including the lost one.
    pub failures: u32,
}

fn due(id: &EndpointId, state: &ScheduleState) -> Option<IndexEntry> {
    Some(schema::SCHEDULES_DUE.entry(&(state.due()?, id.clone()), &()))
}

fn count(id: &EndpointId, state: &ScheduleState) -> Option<IndexEntry> {
    let count = CronCount(u32::try_from(state.crons.len()).unwrap_or(u32::MAX));
    Some(schema::SCHEDULES_OF.entry(&(TerminatedText(state.owner.share().to_owned()), id.clone()), &count))
}

impl ScheduleState {
    /// Returns the schedules of an endpoint from `now` on.
    fn of(endpoint: &Endpoint, now: Timestamp) -> Self {
        let crons = endpoint.schedules.iter().filter_map(|text| {
            let next = Cron::parse(text).ok()?.next(now)?;
            Some(CronState { cron: text.clone(), next })
        });
        let (slug, owner) = (endpoint.slug.clone(), endpoint.owner.clone());
        Self { slug, owner, crons: crons.collect(), running: None, failures: 0 }
    }

    /// Returns when a host must look at it: at the next occurrence, or when its run counts as lost.
    fn due(&self) -> Option<Timestamp> {
        match &self.running {
            Some(running) => Some(running.until),
            None => self.crons.iter().map(|cron| cron.next).min(),
        }
    }

    /// Takes the expression that is due first, in the order of the tool, and returns it with its latest occurrence.
    fn take(&mut self, now: Timestamp) -> Option<(String, Timestamp)> {
        let first = self.crons.iter_mut().filter(|cron| cron.next <= now).min_by_key(|cron| cron.next)?;
        let missed_since = first.next;
        let latest = first.skip(now).unwrap_or(missed_since).max(missed_since);
        Some((first.cron.clone(), latest))
    }
}

impl CronState {
    /// Moves to the first occurrence after `now`. Returns the latest one before.
    fn skip(&mut self, now: Timestamp) -> Option<Timestamp> {
        let cron = Cron::parse(&self.cron).ok();
        // An expression of a later version, which nothing here can read, is never due.
        self.next = cron.and_then(|cron| cron.next(now)).unwrap_or(NEVER);
        cron?.latest(now)
    }
}

impl Catalog {
    /// Returns the rows of an endpoint's schedules, for its change from `before` to `after`. The next occurrence counts from now.
    ///
    /// # Errors
    ///
    /// The owner has too many schedules. Errors of the store.
    pub(super) async fn schedule_rows(&self, before: Option<&Endpoint>, after: Option<&Endpoint>) -> Result<Batch, PublishError> {
        let schedules = |endpoint: Option<&Endpoint>| endpoint.map(|endpoint| endpoint.schedules.clone()).unwrap_or_default();
        let mut batch = Batch::new();
        let Some(endpoint) = after.or(before).filter(|_| schedules(before) != schedules(after)) else { return Ok(batch) };
        let row = SCHEDULES.row(&*self.store, &endpoint.id).await?;
        match after.filter(|after| !after.schedules.is_empty()) {
            Some(after) => {
                self.room_for_schedules(after).await?;
                let mut state = ScheduleState::of(after, self.parts.clock.now());
                // A run continues under the new schedules, so that only one runs at a time.
                state.running = row.as_ref().and_then(|row| row.value.running.clone());
                batch.replace_or_insert(&SCHEDULES, row.as_ref(), &after.id, &state);
            }
            None => row.iter().for_each(|row| _ = batch.remove(&SCHEDULES, row)),
        }
        Ok(batch)
    }

    async fn room_for_schedules(&self, endpoint: &Endpoint) -> Result<(), PublishError> {
        let owner = COUNTS.under(&TerminatedText(endpoint.owner.share().to_owned()));
        let rows = COUNTS.page(&*self.store, &owner, MAX_SCHEDULES_OF_BUILDER, Direction::Forward).await?;
        let others = rows.iter().filter(|row| row.key.1 != endpoint.id).map(|row| row.value.0 as usize).sum::<usize>();
        if others + endpoint.schedules.len() > MAX_SCHEDULES_OF_BUILDER {
            let message = format!("all tools of a builder together can have {MAX_SCHEDULES_OF_BUILDER} schedules");
            return Err(PublishError::field("/schedules", message));
        }
        Ok(())
    }

    /// Returns the endpoints whose schedules are due at `now`.
    pub fn due_schedules(&self, now: Timestamp) -> DueSchedules<'_> {
        DueSchedules { catalog: self, range: DUE.all().before(&now.plus_millis(1)) }
    }

    /// Claims the next run of an endpoint that is due at `now`, as `call`.
    ///
    /// # Errors
    ///
    /// Those of the store, except that the tool cannot be read. The claim may exist then, and counts as lost later.
    #[boxed]
    pub async fn claim_schedule(&self, id: &EndpointId, call: &CallId, now: Timestamp) -> Result<ScheduleTurn, StoreError> {
        let Some(row) = SCHEDULES.row(&*self.store, id).await? else { return Ok(ScheduleTurn::default()) };
        if row.value.due().is_none_or(|due| due > now) {
            return Ok(ScheduleTurn::default());
        }
        let live = match self.find(row.value.slug.as_str()).await {
            Ok(live) => live.filter(|live| live.endpoint.id == *id),
            // It stays due, and must not stop those after it. Another host may be able to read it.
            Err(FindError::Store(error)) => {
                if let Some(skipped) = UNREADABLE_TOOL.pass() {
                    tracing::error!(endpoint.id = %id, %error, skipped, "a tool is unreadable and its schedules do not run");
                }
                return Ok(ScheduleTurn::default());
            }
            Err(FindError::SourceLost(_)) => return Ok(ScheduleTurn::default()),
        };
        let Some(live) = live else {
            // This host does not know the endpoint yet, or no longer. Its deletion removes the row.
            return Ok(ScheduleTurn::default());
        };
        let mut state = row.value.clone();
        let lost = state.running.take();
        state.failures += u32::from(lost.is_some());
        let run = if live.endpoint.availability() == Availability::Active {
            let until = now.plus_millis(live.endpoint.limits.wall_ms + live.endpoint.limits.load_wall_ms + LOST_AFTER_MS);
            state.take(now).map(|(cron, at)| ScheduleClaim { call: call.clone(), cron, at, until })
        } else {
            // The occurrences are skipped, not run later.
            state.crons.iter_mut().filter(|cron| cron.next <= now).for_each(|cron| _ = cron.skip(now));
            None
        };
        state.running.clone_from(&run);
        let mut batch = Batch::new();
        batch.replace(&SCHEDULES, &row, &state);
        if !batch.commit_if_unchanged(&*self.store, Durability::Durable).await? {
            return Ok(ScheduleTurn::default());
        }
        let with_live = |claim: ScheduleClaim| (claim, Arc::clone(&live));
        Ok(ScheduleTurn { run: run.map(with_live), lost: lost.map(with_live), failures: state.failures })
    }

    /// Records the end of a claimed run, so that the next one can begin. Returns how many runs have failed in a row.
    ///
    /// # Errors
    ///
    /// Those of the store. The run counts as lost later.
    #[boxed]
    pub async fn finish_schedule(&self, id: &EndpointId, call: &CallId, has_failed: bool) -> Result<u32, StoreError> {
        for _ in 0..MAX_ATTEMPTS {
            let Some(row) = SCHEDULES.row(&*self.store, id).await? else { return Ok(0) };
            if row.value.running.as_ref().is_none_or(|running| running.call != *call) {
                return Ok(0);
            }
            let failures = if has_failed { row.value.failures.saturating_add(1) } else { 0 };
            let mut batch = Batch::new();
            batch.replace(&SCHEDULES, &row, &ScheduleState { running: None, failures, ..row.value.clone() });
            if batch.commit_if_unchanged(&*self.store, Durability::Buffered).await? {
                return Ok(failures);
            }
        }
        Err(StoreError::Contended)
    }

    /// Makes a claimed run that did not begin due again, until the next occurrence of its expression. Returns false if
    /// that has passed, or the claim is not in force.
    ///
    /// # Errors
    ///
    /// Those of the store. The run counts as lost later.
    #[boxed]
    pub async fn delay_schedule(&self, id: &EndpointId, claim: &ScheduleClaim, now: Timestamp) -> Result<bool, StoreError> {
        for _ in 0..MAX_ATTEMPTS {
            let Some(row) = SCHEDULES.row(&*self.store, id).await? else { return Ok(false) };
            let mut state = row.value.clone();
            if state.running.as_ref().is_none_or(|running| running.call != claim.call) {
                return Ok(false);
            }
            let Some(cron) = state.crons.iter_mut().find(|cron| cron.cron == claim.cron && cron.next > now) else { return Ok(false) };
            cron.next = claim.at;
            state.running = None;
            let mut batch = Batch::new();
            batch.replace(&SCHEDULES, &row, &state);
            if batch.commit_if_unchanged(&*self.store, Durability::Buffered).await? {
                return Ok(true);
            }
        }
        Err(StoreError::Contended)
    }
}

/// The endpoints that are due, in order of time, read page by page.
pub struct DueSchedules<'a> {
    catalog: &'a Catalog,
    range: Range<(Timestamp, EndpointId)>,
}

impl DueSchedules<'_> {
    /// Returns the next page, or `None` at the end.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub async fn next(&mut self) -> Result<Option<Vec<DueSchedule>>, StoreError> {
        let store = &*self.catalog.store;
        let Some(page) = DUE.sound(store, &mut self.range, PAGE).await? else { return Ok(None) };
        let mut found = Vec::with_capacity(page.len());
        for row in page {
            let (_, endpoint) = row.key;
            let row = SCHEDULES.found(store, &endpoint).await?;
            match row.map(|row| SCHEDULES.read(row)) {
                Some(Ok(row)) => found.push(DueSchedule { owner: row.value.owner, endpoint }),
                // It stays due, and must not stop those after it.
                Some(Err(error)) => {
                    if let Some(skipped) = UNREADABLE.pass() {
                        tracing::error!(endpoint.id = %endpoint, %error, skipped, "the schedules of a tool are unreadable and do not run");
                    }
                }
                None => {}
            }
        }
        Ok(Some(found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expression_that_cannot_be_read_is_never_due_and_stored_as_it_is() {
        let mut state = CronState { cron: "@daily".to_owned(), next: Timestamp(0) };
        assert_eq!(state.skip(Timestamp(1)), None);
        assert_eq!(state.next, NEVER);
        assert_eq!(serde_json::from_value::<CronState>(serde_json::to_value(&state).unwrap()).unwrap(), state);
    }
}

//! Health checks and status, for operators.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};
use tokio::time::timeout;
use tollhouse_api::{Health, HealthWarning, OkResponse, Readiness, StoredHealth, StoredSize, True};
use tollhouse_front::{ApiError, Code};
use tollhouse_money as money;
use tollhouse_store::{Batch, Durability, Space, SpaceSize, Store, StoreError, log_unavailable};

use crate::{Http, Json, JsonResult, Route, Services, State, open};

/// Maximum time that health, readiness and metrics wait for the store, for all that they ask it together. Probes give up
/// after a few seconds, and a disk that hangs returns no error.
pub const STORE_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum number of reorganized or unresolved settlements to count.
const MAX_COUNTED: usize = 10_000;

pub(super) fn routes() -> Vec<Route> {
    vec![
        open::get("/health", "getHealth", "settings in force and current state", health).answers("Health"),
        open::get("/health/live", "isLive", "reports that the process is running", live).answers("OkResponse"),
        open::get(
            "/health/ready",
            "isReady",
            "reports whether the host accepts calls: the store commits, other hosts are visible, and workers start",
            ready,
        )
        .answers("Readiness"),
    ]
}

/// Responds if the process is running.
async fn live() -> Json<OkResponse> {
    Json(OkResponse { ok: True })
}

/// Responds with success if the host can take calls: the store commits, other hosts are visible, and workers start.
async fn ready(State(http): State<Http>) -> JsonResult<Readiness> {
    // These are not logged as errors of a request, because probes come several times a second.
    let away = |reason: &str| ApiError::new(Code::StoreUnavailable, reason).retry_after(1);
    if let Err(error) = check_commits(&*http.store, STORE_TIMEOUT).await {
        log_unavailable(&error, "a readiness check");
        return Err(away("the store does not accept commits; the log has the reason"));
    }
    if http.replica.is_fenced() {
        return Err(away("the host cannot read the changes of other hosts, or renew its lease"));
    }
    if let Some(apart) = http.replica.clock_is_wrong() {
        return Err(away(&apart));
    }
    if http.shared.shutdown.announced() {
        return Err(ApiError::new(Code::Busy, "the host is shutting down"));
    }
    if http.pool.cannot_start() {
        return Err(ApiError::new(Code::Busy, "no worker can be started; `/health` has the reason in `sandbox.startsFail`"));
    }
    // Other tools work without these objects. One lost object must not stop all hosts of its store.
    Ok(Json(Readiness { ok: True, warnings: objects_warning(&http).into_iter().collect() }))
}

fn objects_warning(http: &Services) -> Option<HealthWarning> {
    let remedy = "run `tollhouse doctor` on this machine, which names an example; `tollhouse store check` lists all";
    (http.objects_warning)().map(|message| HealthWarning { code: "objects_missing".into(), message, remedy: remedy.into() })
}

/// Returns a warning for each facilitator whose last request failed. The log has the cause, which can be private.
fn facilitator_warnings(http: &Services) -> impl Iterator<Item = HealthWarning> + use<> {
    let remedy = "read the log at that time, and run `tollhouse doctor` with the settings of the host";
    let failures = http.payments.facilitator_failures().into_iter();
    failures.map(move |message| HealthWarning { code: "facilitator_failed".into(), message, remedy: remedy.into() })
}

/// Returns an error while the store rejects commits or does not complete one in time, because no payment could be
/// settled.
pub async fn check_commits(store: &dyn Store, within: Duration) -> Result<(), StoreError> {
    let late = |_| StoreError::Away(format!("no commit completed within {} s", within.as_secs()));
    let taken = timeout(within, Batch::new().commit(store, Durability::Buffered)).await;
    taken.map_err(late)?.map(drop)
}

/// Returns settings in force, such as the sandbox and the facilitators, and current state, such as stored data and disk
/// use.
async fn health(State(http): State<Http>) -> Json<Health<Value, Value>> {
    let store = &*http.store;
    let (replicas, reorganized, unresolved, stored) = tokio::join!(
        timeout(STORE_TIMEOUT, http.replica.seen()),
        timeout(STORE_TIMEOUT, money::count_reorganized(store, MAX_COUNTED)),
        timeout(STORE_TIMEOUT, money::count_unresolved(store, MAX_COUNTED)),
        stored(&http),
    );
    Json(Health {
        ok: True,
        version: env!("CARGO_PKG_VERSION").into(),
        replicas: replicas.ok().and_then(Result::ok),
        clock: http.replica.clock_is_wrong(),
        sandbox: json!(http.pool.status()),
        payment: http.payments.describe(),
        facilitator: http.payments.facilitators().status(),
        facilitators: http.payments.facilitator_statuses(),
        open_settlements: http.payments.open_intents(),
        unresolved_settlements: unresolved.ok().and_then(Result::ok),
        reorganized_settlements: reorganized.ok().and_then(Result::ok),
        unpaid: http.payments.unpaid(),
        stored,
        disk: json!(http.disk.usage()),
        intake: intake(&http),
        warnings: http.shared.proxies.warnings().into_iter().chain(objects_warning(&http)).chain(facilitator_warnings(&http)).collect(),
    })
}

/// Returns the use of the limits on connections, bodies and answers.
fn intake(http: &Services) -> Value {
    let mut intake = http.shared.intake.status();
    intake["bodyBytesSpooled"] = json!(http.shared.spool.used());
    intake["maxBodyBytesSpooled"] = json!(http.shared.spool.max());
    intake
}

/// Returns the number and bytes of keys of each kind. For free receipts, it counts receipts.
async fn stored(http: &Services) -> StoredHealth {
    let sizes = http.store.sizes();
    let describe = |size: SpaceSize| StoredSize { count: size.entries, bytes: size.bytes };
    let mut kinds: BTreeMap<&str, SpaceSize> = BTreeMap::new();
    for (space, kind) in Space::ALL.iter().filter_map(|space| Some((space, space.kind()?))) {
        let size = sizes.spaces.get(space).copied().unwrap_or_default();
        let sum = kinds.entry(kind).or_default();
        *sum = SpaceSize { entries: sum.entries + size.entries, bytes: sum.bytes + size.bytes };
    }
    StoredHealth {
        kinds: kinds.into_iter().map(|(kind, size)| (kind.into(), describe(size))).collect(),
        free_receipts: describe(http.free_receipts.size().await),
        backend: sizes.backend.into(),
        complete: sizes.complete,
        syncs: sizes.syncs,
        renewal_fails: sizes.renewal_fails,
        damage: sizes.damage,
    }
}

#[cfg(test)]
mod tests;

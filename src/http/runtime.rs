//! `/ai/admin/runtime`: sandbox statistics of each tool since the process started.

use std::cmp::Reverse;

use tollhouse_api::{RuntimeEndpoint, RuntimeStats, True};

use crate::{Admin, Http, Json, PageLimit, Route, State, get, query};

pub(super) fn routes() -> Vec<Route> {
    let what = "sandbox usage of each endpoint since the process started, highest CPU time first";
    vec![get("/ai/admin/runtime", "getRuntime", what, runtime).answers("RuntimeStats")]
}

query!(RuntimeQuery { limit: PageLimit });

async fn runtime(Admin(request): Admin<RuntimeQuery>, State(http): State<Http>) -> Json<RuntimeStats> {
    let all = http.catalog.all();
    let counted = http.calls.tally().counts().into_iter();
    let counted = counted.filter_map(|(id, counts)| {
        Some(RuntimeEndpoint {
            slug: all.of_id(&id)?.slug.clone(),
            running: counts.running,
            calls: counts.calls,
            cold_calls: counts.cold_calls,
            stops: counts.stops,
            refused: counts.refused,
            cpu_us: counts.cpu_us,
        })
    });
    let mut endpoints: Vec<_> = counted.collect();
    let total = endpoints.len();
    endpoints.sort_by_key(|endpoint| (Reverse(endpoint.cpu_us), endpoint.slug.clone()));
    endpoints.truncate(request.limit.0);
    Json(RuntimeStats { ok: True, endpoints, total })
}

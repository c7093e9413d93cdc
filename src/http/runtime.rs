//! `/ai/admin/runtime`: sandbox statistics of each tool since the process started.

use std::{cmp::Reverse, sync::Arc};

use axum::{Json, extract::State};
use serde::{Deserialize, Serialize};
use tollhouse_call::EndpointCounts;
use tollhouse_tool::Slug;

use super::{
    auth::Admin,
    page::PageLimit,
    route::{Route, get},
    services::CallServices,
};

pub(super) fn routes() -> Vec<Route> {
    let what = "what the sandbox did for each endpoint since the process started, first for those that took most of its processor time";
    vec![get("/ai/admin/runtime", "getRuntime", what, runtime).answers("RuntimeStats")]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Most {
    #[serde(default)]
    limit: PageLimit,
}

#[derive(Serialize)]
struct Answer {
    ok: bool,
    endpoints: Vec<Line>,
    /// The number of tools that were called.
    total: usize,
}

#[derive(Serialize)]
struct Line {
    slug: Slug,
    #[serde(flatten)]
    counts: EndpointCounts,
}

async fn runtime(Admin(request): Admin<Most>, State(calling): State<Arc<CallServices>>) -> Json<Answer> {
    let all = calling.catalog.all();
    let counted = calling.calls.tally().counts().into_iter();
    let called = counted.filter_map(|(id, counts)| Some((&all.of_id(&id)?.slug, counts)));
    let mut endpoints: Vec<_> = called.map(|(slug, counts)| Line { slug: slug.clone(), counts }).collect();
    let total = endpoints.len();
    endpoints.sort_by_key(|line| (Reverse(line.counts.cpu_us), line.slug.clone()));
    endpoints.truncate(request.limit.0);
    Json(Answer { ok: true, endpoints, total })
}

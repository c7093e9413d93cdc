use std::{net::Ipv4Addr, num::NonZeroU32, path::Path};

use axum::http::{HeaderName, HeaderValue};
use futures_util::future::join_all;
use tokio::sync::Barrier;
use tollhouse_account::{admin_token, first_key::FirstKeys};
use tollhouse_base::clock::{Clock, Timestamp};
use tollhouse_store::memory::MemoryStore;

use super::*;
use crate::auth_failures::{CredentialLimit, Failures};

const TOKEN: &str = "adm_0123456789abcdef";
/// Wrong credentials per minute that are allowed.
const MAX: u32 = 3;
/// Number of requests that arrive together.
const TOGETHER: usize = 100;

/// Sends requests with these credentials at the same moment. Returns the results.
async fn identify_together(shown: impl Fn(usize) -> (&'static HeaderName, &'static str)) -> Vec<Result<Caller, Code>> {
    let builders = Builders::new(Arc::new(MemoryStore::new()), Clock::fixed(Timestamp(0)), FirstKeys::of_tests());
    let callers = Arc::new(Authenticator::new(admin_token::open(Some(TOKEN), Path::new("")).unwrap(), Arc::new(builders)));
    let failures = Arc::new(Failures::new(NonZeroU32::new(MAX).unwrap(), "http://127.0.0.1"));
    let sender = failures.sender(Ipv4Addr::LOCALHOST.into(), &HeaderMap::new());
    let barrier = Arc::new(Barrier::new(TOGETHER));
    let requests: Vec<_> = (0..TOGETHER)
        .map(|index| {
            let (name, value) = shown(index);
            let headers = HeaderMap::from_iter([(name.clone(), HeaderValue::from_static(value))]);
            let mut extensions = Extensions::new();
            extensions.insert(CredentialLimit::new(&failures, sender));
            let (callers, barrier) = (Arc::clone(&callers), Arc::clone(&barrier));
            tokio::spawn(async move {
                barrier.wait().await;
                callers.identify(&headers, &extensions).await.map_err(|fault| fault.code())
            })
        })
        .collect();
    join_all(requests).await.into_iter().map(Result::unwrap).collect()
}

fn count(results: &[Result<Caller, Code>], code: Code) -> usize {
    results.iter().filter(|result| result.as_ref().is_err_and(|found| *found == code)).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn simultaneous_guesses_are_checked_only_up_to_the_limit() {
    let guesses = |index: usize| match index % 3 {
        0 => (&header_names::ADMIN_TOKEN, "adm_wrong"),
        1 => (&header_names::BUILDER_KEY, "bk_01ARZ3NDEKTSV4RRFFQ69G5FAV_wrong"),
        _ => (&header_names::BUILDER_KEY, "bk_wrong"),
    };
    let results = identify_together(guesses).await;
    assert_eq!((count(&results, Code::Unauthorized), count(&results, Code::RateLimited)), (MAX as usize, TOGETHER - MAX as usize));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn simultaneous_right_credentials_are_all_accepted() {
    let results = identify_together(|_| (&header_names::ADMIN_TOKEN, TOKEN)).await;
    assert!(results.iter().all(|result| matches!(result, Ok(Caller::Admin))));
}

use super::*;

#[test]
fn metrics_begin_and_end_with_calls() {
    let buckets: Vec<_> = [0, 0, 2, 0, 1, 0].map(|calls| json!({ "calls": calls })).into();
    let shown = |buckets: &[Value]| {
        with_calls(&buckets.iter().collect::<Vec<_>>()).iter().map(|one| one["calls"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(shown(&buckets), [2, 0, 1]);
    assert!(shown(&buckets[..2]).is_empty() && shown(&[]).is_empty());
}

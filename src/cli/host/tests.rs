use super::*;

#[test]
fn metrics_begin_and_end_with_calls() {
    let rows: Vec<MetricsRow> = [0, 0, 2, 0, 1, 0].map(|calls| (calls, Default::default())).into();
    let shown = |rows: &[MetricsRow]| with_calls(rows).iter().map(|(calls, _)| *calls).collect::<Vec<_>>();
    assert_eq!(shown(&rows), [2, 0, 1]);
    assert!(shown(&rows[..2]).is_empty() && shown(&[]).is_empty());
}

//! Checks whether the host that runs here has unresolved settlements, or the database of its store.

use std::path::Path;

use tollhouse_app::{self as app, Unresolved};
use tollhouse_operate::finding::Finding;

/// Asks the host that uses this data folder. Returns `None` if no host runs, or if it does not say.
pub(super) async fn examine(data: &Path) -> Option<Finding> {
    match app::ask_unresolved(data).await {
        Ok(unresolved) => unresolved.map(finding),
        Err(error) => {
            let text = format!("cannot ask the running host for unresolved settlements: {error}");
            Some(Finding::warn("settlements", text, "run `tollhouse doctor` as the user that runs the host"))
        }
    }
}

/// Describes the unresolved settlements of a store.
pub(super) fn finding(Unresolved { count, max, oldest }: Unresolved) -> Finding {
    if count == 0 {
        return Finding::ok("settlements", "no unresolved settlements");
    }
    let counted = match count {
        1 => "1 settlement is unresolved".to_owned(),
        _ if count >= max => format!("{count} or more settlements are unresolved"),
        _ => format!("{count} settlements are unresolved"),
    };
    let oldest = oldest.map(|oldest| format!(", the oldest since {oldest}")).unwrap_or_default();
    let text = format!("{counted}{oldest}: it is unknown whether the money moved");
    Finding::warn("settlements", text, "list them with `tollhouse settlements`, then resolve each with `tollhouse settlements resolve`")
}

#[cfg(test)]
mod tests {
    use tollhouse_base::clock::Timestamp;

    use super::*;

    #[test]
    fn unresolved_settlements_are_counted_with_the_oldest() {
        let describe = |count, oldest| finding(Unresolved { count, max: 1_000, oldest }).to_string();
        assert_eq!(describe(0, None), "ok    settlements: no unresolved settlements");
        let remedy = "list them with `tollhouse settlements`, then resolve each with `tollhouse settlements resolve`";
        let since = "the oldest since 1970-01-01T00:00:00.000Z: it is unknown whether the money moved";
        for (count, words) in
            [(1, "1 settlement is"), (2, "2 settlements are"), (999, "999 settlements are"), (1_000, "1000 or more settlements are")]
        {
            assert_eq!(describe(count, Some(Timestamp(0))), format!("warn  settlements: {words} unresolved, {since} → {remedy}"));
        }
    }
}

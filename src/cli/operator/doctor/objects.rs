//! Checks whether this machine can read a sample of the objects that the store names: sources and files of tools.

use tollhouse_app::{self as app, SampledObjects};
use tollhouse_base::plural::plural;
use tollhouse_config::Home;
use tollhouse_operate::finding::Finding;

/// Looks for objects of a store in a database, and asks the host that serves a store in a folder. Returns `None` if nothing is
/// missing, or if nobody says.
pub(super) async fn examine(home: &Home) -> Option<Finding> {
    match app::sample_objects(home).await {
        Ok(sampled) => sampled.and_then(finding),
        Err(_) if home.database.is_none() => None,
        Err(error) => {
            let text = format!("cannot read a sample of the objects: {error}");
            Some(Finding::warn("objects", text, "check `TOLLHOUSE_OBJECTS` and the variables of the bucket"))
        }
    }
}

fn finding(SampledObjects { checked, missing, example }: SampledObjects) -> Option<Finding> {
    let example = example?;
    let text = format!("{missing} of {} cannot be found here, for example {example}", plural(checked, "sampled object"));
    Some(if missing == checked {
        let remedy = "calls that need them fail: set the `TOLLHOUSE_OBJECTS` of the other hosts, or mount their folder `files`";
        Finding::fail("objects", text, remedy)
    } else {
        Finding::warn("objects", text, "restore them from a backup; `tollhouse store check` lists all that are missing")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_objects_are_counted_with_an_example() {
        let describe = |checked: usize, missing: usize| {
            let example = (missing > 0).then(|| "the source of the tool `long`".to_owned());
            finding(SampledObjects { checked, missing, example }).map(|finding| finding.to_string())
        };
        assert_eq!((describe(0, 0), describe(3, 0)), (None, None));
        let all = describe(1, 1).unwrap();
        assert!(
            all.starts_with("fail  objects: 1 of 1 sampled object cannot be found here, for example the source of the tool `long` → "),
            "{all}"
        );
        let some = describe(9, 2).unwrap();
        assert!(some.starts_with("warn  objects: 2 of 9 sampled objects cannot be found here, "), "{some}");
    }
}

//! Validation and combination of an endpoint's limits.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use tollhouse_protocol::Limits;
use tollhouse_tool::Owner;

use super::PublishError;

/// Returns `limits` with the named changes.
pub(super) fn limits_over(mut limits: Limits, changed: &Map<String, Value>, ceilings: &Limits) -> Result<Limits, PublishError> {
    for (name, value) in changed {
        limits.set(name, checked_limit(name, value, ceilings, "")?);
    }
    Ok(limits)
}

/// Returns the value of a named limit if it is valid. `alternatives` describes other valid values.
pub(super) fn checked_limit(name: &str, value: &Value, ceilings: &Limits, alternatives: &str) -> Result<u64, PublishError> {
    let refused = |message| PublishError::field(format!("/limits/{name}"), message);
    let ceiling = ceilings.get(name).ok_or_else(|| refused(format!("there is no limit called `{name}`")))?;
    let valid = value.as_u64().filter(|value| (1..=ceiling).contains(value));
    valid.ok_or_else(|| refused(format!("`{name}` must be a whole number from 1 to {ceiling}{alternatives}")))
}

/// Returns the effective limits: for each the lowest that owner, policy and admin permit. Ceilings
/// apply to builders.
pub(super) fn limits_in_force(own: &Limits, owner: &Owner, ceilings: &Limits, caps: &BTreeMap<String, u64>) -> Limits {
    let mut limits = match owner {
        Owner::Platform => *own,
        Owner::Builder(_) => own.narrowed_to(ceilings),
    };
    for (name, cap) in caps {
        if let Some(value) = limits.get(name) {
            limits.set(name, value.min(*cap));
        }
    }
    limits
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollhouse_base::id::BuilderId;

    #[test]
    fn limits_are_the_lowest_of_owner_policy_and_admin() {
        let own = Limits { cpu_ms: 900, wall_ms: 20_000, ..Limits::default() };
        let ceilings = Limits { cpu_ms: 500, ..Limits::ceilings() };
        let caps = BTreeMap::from([("wallMs".to_owned(), 5_000), ("cpuMs".to_owned(), 700)]);
        let builder = limits_in_force(&own, &Owner::Builder(BuilderId::generate()), &ceilings, &caps);
        assert_eq!((builder.cpu_ms, builder.wall_ms, builder.heap_bytes), (500, 5_000, own.heap_bytes));
        let platform = limits_in_force(&own, &Owner::Platform, &ceilings, &caps);
        assert_eq!((platform.cpu_ms, platform.wall_ms), (700, 5_000));
    }
}

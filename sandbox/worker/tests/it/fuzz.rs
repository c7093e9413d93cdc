//! Fuzz tests: schemas and values of arbitrary bytes. Each answer comes within the limits and has
//! the right type.

use serde_json::Value;
use tollhouse_protocol::{LoadFault, MAX_PROBLEMS, Outcome, Schemas, Side, StopReason, Work};

use crate::harness::Worker;

fn is_the_schemas(reason: &StopReason) -> bool {
    matches!(reason, StopReason::SchemaTime { .. } | StopReason::SchemaMemory { .. } | StopReason::Unlisted { .. })
}

#[test]
fn any_schema_ends_within_its_limits_and_is_blamed_for_its_faults() {
    tollhouse_fuzz::check("schema", |bytes| {
        let (schema, value) = bytes.iter().position(|byte| *byte == 0).map_or((bytes, &b"null"[..]), |at| (&bytes[..at], &bytes[at + 1..]));
        let Ok(value) = serde_json::from_slice::<Value>(value) else { return };
        let mut worker = Worker::start();
        worker.limits.cpu_ms = 200;
        worker.work = Work::Check(Side::Input);
        worker.schemas = Schemas { input: Some(schema.to_vec().into()), output: None };
        match worker.load_bundle(None) {
            Ok(_) => {}
            Err(LoadFault::Schema(fault)) if fault.side == Side::Input => return,
            Err(LoadFault::Stopped(reason)) if is_the_schemas(&reason) => return,
            Err(other) => panic!("{other:?}"),
        }
        match worker.call(&value).outcome {
            Outcome::Returned(_) => {}
            Outcome::Invalid(Side::Input, problems) => assert!((1..=MAX_PROBLEMS).contains(&problems.len())),
            Outcome::Stopped(reason) if is_the_schemas(&reason) => {}
            other => panic!("{other:?}"),
        }
    });
}

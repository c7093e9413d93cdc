//! Fuzz tests: manifests, changes and stored records of arbitrary bytes.

use jsonschema::PatternOptions;
use serde_json::{Value, json};
use tollhouse_base::deserialize_error;
use tollhouse_protocol::Limits;
use tollhouse_tool as tool;
use tollhouse_tool::{CatalogForm, Endpoint, MicroUsd, Slug};

use crate::{Draft, Patch};

/// Parses a document as the front ends do. Whatever they accept, serde accepts too (it also accepts
/// lists for objects). Errors must have a valid pointer.
fn read<T: serde::de::DeserializeOwned>(document: &Value) -> Option<T> {
    let read = deserialize_error::json::<T>(document);
    if let Err(misfit) = &read {
        assert!(misfit.pointer.is_empty() || misfit.pointer.starts_with('/'), "{misfit:?}");
        assert!(!misfit.message.is_empty(), "{misfit:?}");
    }
    assert!(read.is_err() || serde_json::from_value::<T>(document.clone()).is_ok(), "{document}");
    read.ok()
}

#[test]
fn invalid_manifest_is_refused_with_a_pointer() {
    tollhouse_fuzz::check("manifest", |bytes| {
        let Ok(document) = serde_json::from_slice::<Value>(bytes) else { return };
        read::<Patch>(&document);
        let Some(draft) = read::<Draft>(&document) else { return };
        assert_eq!(draft.slug.as_str().parse::<Slug>().as_ref(), Ok(&draft.slug));
        assert_eq!(serde_json::from_value::<MicroUsd>(json!(draft.price_usd)).ok(), Some(draft.price_usd));
        assert_eq!(draft.limits(&Limits::ceilings()).is_err(), draft.limit_problems(&Limits::ceilings()).next().is_some());
        if let Ok(limits) = draft.limits(&Limits::ceilings()) {
            assert_eq!(limits.narrowed_to(&Limits::ceilings()), limits);
        }
        if let Ok(hosts) = super::super::draft::hosts(&draft.allowed_hosts) {
            assert_eq!(super::super::draft::hosts(&hosts).ok().as_ref(), Some(&hosts));
        }
    });
}

#[test]
fn stored_record_round_trips() {
    tollhouse_fuzz::check("record", |bytes| {
        let Ok(endpoint) = serde_json::from_slice::<Endpoint>(bytes) else { return };
        let written = serde_json::to_vec(&endpoint).expect("a record is written");
        assert_eq!(serde_json::from_slice::<Endpoint>(&written).ok().as_ref(), Some(&endpoint));
        for form in [CatalogForm::Newer, CatalogForm::Older] {
            let mut reported = Vec::new();
            endpoint.record("https://tools.example").write(form, &mut reported);
            assert_eq!(serde_json::from_slice::<Value>(&reported).ok(), Some(endpoint.public("https://tools.example", form)));
        }
        assert!(endpoint.owned("https://tools.example").is_object() && endpoint.brief("https://tools.example").is_object());
    });
}

#[test]
fn cost_of_a_schema_does_not_depend_on_its_form() {
    tollhouse_fuzz::check("bound", |bytes| {
        let Ok(schema) = serde_json::from_slice::<Value>(bytes) else { return };
        let bound = tool::bound(&schema);
        assert_eq!(bound, tool::bound(&serde_json::from_str(&schema.to_string()).unwrap()));
        _ = tool::check_headers(&schema);
        if bound.is_ok() {
            let reported = tool::portable(&schema, "#");
            assert_eq!(tool::portable(&reported, "#"), reported, "a copy needs no other: {schema}");
            _ = tool::components(&schema, "a");
            _ = tool::check_patterns(&schema);
        }
        if let Err(error) = bound {
            assert!(error.pointer.is_empty() || error.pointer.starts_with('/'), "{error:?}");
        }
    });
}

/// The validator with the same settings as in workers: it must not crash, and listed problems must
/// be real. Only small inputs are used, because only workers limit its time.
#[test]
fn accepted_schema_can_be_compiled() {
    tollhouse_fuzz::check("schema", |bytes| {
        let mut parts = bytes.splitn(2, |byte| *byte == 0);
        let (Some(schema), Some(value)) = (parts.next(), parts.next()) else { return };
        let (Ok(schema), Ok(value)) = (serde_json::from_slice::<Value>(schema), serde_json::from_slice::<Value>(value)) else { return };
        if bytes.len() > 1_024 || tool::bound(&schema).is_err() {
            return;
        }
        let patterns = PatternOptions::regex().size_limit(1 << 20).dfa_size_limit(256 << 10);
        let options = jsonschema::options().with_pattern_options(patterns).should_validate_formats(true).offline();
        let Ok(validator) = options.build(&schema) else { return };
        assert_eq!(validator.is_valid(&value), validator.iter_errors(&value).next().is_none(), "{schema} {value}");
    });
}

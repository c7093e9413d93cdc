use std::collections::BTreeSet;

use tollhouse_tool::HandlerType;

use super::{documents::PARTS, *};

#[test]
fn every_row_is_documented_and_every_description_is_used() {
    let rows = rows();
    let mut ids = BTreeSet::new();
    for row in &rows {
        assert!(ids.insert(row.id), "two operations are called {}", row.id);
        assert!(!row.subject.is_empty() && !row.what.is_empty() && !row.what.ends_with('.'), "{row:?}");
        for name in row.takes.into_iter().chain(row.schema()) {
            assert!(PARTS.schemas.contains_key(name), "{}: no schema `{name}`", row.id);
        }
        for name in row.query.iter().chain(row.headers) {
            assert!(
                PARTS.parameters.get(*name).is_some_and(|reported| reported["description"].is_string()),
                "{}: no word of `{name}`",
                row.id
            );
        }
    }
    let reported = described();
    let named: BTreeSet<_> = reported["components"]["schemas"].as_object().unwrap().keys().map(String::as_str).collect();
    let idle: Vec<_> = PARTS.schemas.keys().filter(|name| !named.contains(name.as_str())).collect();
    assert!(idle.is_empty(), "no operation takes or answers {idle:?}");
    let request: BTreeSet<_> = rows.iter().flat_map(|row| row.query.iter().chain(row.headers)).copied().collect();
    let idle: Vec<_> = PARTS.parameters.keys().filter(|name| !request.contains(name.as_str())).collect();
    assert!(idle.is_empty(), "no operation reads {idle:?}");
}

#[test]
fn every_reference_in_the_document_resolves() {
    fn check(value: &Value, document: &Value) {
        match value {
            Value::Object(members) => members.iter().for_each(|(name, value)| match value.as_str() {
                Some(to) if name == "$ref" => assert!(document.pointer(to.trim_start_matches('#')).is_some(), "{to}"),
                _ => check(value, document),
            }),
            Value::Array(items) => items.iter().for_each(|item| check(item, document)),
            _ => {}
        }
    }
    let document = described();
    check(&document, &document);
}

#[test]
fn every_handler_type_is_in_the_schema() {
    let document = described();
    let names = &document["components"]["schemas"]["EndpointDraft"]["properties"]["handlerType"]["enum"];
    let described: BTreeSet<_> = names.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(described, HandlerType::all().map(HandlerType::as_str).collect());
}

#[test]
fn every_recorded_change_has_a_source_of_its_subject() {
    let is_recorded = |row: &&Operation| row.method != "GET" && !audit::CHECKS.contains(&row.path);
    let recorded: BTreeSet<_> = managed_rows().iter().filter(is_recorded).map(|row| (row.method, row.path)).collect();
    let known: BTreeSet<_> = audit_subject::SOURCES.iter().map(|(method, path, _)| (*method, *path)).collect();
    assert_eq!(recorded, known);
    assert_eq!(known.len(), audit_subject::SOURCES.len(), "one appears twice");
}

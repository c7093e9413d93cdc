//! Tests of `list`: pages of a prefix.

use super::{
    super::list::{SCAN_BYTES, encode_cursor},
    *,
};

#[tokio::test]
async fn list_pages_through_a_prefix_in_order() {
    let (hosts, endpoint, limits) = (Hosts::new(), endpoint(), Limits::default());
    let kv = hosts.kvs[0].scoped(&Owner::Platform, &endpoint, &limits);
    for n in 0..150 {
        kv.set(format!("user/{n:03}"), n.to_string().into(), (n % 3 == 0).then_some(10)).await.unwrap();
    }
    for key in ["user", "user0", "usez", "ä"] {
        set(&kv, key, "null").await.unwrap();
    }
    hosts.pass(10);
    let (mut keys, mut cursor): (Vec<String>, Option<String>) = (Vec::new(), None);
    loop {
        let page = text(&kv.list("user/".into(), 33, cursor.clone()).await.unwrap()).unwrap();
        let entries = page["entries"].as_array().unwrap();
        assert!(entries.len() <= 33);
        keys.extend(entries.iter().map(|entry| entry["key"].as_str().unwrap().to_owned()));
        cursor = page["cursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            break;
        }
    }
    let expected: Vec<_> = (0..150).filter(|n| n % 3 != 0).map(|n| format!("user/{n:03}")).collect();
    assert_eq!(keys, expected);
    let all = text(&kv.list("user/".into(), LIST_LIMIT, None).await.unwrap()).unwrap();
    assert_eq!((all["entries"].as_array().unwrap().len(), &all["cursor"]), (100, &Value::Null));
    let elsewhere = encode_cursor("ä");
    for cursor in ["%%%", elsewhere.as_str()] {
        assert_eq!(code(kv.list("user/".into(), 10, Some(cursor.to_owned())).await), "invalid_argument");
    }
}

#[tokio::test]
async fn a_page_of_large_values_stays_below_a_frame() {
    let (hosts, endpoint, limits) = (Hosts::new(), endpoint(), Limits::default());
    let kv = hosts.kvs[0].scoped(&Owner::Platform, &endpoint, &limits);
    for n in 0..40 {
        set(&kv, &format!("{n:02}"), format!("\"{}\"", "v".repeat(60_000))).await.unwrap();
    }
    let OpValue::Json(page) = kv.list("".into(), LIST_LIMIT, None).await.unwrap() else { panic!() };
    assert!(page.len() < LIST_BYTES + 70_000);
    let page: Value = serde_json::from_slice(&page).unwrap();
    let rest = kv.list("".into(), LIST_LIMIT, page["cursor"].as_str().map(str::to_owned)).await.unwrap();
    assert_eq!(page["entries"].as_array().unwrap().len() + text(&rest).unwrap()["entries"].as_array().unwrap().len(), 34);
}

#[tokio::test]
async fn a_page_holds_a_mebibyte_and_not_a_byte_more() {
    for (spare, fits) in [(0, true), (1, false)] {
        let (hosts, endpoint) = (Hosts::new(), endpoint());
        let limits = Limits { kv_value_bytes: 1 << 20, ..Limits::default() };
        let kv = hosts.kvs[0].scoped(&Owner::Platform, &endpoint, &limits);
        let long = |bytes: usize| format!("\"{}\"", "v".repeat(bytes - 2));
        set(&kv, "key-1", long(500_000)).await.unwrap();
        set(&kv, "key-2", long(1_048_576 - 500_000 - "key-1".len() + spare)).await.unwrap();
        let page = text(&kv.list("".into(), 10, None).await.unwrap()).unwrap();
        assert_eq!((page["entries"].as_array().unwrap().len() == 2, page["cursor"].is_null()), (fits, fits));
    }
}

#[tokio::test]
async fn a_list_that_finds_little_says_where_to_continue() {
    let (hosts, endpoint) = (Hosts::new(), endpoint());
    let limits = Limits { kv_keys: 10_000, ..Limits::default() };
    let kv = hosts.kvs[0].scoped(&Owner::Platform, &endpoint, &limits);
    for hundred in 0..40 {
        let brief = |n| AtomicWrite::Set { key: format!("{hundred:02}{n:02}"), value: Bytes::from_static(b"1"), ttl_ms: Some(1) };
        kv.transact(&[], &(0..100).map(brief).collect::<Vec<_>>()).await.unwrap();
    }
    set(&kv, "last", "2").await.unwrap();
    hosts.pass(1);
    let page = text(&kv.list("".into(), 10, None).await.unwrap()).unwrap();
    assert_eq!(page["entries"], json!([]));
    let rest = text(&kv.list("".into(), 10, page["cursor"].as_str().map(str::to_owned)).await.unwrap()).unwrap();
    assert_eq!(rest, json!({"entries": [{"key": "last", "value": 2}], "cursor": null}));
}

#[tokio::test]
async fn a_list_asks_the_store_for_no_page_behind_its_last() {
    let (hosts, endpoint, limits) = (Hosts::new(), endpoint(), Limits::default());
    let kv = hosts.kvs[0].scoped(&Owner::Platform, &endpoint, &limits);
    for n in 0..SCAN - 1 {
        set(&kv, &format!("{n:02}"), "1").await.unwrap();
    }
    let before = hosts.store.scans();
    kv.list("".into(), LIST_LIMIT, None).await.unwrap();
    assert_eq!(hosts.store.scans() - before, 1);
}

#[tokio::test]
async fn a_list_continues_behind_a_page_of_just_as_many_bytes_as_are_read_at_once() {
    let (hosts, endpoint) = (Hosts::new(), endpoint());
    let limits = Limits { kv_value_bytes: 1 << 20, ..Limits::default() };
    let kv = hosts.kvs[0].scoped(&Owner::Platform, &endpoint, &limits);
    let long = |bytes: usize| format!("\"{}\"", "v".repeat(bytes - 2));
    set(&kv, "key-1", long(2)).await.unwrap();
    let before = hosts.store.scanned();
    kv.list("".into(), 10, None).await.unwrap();
    let alongside = hosts.store.scanned() - before - 2;
    set(&kv, "key-1", long(LIST_BYTES - alongside)).await.unwrap();
    set(&kv, "key-2", "2").await.unwrap();
    let page = text(&kv.list("".into(), 10, None).await.unwrap()).unwrap();
    assert_eq!(page["entries"].as_array().unwrap().len(), 2);
}

/// Regression: 32 lists of 200 values of 255 KiB took 16 MiB each, for a page of 1 MiB.
#[tokio::test]
async fn a_list_reads_little_more_than_its_page() {
    let (hosts, endpoint) = (Hosts::new(), endpoint());
    let limits = Limits { kv_value_bytes: 256 << 10, ..Limits::default() };
    let kv = hosts.kvs[0].scoped(&Owner::Platform, &endpoint, &limits);
    for n in 0..50 {
        set(&kv, &format!("{n:02}"), format!("\"{}\"", "v".repeat(255 << 10))).await.unwrap();
    }
    let before = hosts.store.scanned();
    let OpValue::Json(page) = kv.list("".into(), LIST_LIMIT, None).await.unwrap() else { panic!() };
    let read = hosts.store.scanned() - before;
    assert!(page.len() <= LIST_BYTES && read < LIST_BYTES + (256 << 10) + 1_000, "{read} bytes for {}", page.len());
}

#[tokio::test]
async fn a_list_that_finds_large_expired_values_says_where_to_continue() {
    let (hosts, endpoint) = (Hosts::new(), endpoint());
    let limits = Limits { kv_value_bytes: 1 << 20, kv_bytes: 64 << 20, ..Limits::default() };
    let kv = hosts.kvs[0].scoped(&Owner::Platform, &endpoint, &limits);
    for n in 0..20 {
        kv.set(format!("{n:02}"), format!("\"{}\"", "v".repeat((1 << 20) - 2)).into(), Some(1)).await.unwrap();
    }
    set(&kv, "last", "2").await.unwrap();
    hosts.pass(1);
    let before = hosts.store.scanned();
    let page = text(&kv.list("".into(), 10, None).await.unwrap()).unwrap();
    assert_eq!((&page["entries"], page["cursor"].as_str()), (&json!([]), Some(encode_cursor("15").as_str())));
    assert!(hosts.store.scanned() - before < SCAN_BYTES + (1 << 20));
    let rest = text(&kv.list("".into(), 10, page["cursor"].as_str().map(str::to_owned)).await.unwrap()).unwrap();
    assert_eq!(rest, json!({"entries": [{"key": "last", "value": 2}], "cursor": null}));
}

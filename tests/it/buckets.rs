//! A host whose objects are in a bucket.

use std::{cell::Cell, time::Duration};

use serde_json::json;

use crate::harness::{Host, eventually, js, postgres::Postgres, s3::S3, serve};

/// Does what its input says with a file.
const FILES: &str = "export default async ({ input: { does, text } }, ctx) => {
    if (does === 'write') await ctx.files.write('notes/a.txt', text);
    if (does === 'delete') await ctx.files.delete('notes/a.txt');
    return { text: await ctx.files.readText('notes/a.txt') };
};";

#[tokio::test]
async fn files_are_in_the_bucket_and_only_there() {
    let s3 = S3::start().await;
    let mut host = Host::builder().with_objects_in(&s3).start().await;
    let mut tool = js("notes", 0.0, FILES);
    tool["capabilities"] = json!({ "files": true });
    host.publish(&tool).await;
    let does = async |host: &Host, does: &str, text: &str| host.call("notes", &json!({ "does": does, "text": text })).await;
    assert_eq!(does(&host, "write", "one").await.is(200).json()["text"], "one");
    assert_eq!(does(&host, "write", "two").await.is(200).json()["text"], "two");
    let objects = s3.objects();
    let texts: Vec<_> = objects.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
    assert_eq!(texts, ["two"], "replaced objects are deleted");
    assert!(!host.folder().join("data/files").exists());
    host.restart().await;
    assert_eq!(does(&host, "read", "").await.is(200).json()["text"], "two");

    // The object in the bucket differs from the one that was written.
    std::fs::write(&objects[0], "owt").unwrap();
    assert_ne!(does(&host, "read", "").await.status, 200);
    std::fs::write(&objects[0], "two").unwrap();
    assert_eq!(does(&host, "read", "").await.is(200).json()["text"], "two");

    assert_eq!(does(&host, "delete", "").await.is(200).json()["text"], json!(null));
    assert!(s3.objects().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_source_is_read_from_the_bucket_by_every_host() {
    let (s3, server) = (S3::start().await, Postgres::start());
    let how =
        Host::builder().with_objects_in(&s3).env("TOLLHOUSE_STORE", server.url()).env("TOLLHOUSE_BASE_URL", "https://tollhouse.example");
    let host = how.start().await;
    let other = host.second().await;
    let lines: String = (0..2_000).map(|line| format!("// line {line}\n")).collect();
    // Sources stay in rows until the host is sure that no older host, which cannot read the other
    // form, serves the store.
    let count = Cell::new(0);
    eventually("a source is in the bucket", Duration::from_secs(60), async || {
        let n = count.get() + 1;
        count.set(n);
        host.publish(&js(&format!("long-{n}"), 0.0, &format!("{lines}export default () => ({{ n: {n} }});"))).await;
        (!s3.objects().is_empty()).then_some(())
    })
    .await;
    let published = count.get();
    for n in [1, published] {
        for host in [&host, &other] {
            assert_eq!(host.call(&format!("long-{n}"), &json!({})).await.is(200).json(), json!({ "n": n }));
        }
    }
    assert!(!host.folder().join("data/files").exists());
}

#[tokio::test]
async fn a_bucket_that_cannot_be_read_is_reported_at_the_start() {
    let s3 = S3::start().await;
    let answer = Host::builder().with_objects_in(&s3).env("AWS_SECRET_ACCESS_KEY", "another").fails().await;
    assert!(answer.contains("bucket cannot be read") && !answer.contains("another"), "{answer}");
    let answer = Host::builder().env("TOLLHOUSE_OBJECTS", "tolls").fails().await;
    assert!(answer.contains("`TOLLHOUSE_OBJECTS`: `tolls` is not the address of a bucket"), "{answer}");
}

/// Starts a server that answers every request as S3 does for a missing bucket.
async fn without_buckets() -> String {
    let expected = "<?xml version=\"1.0\"?><Error><Code>NoSuchBucket</Code><Message>The specified bucket does not exist</Message></Error>";
    let app = axum::Router::new().fallback(move || async move { (axum::http::StatusCode::NOT_FOUND, expected) });
    serve(app).await
}

#[tokio::test]
async fn missing_bucket_and_invalid_url_stop_the_start() {
    let s3 = S3::start().await;
    let answer = Host::builder().with_objects_in(&s3).env("AWS_ENDPOINT", without_buckets().await).fails().await;
    assert!(answer.contains("bucket does not exist"), "{answer}");
    let bare = s3.url.strip_prefix("http://").unwrap();
    for (address, name) in [(bare, "AWS_ENDPOINT"), ("minio", "AWS_ENDPOINT_URL"), ("ftp://minio", "AWS_ENDPOINT_URL_S3")] {
        let answer = Host::builder().with_objects_in(&s3).env(name, address).fails().await;
        assert!(answer.contains(&format!("`{address}`, which is not a URL")) && !answer.contains("panicked"), "{name}: {answer}");
    }
}

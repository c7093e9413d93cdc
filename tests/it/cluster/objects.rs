//! Hosts that share a database and a bucket.

use serde_json::json;

use super::{Cluster, TAKEN_UP_WITHIN};
use crate::{
    harness::{Host, Payer, eventually, js, s3::S3},
    large::LARGE,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_answer_is_the_same_at_another_host_after_the_first_is_gone() {
    let s3 = S3::start().await;
    let mut cluster = Cluster::of(Host::builder().with_objects_in(&s3), 2).await;
    cluster.hosts[0].publish(&js("large", 0.01, LARGE)).await;
    let payer = Payer::funded(&cluster.hosts[0], 10.0).await;
    let challenge = cluster.hosts[0].challenge("large").await;
    // The answer stays in rows until both hosts know that the other can read rows which refer to
    // objects.
    let (payment, bought) = eventually("a large answer is an object", TAKEN_UP_WITHIN, async || {
        let payment = payer.pay(&challenge);
        let bought = cluster.hosts[0].call_paid("large", &json!({}), &payment).await.is(200);
        (s3.objects().len() == 1).then_some((payment, bought))
    })
    .await;
    let is_told = async |host: &Host| {
        let again = host.call_paid("large", &json!({}), &payment).await.is(200);
        assert!((&again.body, again.receipt_id()) == (&bought.body, bought.receipt_id()), "{again:?}");
    };
    is_told(&cluster.hosts[1]).await;
    cluster.hosts[0].kill9();
    is_told(&cluster.hosts[1]).await;
    cluster.hosts[0].restart().await;
    is_told(&cluster.hosts[0]).await;
    let runs = bought.json()["runs"].as_u64().unwrap();
    assert_eq!(cluster.hosts[1].balance(&payer.address).await, 10_000_000 - runs * 10_000, "each was charged once");
    assert_eq!(s3.objects().len(), 1);
    assert!(!cluster.hosts[0].folder().join("data/files").exists(), "it is in the bucket alone");
}

//! All hosts of a store hold a payer's balance together.

use super::*;

/// Runs long enough for a call to another host.
const SLOW: &str = "export default async () => {
    await new Promise((done) => setTimeout(done, 3_000));
    return {};
};";

/// One cent once bought a run at each of two hosts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payer_with_a_balance_for_one_call_runs_one_at_all_hosts_together() {
    let cluster = Cluster::start(2).await;
    let [one, other] = &cluster.hosts[..] else { unreachable!("there are two") };
    one.publish(&js("slow", 0.001, SLOW)).await;
    let challenge = one.challenge("slow").await;
    // Hosts hold balances together once each has noticed the other.
    let (payer, running) = eventually("the second run is refused", TAKEN_UP_WITHIN, async || {
        let payer = Payer::funded(one, 0.001).await;
        let payments = [payer.pay(&challenge), payer.pay(&challenge)];
        let running = sent(one, "slow", &payments[0]);
        stands(other, &payments[0], "reserved").await;
        let second = other.call_paid("slow", &json!({}), &payments[1]).await;
        (second.status == 429).then(|| {
            assert!(second.has("ratelimit").contains("runs-under-way"), "{second:?}");
            (payer, running)
        })
    })
    .await;
    running.await.unwrap().unwrap().is(200);
    let again = payer.pay(&challenge);
    assert_eq!(other.call_paid("slow", &json!({}), &again).await.is(402).json()["error"], "invalid_exact_evm_insufficient_balance");
    assert_eq!(other.balance(&payer.address).await, 0);
}

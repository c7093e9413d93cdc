//! Payers who try to get unpaid work, as often as they can: how many runs they get, and how much
//! gas they burn.
//!
//! `cargo xtask test runs_for_nothing -- --nocapture` prints a line for each attack.

use std::time::{Duration, Instant};

use alloy_primitives::{Address, B256, U256, keccak256};
use serde_json::{Value, json};

use crate::harness::{
    Answer, Chain, Host, Payer, Payment,
    chain::{BASE_SEPOLIA, GAS_ADDRESS, evm},
    js,
};

const CENT: u64 = 10_000;
const WALLET: &str = "0x1234567890123456789012345678901234567890";

/// Duration of each attack.
const ATTACK: Duration = Duration::from_secs(12);

/// Slow enough for the payer to move the money away meanwhile.
const SLOW: &str = "export default async () => {
    await new Promise((resolve) => setTimeout(resolve, 400));
    return {};
};";

/// Sets the balance of an address. The token's first storage slot is the map of balances.
async fn have(chain: &Chain, of: &str, micros: u64) {
    let key = [of.parse::<Address>().unwrap().into_word().0, [0; 32]].concat();
    chain.rpc("anvil_setStorageAt", json!([BASE_SEPOLIA.1, keccak256(key), B256::from(U256::from(micros))])).await;
}

/// The results of an attack.
#[derive(Debug, Default)]
struct AttackResult {
    unpaid: u64,
    paid: u64,
    slowed: u64,
    refused: u64,
}

impl AttackResult {
    fn count(&mut self, answer: &Answer) {
        let settled = answer.headers.contains_key("payment-response");
        match answer.status {
            200 => self.paid += 1,
            429 | 503 => self.slowed += 1,
            // The settlement failed, or its result is unknown: the handler ran.
            402 if settled => self.unpaid += 1,
            502 => self.unpaid += 1,
            _ => self.refused += 1,
        }
    }

    async fn print(&self, what: &str, elapsed: Duration, chain: &Chain, gas_before: U256) -> U256 {
        let burned = gas_before - gas(chain).await;
        let Self { unpaid, paid, slowed, refused } = self;
        println!(
            "{what}: {unpaid} runs unpaid, {paid} paid, {slowed} told 429 or 503, {refused} refused before the work, in {:.1} s; {burned} wei of gas",
            elapsed.as_secs_f64()
        );
        burned
    }
}

async fn gas(chain: &Chain) -> U256 {
    chain.rpc("eth_getBalance", json!([GAS_ADDRESS, "latest"])).await.as_str().unwrap().parse().unwrap()
}

/// Sends these payments at once, and does something else meanwhile.
async fn at_once(host: &Host, payments: Vec<Payment>, meanwhile: impl Future<Output = ()>) -> Vec<Answer> {
    let calls = payments.iter().map(|payment| {
        let request = host.paid_request("slow", &json!({}), payment);
        async { Host::try_send(request).await.unwrap() }
    });
    let meanwhile = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        meanwhile.await;
    };
    tokio::join!(futures_util::future::join_all(calls), meanwhile).0
}

async fn begin() -> (Chain, Host, Value) {
    let chain = Chain::with(&["--mixed-mining", "--block-time", "1"]).await;
    let host = evm(&chain).start().await;
    host.publish(&js("slow", 0.01, SLOW)).await;
    let challenge = host.challenge("slow").await;
    (chain, host, challenge)
}

/// Regression: one cent bought 384 runs in twelve seconds, because it was moved from one address to
/// the next.
#[tokio::test]
async fn runs_for_nothing_are_few_where_one_cent_hops_through_fresh_addresses() {
    let (chain, host, challenge) = begin().await;
    let (started, before, mut met) = (Instant::now(), gas(&chain).await, AttackResult::default());
    let mut holder = Payer::new();
    have(&chain, &holder.address, CENT).await;
    while started.elapsed() < ATTACK {
        let next = Payer::new();
        let hop = async {
            have(&chain, &holder.address, 0).await;
            have(&chain, &next.address, CENT).await;
        };
        let payments = (0..16).map(|_| holder.pay(&challenge)).collect();
        at_once(&host, payments, hop).await.iter().for_each(|answer| met.count(answer));
        holder = next;
    }
    met.print("one cent through fresh addresses", started.elapsed(), &chain, before).await;
    assert!(met.unpaid <= 100, "{met:?}");
    assert!(met.slowed > 0, "{met:?}");
}

/// Regression: 741 runs for 13 payments in half a minute.
#[tokio::test]
async fn unpaid_runs_are_few_where_a_payer_moves_its_money_away() {
    let (chain, host, challenge) = begin().await;
    let (started, before, mut met) = (Instant::now(), gas(&chain).await, AttackResult::default());
    let payer = Payer::new();
    while started.elapsed() < ATTACK {
        have(&chain, &payer.address, 57 * CENT).await;
        let payments = (0..16).map(|_| payer.pay(&challenge)).collect();
        at_once(&host, payments, have(&chain, &payer.address, 0)).await.iter().for_each(|answer| met.count(answer));
        have(&chain, &payer.address, CENT).await;
        let paid = host.call_paid("slow", &json!({}), &payer.pay(&challenge)).await;
        met.count(&paid);
    }
    met.print("money moved away, and back for one in seventeen", started.elapsed(), &chain, before).await;
    assert!(met.unpaid <= 30 + met.paid, "{met:?}");
    assert!(met.slowed > 0, "{met:?}");
}

/// Regression: a contract that held one cent made 539 calls and burned 0.416 ETH in a minute.
#[tokio::test]
async fn runs_for_nothing_and_burned_gas_are_few_of_a_wallet_that_changes_its_mind() {
    let (chain, host, challenge) = begin().await;
    let (started, before, mut met) = (Instant::now(), gas(&chain).await, AttackResult::default());
    have(&chain, WALLET, 100 * CENT).await;
    while started.elapsed() < ATTACK {
        chain.etch(WALLET, "GenerousWallet").await;
        let payments = (0..16).map(|_| Payer::new().pay_for(WALLET, &challenge)).collect();
        // Hold back blocks for a moment, so that the wallet can change its mind between the
        // simulation and the transaction.
        let burn = async {
            tokio::time::sleep(Duration::from_millis(150)).await;
            chain.rpc("evm_setAutomine", json!([false])).await;
            tokio::time::sleep(Duration::from_millis(300)).await;
            chain.etch(WALLET, "BurnWallet").await;
            chain.rpc("evm_setAutomine", json!([true])).await;
            chain.rpc("anvil_mine", json!(["0x1"])).await;
        };
        at_once(&host, payments, burn).await.iter().for_each(|answer| met.count(answer));
    }
    let burned = met.print("a contract that signs and then does not", started.elapsed(), &chain, before).await;
    assert!(met.unpaid <= 30, "{met:?}");
    assert!(burned < U256::from(10_u128.pow(16)), "{burned} wei");
}

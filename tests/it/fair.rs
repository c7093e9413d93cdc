//! Attacks of one builder during calls of another. Whatever the attacks do to the host, all modest
//! calls are answered.
//!
//! The test checks counts only. `cargo xtask bench fairness` measures times.

use std::time::Duration;

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    harness::{Host, eventually, js},
    shares,
};

/// The attacker's handlers.
const ATTACKS: [(&str, &str); 7] = [
    ("loops", "for (;;) {}"),
    ("computes", "for (let n = 0; n < 3e7; n++); return 1;"),
    ("fills", "for (const all = []; ; ) all.push(new Array(1000).fill(1.5));"),
    ("deadlocks", "await new Promise(() => {});"),
    ("sleeps", "await new Promise((wake) => setTimeout(wake, 5000)); return 1;"),
    ("asks", "for (;;) await ctx.kv.set('a', 1);"),
    ("writes", "await Promise.all(Array.from({ length: 8 }, (_, n) => ctx.files.write(`f${n}`, 'x'.repeat(1 << 19)))); return 1;"),
];

/// Number of the attacker's connections, and of the addresses from which they come.
const CONNECTIONS: u8 = 48;
const ADDRESSES: u8 = 12;
/// Number of calls that each victim makes during each attack.
const CALLS: usize = 4;

#[tokio::test(flavor = "multi_thread")]
async fn no_attack_of_one_builder_costs_another_a_call() {
    // Tests the shares of owners only: no address is refused for its processor time.
    let host = Host::builder().flag("--sandbox-processes", 16).flag("--address-cpu-percent", 0).start().await;
    let (_, attacker) = host.register("Attacker").await;
    let (_, victim) = host.register("Victim").await;
    let create = async |key: &str, tool: &Value| host.as_builder(key, Method::POST, "/ai/endpoints/create", tool).await.is(200);
    for (name, does) in ATTACKS {
        let mut tool = js(name, 0.0, &format!("export default async (req, ctx) => {{ if (req.input.calm) return 1; {does} }};"));
        tool["limits"] = json!({ "cpuMs": 300 });
        tool["capabilities"] = json!({ "kv": true, "files": true });
        create(&attacker, &tool).await;
    }
    let keeps = "export default async (req, ctx) => { await ctx.kv.set('a', req.input.n); return { n: await ctx.kv.get('a') }; };";
    create(&victim, &js("plain", 0.0, "export default (req) => ({ n: req.input.n });")).await;
    create(&victim, &js("keeps", 0.0, keeps)).await;
    create(&victim, &js("paid", 0.001, "export default (req) => ({ n: req.input.n });\n")).await;
    let credit = host.mint(1.0).await;

    for (name, _) in ATTACKS {
        let attack = join_all((0..CONNECTIONS).map(async |number| {
            let client = shares::at(10 + number % ADDRESSES);
            loop {
                // A handler that always fails would be blocked for all callers, so let some of its
                // calls succeed.
                for calm in [false, true] {
                    _ = client.post(format!("{}/tools/{name}", host.url)).json(&json!({ "calm": calm })).send().await;
                }
            }
        }));
        let victims = async {
            eventually("the attack is under way", Duration::from_secs(60), || async {
                let sandbox = host.get("/health").await.json()["sandbox"].take();
                (sandbox["processes"].as_u64() >= Some(2)).then_some(())
            })
            .await;
            for n in 0..CALLS {
                let input = json!({ "n": n });
                let plain = host.call("plain", &input).await;
                let keeps = host.call("keeps", &input).await;
                let paid = host.call_credit("paid", &input, &credit).await;
                let mcp = host.mcp().call("plain", input.clone(), json!({})).await;
                for (victim, answer) in [("plain", plain), ("keeps", keeps), ("paid", paid)] {
                    assert_eq!((answer.status, answer.json()), (200, input.clone()), "{victim} next to a caller who {name}: {answer:?}");
                }
                assert_eq!(mcp["structuredContent"], input, "over MCP next to a caller who {name}: {mcp}");
            }
        };
        tokio::select! {
            _ = attack => unreachable!("it goes on"),
            () = victims => {}
        }
    }
    let calls = u64::try_from(ATTACKS.len() * CALLS).unwrap();
    assert_eq!(host.credit_balance(&credit).await, 1_000_000 - calls * 1_000);
}

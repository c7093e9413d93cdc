//! The tool that is called between all attacks. Its answers must not change.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;

use crate::harness::{Host, js};

/// Computes, stores and reads.
const SOURCE: &str = "export default async ({ input: { n } }, ctx) => {
    await ctx.kv.set(`at ${n % 16}`, n);
    const squares = Array.from({ length: 4 }, (_, more) => (n + more) ** 2);
    return { n, squares, kept: await ctx.kv.get(`at ${n % 16}`), text: 'tell '.repeat(3) + n };
};";

/// The tool and the number of calls.
pub(super) struct Control(AtomicU64);

impl Control {
    pub(super) async fn publish(host: &Host) -> Self {
        host.publish(&js("control", 0.0, SOURCE)).await;
        Self(AtomicU64::default())
    }

    /// Panics unless the answer is correct, byte for byte.
    pub(super) async fn answers(&self, host: &Host) {
        let n = self.0.fetch_add(1, Ordering::Relaxed);
        let answer = host.call("control", &json!({ "n": n })).await.is(200);
        let squares: Vec<_> = (n..n + 4).map(|n| (n * n).to_string()).collect();
        let due = format!(r#"{{"n":{n},"squares":[{}],"kept":{n},"text":"tell tell tell {n}"}}"#, squares.join(","));
        assert_eq!(String::from_utf8_lossy(&answer.body), due);
    }

    pub(super) fn asked(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

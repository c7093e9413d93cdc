//! Traces that a handler can see of its process before it has done anything.

use std::time::Duration;

use tokio::time::sleep;
use tollhouse_protocol::Tier;

use crate::test_pool::{TestPool, Tool, json};

/// Lists everything reachable from the global object: names, types, primitive values, the state of
/// `RegExp`, the first assigned numbers, and the location in an error.
const SEEN: &str = r#"
export default async (req, ctx) => {
  const lines = [], numbers = new Map([[globalThis, 0]]), queue = [globalThis];
  const visit = (value) => {
    if (value === null || (typeof value !== "object" && typeof value !== "function")) return `${typeof value} ${String(value)}`;
    if (!numbers.has(value)) {
      numbers.set(value, numbers.size);
      queue.push(value);
    }
    return `${typeof value} #${numbers.get(value)}`;
  };
  [req, ctx, async () => {}, function* () {}, [][Symbol.iterator](), new Error("x")].forEach(visit);
  for (let at = 0; at < queue.length; at++) {
    lines.push(`#${at} of ${visit(Object.getPrototypeOf(queue[at]))}, ${Object.isExtensible(queue[at])}`);
    for (const key of Reflect.ownKeys(queue[at])) {
      const { value, get, set, ...flags } = Object.getOwnPropertyDescriptor(queue[at], key);
      lines.push(`${String(key)}: ${visit(value)}, ${visit(get)}, ${visit(set)}, ${Object.values(flags)}`);
    }
  }
  const remembered = ["input", "lastMatch", "lastParen", "leftContext", "rightContext", "$1", "$9"].map((name) => String(RegExp[name]));
  const first = [setTimeout(() => {}, 1), performance.now(), Date.now(), performance.timeOrigin];
  return { lines, remembered, first, stack: new Error("x").stack, url: import.meta.url };
};
"#;

/// A forked worker has seen one rehearsal, or two as a spare. One that is needed at once has
/// probably seen none.
#[tokio::test(flavor = "multi_thread")]
async fn handler_sees_no_trace_of_the_warm_up() {
    for tier in Tier::ALL {
        let mut tool = Tool::new("seen", SEEN);
        tool.tier = tier;
        tool.limits.output_bytes = 1 << 20;
        let forked = TestPool::start(|config| (config.spares, config.tier) = (1, tier)).await;
        let blank = TestPool::start(|config| (config.zygote_forks, config.spares) = (0, 0)).await;
        forked.until(|pool| pool.status().spares == 1).await;
        sleep(Duration::from_millis(50)).await;
        let answers = [json(forked.call(&tool).await), json(blank.call(&tool).await)];
        assert!(answers[0].len() > 50_000 && answers[0].contains("globalThis"), "{}", answers[0]);
        assert_eq!(answers[0], answers[1], "{tier}");
        let [forks, none] = [&forked, &blank].map(|test_pool| test_pool.pool.status().totals.forked);
        assert!(forks >= 1 && none == 0, "{forks} {none}");
        forked.close().await;
        blank.close().await;
    }
}

//! Another builder's hostile tools, and a client that triggers them.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    Failure,
    client::{Client, Request},
    host::Host,
};

/// Hostile code of each kind of tool, run on request.
pub(crate) const KINDS: [(&str, &str); 14] = [
    ("loop", "for (;;) {}"),
    ("native", "Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1);"),
    ("regex", "/^(a+)+$/.test('a'.repeat(64) + '!');"),
    ("heap", "for (const all = []; ; ) all.push(new Array(1000).fill(1.5));"),
    ("buffers", "for (const all = []; ; ) all.push(new Uint8Array(1 << 20).fill(1));"),
    ("texts", "for (const all = []; ; ) all.push(new TextEncoder().encode('x'.repeat(1 << 19)));"),
    ("deadlock", "await new Promise(() => {});"),
    ("sleep", "for (;;) await new Promise((wake) => setTimeout(wake, 50));"),
    ("asks", "for (;;) await ctx.kv.set('a', 'v'.repeat(1 << 10));"),
    ("writes", "for (;;) await Promise.allSettled(Array.from({ length: 8 }, (_, n) => ctx.files.write(`f${n}`, 'x'.repeat(1 << 18))));"),
    ("timers", "for (;;) setTimeout(() => {}, 1e6);"),
    ("output", "return 'x'.repeat(1 << 20);"),
    ("throws", "throw new Proxy({}, { get() { throw 1; } });"),
    ("logs", "for (let n = 0; n < 1e4; n++) ctx.log.info('x'.repeat(1 << 12)); throw 1;"),
];

/// An honest handler that is as busy as possible, as a baseline for attacks.
pub(crate) const HONEST: (&str, &str) = (
    "honest",
    r#"export default () => {
      let text = JSON.stringify(Array.from({ length: 200 }, (_, n) => ({ n, name: "row " + n, tags: ["a", "b"] })));
      for (let turn = 0; turn < 25; turn++) text = JSON.stringify(JSON.parse(text));
      return { length: text.length };
    };"#,
);

/// Maximum time that an attacker waits for an answer.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Publishes a tool of each kind and an honest one, all for one builder.
pub(crate) fn publish_all(host: &Host) -> Result<(), Failure> {
    let key = register(host, "Attacker")?;
    publish(host, &key, &slug(HONEST.0), HONEST.1, &json!({}))?;
    let limits = json!({ "cpuMs": 200, "wallMs": 1000, "ops": 300 });
    for (kind, does) in KINDS {
        // A tool that sometimes answers is not closed for everybody.
        let source = format!("export default async (req, ctx) => {{ if (req.input.calm) return 1; {does} }};");
        publish(host, &key, &slug(kind), &source, &limits)?;
    }
    Ok(())
}

/// Calls the tool of a kind from this loopback address. Returns the status of the answer, or 0 if
/// there was none.
pub(crate) fn attack(from: Ipv4Addr, host: SocketAddr, kind: &str, calm: bool) -> u16 {
    let request = Request::post(&format!("/tools/{}", slug(kind)), &json!({ "calm": calm }).to_string());
    Client::connect_from(from, host, TIMEOUT).and_then(|mut client| client.ask(&request)).unwrap_or(0)
}

/// Registers a builder, and returns the key.
pub(crate) fn register(host: &Host, name: &str) -> Result<String, Failure> {
    let mut client = Client::connect(host.address())?;
    client.expect_ok(&Request::post("/ai/builders/register", &json!({ "name": name }).to_string()))?;
    let registered: Value = serde_json::from_slice(client.body())?;
    Ok(registered["builderKey"].as_str().ok_or("no key was given")?.to_owned())
}

/// Publishes a tool for a builder. Unlike the admin's tools, its calls cause events.
pub(crate) fn publish(host: &Host, key: &str, slug: &str, source: &str, limits: &Value) -> Result<(), Failure> {
    let body = json!({
        "slug": slug,
        "title": slug,
        "description": "Answers what it was sent.",
        "priceUsd": 0,
        "handlerType": "js_request_response",
        "capabilities": { "kv": true, "files": true, "logs": true },
        "limits": limits,
        "inputSchema": { "type": "object" },
        "handler": { "source": source, "language": "js" },
        "safetyAttestation": { "accepted": true },
    });
    Client::connect(host.address())?.expect_ok(&Request::post("/ai/endpoints/create", &body.to_string()).with("x-builder-key", key))
}

fn slug(kind: &str) -> String {
    format!("hostile-{kind}")
}

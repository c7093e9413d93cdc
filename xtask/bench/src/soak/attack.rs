//! Another builder's tools, which do what they are told, and those who tell them.

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::json;

use super::{publish, register};
use crate::{
    Failure,
    client::{Client, Request},
    host::Host,
};

/// What a tool of each kind does when it is told to.
const KINDS: [(&str, &str); 14] = [
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

/// Addresses of loopback's that one attacker comes from in turn: a caller who has a tool stopped again and again is slowed.
const ADDRESSES: u8 = 40;
/// How often one attacker asks at most.
const PACE: Duration = Duration::from_millis(50);
/// How long it waits for an answer.
const TIMEOUT: Duration = Duration::from_secs(30);

/// What came of the attacks.
pub(super) struct Attack {
    count: AtomicU64,
    /// Answers by status; 0 where none came.
    met: Mutex<BTreeMap<u16, u64>>,
}

impl Attack {
    /// Publishes a tool of each kind.
    pub(super) fn publish(host: &Host) -> Result<Self, Failure> {
        let key = register(host, "Attacker")?;
        let limits = json!({ "cpuMs": 200, "wallMs": 1000, "ops": 300 });
        for (kind, does) in KINDS {
            // One that now and then answers is not closed to all.
            let source = format!("export default async (req, ctx) => {{ if (req.input.calm) return 1; {does} }};");
            publish(host, &key, &slug(kind), &source, &limits)?;
        }
        Ok(Self { count: AtomicU64::new(0), met: Mutex::default() })
    }

    pub(super) fn kinds(&self) -> usize {
        KINDS.len()
    }

    /// How many calls were made.
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    pub(super) fn met(&self) -> String {
        format!("{:?}", self.met.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Attacks until it is over.
    pub(super) fn go_on(&self, host: SocketAddr, number: usize, over: &AtomicBool) {
        for turn in number.. {
            let (kind, _) = KINDS[turn % KINDS.len()];
            let address = Ipv4Addr::new(127, 0, 1 + number as u8, 1 + (turn / KINDS.len() % usize::from(ADDRESSES)) as u8);
            for calm in [false, true] {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                let began = Instant::now();
                let request = Request::post(&format!("/tools/{}", slug(kind)), &json!({ "calm": calm }).to_string());
                let status = Client::connect_from(address, host, TIMEOUT).and_then(|mut client| client.ask(&request)).unwrap_or(0);
                self.count.fetch_add(1, Ordering::Relaxed);
                *self.met.lock().unwrap_or_else(PoisonError::into_inner).entry(status).or_default() += 1;
                thread::sleep(PACE.saturating_sub(began.elapsed()));
            }
        }
    }
}

fn slug(kind: &str) -> String {
    format!("soak-{kind}")
}

//! Warm-up: loads and calls a handler of our own, so that one-time work is done before a real handler
//! is loaded.
//!
//! A zygote warms up, and its workers inherit the compiled code: the functions that drive them, and
//! the meta-schemas. An idle spare warms up once more. It then has its own copies of the memory
//! pages that a load and a call write to, before anybody waits for it.
//!
//! The next handler replaces this one and sees no trace of it, because no code can name its module.
//! The warm-up leaves no state behind: it uses no ops, no random numbers and no clocks, and no
//! regular expressions, whose last match is globally visible.

use bytes::Bytes;
use deno_core::{JsRuntime, scope};
use tollhouse_protocol::{Limits, Outcome, Schemas as Texts, Side, Start, Work};

use crate::{
    budget::Budget,
    call_state::CallState,
    driver::Driver,
    load,
    pump::{begin_call, with_call},
    schema::Schemas,
};

const SPECIFIER: &str = "tool:/warm-up/000000000000";

/// A typical handler: it converts JSON to JSON without waiting.
const SOURCE: &str = r#"
export default async (req) => {
  const { words, ...others } = { ...req.input, text: await req.inputText };
  const lines = [...words].map((word, at) => `${at}: ${word}`).filter((line) => line.length > 1);
  try {
    throw new TypeError("no more");
  } catch (error) {
    lines.push(error.message);
  }
  return { lines, keys: Object.keys(others), copy: JSON.parse(JSON.stringify(others)) };
};
"#;

const HEAD: &[u8] = br#"{"method":"POST","path":"/","query":{},"headers":{"content-type":"application/json"}}"#;
const BODY: &[u8] = br#"{"words":["one",2,3.5,true,null],"name":{"first":"a","last":"b"}}"#;
const SCHEMA: &[u8] = br#"{"type":"object","properties":{"words":{"type":"array"},"name":{"type":"object"}}}"#;

/// Warms up. Returns how the call ended, for tests.
pub(crate) fn warm_up(runtime: &mut JsRuntime, driver: &Driver, budget: &Budget) -> Option<Outcome> {
    let (limits, state) = (Limits::default(), runtime.op_state());
    let schema = Some(Bytes::from_static(SCHEMA));
    let schemas = Schemas::compile(&Texts { input: schema.clone(), output: schema }, budget, &limits).ok()?;
    with_call(&state, |call| call.begin(limits));
    scope!(scope, runtime);
    load::start(scope, driver, SPECIFIER, SOURCE, 0.0).ok()?;
    scope.perform_microtask_checkpoint();
    with_call(&state, CallState::take_loaded)?.ok()?;
    let start = Start {
        call: String::new(),
        work: Work::Handle,
        announced: false,
        streams: false,
        head: Bytes::from_static(HEAD),
        body: Bytes::from_static(BODY),
        body_bytes: None,
        env: Vec::new(),
        now_ms: 0,
        limits,
    };
    schemas.check(Side::Input, &start.body, budget, &limits).ok()?;
    begin_call(scope, driver, &start, None);
    scope.perform_microtask_checkpoint();
    let outcome = with_call(&state, CallState::take_outcome)?;
    if let Outcome::Returned(reply) = &outcome {
        schemas.check_reply(reply, budget, &limits).ok()?;
    }
    Some(outcome)
}

#[cfg(test)]
mod tests {
    use std::os::{fd::IntoRawFd, unix::net::UnixStream};

    use tollhouse_protocol::{ReplyBody, Tier};

    use super::*;
    use crate::{engine, host::Host, memory::Memory};

    #[test]
    fn warm_up_returns_its_result_and_can_be_repeated() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let limits = Limits::default();
        let memory = Memory::new(limits.heap_bytes, limits.buffer_bytes);
        let budget = Budget::new(Host::inherit(ours.into_raw_fd()).lifeline());
        let (mut runtime, driver) = engine::boot(Tier::Jit, &memory, CallState::new(std::sync::Arc::clone(&budget)));
        for _ in 0..2 {
            let Some(Outcome::Returned(reply)) = warm_up(&mut runtime, &driver, &budget) else { panic!("no answer") };
            let ReplyBody::Json(json) = reply.body else { panic!("no JSON") };
            let answer: serde_json::Value = serde_json::from_slice(&json).unwrap();
            assert_eq!(answer["lines"], serde_json::json!(["0: one", "1: 2", "2: 3.5", "3: true", "4: null", "no more"]));
            assert_eq!(answer["copy"]["name"]["last"], "b");
        }
    }
}

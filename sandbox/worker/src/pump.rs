//! Event loop of a call: runs JavaScript, and delivers the host's answers in between.

use std::{cell::RefCell, rc::Rc};

use deno_core::{
    OpState,
    v8::{self, Local, PinScope},
};
use tollhouse_protocol::{OpFailure, OpValue, Start, ToHost, ToWorker, Work};

use crate::{
    budget::Budget,
    call_state::CallState,
    clock::{cpu_ns, monotonic_ns},
    driver::Driver,
    host::{Host, HostGone},
    memory, rejections,
};

/// Kinds of answer, numbered as in 04_ops.js.
const NONE: i32 = 0;
const JSON: i32 = 1;
const BYTES: i32 = 2;
const FAILURE: i32 = 3;
const RESPONSE: i32 = 4;

/// The start of a call, on both clocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Started {
    pub(crate) cpu_ns: u64,
    pub(crate) at_ns: u64,
    now_ms: u64,
}

impl Started {
    pub(crate) fn now(now_ms: u64) -> Self {
        Self { cpu_ns: cpu_ns(), at_ns: monotonic_ns(), now_ms }
    }

    /// Returns the value of `Date.now()` at this moment.
    #[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 are far below 2^53")]
    pub(crate) fn wall_ms(&self) -> f64 {
        (self.now_ms + (monotonic_ns() - self.at_ns) / 1_000_000) as f64
    }
}

/// Why a call cannot continue.
pub(crate) enum End {
    /// Nothing pending can wake it.
    Deadlock,
    Gone(HostGone),
}

/// Runs until the call has ended, is stopped, or cannot continue.
pub(crate) fn pump(
    scope: &mut PinScope<'_, '_>,
    driver: &Driver,
    state: &Rc<RefCell<OpState>>,
    budget: &Budget,
    host: &mut Host,
    started: Started,
) -> Result<(), End> {
    loop {
        scope.perform_microtask_checkpoint();
        if !budget.stopped() && rejections::report(scope, driver) {
            continue;
        }
        if budget.stopped() || with_call(state, |call| call.has_ended() && (!call.ops().is_writing() || call.can_be_answered())) {
            return Ok(());
        }
        if let Some((number, failure)) = with_call(state, |call| call.ops().next_refused()) {
            deliver(scope, driver, started, number, Err(failure));
            continue;
        }
        if !with_call(state, |call| call.ops().is_waiting() || call.ops().is_writing()) {
            // The handler can wait for unanswered requests of an ended call.
            if reject_unanswered(scope, driver) {
                continue;
            }
            return Err(End::Deadlock);
        }
        let (number, result) = wait(state, budget, host)?;
        if budget.stopped() {
            return Ok(());
        }
        if let Some(number) = with_call(state, |call| call.ops().answered(number)) {
            deliver(scope, driver, started, number, result);
        }
    }
}

/// Sends the pending requests, reports that the call waits, and returns the host's next answer.
/// Declines calls that arrive meanwhile.
fn wait(state: &Rc<RefCell<OpState>>, budget: &Budget, host: &mut Host) -> Result<(u32, Result<OpValue, OpFailure>), End> {
    with_call(state, CallState::send_requests);
    if with_call(state, |call| call.ops().has_refused()) {
        return Ok((0, Ok(OpValue::None)));
    }
    send(state, host, &ToHost::Waiting).map_err(End::Gone)?;
    loop {
        match host.next(Some(budget.wall_left())) {
            Ok(ToWorker::Reply { op, result }) => return Ok((op, result)),
            // This call was sent ahead, and would wait as long as the running one.
            Ok(ToWorker::Call(_)) => send(state, host, &ToHost::Declined).map_err(End::Gone)?,
            Err(HostGone::TimedOut) => {
                budget.wall_left();
                return Ok((0, Ok(OpValue::None)));
            }
            Ok(ToWorker::Load(_) | ToWorker::Code(_)) => return Err(End::Gone(HostGone::Frame)),
            Err(gone) => return Err(End::Gone(gone)),
        }
    }
}

/// Sends `message` after all waiting frames.
pub(crate) fn send(state: &Rc<RefCell<OpState>>, host: &mut Host, message: &ToHost) -> Result<(), HostGone> {
    with_call(state, |call| {
        call.outbox().put(message)?;
        host.send(call.outbox())
    })
}

/// Calls `then` with the state of the running call.
pub(crate) fn with_call<T>(state: &Rc<RefCell<OpState>>, then: impl FnOnce(&mut CallState) -> T) -> T {
    then(state.borrow_mut().borrow_mut::<CallState>())
}

/// Starts a call. `filled` is its input with the defaults of its schema, if they change it. Ops report its end.
pub(crate) fn begin_call(scope: &mut PinScope<'_, '_>, driver: &Driver, start: &Start, filled: Option<&[u8]>) {
    v8::tc_scope!(scope, scope);
    let granted = if start.env.is_empty() { String::new() } else { serde_json::to_string(&start.env).unwrap_or_default() };
    #[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 are far below 2^53")]
    let now = v8::Number::new(scope, start.now_ms as f64);
    #[expect(clippy::cast_precision_loss, reason = "a body is far smaller than 2^53 bytes")]
    let body_bytes = v8::Number::new(scope, start.body_bytes.map_or(-1.0, |bytes| bytes as f64));
    let (Some(head), Some(body), Some(granted), Some(id)) =
        (text(scope, &start.head), text(scope, &start.body), text(scope, granted.as_bytes()), text(scope, start.call.as_bytes()))
    else {
        return;
    };
    let call = Local::new(scope, &driver.call);
    let undefined: Local<'_, v8::Value> = v8::undefined(scope).into();
    let filled: Local<'_, v8::Value> = match filled {
        Some(json) => match text(scope, json) {
            Some(json) => json.into(),
            None => return,
        },
        None => undefined,
    };
    let is_scheduled = v8::Boolean::new(scope, start.work == Work::Scheduled);
    let given = [now.into(), head.into(), body.into(), granted.into(), id.into(), filled, is_scheduled.into(), body_bytes.into()];
    call.call(scope, undefined, &given);
}

/// Rejects the unanswered requests of ended calls. Returns whether there were any.
fn reject_unanswered(scope: &mut PinScope<'_, '_>, driver: &Driver) -> bool {
    v8::scope!(let scope, scope);
    v8::tc_scope!(scope, scope);
    let undefined = v8::undefined(scope).into();
    let reject = Local::new(scope, &driver.reject_unanswered);
    reject.call(scope, undefined, &[]).is_some_and(|rejected| rejected.is_true())
}

/// Passes an op's answer to `deliver` of 04_ops.js.
fn deliver(scope: &mut PinScope<'_, '_>, driver: &Driver, started: Started, number: u32, result: Result<OpValue, OpFailure>) {
    v8::scope!(let scope, scope);
    v8::tc_scope!(scope, scope);
    let undefined: Local<'_, v8::Value> = v8::undefined(scope).into();
    let (kind, value, code, status) = match result {
        Ok(OpValue::None) => (NONE, undefined, undefined, undefined),
        Ok(OpValue::Json(json)) => (JSON, text(scope, &json).map_or(undefined, Into::into), undefined, undefined),
        Ok(OpValue::Bytes(bytes)) => match memory::bytes(scope, bytes.to_vec()) {
            Some(array) => (BYTES, array.into(), undefined, undefined),
            None => (NONE, undefined, undefined, undefined),
        },
        Ok(OpValue::Response { head, body, more }) => match memory::bytes(scope, body.to_vec()) {
            Some(array) => (RESPONSE, text(scope, &head).map_or(undefined, Into::into), array.into(), v8::Boolean::new(scope, more).into()),
            None => (NONE, undefined, undefined, undefined),
        },
        Err(OpFailure { code, message, status }) => {
            let message = text(scope, message.as_bytes()).map_or(undefined, Into::into);
            let status = status.map_or(undefined, |status| v8::Integer::new(scope, status.into()).into());
            (FAILURE, message, text(scope, code.as_bytes()).map_or(undefined, Into::into), status)
        }
    };
    let number = v8::Integer::new_from_unsigned(scope, number).into();
    let now = v8::Number::new(scope, started.wall_ms()).into();
    let kind = v8::Integer::new(scope, kind).into();
    let deliver = Local::new(scope, &driver.deliver);
    deliver.call(scope, undefined, &[number, now, kind, value, code, status]);
}

/// Converts bytes from the host to a string, with one byte per character if possible.
fn text<'s>(scope: &mut PinScope<'s, '_>, bytes: &[u8]) -> Option<Local<'s, v8::String>> {
    if bytes.is_ascii() {
        v8::String::new_from_one_byte(scope, bytes, v8::NewStringType::Normal)
    } else {
        v8::String::new_from_utf8(scope, bytes, v8::NewStringType::Normal)
    }
}

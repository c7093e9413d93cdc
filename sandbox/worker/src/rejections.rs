//! Promises that were rejected without a handler, for the events `unhandledrejection` and
//! `rejectionhandled`.
//!
//! The engine reports each rejection while code runs. They are noted only while a handler listens, and
//! 10_rejections.js gets them once all microtasks have run. Otherwise unhandled rejections have no
//! effect: a call ends when its own promise settles.

use std::cell::RefCell;

use deno_core::v8::{self, Global, Local, PinScope, PromiseRejectEvent, PromiseRejectMessage};

use crate::driver::Driver;

/// Maximum rejections that are noted until all microtasks have run. If there are more, none of them has
/// an event.
const MAX_NOTED: usize = 4_096;

thread_local! {
    /// The rejections of this thread, because the engine passes no data of ours.
    static NOTED: RefCell<Noted> = const { RefCell::new(Noted { is_watching: false, rows: Vec::new(), is_full: false }) };
}

struct Noted {
    is_watching: bool,
    rows: Vec<Row>,
    /// Whether a row is missing. An event without it could be wrong.
    is_full: bool,
}

/// A promise was rejected without a handler, or got one afterwards.
struct Row {
    promise: Global<v8::Promise>,
    /// The reason of the rejection, or `None` if a handler was added.
    reason: Option<Global<v8::Value>>,
}

/// Begins or ends to note rejections.
pub(crate) fn watch(watches: bool) {
    NOTED.with_borrow_mut(|noted| {
        noted.is_watching = watches;
        noted.clear();
    });
}

/// Forgets what an ended call left behind.
pub(crate) fn clear() {
    NOTED.with_borrow_mut(Noted::clear);
}

impl Noted {
    fn clear(&mut self) {
        self.rows.clear();
        self.is_full = false;
    }
}

/// Notes a rejection. The engine calls it while code runs, so it runs none itself.
#[expect(unsafe_code, reason = "the engine's callback type is unsafe")]
pub(crate) unsafe extern "C" fn note(message: PromiseRejectMessage<'_>) {
    if !NOTED.with_borrow(|noted| noted.is_watching) {
        return;
    }
    // SAFETY: the engine passes a message of the current isolate, which outlives this function.
    v8::callback_scope!(unsafe scope, &message);
    let promise = Global::new(scope, message.get_promise());
    let reason = match message.get_event() {
        PromiseRejectEvent::PromiseRejectWithNoHandler => match message.get_value() {
            Some(reason) => Some(Global::new(scope, reason)),
            None => return,
        },
        PromiseRejectEvent::PromiseHandlerAddedAfterReject => None,
        PromiseRejectEvent::PromiseRejectAfterResolved | PromiseRejectEvent::PromiseResolveAfterResolved => return,
    };
    NOTED.with_borrow_mut(|noted| {
        // The usual case: `await` of an asynchronous function that has thrown already.
        if reason.is_none() && noted.rows.last().is_some_and(|last| last.reason.is_some() && last.promise == promise) {
            noted.rows.pop();
        } else if noted.rows.len() < MAX_NOTED {
            noted.rows.push(Row { promise, reason });
        } else {
            noted.is_full = true;
        }
    });
}

/// Passes the noted rejections to `rejectionsNoted` of 10_rejections.js. Returns whether there were any.
pub(crate) fn report(scope: &mut PinScope<'_, '_>, driver: &Driver) -> bool {
    let rows = NOTED.with_borrow_mut(|noted| {
        let rows = std::mem::take(&mut noted.rows);
        if std::mem::take(&mut noted.is_full) { Vec::new() } else { rows }
    });
    if rows.is_empty() {
        return false;
    }
    v8::scope!(let scope, scope);
    v8::tc_scope!(scope, scope);
    let undefined: Local<'_, v8::Value> = v8::undefined(scope).into();
    let mut values = Vec::with_capacity(rows.len() * 3);
    for row in &rows {
        let handled: Local<'_, v8::Value> = v8::Boolean::new(scope, row.reason.is_none()).into();
        let promise: Local<'_, v8::Value> = Local::new(scope, &row.promise).into();
        let reason = row.reason.as_ref().map_or(undefined, |reason| Local::new(scope, reason));
        values.extend([handled, promise, reason]);
    }
    let values = v8::Array::new_with_elements(scope, &values);
    let noted = Local::new(scope, &driver.rejections_noted);
    noted.call(scope, undefined, &[values.into()]);
    true
}

//! Offloads work on long texts so that it does not block the async runtime.
//!
//! JSON costs up to 0.1 ms per KiB to parse, and as much again to canonicalize. A body at its limit would block a
//! runtime thread, and every task waiting for that thread, for tens of milliseconds. Long work therefore runs off the
//! runtime, on at most a quarter of the cores, so that the rest stay free. Clients take turns.

use std::{
    net::IpAddr,
    ops::Deref,
    pin::{Pin, pin},
    sync::{Arc, LazyLock},
    task::{Context, Poll},
};

use async_recursion::async_recursion as boxed;
use serde_json::Value;
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    task::block_in_place,
};
use tollhouse_fair::{FairPermit, FairSemaphore, Share};

/// Longest text that is processed inline, in bytes. It takes less than a millisecond.
const SHORT_BYTES: usize = 8 << 10;

/// Longest text, in bytes, that never waits for a longer one.
const MIDDLING_BYTES: usize = 64 << 10;

/// Queues for medium and long texts. Each runs on at most a quarter of the cores, so that a client that sends the
/// longest texts does not delay clients whose texts have a usual length.
static MIDDLING: LazyLock<Arc<FairSemaphore<Client>>> = LazyLock::new(queue);
static LONG: LazyLock<Arc<FairSemaphore<Client>>> = LazyLock::new(queue);

fn queue() -> Arc<FairSemaphore<Client>> {
    FairSemaphore::new(at_once(), Share::All)
}

fn at_once() -> usize {
    (std::thread::available_parallelism().map_or(1, usize::from) / 4).max(1)
}

/// The client that work is done for, or `None` for the host's own work.
type Client = Option<IpAddr>;

tokio::task_local! {
    static CLIENT: Client;
}

/// Runs `work` for `client`. Long texts of one client wait for each other before they delay other clients.
pub fn for_client<F: Future>(client: IpAddr, work: F) -> impl Future<Output = F::Output> {
    CLIENT.scope(Some(client), work)
}

/// Runs `work` on behalf of the current client. Use it for work that moves to a new task.
pub fn for_same_client<F: Future>(work: F) -> impl Future<Output = F::Output> {
    CLIENT.scope(current_client(), work)
}

fn current_client() -> Client {
    CLIENT.try_with(|client| *client).ok().flatten()
}

/// Runs `work` on a text of `bytes` bytes, off the runtime if it is long.
pub async fn run_blocking<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    if bytes <= SHORT_BYTES {
        return work();
    }
    let _place = place(bytes).await;
    run_in_place(work)
}

/// Waits until a text of `bytes` bytes can be processed.
#[boxed]
async fn place(bytes: usize) -> FairPermit<Client> {
    let positions = if bytes <= MIDDLING_BYTES { &MIDDLING } else { &LONG };
    positions.turn(current_client()).await
}

/// Estimates the length of a value as JSON, in bytes. It stops counting once the value is known to be long.
pub fn length(value: &Value) -> usize {
    let (mut length, mut open) = (0, vec![value]);
    while let Some(value) = open.pop()
        && length <= SHORT_BYTES
    {
        length += 4;
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
            Value::String(text) => length += text.len(),
            // This many items are enough to know that the value is long.
            Value::Array(items) => open.extend(items.iter().take(SHORT_BYTES)),
            Value::Object(members) => {
                for (name, member) in members.iter().take(SHORT_BYTES) {
                    length += name.len();
                    open.push(member);
                }
            }
        }
    }
    length
}

/// A JSON value that is dropped off the runtime if it is large, because dropping many parts takes long.
#[derive(Debug, Default)]
pub struct DropOffThread(Value);

impl DropOffThread {
    /// Wraps `value`.
    pub fn new(value: Value) -> Self {
        Self(value)
    }
}

impl Drop for DropOffThread {
    fn drop(&mut self) {
        if length(&self.0) > SHORT_BYTES {
            let value = self.0.take();
            tokio::task::spawn_blocking(move || drop(value));
        }
    }
}

impl Deref for DropOffThread {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.0
    }
}

/// Awaits a library's future whose first poll works on `bytes` of text. If the text is long, that first poll runs off
/// the runtime.
pub async fn await_with_blocking_start<F: Future>(bytes: usize, future: F) -> F::Output {
    let mut future = pin!(future);
    if bytes > SHORT_BYTES
        && let Poll::Ready(output) = run_blocking(bytes, || poll_once(future.as_mut())).await
    {
        return output;
    }
    future.await
}

/// Polls once with a waker that does nothing. No wake-up is lost, because the next poll registers the real waker.
fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(std::task::Waker::noop()))
}

/// Runs blocking work in place while another thread takes over the runtime's tasks.
pub fn run_in_place<T>(work: impl FnOnce() -> T) -> T {
    let (mut work, mut output) = (Some(work), None);
    in_place(&mut || output = work.take().map(|work| work()));
    output.expect("the work was done")
}

/// [`run_in_place`] for work of any type, so that the hand-over is compiled once.
fn in_place(work: &mut dyn FnMut()) {
    // A single-threaded runtime has no other thread to hand its tasks to.
    let has_others = Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() != RuntimeFlavor::CurrentThread);
    if has_others { block_in_place(work) } else { work() }
}

#[cfg(test)]
mod tests;

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

use serde_json::Value;
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    task::block_in_place,
};
use tollhouse_fair::{FairSemaphore, Share};

/// Longest text that is processed inline, in bytes. It takes less than a millisecond.
const SHORT_BYTES: usize = 8 << 10;

/// Longest text, in bytes, that never waits for a longer one.
const MIDDLING_BYTES: usize = 64 << 10;

/// Queues for medium and long texts. Each runs on at most a quarter of the cores, so that a client that sends the
/// longest texts does not delay clients whose texts have a usual length.
static MIDDLING: LazyLock<Arc<FairSemaphore<Asker>>> = LazyLock::new(places);
static LONG: LazyLock<Arc<FairSemaphore<Asker>>> = LazyLock::new(places);

fn places() -> Arc<FairSemaphore<Asker>> {
    FairSemaphore::new(at_once(), Share::All)
}

fn at_once() -> usize {
    (std::thread::available_parallelism().map_or(1, usize::from) / 4).max(1)
}

/// The client that work is done for, or `None` for the host's own work.
type Asker = Option<IpAddr>;

tokio::task_local! {
    static ASKER: Asker;
}

/// Runs `work` for the client `asker`. Long texts of one client wait for each other before they delay other clients.
pub fn asked_by<F: Future>(asker: IpAddr, work: F) -> impl Future<Output = F::Output> {
    ASKER.scope(Some(asker), work)
}

/// Runs `work` on behalf of the current client. Use it for work that moves to a new task.
pub fn still_asked<F: Future>(work: F) -> impl Future<Output = F::Output> {
    ASKER.scope(asker(), work)
}

fn asker() -> Asker {
    ASKER.try_with(|asker| *asker).ok().flatten()
}

/// Runs `work` on a text of `bytes` bytes, off the runtime if it is long.
pub async fn run_blocking<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    if bytes <= SHORT_BYTES {
        return work();
    }
    let positions = if bytes <= MIDDLING_BYTES { &MIDDLING } else { &LONG };
    let _place = positions.turn(asker()).await;
    drop_off_runtime(work)
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
pub async fn spawn_blocking_task<F: Future>(bytes: usize, future: F) -> F::Output {
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
pub fn drop_off_runtime<T>(work: impl FnOnce() -> T) -> T {
    // A single-threaded runtime has no other thread to hand its tasks to.
    let has_others = Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() != RuntimeFlavor::CurrentThread);
    if has_others { block_in_place(work) } else { work() }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::Mutex,
        time::{Duration, Instant},
    };

    use futures_util::future::join_all;
    use serde_json::json;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn long_work_holds_up_no_other_task() {
        let busy = tokio::spawn(run_blocking(SHORT_BYTES + 1, || std::thread::sleep(Duration::from_millis(300))));
        tokio::time::sleep(Duration::from_millis(20)).await;
        let started = Instant::now();
        tokio::spawn(async {}).await.unwrap();
        assert!(started.elapsed() < Duration::from_millis(200), "{:?}", started.elapsed());
        busy.await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_text_of_usual_length_waits_for_no_longer_one() {
        let long: Vec<_> =
            (0..100).map(|_| tokio::spawn(run_blocking(MIDDLING_BYTES + 1, || std::thread::sleep(Duration::from_millis(50))))).collect();
        let started = Instant::now();
        run_blocking(SHORT_BYTES + 1, || ()).await;
        assert!(started.elapsed() < Duration::from_millis(500), "{:?}", started.elapsed());
        long.iter().for_each(tokio::task::JoinHandle::abort);
    }

    #[tokio::test]
    async fn long_texts_of_one_client_leave_the_next_place_to_another() {
        let ended = Arc::new(Mutex::new(vec![]));
        // Other tests may hold places for a while.
        let held = join_all((0..at_once()).map(|_| LONG.turn(None))).await;
        let long = |client: u8| {
            let ended = Arc::clone(&ended);
            let work = run_blocking(MIDDLING_BYTES + 1, move || ended.lock().unwrap().push(client));
            // On a separate task, as calls are.
            tokio::spawn(asked_by([127, 0, 0, client].into(), async { still_asked(work).await }))
        };
        let mut all: Vec<_> = (0..100).map(|_| long(1)).collect();
        tokio::task::yield_now().await;
        all.push(long(2));
        tokio::task::yield_now().await;
        drop(held);
        for one in all {
            one.await.unwrap();
        }
        let position = ended.lock().unwrap().iter().position(|client| *client == 2).unwrap();
        assert!(position < 40, "{position}: at most as many come before it as there are places");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn work_in_a_library_s_hands_resumes_where_it_waits() {
        for bytes in [0, SHORT_BYTES + 1] {
            let waits = async {
                tokio::time::sleep(Duration::from_millis(10)).await;
                7
            };
            assert_eq!(spawn_blocking_task(bytes, waits).await, 7);
        }
    }

    #[test]
    fn a_long_value_is_known_by_a_part_of_it() {
        for (value, is_long) in [
            (json!([1, { "a": "b" }]), false),
            (json!("s".repeat(SHORT_BYTES + 1)), true),
            (json!(vec![1; SHORT_BYTES]), true),
            (json!({ "n".repeat(SHORT_BYTES + 1): 1 }), true),
            ((0..100).fold(json!(1), |inner, _| json!([inner])), false),
        ] {
            assert_eq!(length(&value) > SHORT_BYTES, is_long);
        }
    }

    #[tokio::test]
    async fn a_runtime_of_one_thread_does_it_all_itself() {
        assert_eq!(run_blocking(usize::MAX, || 7).await, 7);
    }
}

use futures_util::FutureExt;
use tokio::io::Interest;
use tollhouse_protocol::Limits;

use super::*;

const TIME: Duration = Duration::from_micros(250);

fn budget() -> Budget {
    Budget::of_call(&Limits::default())
}

/// Returns a pipeline whose worker is in a call and whose recent calls have cost `cost_us`.
fn open(max: usize, cost_us: u64) -> Pipeline<()> {
    let pipeline = Pipeline::new(max, TIME);
    for _ in 0..100 {
        assert!(pipeline.next(&Spent { cpu_us: cost_us, ..Spent::default() }).is_none());
    }
    pipeline.open();
    pipeline
}

fn after(pipeline: &Pipeline<()>, spent: Spent) -> usize {
    assert!(pipeline.next(&spent).is_none());
    pipeline.open();
    pipeline.room()
}

#[tokio::test]
async fn short_calls_are_sent_ahead_while_there_is_room() {
    assert_eq!(open(16, 5).room(), 16);
    assert_eq!(open(16, 80).room(), 3);
    assert_eq!(open(16, 251).room(), 0);
    assert_eq!(open(0, 5).room(), 0);
    assert!(!open(0, 5).is_brief() && open(1, 5).is_brief());
    let unknown = Pipeline::<()>::new(16, TIME);
    unknown.open();
    assert_eq!(unknown.room(), 0);
}

#[tokio::test]
async fn one_long_call_or_op_keeps_the_pipeline_closed_for_a_while() {
    let pipeline = open(16, 5);
    assert_eq!(after(&pipeline, Spent { cpu_us: 500_000, ..Spent::default() }), 0);
    let calls = (1..).find(|_| after(&pipeline, Spent::default()) > 0).unwrap();
    assert!((40..80).contains(&calls), "{calls}");
    assert_eq!(after(&pipeline, Spent { ops: 1, ..Spent::default() }), 0);
    assert_eq!(after(&open(16, 5), Spent { cpu_us: u64::MAX, ..Spent::default() }), 0);
}

#[tokio::test]
async fn no_call_is_sent_ahead_to_a_closed_or_full_pipeline() {
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let pipeline = open(2, 5);
    let waiting = [(); 3].map(|()| pipeline.send(&ours, b"frame", budget()));
    assert!(waiting[0].is_some() && waiting[1].is_some() && waiting[2].is_none());
    assert!(pipeline.decline() && pipeline.decline() && !pipeline.decline());
    pipeline.close(&mut Buffers::default());
    assert!(pipeline.send(&ours, b"frame", budget()).is_none());
}

#[tokio::test]
async fn no_call_is_sent_ahead_to_a_worker_that_becomes_idle() {
    let pipeline = open(2, 5);
    assert_eq!(pipeline.room(), 2);
    assert!(pipeline.next(&Spent::default()).is_none());
    assert_eq!(pipeline.room(), 0);
}

#[tokio::test]
async fn bytes_left_by_a_full_socket_are_written_by_the_next_writer() {
    // More than the socket takes at once.
    let frame: Vec<_> = (0..1 << 20).flat_map(u32::to_le_bytes).collect();
    for is_full in [true, false] {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut sent = Vec::new();
        while is_full && ours.try_write(&[0; 1 << 12]).is_ok() {
            sent.extend_from_slice(&[0; 1 << 12]);
        }
        let pipeline = open(2, 5);
        ours.ready(Interest::READABLE | Interest::WRITABLE).now_or_never();
        assert!(pipeline.send(&ours, &frame, budget()).is_some());
        assert_eq!((pipeline.len(), pipeline.room()), (1, 0), "no frame is written between its parts");
        assert!(!pipeline.decline(), "it cannot have been read completely");
        sent.extend_from_slice(&frame);
        let (mut buffers, mut read) = (Buffers::default(), Vec::new());
        pipeline.take_rest(&mut buffers);
        while read.len() < sent.len() {
            buffers.flush(&ours).unwrap();
            tokio::select! { room = buffers.changed(&ours) => room.unwrap(), bytes = theirs.readable() => bytes.unwrap() }
            _ = theirs.try_read_buf(&mut read);
        }
        assert!(buffers.are_empty() && read == sent);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_are_written_in_queue_order() {
    const CALLS: u8 = 32;
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.writable().await.unwrap();
    let pipeline = Pipeline::<()>::new(CALLS.into(), Duration::MAX);
    for _ in 0..500 {
        pipeline.open();
        std::thread::scope(|threads| {
            let send = |call| pipeline.send(&ours, &[call], Budget { wall_ms: call.into(), ..budget() });
            for first in 0..4 {
                threads.spawn(move || (first..CALLS).step_by(4).for_each(|call| assert!(send(call).is_some())));
            }
        });
        let mut written = Vec::new();
        while written.len() < CALLS.into() {
            theirs.readable().await.unwrap();
            _ = theirs.try_read_buf(&mut written);
        }
        let turns = std::iter::from_fn(|| pipeline.next(&Spent::default())).map(|next| next.budget.wall_ms);
        assert!(turns.eq(written.into_iter().map(u64::from)));
    }
}

#[tokio::test]
async fn waiters_are_notified_of_the_end() {
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let pipeline = open(2, 5);
    let waiting = pipeline.send(&ours, b"frame", budget()).unwrap();
    pipeline.end();
    assert!(waiting.await.is_err());
    assert!(pipeline.send(&ours, b"frame", budget()).is_none());
}

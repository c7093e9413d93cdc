//! Calls whose answer is a stream.

use tokio::sync::Semaphore;

use super::*;

/// Takes a chunk whenever the test gives room for one.
struct Reader {
    room: Semaphore,
    taken: Mutex<Vec<OpRequest>>,
}

impl OpHost for Reader {
    fn op(&self, request: OpRequest) -> BoxFuture<'_, Result<OpValue, OpFailure>> {
        Box::pin(async move {
            self.room.acquire().await.unwrap().forget();
            self.taken.lock().unwrap().push(request);
            Ok(OpValue::None)
        })
    }

    fn log(&self, _: LogLine) {}
    fn progress(&self, _: ProgressMessage) {}
    fn used(&self, _: Duration) {}
}

fn opening() -> OpRequest {
    OpRequest::StreamOpen { status: 200, headers: vec![], first: "one".into() }
}

fn chunk() -> OpRequest {
    OpRequest::StreamWrite { chunk: "two".into() }
}

fn streamed() -> ToHost {
    let reply = ToolReply { status: 200, headers: vec![], body: ReplyBody::Streamed };
    ToHost::Done { outcome: Outcome::Returned(reply), spent: Spent::default() }
}

#[tokio::test]
async fn stream_waits_for_its_reader_while_others_compute() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (link, scheduler, limits, flow) = (link(ours), scheduler(), Limits::default(), FlowControl::new(1 << 30));
    let turn = |endpoint| scheduler.acquire(AdmissionRequest { owner: "a", endpoint, caller: None, concurrency: 1 });
    let mut permit = turn("x").await.unwrap();
    let (reader, mut buffers) = (Reader { room: Semaphore::new(0), taken: Mutex::default() }, Buffers::default());
    let peer = async {
        let mut peer = Peer(theirs);
        peer.receive().await;
        for (op, request) in [(1, opening()), (2, chunk())] {
            peer.send(&[ToHost::Op { op, request }, ToHost::Waiting]).await;
            // There is one place to compute, and a call that waits for its reader does not hold it.
            drop(turn("y").await.unwrap());
            assert_eq!(reader.taken.lock().unwrap().len(), op as usize - 1);
            reader.room.add_permits(1);
            assert!(matches!(peer.receive().await, ToWorker::Reply { op: answered, result: Ok(OpValue::None) } if answered == op));
        }
        peer.send(&[streamed()]).await;
    };
    let (ended, ()) = tokio::join!(drive(&link, &mut buffers, params(&limits, &flow), begin(), &reader, &mut permit), peer);
    assert!(matches!(&ended.outcome, Outcome::Returned(reply) if reply.body == ReplyBody::Streamed), "{ended:?}");
    assert!(ended.clean.is_some(), "its worker serves the next call");
    assert_eq!(*reader.taken.lock().unwrap(), [opening(), chunk()]);
    assert_eq!(flow.held(), 0);
}

#[tokio::test]
async fn worker_that_lies_about_its_stream_is_not_believed() {
    let (first, second) = (ToHost::Op { op: 1, request: opening() }, ToHost::Op { op: 2, request: opening() });
    let early = ToHost::Op { op: 1, request: chunk() };
    for lie in [vec![early, streamed()], vec![first.clone(), second], vec![streamed()], vec![first, streamed()]] {
        let ended = run(&Host::default(), |mut peer| async move { peer.send(&lie).await }).await;
        assert!(is_crash(&ended), "{ended:?}");
    }
}

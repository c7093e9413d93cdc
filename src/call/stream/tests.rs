use super::*;

const SETTINGS: StreamSettings =
    StreamSettings { places: 16, of_address: Some(3), kept: 8, stall: Duration::from_secs(30), heartbeat: Duration::from_secs(15) };

fn begun(settings: StreamSettings, max_bytes: u64) -> (Arc<AnswerSink>, StreamEnd, StreamedAnswer) {
    let (sink, _) = AnswerSink::new(settings, max_bytes);
    let (end, answer) = sink.begin(StoredAnswer::default(), None);
    (sink, end, answer)
}

fn chunk(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

#[test]
fn owner_and_address_have_a_part_of_the_places() {
    let places = StreamPlaces::new(&SETTINGS);
    let [one, other]: [IpAddr; 2] = [[192, 0, 2, 1].into(), [192, 0, 2, 2].into()];
    let of_address: Vec<_> = std::iter::from_fn(|| places.take("a", one)).collect();
    assert_eq!(of_address.len(), 3);
    assert!(places.take("b", one).is_none() && places.take("a", other).is_some());
    drop(of_address);
    let places = StreamPlaces::new(&StreamSettings { of_address: None, ..SETTINGS });
    let of_owner: Vec<_> = std::iter::from_fn(|| places.take("a", one)).collect();
    assert_eq!(of_owner.len(), 8);
    assert!(places.take("b", one).is_some());
}

#[tokio::test]
async fn bytes_pass_as_they_come_and_the_end_is_marked() {
    let (sink, end, mut answer) = begun(SETTINGS, 100);
    for text in ["a", "b"] {
        sink.write(chunk(text)).await.unwrap();
    }
    assert_eq!(answer.chunks.next().await.unwrap().unwrap(), "a");
    assert_eq!(answer.chunks.next().await.unwrap().unwrap(), "b");
    let sent = sink.finish();
    assert_eq!((sent.kept.unwrap(), sent.error.is_none()), (chunk("ab"), true));
    assert_eq!(sent.hash, tollhouse_money::receipt::bytes_hash(b"ab"));
    end.complete();
    assert!(answer.chunks.next().await.unwrap().is_none());
}

#[tokio::test]
async fn broken_stream_ends_with_an_error() {
    let (sink, end, mut answer) = begun(SETTINGS, 100);
    sink.write(chunk("a")).await.unwrap();
    sink.finish();
    drop(end);
    assert_eq!(answer.chunks.next().await.unwrap().unwrap(), "a");
    assert!(answer.chunks.next().await.is_err());
    assert!(sink.write(chunk("b")).await.is_err(), "nothing more is sent");
}

#[tokio::test]
async fn long_answer_is_not_kept_and_a_longer_one_is_stopped() {
    let (sink, _end, mut answer) = begun(SETTINGS, 12);
    sink.write(chunk("12345678")).await.unwrap();
    sink.write(chunk("9")).await.unwrap();
    assert!(answer.chunks.next().await.unwrap().is_some());
    assert_eq!(sink.write(chunk("0123")).await.unwrap_err().code, "quota_exceeded");
    let sent = sink.finish();
    assert!(sent.kept.is_none());
    assert!(matches!(sent.error, Some(CallError::Stopped(StopReason::OutputSize { limit_bytes: 12 }))));
}

#[tokio::test(start_paused = true)]
async fn caller_who_does_not_read_or_is_gone_ends_the_stream() {
    let (sink, _end, answer) = begun(SETTINGS, 100);
    for _ in 0..CHUNKS {
        sink.write(chunk("a")).await.unwrap();
    }
    assert!(sink.write(chunk("a")).await.is_err(), "after 30 s");
    assert!(matches!(sink.finish().error, Some(CallError::StreamUnread(_))));
    drop(answer);
    let (sink, _end, answer) = begun(SETTINGS, 100);
    drop(answer);
    assert!(sink.write(chunk("a")).await.is_err());
    assert!(matches!(sink.finish().error, Some(CallError::Cancelled)));
}

#[tokio::test]
async fn head_that_no_answer_can_have_is_refused_before_anything_is_settled() {
    let (sink, mut openings) = AnswerSink::new(SETTINGS, 100);
    let head = |status: u16, name: &str| StreamHead { status, headers: vec![(name.to_owned(), "a".repeat(9 << 10))] };
    assert!(sink.open(head(402, "x"), chunk("a")).await.is_err());
    assert!(sink.open(head(204, "x"), chunk("a")).await.is_err());
    assert!(sink.open(head(200, "link"), chunk("a")).await.is_err());
    assert!(openings.try_recv().is_err());
    assert!(matches!(sink.finish().error, Some(CallError::Misbehaved(reason)) if reason.contains("402")), "the first reason counts");
}

#[tokio::test]
async fn first_bytes_wait_for_the_settlement() {
    let (sink, mut openings) = AnswerSink::new(SETTINGS, 100);
    let head = StreamHead { status: 200, headers: vec![("set-cookie".to_owned(), "a=b".to_owned())] };
    let opened = tokio::join!(sink.open(head.clone(), chunk("first")), async {
        let Opening { status, headers, settled } = openings.recv().await.unwrap();
        assert_eq!((status, headers), (200, vec![("content-type".to_owned(), BYTES.to_owned())]));
        let (end, mut answer) = sink.begin(StoredAnswer::default(), None);
        settled.send(()).unwrap();
        assert_eq!(answer.chunks.next().await.unwrap().unwrap(), "first");
        end
    });
    opened.0.unwrap();
    let (refused, ()) = tokio::join!(sink.open(head, chunk("first")), async { drop(openings.recv().await) });
    assert_eq!(refused.unwrap_err().code, "stream_refused");
}

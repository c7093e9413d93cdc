use std::{
    num::NonZeroU32,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    task::{Wake, Waker},
};

use tokio::{io::AsyncWriteExt as _, net::TcpListener};

use super::*;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const PONG: [u8; 17] = [0, 0, 8, 6, 1, 0, 0, 0, 0, 7, 7, 7, 7, 7, 7, 7, 7];

/// Counts wake-ups.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// Reads pieces until the turn is over or `left` bytes have arrived. Returns the bytes read and the number of
/// wake-ups.
async fn turn(watched: &mut MeteredSocket, piece: usize, remaining: usize) -> (usize, usize) {
    let woken = Arc::<Woken>::default();
    let waker = Waker::from(Arc::clone(&woken));
    let mut read = 0;
    watched.conn.begin_turn();
    loop {
        let mut bytes = vec![0; piece];
        let mut buffer = ReadBuf::new(&mut bytes);
        let polled = Pin::new(&mut *watched).poll_read(&mut Context::from_waker(&waker), &mut buffer);
        match polled {
            Poll::Ready(done) => done.unwrap(),
            // The rest has not arrived yet.
            Poll::Pending if woken.0.load(Relaxed) == 0 && read < remaining => {
                watched.stream.readable().await.unwrap();
                continue;
            }
            Poll::Pending => return (read, woken.0.load(Relaxed)),
        }
        assert!(!buffer.filled().is_empty(), "the connection ended");
        read += buffer.filled().len();
    }
}

#[tokio::test]
async fn connection_yields_after_64_kib_or_256_frames() {
    const PIECE: usize = 4 << 10;
    const FRAMES: usize = 100 * PONG.len();
    let many = |count: usize| [PREFACE, &PONG.repeat(count)].concat();
    for (sent, piece, metered, in_a_turn) in
        [(vec![b'a'; 96 << 10], PIECE, false, 64 << 10), (many(600), FRAMES, true, 3 * FRAMES), (many(600), FRAMES, false, many(600).len())]
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, peer) = listener.accept().await.unwrap();
        client.write_all(&sent).await.unwrap();
        let rate = Arc::new(RateLimiter::with_burst(NonZeroU32::MIN, NonZeroU32::new(10_000).unwrap()));
        let meter = Meter::new(metered.then(|| (peer.ip(), rate)), 100);
        let heads = HeadMemory { held: Quota::new(None, None), peer: peer.ip(), is_own: true };
        let mut watched = MeteredSocket { stream, conn: ConnState::new(), meter, heads };
        assert_eq!(turn(&mut watched, piece, sent.len()).await, (in_a_turn, usize::from(in_a_turn < sent.len())), "{piece}");
        let rest = sent.len() - in_a_turn;
        assert_eq!(turn(&mut watched, piece, rest).await.0, rest.min(in_a_turn), "the next turn of {piece}");
    }
}

#[test]
fn unfinished_head_is_counted_until_its_request_begins() {
    let held = Quota::new(Some(32 << 10), None);
    let heads = HeadMemory { held: Arc::clone(&held), peer: IpAddr::from([192, 0, 2, 1]), is_own: true };
    let (conn, other) = (ConnState::new(), ConnState::new());
    for (bytes, counted) in [(4 << 10, 0), (1, 4097), (16 << 10, 4097 + (16 << 10))] {
        conn.note_read(bytes);
        assert!(heads.hold(&conn) && heads.hold(&conn), "counted once");
        assert_eq!(held.used(), counted);
    }
    other.note_read(16 << 10);
    assert!(!heads.hold(&other), "there is no room for a second one");
    let answering = conn.begin(false);
    assert_eq!(held.used(), 0);
    // A body is counted elsewhere.
    conn.note_read(16 << 10);
    assert!(heads.hold(&conn) && held.used() == 0);
    drop(answering);
    assert!(heads.hold(&other) && held.used() == 16 << 10);
    drop(other);
    assert_eq!(held.used(), 0);
}

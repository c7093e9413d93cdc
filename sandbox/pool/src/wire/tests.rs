use std::os::unix::net::UnixStream as Socket;

use rustix::net::{AddressFamily, SocketType, socket};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tollhouse_protocol::{LogLevel, LogLine, OpValue};

use super::*;

fn holding(bytes: usize) -> Buffers {
    Buffers { out: Vec::with_capacity(bytes), input: Vec::with_capacity(bytes), ..Buffers::default() }
}

#[test]
fn buffers_of_normal_calls_are_reused_and_larger_ones_released() {
    for (bytes, stored) in [(1_024, 1_024), (RETAINED_BYTES, RETAINED_BYTES), (RETAINED_BYTES + 1, 0)] {
        let mut buffers = holding(bytes);
        buffers.trim();
        assert_eq!((buffers.out.capacity(), buffers.input.capacity()), (stored, stored));
    }
    let mut read = Buffers { input: vec![1, 2], taken: 2, ..Buffers::default() };
    read.trim();
    assert!(read.input.is_empty() && read.are_empty());
}

#[test]
fn sent_bytes_are_released_once_they_outweigh_unsent_ones() {
    for (sent, unsent, stays) in [
        (RETAINED_BYTES, 9, RETAINED_BYTES),
        (RETAINED_BYTES + 1, 9, 0),
        (RETAINED_BYTES + 1, RETAINED_BYTES + 1, 0),
        (RETAINED_BYTES + 1, RETAINED_BYTES + 2, RETAINED_BYTES + 1),
    ] {
        let mut buffers = Buffers { out: vec![0; sent + unsent], sent, ..Buffers::default() };
        assert_eq!(buffers.unsent(), unsent);
        buffers.drop_sent();
        assert_eq!((buffers.sent, buffers.unsent()), (stays, unsent), "{sent} of {}", sent + unsent);
    }
}

#[tokio::test]
async fn read_takes_the_available_bytes() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    theirs.writable().await.unwrap();
    assert_eq!(theirs.try_write(&[0; READ_BYTES]).unwrap(), READ_BYTES);
    let mut buffers = Buffers::default();
    buffers.changed(&ours).await.unwrap();
    buffers.fill(&ours).unwrap();
    assert_eq!(buffers.input.len(), 16_384);
}

async fn read(buffers: &mut Buffers, stream: &UnixStream) {
    buffers.changed(stream).await.unwrap();
    buffers.fill(stream).unwrap();
}

#[tokio::test]
async fn buffer_grows_with_a_frame_and_no_further() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let mut buffers = Buffers::default();
    theirs.write_all(&u32::to_le_bytes(8 << 20)).await.unwrap();
    read(&mut buffers, &ours).await;
    assert!(buffers.next().unwrap().is_none());
    theirs.write_all(&[0]).await.unwrap();
    read(&mut buffers, &ours).await;
    assert!(buffers.next().unwrap().is_none());
    assert!(buffers.input.capacity() <= 2 * READ_BYTES, "no byte of the 8 MiB has arrived");
    let frame = vec![0; (8 << 20) - 1];
    let reads = async {
        while buffers.input.len() < PREFIX_BYTES + (8 << 20) {
            assert!(buffers.next().unwrap().is_none());
            read(&mut buffers, &ours).await;
        }
    };
    let (written, ()) = tokio::join!(theirs.write_all(&frame), reads);
    written.unwrap();
    assert!(buffers.input.capacity() <= PREFIX_BYTES + (8 << 20) + READ_BYTES);
}

#[tokio::test]
async fn buffers_of_a_burst_are_released_during_the_call() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let mut buffers = Buffers::default();
    let line = LogLine { level: LogLevel::Info, message: "m".repeat(1 << 20), fields: String::new() };
    let mut frame = Vec::new();
    frame::encode(&ToHost::Log(line), &mut frame).unwrap();
    let reads = async {
        while buffers.next().unwrap().is_none() {
            read(&mut buffers, &ours).await;
        }
    };
    let (written, ()) = tokio::join!(theirs.write_all(&frame), reads);
    written.unwrap();
    assert!(buffers.next().unwrap().is_none());
    assert_eq!(buffers.input.capacity(), 0);

    let value = OpValue::Bytes(vec![0; 4 << 20].into());
    buffers.put(&ToWorker::Reply { op: 1, result: Ok(value) }).unwrap();
    let mut received = vec![0; buffers.unsent()];
    let sends = async {
        while buffers.unsent() > 0 {
            ours.writable().await.unwrap();
            buffers.flush(&ours).unwrap();
            assert!(buffers.sent <= buffers.unsent().max(RETAINED_BYTES), "sent bytes are released");
        }
    };
    let (read, ()) = tokio::join!(theirs.read_exact(&mut received), sends);
    read.unwrap();
    assert!(buffers.out.capacity() <= RETAINED_BYTES);
}

#[tokio::test]
async fn end_of_a_worker_and_a_failed_socket_are_detected_by_reading() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    drop(theirs);
    ours.writable().await.unwrap();
    let mut buffers = Buffers { out: vec![1], ..Buffers::default() };
    assert!(buffers.flush(&ours).is_ok() && buffers.is_sent());
    ours.readable().await.unwrap();
    assert_eq!(buffers.fill(&ours).unwrap_err().kind(), ErrorKind::UnexpectedEof);

    let unconnected = Socket::from(socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap());
    unconnected.set_nonblocking(true).unwrap();
    let failing = UnixStream::from_std(unconnected).unwrap();
    failing.writable().await.unwrap();
    failing.readable().await.unwrap();
    let mut buffers = Buffers { out: vec![1], ..Buffers::default() };
    assert!(buffers.flush(&failing).is_err() && buffers.fill(&failing).is_err());
}

use tokio::net::TcpSocket;

use super::*;

/// Receive buffer of a client that reads nothing, in bytes.
const RECEIVED: u32 = 4 << 10;

#[tokio::test]
async fn unread_connection_takes_few_bytes() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    limit_send_buffers(&listener).unwrap();
    let client = TcpSocket::new_v4().unwrap();
    client.set_recv_buffer_size(RECEIVED).unwrap();
    let client = client.connect(listener.local_addr().unwrap()).await.unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    stream.writable().await.unwrap();
    let part = vec![0; 1 << 20];
    let mut taken = 0;
    while let Ok(count) = stream.try_write(&part) {
        taken += count;
    }
    // A segment on loopback has up to 64 KiB.
    assert!((1..=UNSENT_BYTES as usize + (128 << 10)).contains(&taken), "the system took {taken} bytes");
    // Linux reports the double of the buffer.
    let buffer = SockRef::from(&stream).send_buffer_size().unwrap();
    assert!(buffer <= 2 * SEND_BUFFER_BYTES, "{buffer}");
    drop(client);
}

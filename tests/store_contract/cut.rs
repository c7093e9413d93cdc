//! A proxy between a store and its database that cuts connections at inconvenient moments.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering::SeqCst},
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

/// The treatment of the next bytes from the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum CutMode {
    /// They are passed on, and so is the answer.
    Nothing = 0,
    /// They are dropped, and the connection ends.
    Question = 1,
    /// They are passed on, and the connection ends before the answer.
    Answer = 2,
    /// They are dropped, and the connection stays open.
    Silently = 3,
}

/// The proxy.
pub struct CuttingProxy {
    pub port: u16,
    mode: Arc<AtomicU8>,
}

impl CuttingProxy {
    pub async fn before(port: u16) -> Self {
        Self::address(port, |_| {}).await
    }

    /// Starts a proxy that makes every transaction serializable whatever a session sets, as some
    /// databases with PostgreSQL's protocol do.
    pub async fn before_serializable(port: u16) -> Self {
        const ASKED: &[u8] = b"'read committed'";
        Self::address(port, |message| {
            while let Some(position) = message.windows(ASKED.len()).position(|some| some == ASKED) {
                message[position..position + ASKED.len()].copy_from_slice(b"'serializable'  ");
            }
        })
        .await
    }

    async fn address(port: u16, report: fn(&mut [u8])) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let cut = Self { port: listener.local_addr().unwrap().port(), mode: Arc::default() };
        let mode = Arc::clone(&cut.mode);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                if let Ok(far) = TcpStream::connect(("127.0.0.1", port)).await {
                    tokio::spawn(pass(near, far, Arc::clone(&mode), report));
                }
            }
        });
        cut
    }

    /// Sets what happens, from the next bytes on.
    pub fn cuts(&self, what: CutMode) {
        self.mode.store(what as u8, SeqCst);
    }
}

/// Passes bytes on until the connection is cut.
async fn pass(mut near: TcpStream, mut far: TcpStream, mode: Arc<AtomicU8>, report: fn(&mut [u8])) {
    let (mut questions, mut answers) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        tokio::select! {
            read = near.read(&mut questions) => match read {
                Ok(bytes @ 1..) => match mode.load(SeqCst) {
                    1 => return,
                    2 => {
                        _ = far.write_all(&questions[..bytes]).await;
                        // The server reads what came before the end, and executes it.
                        _ = far.shutdown().await;
                        return;
                    }
                    3 => {}
                    _ => {
                        report(&mut questions[..bytes]);
                        if far.write_all(&questions[..bytes]).await.is_err() {
                            return;
                        }
                    }
                },
                Ok(0) | Err(_) => return,
            },
            read = far.read(&mut answers) => match read {
                Ok(bytes @ 1..) => if near.write_all(&answers[..bytes]).await.is_err() { return },
                Ok(0) | Err(_) => return,
            },
        }
    }
}

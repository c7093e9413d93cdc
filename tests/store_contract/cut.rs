//! What stands between a store and its database, and cuts connections at a bad moment.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering::SeqCst},
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

/// What becomes of what is said next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Cuts {
    /// It goes through, as does the answer.
    Nothing = 0,
    /// It never arrives, and the connection ends.
    Question = 1,
    /// It arrives; the connection ends before the answer.
    Answer = 2,
    /// It never arrives, and nobody is told.
    Silently = 3,
}

/// The database behind it.
pub struct Cut {
    pub port: u16,
    mode: Arc<AtomicU8>,
}

impl Cut {
    pub async fn before(port: u16) -> Self {
        Self::telling(port, |_| {}).await
    }

    /// Before a database in which transactions are serializable whatever a session asks for, as in some that speak as PostgreSQL does.
    pub async fn before_serializable(port: u16) -> Self {
        const ASKED: &[u8] = b"'read committed'";
        Self::telling(port, |said| {
            while let Some(place) = said.windows(ASKED.len()).position(|some| some == ASKED) {
                said[place..place + ASKED.len()].copy_from_slice(b"'serializable'  ");
            }
        })
        .await
    }

    async fn telling(port: u16, tell: fn(&mut [u8])) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let cut = Self { port: listener.local_addr().unwrap().port(), mode: Arc::default() };
        let mode = Arc::clone(&cut.mode);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                if let Ok(far) = TcpStream::connect(("127.0.0.1", port)).await {
                    tokio::spawn(pass(near, far, Arc::clone(&mode), tell));
                }
            }
        });
        cut
    }

    /// From the next question on.
    pub fn cuts(&self, what: Cuts) {
        self.mode.store(what as u8, SeqCst);
    }
}

/// Passes bytes on, until they are cut.
async fn pass(mut near: TcpStream, mut far: TcpStream, mode: Arc<AtomicU8>, tell: fn(&mut [u8])) {
    let (mut questions, mut answers) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        tokio::select! {
            read = near.read(&mut questions) => match read {
                Ok(bytes @ 1..) => match mode.load(SeqCst) {
                    1 => return,
                    2 => {
                        _ = far.write_all(&questions[..bytes]).await;
                        // The server reads what came before the end, and does it.
                        _ = far.shutdown().await;
                        return;
                    }
                    3 => {}
                    _ => {
                        tell(&mut questions[..bytes]);
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

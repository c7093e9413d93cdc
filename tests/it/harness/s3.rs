//! An S3 bucket: `s3s-fs` in this process, with its objects in a temporary folder.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use hyper::{
    Request,
    body::Incoming,
    service::{Service, service_fn},
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto::Builder,
};
use s3s::{auth::SimpleAuth, service::S3ServiceBuilder};
use tempfile::TempDir;
use tokio::net::TcpListener;

use super::HostBuilder;

/// The only bucket.
const BUCKET: &str = "tolls";

/// Prefix of the names of the hosts' objects.
const PREFIX: &str = "of/host";

/// The accepted credentials.
const KEY_ID: &str = "toll-key";
const SECRET: &str = "sesame-sesame";

impl HostBuilder {
    /// Stores objects that are too large for rows in the bucket.
    pub fn with_objects_in(self, s3: &S3) -> Self {
        let variables = [
            ("TOLLHOUSE_OBJECTS", format!("s3://{BUCKET}/{PREFIX}")),
            ("AWS_ENDPOINT", s3.url.clone()),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", KEY_ID.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", SECRET.to_owned()),
        ];
        variables.into_iter().fold(self, |how, (name, value)| how.env(name, value))
    }
}

/// A server that ends with the test's runtime.
pub struct S3 {
    root: TempDir,
    pub url: String,
    /// Additional duration of each request, in milliseconds.
    slow: Arc<AtomicU64>,
}

impl S3 {
    pub async fn start() -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join(BUCKET)).unwrap();
        let mut service = S3ServiceBuilder::new(s3s_fs::FileSystem::new(root.path()).unwrap());
        service.set_auth(SimpleAuth::from_single(KEY_ID, SECRET));
        let service = service.build();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let slow = Arc::<AtomicU64>::default();
        let takes = Arc::clone(&slow);
        tokio::spawn(async move {
            let http = Builder::new(TokioExecutor::new());
            while let Ok((socket, _)) = listener.accept().await {
                let (service, takes) = (service.clone(), Arc::clone(&takes));
                let slowed = service_fn(move |request: Request<Incoming>| {
                    let (answer, takes) = (Service::call(&service, request), takes.load(Ordering::Relaxed));
                    async move {
                        tokio::time::sleep(Duration::from_millis(takes)).await;
                        answer.await
                    }
                });
                tokio::spawn(http.serve_connection(TokioIo::new(socket), slowed).into_owned());
            }
        });
        Self { root, url, slow }
    }

    /// Sets an additional duration of each request.
    pub fn takes(&self, time: Duration) {
        self.slow.store(u64::try_from(time.as_millis()).unwrap(), Ordering::Relaxed);
    }

    /// Returns the files of the hosts' objects.
    pub fn objects(&self) -> Vec<PathBuf> {
        fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                if entry.path().is_dir() {
                    walk(&entry.path(), found);
                } else {
                    found.push(entry.path());
                }
            }
        }
        let mut found = Vec::new();
        walk(&self.root.path().join(BUCKET).join(PREFIX), &mut found);
        found
    }
}

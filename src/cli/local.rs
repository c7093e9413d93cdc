//! A private host in this process with a simulated ledger. `dev` serves it, and `check` runs cases on it.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use reqwest::{Method, Url};
use serde_json::{Map, Value, json};
use tokio::{net::TcpListener, task::JoinHandle};
use tollhouse_api::{
    DeleteEndpointResponse, EndpointChangeResponse, EndpointCheckResponse, EndpointResponse, SecretResponse, SetSecretRequest,
};
use tollhouse_app::App;
use tollhouse_base::error_chain::full_message;
use tollhouse_capability::guard::{DevelopmentUpstreams, RecordedAnswers};
use tollhouse_catalog::ValidationError;
use tollhouse_config::{Flags, Settings};
use tollhouse_pool::PoolError;

use super::{
    base::{Answer, Client, Credentials, Error, Result, Role, first, private_files},
    tool::changes::{FIELDS, default},
};

/// How long running calls may take to complete at shutdown.
const DRAIN: Duration = Duration::from_secs(2);
/// Maximum number of attempts to make a change if others come first.
const TRIES: u32 = 8;

/// A host that runs in this process.
pub(crate) struct LocalHost {
    app: Arc<App>,
    serving: JoinHandle<()>,
    /// A client with admin credentials.
    pub(crate) client: Client,
    pub(crate) url: String,
}

impl LocalHost {
    /// Starts a host on loopback with its data in a folder, without tools. These can also ask `upstreams`.
    pub(crate) async fn start(data: &Path, worker: Option<PathBuf>, port: Port, upstreams: DevelopmentUpstreams) -> Result<Self> {
        let settings = settings(data, worker)?;
        let listener = port.listen().await?;
        let address = listener.local_addr()?;
        let url = format!("http://{address}");
        let started = App::start_private(&settings, url.clone(), upstreams).await;
        let app =
            started.map_err(|error| Error::refused(format!("the local host of this folder does not start: {}", full_message(&error))))?;
        let token = data.join("admin-token");
        let token = private_files::read_private(&token)?.ok_or_else(|| Error::refused(format!("`{}` does not exist", token.display())))?;
        let base = Url::parse(&url).map_err(|error| Error::refused(error.to_string()))?;
        let client = Client::new(base, Credentials::only(Role::Admin, token.trim().to_owned().into()), None, false)?;
        let serving = Arc::clone(&app);
        let serving = tokio::spawn(async move { serving.serve(listener).await });
        Ok(Self { app, serving, client, url })
    }

    /// Ends the host and its workers.
    pub(crate) async fn end(self) {
        self.app.begin_shutdown();
        self.app.shutdown(DRAIN).await;
        self.serving.abort();
    }

    /// Makes a tool exactly what the body says. Returns its record, and warnings.
    ///
    /// # Errors
    ///
    /// The host's refusal, which leaves the tool unchanged.
    pub(crate) async fn put(&self, body: &Map<String, Value>) -> Result<EndpointChangeResponse> {
        let slug = body.get("slug").and_then(Value::as_str).unwrap_or_default();
        let mut whole = body.clone();
        for field in FIELDS {
            let message = default(field);
            if !message.is_null() {
                whole.entry(field).or_insert(message);
            }
        }
        let mut patch = whole.clone();
        for fixed in ["slug", "handlerType", "safetyAttestation"] {
            patch.remove(fixed);
        }
        let mut tries = 0;
        loop {
            match self.publish_to(slug, &whole, &patch).await {
                // An aborted earlier change may have completed in the meantime. The last one must win.
                Err(error) if matches!(error.code(), "revision_changed" | "slug_taken" | "unknown_endpoint") && tries < TRIES => tries += 1,
                ended => return ended,
            }
        }
    }

    /// Applies the change to the state that exists now, and fails if that has changed.
    async fn publish_to(&self, slug: &str, whole: &Map<String, Value>, patch: &Map<String, Value>) -> Result<EndpointChangeResponse> {
        let there = self.client.get(&["ai", "endpoints", slug]).find::<EndpointResponse>("unknown_endpoint").await?;
        let is_same_type =
            |there: &Answer<EndpointResponse>| Some(&json!(there.body.endpoint.common().handler_type)) == whole.get("handlerType");
        let asking = match there {
            Some(there) if is_same_type(&there) => {
                self.client.ask(Method::PATCH, &["ai", "endpoints", slug]).if_match(there.revision()).upload(patch)
            }
            there => {
                if there.is_some() {
                    // Check the new tool before the existing one is removed.
                    let mut again = whole.clone();
                    again.shift_remove("slug");
                    self.client.post(&["ai", "endpoints", "check"]).upload(&again).send::<EndpointCheckResponse>().await?;
                    self.remove(slug).await?;
                }
                self.client.post(&["ai", "endpoints", "create"]).upload(whole)
            }
        };
        Ok(asking.send().await?.body)
    }

    /// Removes a tool if it exists.
    pub(crate) async fn remove(&self, slug: &str) -> Result {
        let asking = self.client.ask(Method::DELETE, &["ai", "endpoints", slug]);
        asking.find::<DeleteEndpointResponse>("unknown_endpoint").await.map(drop)
    }

    /// Makes a tool's requests get recorded responses, or real ones again.
    pub(crate) async fn answer_recorded(&self, slug: &str, recorded: Option<Arc<RecordedAnswers>>) -> Result {
        self.app.answer_recorded(slug, recorded).await.map_err(|error| Error::refused(full_message(&error)))
    }

    /// Runs the first schedule of a tool now. Returns false if it has none.
    pub(crate) async fn run_schedule(&self, slug: &str) -> Result<bool> {
        self.app.run_schedule(slug).await.map_err(|error| Error::refused(full_message(&error)))
    }

    /// Returns why a result does not match the schema of its case, if it does not.
    pub(crate) async fn mismatch(&self, schema: &Value, result: &Value) -> Result<Option<String>> {
        match self.app.validate(schema, result).await {
            Ok(()) => Ok(None),
            Err(ValidationError::Mismatch(mismatch)) => Ok(Some(mismatch.problems.first().map_or_else(
                || mismatch.to_string(),
                |problem| {
                    let at = if problem.pointer.is_empty() { "the result:" } else { &problem.pointer };
                    format!("{at} {}", first(&problem.message, 200))
                },
            ))),
            Err(ValidationError::Stopped(reason)) => Ok(Some(format!("the check of `outputMatches` was stopped: {reason}"))),
            Err(ValidationError::Pool(PoolError::Schema(fault))) => {
                let reason = format!("{} {}", fault.pointer, fault.message);
                Ok(Some(format!("`outputMatches` is not a schema: {}", first(reason.trim_start(), 200))))
            }
            Err(ValidationError::Pool(error)) => Err(Error::refused(full_message(&error))),
        }
    }

    /// Sets a secret of a tool.
    pub(crate) async fn secret(&self, slug: &str, body: &SetSecretRequest) -> Result {
        self.client.post(&["ai", "endpoints", slug, "secrets"]).json(body).send::<SecretResponse>().await.map(drop)
    }
}

/// The port to listen on.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Port {
    /// Only this port.
    Exact(u16),
    /// This port, or any free one.
    Preferred(u16),
}

impl Port {
    async fn listen(self) -> Result<TcpListener> {
        let on = |port: u16| TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let bound = match self {
            Self::Exact(port) => on(port).await.map_err(|error| (port, error)),
            Self::Preferred(port) => match on(port).await {
                Ok(listener) => Ok(listener),
                Err(_) => on(0).await.map_err(|error| (0, error)),
            },
        };
        bound.map_err(|(port, error)| {
            let refused = Error::refused(format!("cannot listen on 127.0.0.1:{port}: {error}"));
            match error.kind() {
                io::ErrorKind::AddrInUse => refused.hint("name another port, or omit --port to use a free one"),
                _ => refused,
            }
        })
    }
}

/// Returns settings that are independent of this machine's own: no file, no variables.
fn settings(data: &Path, worker: Option<PathBuf>) -> Result<Settings> {
    let tools = data.join("no-tools");
    private_files::make_folder(&tools)?;
    let mut flags = Flags::default();
    flags.host.data = Some(data.to_owned());
    flags.catalog.tools = Some(tools);
    flags.sandbox.worker = worker;
    flags.sandbox.sandbox_spares = Some(2);
    flags.resolve().map_err(|error| Error::refused(full_message(&error)))
}

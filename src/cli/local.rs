//! A whole host of one's own, in this process, on a simulated ledger: what `dev` serves, and what `check` tries cases on.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use reqwest::{Method, Url};
use serde_json::{Map, Value, json};
use tokio::{net::TcpListener, task::JoinHandle};
use tollhouse_app::App;
use tollhouse_base::causes::in_full;
use tollhouse_capability::guard::Recorded;
use tollhouse_config::{Flags, Settings};

use super::{
    base::{
        answer::Answer,
        client::Client,
        credentials::Credentials,
        error::{Error, Result},
        places,
    },
    tool::wanted::{FIELDS, default},
};

/// How long calls have to end in.
const DRAIN: Duration = Duration::from_secs(2);
/// How often a change is tried again that another one was quicker than.
const TRIES: u32 = 8;

/// A host that runs in this process.
pub(crate) struct Local {
    app: Arc<App>,
    serving: JoinHandle<()>,
    /// Asks it as its admin.
    pub(crate) client: Client,
    pub(crate) url: String,
}

impl Local {
    /// Starts one on loopback with its data in a folder, and no tool.
    ///
    /// # Errors
    ///
    /// Why it does not start.
    pub(crate) async fn start(data: &Path, worker: Option<PathBuf>, port: Port) -> Result<Self> {
        let settings = settings(data, worker)?;
        let listener = port.listen().await?;
        let address = listener.local_addr()?;
        let url = format!("http://{address}");
        let started = App::start(&settings, url.clone()).await;
        let app = started.map_err(|error| Error::refused(format!("the host of this folder does not start: {}", in_full(&error))))?;
        let token = data.join("admin-token");
        let token = places::read_private(&token)?.ok_or_else(|| Error::refused(format!("`{}` is not there", token.display())))?;
        let base = Url::parse(&url).map_err(|error| Error::refused(error.to_string()))?;
        let client = Client::new(base, Credentials::admin(token.trim().to_owned().into()), None, false)?;
        let serving = Arc::clone(&app);
        let serving = tokio::spawn(async move { serving.serve(listener).await });
        Ok(Self { app, serving, client, url })
    }

    /// Ends it, and its workers with it.
    pub(crate) async fn end(self) {
        self.app.begin_shutdown();
        self.app.shutdown(DRAIN).await;
        self.serving.abort();
    }

    /// Has an endpoint be exactly what a body says; answers its record.
    ///
    /// # Errors
    ///
    /// What the host refuses it for; the endpoint is then what it was.
    pub(crate) async fn put(&self, body: &Map<String, Value>) -> Result<Value> {
        let slug = body.get("slug").and_then(Value::as_str).unwrap_or_default();
        let mut whole = body.clone();
        for field in FIELDS {
            let said = default(field);
            if !said.is_null() {
                whole.entry(field).or_insert(said);
            }
        }
        let mut patch = whole.clone();
        for fixed in ["slug", "handlerType", "safetyAttestation"] {
            patch.remove(fixed);
        }
        let mut tries = 0;
        let changed = loop {
            match self.put_onto(slug, &whole, &patch).await {
                // What was begun before and given up may have ended meanwhile: the last one stays.
                Err(error) if matches!(error.code(), "revision_changed" | "slug_taken" | "unknown_endpoint") && tries < TRIES => tries += 1,
                ended => break ended?,
            }
        };
        let mut body: Value = changed.body;
        let mut record = body["endpoint"].take();
        record["warnings"] = body["warnings"].take();
        Ok(record)
    }

    /// Puts it onto what is there now, and onto nothing else.
    async fn put_onto(&self, slug: &str, whole: &Map<String, Value>, patch: &Map<String, Value>) -> Result<Answer> {
        let there = match self.client.get(&["ai", "endpoints", slug]).send().await {
            Ok(answer) => Some(answer),
            Err(error) if error.code() == "unknown_endpoint" => None,
            Err(error) => return Err(error),
        };
        let create = || self.client.post(&["ai", "endpoints", "create"]).json(whole).send();
        match there {
            Some(there) if there.body["endpoint"]["handlerType"] == whole["handlerType"] => {
                let asking = self.client.ask(Method::PATCH, &["ai", "endpoints", slug]).if_match(there.revision());
                asking.json(patch).send().await
            }
            Some(_) => {
                // Looked at before what is there goes.
                let mut anew = whole.clone();
                anew.shift_remove("slug");
                self.client.post(&["ai", "endpoints", "check"]).json(&anew).send().await?;
                self.remove(slug).await?;
                create().await
            }
            None => create().await,
        }
    }

    /// Removes an endpoint, if it is there.
    ///
    /// # Errors
    ///
    /// What the host refuses.
    pub(crate) async fn remove(&self, slug: &str) -> Result {
        match self.client.ask(Method::DELETE, &["ai", "endpoints", slug]).send().await {
            Err(error) if error.code() != "unknown_endpoint" => Err(error),
            _ => Ok(()),
        }
    }

    /// Has requests of an endpoint get recorded answers, or again those of the servers they name.
    ///
    /// # Errors
    ///
    /// The store's.
    pub(crate) async fn answer_recorded(&self, slug: &str, recorded: Option<Arc<Recorded>>) -> Result {
        self.app.answer_recorded(slug, recorded).await.map_err(|error| Error::refused(in_full(&error)))
    }

    /// Sets a secret of an endpoint.
    ///
    /// # Errors
    ///
    /// What the host refuses.
    pub(crate) async fn secret(&self, slug: &str, name: &str, value: &str) -> Result {
        let body = json!({ "name": name, "value": value });
        self.client.post(&["ai", "endpoints", slug, "secrets"]).json(&body).send().await.map(|_| ())
    }
}

/// Where it listens.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Port {
    /// There and nowhere else.
    Given(u16),
    /// There, or where it is free.
    Rather(u16),
}

impl Port {
    async fn listen(self) -> Result<TcpListener> {
        let on = |port: u16| TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let bound = match self {
            Self::Given(port) => on(port).await.map_err(|error| (port, error)),
            Self::Rather(port) => match on(port).await {
                Ok(listener) => Ok(listener),
                Err(_) => on(0).await.map_err(|error| (0, error)),
            },
        };
        bound.map_err(|(port, error)| Error::refused(format!("cannot listen on 127.0.0.1:{port}: {error}")))
    }
}

/// Those of a host that knows nothing of this machine's own settings: no file, no variable.
fn settings(data: &Path, worker: Option<PathBuf>) -> Result<Settings> {
    let tools = data.join("no-tools");
    places::make_folder(&tools)?;
    let mut flags = Flags::default();
    flags.host.data = Some(data.to_owned());
    flags.catalog.tools = Some(tools);
    flags.sandbox.worker = worker;
    flags.sandbox.sandbox_spares = Some(2);
    flags.resolve().map_err(|error| Error::refused(in_full(&error)))
}

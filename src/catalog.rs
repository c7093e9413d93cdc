//! The catalogue: publish, find, change, retire.
//!
//! Readers see one immutable map behind an atomic pointer; a call takes what it needs from it once
//! and keeps that version to its end. Changes go one at a time: checked, committed, then shown.

mod draft;
mod shipped;

use std::{collections::BTreeMap, fmt, path::Path, sync::Arc};

use arc_swap::ArcSwap;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tollhouse_pool::{Pool, PoolError};
use tollhouse_protocol::{Bundle, Isolation, Language, Limits, LoadError};

pub use self::draft::{Draft, HandlerDraft, Patch};
use crate::{
    capability::{AllowedHosts, Capabilities as CapabilityServices, Grant, Granted},
    clock::Clock,
    id::EndpointId,
    payment::Terms,
    store::{Check, Direction, Durability, KeyRange, Space, Store, StoreError, Write},
    tool::{Endpoint, Handler, HandlerType, Owner, Runtime, Schema, SchemaError, Slug, Status},
};

/// How long an authorisation must at least stay valid, in seconds: what x402 v2 clients expect.
const MIN_TIMEOUT_SECS: u64 = 300;

/// Time to settle after a handler has used its whole wall limit, in seconds.
const SETTLE_SECS: u64 = 120;

/// Endpoints in one catalogue at most; all are held in memory.
const MAX_ENDPOINTS: usize = 100_000;

/// An endpoint that can be called: the record and all that is made from it once.
pub struct Live {
    pub endpoint: Endpoint,
    pub input: Schema,
    pub output: Schema,
    /// What the sandbox loads; absent for built-in handlers.
    pub bundle: Option<Arc<Bundle>>,
    /// What calls may touch, now: shared by all versions, so that a revocation reaches running calls.
    pub grant: Arc<Grant>,
    /// What a call costs, and the words of its challenge.
    pub terms: Arc<Terms>,
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").field("slug", &self.endpoint.slug).field("version", &self.endpoint.version).finish_non_exhaustive()
    }
}

/// The source of one handler version, as stored under its hash.
#[derive(Debug, Serialize, Deserialize)]
struct StoredSource {
    language: Language,
    source: String,
    /// JavaScript with the types blanked out; absent when `source` is JavaScript.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stripped: Option<String>,
}

/// Why an endpoint was not published or changed.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// A field cannot be what it is.
    #[error("{message}")]
    Field { pointer: String, message: String },
    #[error("the slug `{0}` is taken")]
    SlugTaken(Slug),
    #[error("no endpoint is called `{0}`")]
    Unknown(String),
    /// `If-Match` names another revision.
    #[error("the endpoint has changed since: it is at revision {0}")]
    Changed(u64),
    #[error("handler does not load: {0}")]
    Load(#[source] LoadError),
    #[error("the handler could not be checked")]
    Pool(#[source] PoolError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("a stored record does not read: {0}")]
    Corrupt(String),
    #[error("a shipped tool is not complete: {0}")]
    Shipped(String),
}

impl PublishError {
    fn field(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Field { pointer: pointer.into(), message: message.into() }
    }

    fn schema(field: &str, error: SchemaError) -> Self {
        Self::Field { pointer: format!("/{field}{}", error.pointer), message: error.message }
    }
}

/// All endpoints of a host.
pub struct Catalog {
    store: Arc<dyn Store>,
    clock: Clock,
    pool: Pool,
    services: Arc<CapabilityServices>,
    base_url: String,
    live: ArcSwap<BTreeMap<Slug, Arc<Live>>>,
    /// One change at a time. Never taken by a call.
    changing: tokio::sync::Mutex<()>,
    changes: watch::Sender<u64>,
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Catalog").field("endpoints", &self.live.load().len()).finish_non_exhaustive()
    }
}

impl Catalog {
    /// Reads the stored endpoints.
    ///
    /// # Errors
    ///
    /// The store's, or a record that does not read.
    pub async fn open(
        store: Arc<dyn Store>,
        clock: Clock,
        pool: Pool,
        services: Arc<CapabilityServices>,
        base_url: String,
    ) -> Result<Self, PublishError> {
        let catalog = Self {
            store,
            clock,
            pool,
            services,
            base_url,
            live: ArcSwap::default(),
            changing: tokio::sync::Mutex::new(()),
            changes: watch::Sender::new(0),
        };
        let mut live = BTreeMap::new();
        for (_, value) in catalog.store.scan(Space::Endpoints, KeyRange::prefix(b""), MAX_ENDPOINTS, Direction::Forward).await? {
            let endpoint: Endpoint = serde_json::from_slice(&value).map_err(|error| PublishError::Corrupt(error.to_string()))?;
            let bundle = catalog.stored_bundle(&endpoint).await?;
            live.insert(endpoint.slug.clone(), Arc::new(catalog.make_live(endpoint, bundle, Arc::default())?));
        }
        catalog.live.store(Arc::new(live));
        Ok(catalog)
    }

    /// The endpoint called `slug`, with the version that a call starting now runs on.
    #[must_use]
    pub fn find(&self, slug: &str) -> Option<Arc<Live>> {
        self.live.load().get(slug).cloned()
    }

    /// All endpoints, by slug.
    #[must_use]
    pub fn all(&self) -> Arc<BTreeMap<Slug, Arc<Live>>> {
        self.live.load_full()
    }

    /// Counts the changes of what [`Catalog::all`] answers, for those who wait for one.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Publishes the shipped tools, or those in `folder`, if the catalogue was never filled before.
    ///
    /// # Errors
    ///
    /// A tool that does not publish.
    pub async fn ship(&self, folder: Option<&Path>) -> Result<usize, PublishError> {
        const SHIPPED: &[u8] = b"catalogue-shipped";
        if self.store.get(Space::Meta, SHIPPED).await?.is_some() {
            return Ok(0);
        }
        let drafts = shipped::drafts(folder).map_err(PublishError::Shipped)?;
        let count = drafts.len();
        for draft in drafts {
            let slug = draft.slug.clone();
            match self.create(draft, Owner::Platform).await {
                // Published by a start that was cut off.
                Ok(_) | Err(PublishError::SlugTaken(_)) => {}
                Err(error) => return Err(PublishError::Shipped(format!("{slug}: {error}"))),
            }
        }
        let mark = Write { space: Space::Meta, key: SHIPPED.to_vec(), value: Some(self.clock.now().to_string().into_bytes()) };
        self.store.commit(vec![], vec![mark], Durability::Durable).await?;
        Ok(count)
    }

    /// Publishes a new endpoint. What its owner may not take is left in `requestedCapabilities`.
    ///
    /// # Errors
    ///
    /// Every field that cannot be, a slug that is taken, a handler that does not load.
    pub async fn create(&self, draft: Draft, owner: Owner) -> Result<Arc<Live>, PublishError> {
        draft.check()?;
        let _one = self.changing.lock().await;
        if self.find(draft.slug.as_str()).is_some() {
            return Err(PublishError::SlugTaken(draft.slug));
        }
        let now = self.clock.now();
        let prepared = self.prepare(&draft.slug, draft.handler_type, &draft.handler, &draft.limits()?).await?;
        let endpoint = Endpoint {
            id: EndpointId::generate(),
            title: draft.title.clone(),
            description: draft.description.clone(),
            status: Status::Active,
            price_usd: draft.price_usd,
            handler_type: draft.handler_type,
            tags: draft.tags.clone(),
            input_schema: Arc::clone(&draft.input_schema),
            output_schema: Arc::clone(&draft.output_schema),
            capabilities: draft.capabilities,
            requested_capabilities: crate::tool::Capabilities::default(),
            allowed_hosts: draft.allowed_hosts.clone(),
            limits: draft.limits()?,
            isolation: draft.isolation,
            content_safety: None,
            owner,
            handler: prepared.handler,
            version: prepared.version,
            revision: 1,
            created_at: now,
            updated_at: now,
            slug: draft.slug,
        };
        self.replace(None, endpoint, prepared.bundle, prepared.source).await
    }

    /// Changes an endpoint; fields that `patch` does not name stay. `if_match` is the revision the
    /// caller has seen.
    ///
    /// # Errors
    ///
    /// As for [`Catalog::create`]; [`PublishError::Changed`] when the revision is another.
    pub async fn update(&self, slug: &str, patch: Patch, if_match: Option<u64>) -> Result<Arc<Live>, PublishError> {
        let _one = self.changing.lock().await;
        let old = self.at_revision(slug, if_match)?;
        let mut endpoint = old.endpoint.clone();
        patch.apply(&mut endpoint)?;
        let mut bundle = old.bundle.clone();
        let mut source = None;
        if let Some(handler) = &patch.handler {
            let prepared = self.prepare(&endpoint.slug, endpoint.handler_type, &Some(handler.clone()), &endpoint.limits).await?;
            (endpoint.handler, endpoint.version, bundle, source) = (prepared.handler, prepared.version, prepared.bundle, prepared.source);
        }
        endpoint.revision += 1;
        endpoint.updated_at = self.clock.now();
        let live = self.replace(Some(&old), endpoint, bundle, source).await?;
        if live.endpoint.version != old.endpoint.version {
            self.pool.retire(&old.endpoint.version);
        }
        Ok(live)
    }

    /// Takes an endpoint out of the catalogue. Its receipts and sources stay; what its handler
    /// kept in kv, files and logs goes.
    ///
    /// # Errors
    ///
    /// [`PublishError::Unknown`] and the store's.
    pub async fn delete(&self, slug: &str, if_match: Option<u64>) -> Result<Arc<Live>, PublishError> {
        let _one = self.changing.lock().await;
        let old = self.at_revision(slug, if_match)?;
        let key = slug.as_bytes().to_vec();
        let check = Check { space: Space::Endpoints, key: key.clone(), expected: Some(encode(&old.endpoint)?) };
        let write = Write { space: Space::Endpoints, key, value: None };
        self.store.commit(vec![check], vec![write], Durability::Durable).await?;
        self.show(|live| live.remove(slug));
        old.grant.set(Granted::default());
        self.pool.retire(&old.endpoint.version);
        self.services.forget(&old.endpoint.id).await?;
        Ok(old)
    }

    /// The source of a version, as it was uploaded.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn source(&self, version: &str) -> Result<Option<(Language, String)>, PublishError> {
        Ok(self.stored_source(version).await?.map(|stored| (stored.language, stored.source)))
    }

    fn at_revision(&self, slug: &str, if_match: Option<u64>) -> Result<Arc<Live>, PublishError> {
        let old = self.find(slug).ok_or_else(|| PublishError::Unknown(slug.to_owned()))?;
        match if_match {
            Some(revision) if revision != old.endpoint.revision => Err(PublishError::Changed(old.endpoint.revision)),
            _ => Ok(old),
        }
    }

    /// Commits `endpoint` in place of `old` and shows it.
    async fn replace(
        &self,
        old: Option<&Live>,
        endpoint: Endpoint,
        bundle: Option<Arc<Bundle>>,
        source: Option<StoredSource>,
    ) -> Result<Arc<Live>, PublishError> {
        let key = endpoint.slug.as_str().as_bytes().to_vec();
        let expected = old.map(|old| encode(&old.endpoint)).transpose()?;
        let mut writes = vec![Write { space: Space::Endpoints, key: key.clone(), value: Some(encode(&endpoint)?) }];
        if let Some(source) = source {
            writes.push(Write { space: Space::Versions, key: endpoint.version.clone().into_bytes(), value: Some(encode(&source)?) });
        }
        // Made before the commit: what cannot be shown must not be stored.
        let grant = old.map_or_else(Arc::default, |old| Arc::clone(&old.grant));
        let granted = granted(&endpoint)?;
        let live = Arc::new(self.make_live(endpoint, bundle, Arc::clone(&grant))?);
        if let Handler::Static(response) = &live.endpoint.handler {
            live.output.check(response).map_err(|mismatch| {
                PublishError::field("/handler/response", format!("the response does not fit the outputSchema: {mismatch}"))
            })?;
        }
        self.store.commit(vec![Check { space: Space::Endpoints, key, expected }], writes, Durability::Durable).await?;
        grant.set(granted);
        self.show(|all| all.insert(live.endpoint.slug.clone(), Arc::clone(&live)));
        Ok(live)
    }

    fn show<T>(&self, change: impl FnOnce(&mut BTreeMap<Slug, Arc<Live>>) -> T) {
        let mut live = BTreeMap::clone(&self.live.load());
        change(&mut live);
        self.live.store(Arc::new(live));
        self.changes.send_modify(|count| *count += 1);
    }

    fn make_live(&self, endpoint: Endpoint, bundle: Option<Arc<Bundle>>, grant: Arc<Grant>) -> Result<Live, PublishError> {
        let input = Schema::compile(&endpoint.input_schema).map_err(|error| PublishError::schema("inputSchema", error))?;
        let output = Schema::compile(&endpoint.output_schema).map_err(|error| PublishError::schema("outputSchema", error))?;
        if *grant.now() == Granted::default() {
            grant.set(granted(&endpoint)?);
        }
        let terms = Arc::new(Terms {
            slug: endpoint.slug.clone(),
            endpoint_id: endpoint.id.clone(),
            version: endpoint.version.clone(),
            resource_url: format!("{}/tools/{}", self.base_url, endpoint.slug),
            description: endpoint.description.clone(),
            price: endpoint.price_usd,
            input_schema: Arc::clone(&endpoint.input_schema),
            output_schema: Arc::clone(&endpoint.output_schema),
            tags: endpoint.tags.clone(),
            timeout_secs: MIN_TIMEOUT_SECS.max(endpoint.limits.wall_ms / 1_000 + SETTLE_SECS),
        });
        Ok(Live { endpoint, input, output, bundle, grant, terms })
    }

    async fn prepare(
        &self,
        slug: &Slug,
        handler_type: HandlerType,
        handler: &Option<HandlerDraft>,
        limits: &Limits,
    ) -> Result<Prepared, PublishError> {
        match (handler_type, handler) {
            (HandlerType::JsRequestResponse, Some(HandlerDraft::Source { source, language })) => {
                self.prepare_js(slug, source, *language, limits).await
            }
            (HandlerType::StaticJson, Some(HandlerDraft::Response { response })) => {
                let version = crate::receipt::json_hash(response);
                Ok(Prepared { handler: Handler::Static(Arc::clone(response)), version, bundle: None, source: None })
            }
            (HandlerType::ReceiptEcho | HandlerType::X402ReadinessCheck, None) => {
                let version = crate::receipt::bytes_hash(format!("{}@{}", handler_type.as_str(), env!("CARGO_PKG_VERSION")).as_bytes());
                Ok(Prepared { handler: Handler::Builtin, version, bundle: None, source: None })
            }
            (HandlerType::JsRequestResponse, _) => {
                Err(PublishError::field("/handler", "`js_request_response` needs `handler: {source, language}`"))
            }
            (HandlerType::StaticJson, _) => Err(PublishError::field("/handler", "`static_json` needs `handler: {response}`")),
            (HandlerType::ReceiptEcho | HandlerType::X402ReadinessCheck, Some(_)) => {
                Err(PublishError::field("/handler", format!("`{}` is built in and takes no handler", handler_type.as_str())))
            }
        }
    }

    async fn prepare_js(&self, slug: &Slug, source: &str, language: Language, limits: &Limits) -> Result<Prepared, PublishError> {
        if source.len() as u64 > limits.source_bytes {
            let message = format!("source is {} bytes, limit {}", source.len(), limits.source_bytes);
            return Err(PublishError::field("/handler/source", message));
        }
        let tag = match language {
            Language::Js => "js",
            Language::Ts => "ts",
        };
        let version = crate::receipt::bytes_hash(format!("{tag}\0{source}").as_bytes());
        let bundle = bundle(slug, &version, source.as_bytes(), language);
        let loaded = self.pool.check(&bundle, *limits).await.map_err(|error| match error {
            PoolError::Load(error) => PublishError::Load(error),
            other => PublishError::Pool(other),
        })?;
        let stripped = String::from_utf8(loaded.checked.source.to_vec())
            .map_err(|_| PublishError::field("/handler/source", "stripping its types gave no text"))?;
        let stripped = (language == Language::Ts).then_some(stripped);
        let stored = StoredSource { language, source: source.to_owned(), stripped };
        let bundle = Arc::new(stored.bundle(slug, &version));
        Ok(Prepared { handler: Handler::Js { language }, version, bundle: Some(bundle), source: Some(stored) })
    }

    async fn stored_source(&self, version: &str) -> Result<Option<StoredSource>, PublishError> {
        let value = self.store.get(Space::Versions, version.as_bytes()).await?;
        value.map(|value| serde_json::from_slice(&value).map_err(|error| PublishError::Corrupt(error.to_string()))).transpose()
    }

    async fn stored_bundle(&self, endpoint: &Endpoint) -> Result<Option<Arc<Bundle>>, PublishError> {
        if endpoint.handler_type.runtime() == Runtime::ManagedBuiltin {
            return Ok(None);
        }
        let stored = self.stored_source(&endpoint.version).await?;
        let stored = stored.ok_or_else(|| PublishError::Corrupt(format!("the source of `{}` is missing", endpoint.slug)))?;
        Ok(Some(Arc::new(stored.bundle(&endpoint.slug, &endpoint.version))))
    }
}

/// A handler that is ready to be published.
struct Prepared {
    handler: Handler,
    version: String,
    bundle: Option<Arc<Bundle>>,
    source: Option<StoredSource>,
}

impl StoredSource {
    fn bundle(&self, slug: &Slug, version: &str) -> Bundle {
        match &self.stripped {
            Some(stripped) => bundle(slug, version, stripped.as_bytes(), Language::Js),
            None => bundle(slug, version, self.source.as_bytes(), self.language),
        }
    }
}

fn bundle(slug: &Slug, version: &str, source: &[u8], language: Language) -> Bundle {
    let short = version.trim_start_matches("sha256:").get(..12).unwrap_or(version);
    Bundle { version: version.to_owned(), specifier: format!("tool:/{slug}/{short}"), source: Bytes::copy_from_slice(source), language }
}

fn granted(endpoint: &Endpoint) -> Result<Granted, PublishError> {
    let hosts = AllowedHosts::parse(&endpoint.allowed_hosts).map_err(|error| PublishError::field("/allowedHosts", error.to_string()))?;
    let capabilities = endpoint.capabilities;
    Ok(Granted {
        kv: capabilities.kv,
        files: capabilities.files,
        http: capabilities.http_get_json.then_some(hosts),
        logs: capabilities.logs,
    })
}

fn encode(value: &impl Serialize) -> Result<Vec<u8>, PublishError> {
    serde_json::to_vec(value).map_err(|error| PublishError::Corrupt(error.to_string()))
}

/// Default isolation, for drafts that say nothing.
fn warm() -> Isolation {
    Isolation::default()
}

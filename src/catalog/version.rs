//! Versions of handlers: checked in the sandbox, stored by their hash ([`source`](super::source) decides where), and loaded again.

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tollhouse_base::{boxed, clock::Timestamp, cpu_share, offload::run_blocking};
use tollhouse_pool::PoolError;
use tollhouse_protocol::{Bundle, Checked, Language, LoadError, Schemas, Side, StopReason};
use tollhouse_store::{Batch, Direction, Durability, StoreError, Table, TerminatedText, schema};
use tollhouse_tool as tool;
use tollhouse_tool::{Endpoint, Handler, HandlerType, Owner, Runtime, SchemaError, Slug, finding::ScanOutcome};

use super::{
    Catalog, ChangedBy, HandlerDraft, PublishError,
    bundle::bundle,
    safety::Report,
    scan::VERSION_OWNERS,
    source::{StagedVersion, StoredSource, StoredVersion, hash_of, response_hash},
};

/// Version, and the slug of an endpoint that needs it.
const USES: Table<(TerminatedText<String>, String), ()> = schema::VERSION_USES.holding();

const RELEASED: Table<String, ReleasedVersion> = schema::VERSIONS_LET_GO.holding();
tollhouse_store::postcard_values!(ReleasedVersion);

/// Time that a version stays after a host of a shared store has released it, in milliseconds. Longer than any host may lag behind.
const RELEASE_DELAY_MS: u64 = 60_000;
/// Versions per page.
const PAGE: usize = 256;

/// Records that a host knows no endpoint with a version. Publishing the version again removes it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ReleasedVersion {
    at: Timestamp,
}

/// A handler that is ready to be published.
pub(super) struct PreparedHandler {
    pub(super) handler: Handler,
    pub(super) version: String,
    pub(super) bundle: Option<Arc<Bundle>>,
    /// Whether the handler exports `scheduled`. `None` if it was not loaded.
    pub(super) scheduled: Option<bool>,
    /// `None` for built-in handlers, of which nothing is stored.
    pub(super) stored: Option<StoredVersion>,
}

impl PreparedHandler {
    /// Returns it as uploaded. `None` for built-in handlers.
    pub(super) fn uploaded(&self) -> Option<HandlerDraft> {
        self.stored.as_ref().map(StoredVersion::uploaded)
    }
}

/// Returns the rows that record which versions an endpoint needs, for its change from `before` to `after`.
pub(super) fn uses(before: Option<&Endpoint>, after: Option<&Endpoint>) -> Batch {
    let needs = |endpoint: Option<&Endpoint>| -> BTreeSet<_> {
        let key = |endpoint: &Endpoint, version: &str| (TerminatedText(version.to_owned()), endpoint.slug.to_string());
        endpoint.into_iter().flat_map(|endpoint| endpoint.needs().map(|version| key(endpoint, version)).collect::<Vec<_>>()).collect()
    };
    let (had, has, mut batch) = (needs(before), needs(after), Batch::new());
    had.difference(&has).for_each(|removed| _ = batch.delete(&USES, removed));
    has.difference(&had).for_each(|new| _ = batch.put(&USES, new, &()));
    batch
}

/// Returns whether a module does not load because its request for `wasm` waits for an admin.
fn lacks_wasm(endpoint: &Endpoint, error: &PublishError) -> bool {
    let is_missing = |error: &LoadError| error.message.contains("WebAssembly is not defined");
    endpoint.requested_capabilities.wasm && matches!(error, PublishError::Load(error) if is_missing(error))
}

impl Catalog {
    /// Returns a version as uploaded. `None` if it is not stored or is built in.
    #[boxed]
    pub async fn uploaded(&self, version: &str) -> Result<Option<HandlerDraft>, PublishError> {
        Ok(self.sources.get(version).await?.as_ref().map(StoredVersion::uploaded))
    }

    /// Prepares the storage of a handler before the lock of changes is taken, because a bucket may be slow. If the findings block an
    /// upload by `by`, nothing is written to the bucket.
    pub(super) async fn stage(
        &self,
        prepared: Option<&mut PreparedHandler>,
        report: Option<&Report>,
        by: ChangedBy,
    ) -> Result<Option<StagedVersion>, StoreError> {
        let Some((version, stored)) = prepared.and_then(|prepared| Some((&prepared.version, prepared.stored.take()?))) else {
            return Ok(None);
        };
        let blocked = by == ChangedBy::Builder && report.is_some_and(|report| report.outcome == ScanOutcome::Block);
        if blocked { Ok(Some(StagedVersion::in_row(version, stored))) } else { self.sources.stage(version, stored).await.map(Some) }
    }

    /// Returns the batch that stores a prepared version.
    pub(super) async fn store_version(&self, staged: &mut StagedVersion) -> Result<Batch, StoreError> {
        let mut batch = self.sources.store(staged).await?;
        batch.delete(&RELEASED, staged.version());
        Ok(batch)
    }

    /// Returns the batch that releases versions which only `before` needed, and neither `after` nor any other endpoint needs. The caller
    /// holds the lock of changes until it is committed.
    pub(super) async fn unreference(&self, before: &Endpoint, after: Option<&Endpoint>) -> Result<Batch, PublishError> {
        let still: HashSet<_> = after.into_iter().flat_map(Endpoint::needs).collect();
        let removed: HashSet<_> = before.needs().filter(|version| !still.contains(version)).map(str::to_owned).collect();
        let (mut batch, at) = (Batch::new(), self.parts.clock.now());
        for version in self.unreferenced(removed, Some(before.slug.clone())).await? {
            match self.store.is_shared() {
                // Another host may have an endpoint with it that is not known here yet.
                true => batch.put(&RELEASED, &version, &ReleasedVersion { at }),
                false => batch.append(self.sources.remove(&version).await?).delete(&VERSION_OWNERS, &version),
            };
        }
        Ok(batch)
    }

    /// Removes the versions that hosts of a shared store have released some time ago. For a host that gets notifications of the others.
    ///
    /// # Errors
    ///
    /// Those of the store. The rest is removed the next time.
    #[boxed]
    pub async fn forget_versions(&self) -> Result<(), PublishError> {
        let (now, mut range) = (self.parts.clock.now(), RELEASED.all());
        while let Some(page) = RELEASED.sound(&*self.store, &mut range, PAGE).await? {
            let old: Vec<_> = page.into_iter().filter(|row| row.value.at.plus_millis(RELEASE_DELAY_MS) <= now).collect();
            let removed = self.unreferenced(old.iter().map(|row| row.key.clone()).collect(), None).await?;
            for row in &old {
                let mut batch = Batch::new();
                batch.remove(&RELEASED, row);
                if removed.contains(&row.key) {
                    batch.append(self.sources.remove(&row.key).await?).delete(&VERSION_OWNERS, &row.key);
                }
                // A conflict means that the version is being published again.
                batch.commit_if_unchanged(&*self.store, Durability::Buffered).await?;
            }
        }
        Ok(())
    }

    /// Returns those of `versions` that no visible endpoint needs, except the one at `slug`.
    async fn unreferenced(&self, mut versions: HashSet<String>, slug: Option<Slug>) -> Result<HashSet<String>, PublishError> {
        if versions.is_empty() {
            return Ok(versions);
        }
        let mut needed = Vec::new();
        for version in &versions {
            // One of these uses may be that of the tool at `slug`.
            let some = USES.page(&*self.store, &USES.under(&TerminatedText(version.clone())), 2, Direction::Forward).await?;
            if some.iter().any(|row| slug.as_ref().is_none_or(|slug| row.key.1 != slug.as_str())) {
                needed.push(version.clone());
            }
        }
        needed.iter().for_each(|version| _ = versions.remove(version));
        Ok(versions)
    }

    /// Refuses schemas that are sure to cost too much, or that JavaScript clients cannot compile. Runs on a blocking thread.
    pub(super) async fn check_schema_cost(&self, owner: &Owner, input: &Arc<Value>, output: &Arc<Value>) -> Result<(), PublishError> {
        let (input, output) = (Arc::clone(input), Arc::clone(output));
        let bound = move || {
            let fits = |schema: &Value| {
                let schema = tool::standard(schema);
                tool::bound(&schema).and_then(|()| tool::check_patterns(&schema))
            };
            let one = |side, schema: &Value| fits(schema).map_err(|error: SchemaError| PublishError::schema(side, error));
            one(Side::Input, &input)?;
            one(Side::Output, &output)
        };
        self.run_upload_work(owner, bound).await?
    }

    /// Refuses schemas that `endpoint` cannot use, or that are sure to cost too much.
    pub(super) async fn check_schemas(&self, endpoint: &Endpoint, input: &Arc<Value>, output: &Arc<Value>) -> Result<(), PublishError> {
        self.check_schema_cost(&endpoint.owner, input, output).await?;
        self.compile_schemas(endpoint, tool::worker_schemas(input, output)).await
    }

    /// Compiles schemas in a separate worker.
    async fn compile_schemas(&self, endpoint: &Endpoint, schemas: Schemas) -> Result<(), PublishError> {
        if schemas.is_empty() {
            return Ok(());
        }
        self.load_in_worker(endpoint, &bundle(&endpoint.slug, endpoint.slug.as_str(), None, schemas)).await.map(drop)
    }

    /// Loads a bundle for `endpoint` in a worker, with its effective limits and the tier of its workers.
    async fn load_in_worker(&self, endpoint: &Endpoint, bundle: &Bundle) -> Result<Checked, PublishError> {
        let tier = endpoint.worker_tier();
        Ok(self.parts.pool.check(endpoint.owner.share(), bundle, endpoint.limits, tier, &cpu_share::used).await?.checked)
    }

    /// Prepares a handler of `endpoint`: loads it once, with the schemas for its worker.
    pub(super) async fn prepare(
        &self,
        endpoint: &Endpoint,
        handler: Option<&HandlerDraft>,
        schemas: Schemas,
    ) -> Result<PreparedHandler, PublishError> {
        let (handler_type, limits) = (endpoint.handler_type, &endpoint.limits);
        match (handler_type, handler) {
            (HandlerType::JsRequestResponse, Some(HandlerDraft::Source { source, language })) => {
                self.prepare_js(endpoint, source, *language, schemas).await
            }
            (HandlerType::StaticJson, Some(HandlerDraft::Response { response })) => {
                self.compile_schemas(endpoint, schemas).await?;
                let bytes = response.text().len();
                if bytes as u64 > limits.output_bytes {
                    let message = format!("the response has {bytes} bytes, and the maximum is {}", limits.output_bytes);
                    return Err(PublishError::field("/handler/response", message));
                }
                let version = run_blocking(bytes, || response_hash(response)).await;
                let stored = Some(StoredVersion::Static { response: response.clone() });
                Ok(PreparedHandler { handler: Handler::Static(response.clone()), version, bundle: None, scheduled: None, stored })
            }
            (HandlerType::Builtin(_), None) => {
                self.compile_schemas(endpoint, schemas).await?;
                let version =
                    tollhouse_money::receipt::bytes_hash(format!("{}@{}", handler_type.as_str(), env!("CARGO_PKG_VERSION")).as_bytes());
                Ok(PreparedHandler { handler: Handler::Builtin, version, bundle: None, scheduled: None, stored: None })
            }
            (HandlerType::JsRequestResponse, _) => {
                Err(PublishError::field("/handler", "`js_request_response` needs `handler: {source, language}`"))
            }
            (HandlerType::StaticJson, _) => Err(PublishError::field("/handler", "`static_json` needs `handler: {response}`")),
            (HandlerType::Builtin(_), Some(_)) => {
                Err(PublishError::field("/handler", format!("`{}` is built in; remove `handler`", handler_type.as_str())))
            }
        }
    }

    async fn prepare_js(
        &self,
        endpoint: &Endpoint,
        source: &str,
        language: Language,
        schemas: Schemas,
    ) -> Result<PreparedHandler, PublishError> {
        let (slug, limits) = (&endpoint.slug, &endpoint.limits);
        if source.len() as u64 > limits.source_bytes {
            let message = format!("the source has {} bytes, and the maximum is {}", source.len(), limits.source_bytes);
            return Err(PublishError::field("/handler/source", message));
        }
        let version = hash_of(source, language);
        let loaded = self.load_in_worker(endpoint, &bundle(slug, &version, Some((source, language)), schemas)).await;
        let (stripped, scheduled) = match loaded {
            Ok(Checked { source, scheduled }) => (source, Some(scheduled)),
            // Nobody runs WebAssembly without a grant, and an admin can grant it only to a published tool.
            Err(error) if language == Language::Js && lacks_wasm(endpoint, &error) => (Bytes::new(), None),
            Err(error) => return Err(error),
        };
        // The input was text, so an invalid output is the worker's fault and not the upload's.
        let stripped = String::from_utf8(stripped.to_vec()).map_err(|_| PublishError::Pool(PoolError::Stopped(StopReason::Crashed)))?;
        let stripped = (language == Language::Ts).then_some(stripped);
        let stored = StoredSource { language, source: source.to_owned(), stripped };
        let bundle = Arc::new(stored.bundle(slug, &version));
        let (handler, stored) = (Handler::Js { language }, Some(StoredVersion::Js(stored)));
        Ok(PreparedHandler { handler, version, bundle: Some(bundle), scheduled, stored })
    }

    /// Returns a stored version, as [`Catalog::prepare`] made it. `None` if it is not stored or is built in.
    pub(super) async fn prepared(&self, slug: &Slug, version: &str) -> Result<Option<PreparedHandler>, PublishError> {
        let Some(stored) = self.sources.get(version).await? else { return Ok(None) };
        let (handler, bundle) = match &stored {
            StoredVersion::Js(source) => (Handler::Js { language: source.language }, Some(Arc::new(source.bundle(slug, version)))),
            StoredVersion::Static { response } => (Handler::Static(response.clone()), None),
        };
        Ok(Some(PreparedHandler { handler, version: version.to_owned(), bundle, scheduled: None, stored: Some(stored) }))
    }

    /// Returns the bundle of an endpoint. `None` for built-in handlers.
    pub(super) async fn stored_bundle(&self, endpoint: &Endpoint) -> Result<Option<Arc<Bundle>>, PublishError> {
        if endpoint.handler_type.runtime() == Runtime::ManagedBuiltin {
            return Ok(None);
        }
        match self.sources.get(&endpoint.version).await? {
            Some(StoredVersion::Js(stored)) => Ok(Some(Arc::new(stored.bundle(&endpoint.slug, &endpoint.version)))),
            Some(StoredVersion::Static { .. }) | None => {
                Err(PublishError::Corrupt(format!("the source of `{}` is missing", endpoint.slug)))
            }
        }
    }
}

//! One save: published, and then looked at by the compiler and its cases.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Map, Value, json};
use tokio::{sync::mpsc::UnboundedSender, time::timeout};
use tollhouse::config::Hidden;

use super::bench::Bench;
use crate::cli::{
    base::error::{Error, Exit, Result},
    secrets,
    tool::{
        cases,
        place::{Place, Problem},
        types::{self, Types},
        upload::Upload,
    },
    trial::{self, Tried},
};

/// How long what is published waits to be told together with what is found in it.
const TOGETHER: Duration = Duration::from_secs(1);

/// What a round comes to, step by step.
pub(super) enum Step {
    /// It serves.
    Published { upload: Arc<Upload>, record: Value, took: Duration },
    /// It is the same that serves already.
    Same { upload: Arc<Upload> },
    /// It does not: what served before goes on.
    Refused(Vec<Problem>),
    /// What is found in it takes longer.
    Late,
    /// What was found in it.
    Looked(Looked),
    /// The host broke.
    Broke(Error),
}

/// What was found.
#[derive(Debug)]
pub(super) struct Looked {
    pub(super) types: Option<std::result::Result<Types, String>>,
    pub(super) cases: Option<Tried>,
    pub(super) problem: Option<Problem>,
}

/// Who hears of it: a step, with the number of its round.
pub(super) type Tell = UnboundedSender<(u64, Step)>;

/// Publishes what the folder says, unless it is `before`, and looks at it.
pub(super) async fn run(bench: Arc<Bench>, number: u64, before: Option<Arc<Map<String, Value>>>, tell: Tell) {
    let tell = |step| tell.send((number, step)).is_ok();
    let began = Instant::now();
    let (upload, secrets) = match read(&bench).await {
        Ok(read) => read,
        Err(problems) => {
            tell(Step::Refused(problems));
            return;
        }
    };
    let upload = Arc::new(upload);
    let body = bench.body(&upload);
    if before.is_some_and(|before| *before == body) {
        tell(Step::Same { upload: Arc::clone(&upload) });
    } else {
        match publish(&bench, &body, &secrets).await {
            Ok(record) => tell(Step::Published { upload: Arc::clone(&upload), record, took: began.elapsed() }),
            Err(error) => {
                let problems = upload.problems(&error);
                tell(if problems.is_empty() { Step::Broke(error) } else { Step::Refused(problems) });
                return;
            }
        };
    }
    let looked = look(&bench, &upload, &secrets);
    tokio::pin!(looked);
    let found = match timeout(TOGETHER, &mut looked).await {
        Ok(found) => found,
        Err(_) => {
            tell(Step::Late);
            looked.await
        }
    };
    tell(match found {
        Ok(found) => Step::Looked(found),
        Err(error) => Step::Broke(error),
    });
}

type Secrets = Vec<(String, Hidden)>;

async fn read(bench: &Bench) -> std::result::Result<(Upload, Secrets), Vec<Problem>> {
    let upload = Upload::of(&bench.folder).await?;
    let (file, is_said) = match &bench.env {
        Some(file) => (file.clone(), true),
        None => (bench.folder.join(".env.dev"), false),
    };
    if !is_said && !file.is_file() {
        return Ok((upload, vec![]));
    }
    let wrong = |error: Error| vec![Problem::new("tool", Place::file(file.display().to_string()), error.message)];
    Ok((upload, secrets::in_file(&file).map_err(wrong)?))
}

async fn publish(bench: &Bench, body: &Map<String, Value>, secrets: &Secrets) -> Result<Value> {
    let record = bench.host.put(body).await?;
    let slug = record["slug"].as_str().unwrap_or_default();
    for (name, value) in secrets {
        bench.host.secret(slug, name, value.expose()).await?;
    }
    Ok(record)
}

async fn look(bench: &Bench, upload: &Upload, secrets: &Secrets) -> Result<Looked> {
    let types = async { if bench.types { Some(types::check(&upload.tool).await) } else { None } };
    let (cases, problem) = match cases::read(&bench.folder) {
        Ok(cases) => (cases, None),
        Err(problem) => (vec![], Some(problem)),
    };
    let tried = async { if cases.is_empty() { Ok(None) } else { trial::run(&bench.host, upload, &cases, secrets).await.map(Some) } };
    let (types, tried) = tokio::join!(types, tried);
    Ok(Looked { types, cases: tried?, problem })
}

/// Calls the tool with the input of its first case.
///
/// # Errors
///
/// A host that does not answer; a tool without cases.
pub(super) async fn call(bench: &Bench, slug: &str) -> Result<(String, u16, String)> {
    let cases = cases::read(&bench.folder).map_err(|problem| Error::refused(problem.to_string()))?;
    let case = cases.first().ok_or_else(|| Error::new(Exit::Usage, "there is no case to call it with: write one in cases.jsonc"))?;
    let response = bench.host.client.post(&["tools", slug]).text(case.input()).open().await?;
    let status = response.status().as_u16();
    let bytes = crate::cli::base::answer::bytes(response, 64 << 20).await?;
    Ok((case.name.clone(), status, String::from_utf8_lossy(&bytes).into_owned()))
}

impl Bench {
    /// What is published of an upload.
    pub(super) fn body(&self, upload: &Upload) -> Map<String, Value> {
        let mut body = upload.body();
        if let Some(price) = self.price {
            let most = body.get("maxPriceUsd").and_then(Value::as_f64).unwrap_or_default();
            body.insert("priceUsd".to_owned(), json!(price));
            if price.0 == 0 || most > 0.0 && most < json!(price).as_f64().unwrap_or_default() {
                body.insert("maxPriceUsd".to_owned(), json!(price));
            }
        }
        body
    }
}

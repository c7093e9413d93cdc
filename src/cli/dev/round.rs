//! A round: one save is published, then checked by the compiler and by its cases.

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use reqwest::Method;
use serde_json::{Map, Value, json};
use tokio::{sync::mpsc::UnboundedSender, time::timeout};

use super::{bench::Bench, envfile};
use crate::{
    base::error::{Error, Exit, Result},
    tool::{
        cases,
        place::{Place, Problem},
        types::{self, Types},
        upload::Upload,
    },
    trial::{self, Secret, Tried, is_away},
};

/// How long to wait before a publish is reported without its check results.
const TOGETHER: Duration = Duration::from_secs(1);

/// A step of a round.
pub(super) enum Step {
    /// It serves. `problems` lists secrets that the host refused.
    Published { upload: Arc<Upload>, record: Value, took: Duration, problems: Vec<Problem> },
    /// It is identical to what serves already.
    Same { upload: Arc<Upload> },
    /// It was refused, and the previous version keeps serving. `files` are the files that it consists of, as far as
    /// they are known.
    Refused { problems: Vec<Problem>, files: Vec<PathBuf> },
    /// The checks take longer.
    Late,
    /// The checks are complete.
    Looked(Looked),
    /// The host does not answer.
    Broke(Error),
}

/// The results of the checks.
#[derive(Debug)]
pub(super) struct Looked {
    pub(super) types: Option<std::result::Result<Types, String>>,
    pub(super) cases: Option<Tried>,
    pub(super) problem: Option<Problem>,
}

/// Receives steps, each with the number of its round.
pub(super) type Tell = UnboundedSender<(u64, Step)>;

/// Publishes the folder, unless its state serves already, and checks it.
pub(super) async fn run(bench: Arc<Bench>, number: u64, tell: Tell) {
    let tell = |step| tell.send((number, step)).is_ok();
    let began = Instant::now();
    let (upload, secrets) = match read(&bench).await {
        Ok(read) => read,
        Err(problems) => {
            tell(Step::Refused { problems, files: vec![] });
            return;
        }
    };
    let upload = Arc::new(upload);
    match publish(&bench, &upload, &secrets).await {
        Ok(Some((record, problems))) => tell(Step::Published { upload: Arc::clone(&upload), record, took: began.elapsed(), problems }),
        Ok(None) => tell(Step::Same { upload: Arc::clone(&upload) }),
        Err(error) => {
            let problems = match upload.problems(&error) {
                none if none.is_empty() => vec![Problem::new("host", Place::file("tool.json"), error.message.clone())],
                problems => problems,
            };
            tell(stopped(error, problems, &upload));
            return;
        }
    };
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
        Err(error) => {
            let problems = vec![Problem::new("cases", Place::file(cases::FILE), error.message.clone())];
            stopped(error, problems, &upload)
        }
    });
}

/// Returns the last step of a round that cannot continue. Only an unreachable host also ends later rounds.
fn stopped(error: Error, problems: Vec<Problem>, upload: &Upload) -> Step {
    if is_away(&error) { Step::Broke(error) } else { Step::Refused { problems, files: upload.files() } }
}

async fn read(bench: &Bench) -> std::result::Result<(Upload, Arc<Vec<Secret>>), Vec<Problem>> {
    let upload = Upload::of(&bench.folder).await?;
    let secrets = envfile::read(&bench.folder, bench.env.as_deref()).map_err(|problem| vec![problem])?;
    Ok((upload, Arc::new(secrets)))
}

/// Makes the host serve the folder's state. Returns the record and the problems with secrets, or `None` if it serves
/// already.
async fn publish(bench: &Bench, upload: &Upload, secrets: &Arc<Vec<Secret>>) -> Result<Option<(Value, Vec<Problem>)>> {
    let body = bench.body(upload);
    let mut known = bench.known.lock().await;
    if known.is(&body, secrets) {
        return Ok(None);
    }
    known.given = None;
    let record = bench.host.put(&body).await?;
    let slug = record["slug"].as_str().unwrap_or_default();
    for name in known.gone(secrets) {
        let asking = bench.host.client.ask(Method::DELETE, &["ai", "endpoints", slug, "secrets"]).query("name", &name);
        // A secret that was refused or belonged to another tool does not exist.
        if let Err(error) = asking.send().await
            && is_away(&error)
        {
            return Err(error);
        }
        known.names.remove(&name);
    }
    known.names.extend(secrets.iter().map(|secret| secret.name.clone()));
    let problems = trial::set(&bench.host, slug, secrets).await?;
    if problems.is_empty() {
        known.given = Some((body, Arc::clone(secrets)));
    }
    Ok(Some((record, problems)))
}

async fn look(bench: &Bench, upload: &Upload, secrets: &[Secret]) -> Result<Looked> {
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
/// A host that does not answer, or a tool without cases.
pub(super) async fn call(bench: &Bench, slug: &str) -> Result<(String, u16, String)> {
    let cases = cases::read(&bench.folder).map_err(|problem| Error::refused(problem.to_string()))?;
    let case = cases.first().ok_or_else(|| Error::new(Exit::Usage, "there is no case to call it with: write one in cases.jsonc"))?;
    let response = bench.host.client.post(&["tools", slug]).text(case.input()).open().await?;
    let status = response.status().as_u16();
    let bytes = crate::base::answer::bytes(response, 64 << 20).await?;
    Ok((case.name.clone(), status, String::from_utf8_lossy(&bytes).into_owned()))
}

impl Bench {
    /// Returns the request body for an upload.
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

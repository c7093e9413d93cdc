//! A round: one save is published, then checked by the compiler and by its cases.

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use reqwest::Method;
use serde_json::{Map, Value, json};
use tokio::{sync::mpsc::UnboundedSender, time::timeout};
use tollhouse_api::{EndpointChangeResponse, RemoveSecretResponse};

use super::workspace::Workspace;
use crate::{
    base::{Error, Exit, Result},
    envfile,
    tool::{FilePosition, Problem, TypesOutcome, Upload, cases, types},
    trial::{self, CaseResults, Secret, is_unavailable},
};

/// How long to wait before a publish is reported without its check results.
const TOGETHER: Duration = Duration::from_secs(1);

/// A step of a round.
pub(super) enum SaveStep {
    /// It serves. `problems` lists secrets that the host refused.
    Published { upload: Arc<Upload>, published: Box<EndpointChangeResponse>, elapsed: Duration, problems: Vec<Problem> },
    /// It is identical to what serves already.
    Same { upload: Arc<Upload> },
    /// It was refused, and the previous version keeps serving. `files` are the files that it consists of, as far as
    /// they are known.
    Refused { problems: Vec<Problem>, files: Vec<PathBuf> },
    /// The checks take longer.
    Late,
    /// The checks are complete.
    Checked(CheckedFolder),
    /// The host does not answer.
    HostFailed(Error),
}

/// The results of the checks.
#[derive(Debug)]
pub(super) struct CheckedFolder {
    pub(super) types: Option<std::result::Result<TypesOutcome, String>>,
    pub(super) cases: Option<CaseResults>,
    pub(super) problem: Option<Problem>,
}

/// Receives steps, each with the number of its round.
pub(super) type StepListener = UnboundedSender<(u64, SaveStep)>;

/// Publishes the folder, unless its state serves already, and checks it.
pub(super) async fn run(workspace: Arc<Workspace>, number: u64, report: StepListener) {
    let report = |step| report.send((number, step)).is_ok();
    let started = Instant::now();
    let (upload, secrets) = match read(&workspace).await {
        Ok(read) => read,
        Err(problems) => {
            report(SaveStep::Refused { problems, files: vec![] });
            return;
        }
    };
    let upload = Arc::new(upload);
    match publish(&workspace, &upload, &secrets).await {
        Ok(Some((published, problems))) => {
            let published = Box::new(published);
            report(SaveStep::Published { upload: Arc::clone(&upload), published, elapsed: started.elapsed(), problems })
        }
        Ok(None) => report(SaveStep::Same { upload: Arc::clone(&upload) }),
        Err(error) => {
            report(match upload.problems(error) {
                Ok(problems) => SaveStep::Refused { problems, files: upload.files() },
                Err(error) => stopped(error, "host", "tool.json", &upload),
            });
            return;
        }
    };
    let checked = look(&workspace, &upload, &secrets);
    tokio::pin!(checked);
    let found = match timeout(TOGETHER, &mut checked).await {
        Ok(found) => found,
        Err(_) => {
            report(SaveStep::Late);
            checked.await
        }
    };
    report(match found {
        Ok(found) => SaveStep::Checked(found),
        Err(error) => stopped(error, "cases", cases::FILE, &upload),
    });
}

/// Returns the last step of a round that cannot continue. Only an unreachable host also ends later rounds.
fn stopped(error: Error, by: &'static str, file: &str, upload: &Upload) -> SaveStep {
    if is_unavailable(&error) {
        return SaveStep::HostFailed(error);
    }
    SaveStep::Refused { problems: vec![Problem::new(by, FilePosition::file(file), error.message)], files: upload.files() }
}

async fn read(workspace: &Workspace) -> std::result::Result<(Upload, Arc<Vec<Secret>>), Vec<Problem>> {
    let upload = Upload::of(&workspace.folder).await?;
    let secrets = envfile::read(&upload, workspace.env.as_deref()).map_err(|problem| vec![problem])?;
    Ok((upload, Arc::new(secrets)))
}

/// Makes the host serve the folder's state. Returns the response and the problems with secrets, or `None` if it serves
/// already.
async fn publish(
    workspace: &Workspace,
    upload: &Upload,
    secrets: &Arc<Vec<Secret>>,
) -> Result<Option<(EndpointChangeResponse, Vec<Problem>)>> {
    let body = workspace.body(upload);
    let mut known = workspace.known.lock().await;
    if known.is(&body, secrets) {
        return Ok(None);
    }
    known.given = None;
    let published = workspace.host.put(&body).await?;
    let slug = published.endpoint.common.slug.as_str();
    for name in known.forget(secrets) {
        let asking = workspace.host.client.ask(Method::DELETE, &["ai", "endpoints", slug, "secrets"]).query("name", &name);
        // A secret that was refused or belonged to another tool does not exist.
        if let Err(error) = asking.send::<RemoveSecretResponse>().await
            && is_unavailable(&error)
        {
            return Err(error);
        }
        known.names.remove(&name);
    }
    known.names.extend(secrets.iter().map(|secret| secret.name.clone()));
    let problems = trial::set(&workspace.host, slug, secrets).await?;
    if problems.is_empty() {
        known.given = Some((body, Arc::clone(secrets)));
    }
    Ok(Some((published, problems)))
}

async fn look(workspace: &Workspace, upload: &Upload, secrets: &[Secret]) -> Result<CheckedFolder> {
    let types = async { if workspace.types { Some(types::check(&upload.tool).await) } else { None } };
    let (cases, problem) = match cases::read(&workspace.folder) {
        Ok(cases) => (cases, None),
        Err(problem) => (vec![], Some(problem)),
    };
    let tried = async { if cases.is_empty() { Ok(None) } else { trial::run(&workspace.host, upload, &cases, secrets).await.map(Some) } };
    let (types, tried) = tokio::join!(types, tried);
    Ok(CheckedFolder { types, cases: tried?, problem })
}

/// Calls the tool with the input of its first case.
///
/// # Errors
///
/// A host that does not answer, or a tool without cases.
pub(super) async fn call(workspace: &Workspace, slug: &str) -> Result<(String, u16, String)> {
    let cases = cases::read(&workspace.folder).map_err(|problem| Error::refused(problem.to_string()))?;
    let case = cases.first().ok_or_else(|| Error::new(Exit::Usage, "no case to call with; add one to cases.jsonc"))?;
    let response = workspace.host.client.post(&["tools", slug]).text(case.input()).open().await?;
    let status = response.status().as_u16();
    let bytes = crate::base::answer::bytes(response, 64 << 20).await?;
    Ok((case.name.clone(), status, String::from_utf8_lossy(&bytes).into_owned()))
}

impl Workspace {
    /// Returns the request body for an upload.
    pub(super) fn body(&self, upload: &Upload) -> Map<String, Value> {
        let mut body = upload.body();
        if let Some(price) = self.price {
            let max = body.get("maxPriceUsd").and_then(Value::as_f64).unwrap_or_default();
            body.insert("priceUsd".to_owned(), json!(price));
            if price.0 == 0 || max > 0.0 && max < json!(price).as_f64().unwrap_or_default() {
                body.insert("maxPriceUsd".to_owned(), json!(price));
            }
        }
        body
    }
}

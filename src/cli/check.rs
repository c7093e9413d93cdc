//! `tollhouse check`: checks a tool before it is published. Nothing is stored on any host.

use std::path::PathBuf;

use serde_json::json;
use tollhouse_api::{EndpointCheck, EndpointCheckResponse, EndpointPatch, SafetyAttestation};
use tollhouse_base::plural::plural;
use tollhouse_capability::{guard::DevelopmentUpstreams, secret};
use tollhouse_tool::Slug;

use super::{
    base::{Client, Error, GlobalArgs, Output, Result, Session, Style, line, short, with_hosts},
    envfile,
    local::{LocalHost, Port},
    tool::{
        Problem, TempFolder, TypesOutcome, Upload,
        cases::{self, Case},
        types, upload,
    },
    trial::{self, CaseResults, Secret},
    unset_secrets,
};

/// Arguments of `check`, and of `dev`, which checks each save.
#[derive(clap::Args)]
pub(crate) struct TrialArgs {
    /// File of secrets as `NAME=value` lines [default: .env.dev]
    #[arg(long, value_name = "FILE")]
    pub(crate) env: Option<PathBuf>,
    /// Skip the type check
    #[arg(long)]
    pub(crate) no_types: bool,
    /// Path of `tollhouse-worker` [default: beside this binary]
    #[arg(long, env = "TOLLHOUSE_WORKER")]
    pub(crate) worker: Option<PathBuf>,
}

#[derive(Default)]
struct CheckResult {
    slug: Option<Slug>,
    host: Option<(String, EndpointCheck)>,
    types: Option<TypesOutcome>,
    cases: Option<CaseResults>,
    problems: Vec<Problem>,
}

pub(crate) async fn run(global: &GlobalArgs, args: TrialArgs) -> Result {
    let folder = upload::here()?;
    let out = Output::new(global.json);
    let mut found = CheckResult::default();
    match Upload::of(&folder).await {
        Ok(upload) => {
            found.slug = Some(upload.tool.slug.clone());
            let cases = cases::read(&folder).map_err(|problem| found.problems.push(problem)).unwrap_or_default();
            let secrets = envfile::read(&upload, args.env.as_deref()).map_err(|problem| found.problems.push(problem)).unwrap_or_default();
            if !secrets.is_empty() {
                secret::keep_private().map_err(|error| Error::refused(error.to_string()))?;
            }
            let checked = async { if args.no_types { Ok(None) } else { types::check(&upload.tool).await.map(Some) } };
            let (hosts, types) = tokio::join!(ask_hosts(global, &upload, (&cases, &secrets), args.worker), checked);
            found.types = types.map_err(Error::refused)?;
            let (host, tried) = hosts?;
            match host {
                Ok((name, mut check)) => {
                    let reviewed = upload.reviewed(&check);
                    check.warnings.extend(reviewed);
                    found.host = Some((name, check));
                }
                Err(problems) => found.problems.extend(problems),
            }
            if let Some(TypesOutcome::Checked(problems)) = &mut found.types {
                found.problems.append(problems);
            }
            found.problems.extend(tried.iter().flat_map(|tried| tried.refused.iter().chain(&tried.problems).cloned()));
            found.cases = tried;
        }
        Err(problems) => found.problems = problems,
    }
    print(out, &found)?;
    match found.problems.len() {
        0 => Ok(()),
        count => Err(Error::refused(format!("{} found", plural(count, "problem")))),
    }
}

type Hosts = (std::result::Result<(String, EndpointCheck), Vec<Problem>>, Option<CaseResults>);

/// Asks the chosen host, or else a temporary local one, whether it would accept the tool. Runs the cases on the local
/// host.
async fn ask_hosts(global: &GlobalArgs, upload: &Upload, (cases, secrets): (&[Case], &[Secret]), worker: Option<PathBuf>) -> Result<Hosts> {
    let session = Session::open(global)?;
    let is_meant = session.name.is_some() || session.folder.is_some() || global.url.is_some();
    let scratch = TempFolder::new(&upload.tool.folder).map_err(Error::refused)?;
    let own = LocalHost::start(&scratch.path().join("host"), worker, Port::Preferred(0), DevelopmentUpstreams::default()).await;
    let own = match own {
        Ok(own) => Some(own),
        // Without cases, and with a host to ask, no local host is needed.
        Err(_) if is_meant && cases.is_empty() => None,
        Err(error) => return Err(error),
    };
    let request = async {
        let (message, name) = match &own {
            Some(own) if !is_meant => (ask(&own.client, upload).await, "temporary local host".to_owned()),
            _ => (ask(&session.client, upload).await, session.host()),
        };
        let tried = match &own {
            Some(own) if message.is_ok() || ask(&own.client, upload).await.is_ok() => Some(trial::run(own, upload, cases, secrets).await?),
            _ => None,
        };
        let host = match message {
            Ok(mut check) => {
                // The temporary host gets the secrets of the folder.
                if is_meant {
                    check.warnings.extend(unset_secrets::warnings(&session.client, upload, &check).await);
                }
                Ok((name, check))
            }
            Err(error) => Err(upload.problems(error)?),
        };
        Ok((host, tried.filter(|_| !cases.is_empty())))
    };
    let ended = request.await;
    if let Some(own) = own {
        own.end().await;
    }
    ended
}

/// Asks a host whether it would accept the tool.
///
/// # Errors
///
/// Everything for which it would refuse the tool.
pub(crate) async fn ask(client: &Client, upload: &Upload) -> Result<EndpointCheck> {
    let mut body = upload.body();
    // A check is not an upload, so nobody needs to attest the content.
    upload::extend(&mut body, &EndpointPatch { safety_attestation: Some(SafetyAttestation::accepted()), ..EndpointPatch::default() });
    let mut check = client.post(&["ai", "endpoints", "check"]).upload(&body).send::<EndpointCheckResponse>().await?.body.check;
    check.warnings = check.warnings.iter().map(|warning| upload.warning(warning)).collect();
    Ok(check)
}

fn print(out: Output, found: &CheckResult) -> Result {
    let types = match &found.types {
        None => "not requested".to_owned(),
        Some(TypesOutcome::Unchecked(reason)) => format!("not checked: {reason}"),
        Some(TypesOutcome::Checked(_)) => {
            let wrong = found.problems.iter().filter(|problem| problem.by == "types").count();
            if wrong == 0 { "ok".to_owned() } else { plural(wrong, "error") }
        }
    };
    let check = found.host.as_ref().map(|(_, check)| check);
    if out.json {
        let cases = found.cases.as_ref().map(|tried| json!({ "passed": tried.passed, "failed": tried.problems.len() }));
        return out.document(&json!({
            "ok": found.problems.is_empty(),
            "slug": found.slug,
            "host": found.host.as_ref().map(|(name, _)| name),
            "check": check,
            "types": types,
            "cases": cases,
            "problems": found.problems,
        }));
    }
    let mut message = String::new();
    for problem in &found.problems {
        message += &format!("{}\n", out.paint(Style::Failure, &problem.to_string()));
    }
    if let (Some(slug), Some((name, check))) = (&found.slug, &found.host) {
        message += &format!("{slug}   {}\n", short(&check.version));
        message += &format!("host    {}  {name}\n", if check.needs_review { "an admin would review it first" } else { "ok" });
        let asks = with_hosts(&check.requested.capabilities, &check.requested.hosts);
        if !asks.is_empty() {
            message += &format!("        needs approval: {}\n", line(&asks));
        }
        for warning in &check.warnings {
            message += &format!("        {}\n", out.paint(Style::Warning, &line(warning)));
        }
    }
    if found.slug.is_some() {
        message += &format!("types   {types}\n");
        message += &format!("cases   {}\n", found.cases.as_ref().map_or("none".to_owned(), CaseResults::summary));
    }
    out.text(&message)
}

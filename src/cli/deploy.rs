//! `tollhouse deploy`: shows what would change, and publishes it as a single update of the state that was read, or not
//! at all.

use std::{path::Path, time::Instant};

use reqwest::Method;
use serde_json::{Value, json};
use tollhouse_tool::Slug;

use super::{
    base::{
        address::host_name,
        changed::short,
        client::CredentialChoice,
        error::{Error, Result},
        global::Role,
        prompt,
        sanitize::line,
        session::Session,
        text::{granted, list, text},
        tool_state::{Folder, State},
    },
    check,
    plan::{Baseline, Plan, RemoteEndpoint, conflict, count, lines},
    tool::upload::{self, Upload},
};

/// Arguments of `deploy`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Do not ask whether to publish
    #[arg(long)]
    yes: bool,
    /// It is yours to publish, has no secrets, no private data, nothing illegal
    #[arg(long)]
    attest: bool,
    /// Onto this revision of the host's: what changed there since the folder was published stays
    #[arg(long, value_name = "REV")]
    onto: Option<u64>,
    /// What to say of this version, to yourself and to admins
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// Show the plan, and publish nothing
    #[arg(long)]
    dry_run: bool,
}

const ATTEST: &str = "publish, and attest that it is yours to publish and has no secrets, no private data and nothing illegal?";

/// The inputs and the result of a plan.
pub(crate) struct PlanParts {
    pub(crate) upload: Upload,
    pub(crate) there: Option<RemoteEndpoint>,
    /// The host's check of the upload.
    pub(crate) check: Value,
    pub(crate) plan: Plan,
    /// The handler sources before and after, if they differ.
    pub(crate) sources: Option<(String, String)>,
}

pub(crate) async fn run(session: &Session, args: Args) -> Result {
    let upload = Upload::of(&upload::here()?).await.map_err(|problems| upload::refused(&problems))?;
    let (slug, folder) = (upload.tool.slug.clone(), upload.tool.folder.clone());
    let there = RemoteEndpoint::read(session, &slug).await?;
    let known = known(session, &folder, &slug)?;
    let onto = match (&there, known, args.onto) {
        (None, _, _) => None,
        (Some(there), Some(known), None) if known == there.revision => Some(known),
        (Some(there), _, Some(onto)) if onto == there.revision => Some(onto),
        (Some(there), None, None) => return Err(unknown_tool(session, &slug, there)),
        (Some(there), known, onto) => {
            let since = onto.or(known).unwrap_or_default();
            return Err(conflict(session, &slug, since, Baseline::read(&folder, since).as_ref(), there).await);
        }
    };
    let base = known.and_then(|known| Baseline::read(&folder, known));
    let compared = compare(session, upload, there, base).await?;
    let role = session.client.credential(CredentialChoice::Manager)?.map(|(role, _)| role);
    show(session, &compared, role).await?;
    if compared.plan.is_empty() && compared.there.is_some() {
        session.out.note("nothing to publish: the host has what this folder says");
        if let Some(there) = &compared.there {
            note(session, &compared, there)?;
        }
        return document(session, &compared, json!({ "published": false }));
    }
    if args.dry_run {
        session.out.note("nothing was published.");
        return document(session, &compared, json!({ "published": false, "dryRun": true }));
    }
    let vouches = role != Some(Role::Admin) && (compared.there.is_none() || compared.plan.is_vouched_for());
    agree(&args, vouches)?;
    let mut body = if compared.there.is_some() { compared.plan.patch(&compared.upload) } else { compared.upload.body() };
    if vouches {
        body.insert("safetyAttestation".to_owned(), json!({ "accepted": true }));
    }
    if let Some(note) = &args.note {
        body.insert("note".to_owned(), json!(note));
    }
    publish(session, &compared, body, onto).await
}

/// Returns the revision that this folder was published as, or pulled from, on the session's host.
pub(crate) fn known(session: &Session, folder: &Path, slug: &Slug) -> Result<Option<u64>> {
    let state = Folder::at(folder)?.map(|found| found.state);
    Ok(state.filter(|state| state.slug == *slug && host_name(&state.host) == host_name(session.client.base())).map(|state| state.revision))
}

/// Returns the error for a tool that this folder never was.
fn unknown_tool(session: &Session, slug: &Slug, there: &RemoteEndpoint) -> Error {
    let error = Error::refused(format!(
        "{slug} is on {} already, at revision {}, and this folder was not published there",
        session.host(),
        there.revision
    ));
    error.ending(format!(
        "nothing was published.  look: tollhouse diff   take theirs: tollhouse pull   publish over it: --onto {}",
        there.revision
    ))
}

/// Compares a folder with the tool on the host.
///
/// # Errors
///
/// The host's refusal of the upload.
pub(crate) async fn compare(session: &Session, upload: Upload, there: Option<RemoteEndpoint>, base: Option<Baseline>) -> Result<PlanParts> {
    let source = async {
        match &there {
            Some(there) => there.source(session).await,
            None => Ok(Value::Null),
        }
    };
    let (checked, source) = tokio::join!(check::ask(&session.client, &upload), source);
    let check = checked.map_err(|error| match upload.problems(&error) {
        none if none.is_empty() => error,
        problems => upload::refused(&problems),
    })?;
    let mut plan = Plan::of(&upload, text(&check, "version"), there.as_ref(), base.as_ref());
    if let (Some(there), Some(kind)) = (&there, upload.tool.body.get("handlerType"))
        && there.record["handlerType"] != *kind
    {
        let was = text(&there.record, "handlerType");
        return Err(Error::refused(format!("{} is a `{was}`, and stays one", upload.tool.slug))
            .hint("take another slug in tool.json, or delete it before"));
    }
    let mut sources = None;
    if let Some(handler) = &mut plan.handler {
        let (before, after) = (written(&source?), written(&upload.handler()));
        handler.lines = count(&before, &after);
        sources = Some((before, after));
    }
    Ok(PlanParts { upload, there, check, plan, sources })
}

/// Returns a handler as text. A static response is already text.
fn written(handler: &Value) -> String {
    match (handler["source"].as_str(), handler["response"].as_str()) {
        (Some(source), _) => source.to_owned(),
        (None, None) => String::new(),
        (None, Some(response)) => super::tool::scaffold::pretty_text(response),
    }
}

async fn show(session: &Session, compared: &PlanParts, role: Option<Role>) -> Result {
    if session.out.json {
        return Ok(());
    }
    let manifest = if role == Some(Role::Builder) {
        session.client.get(&["ai", "manifest"]).by(CredentialChoice::Everyone).send().await.ok()
    } else {
        None
    };
    let fee = manifest.and_then(|manifest| manifest.body["builders"]["feeBps"].as_u64());
    let mut facts = vec![];
    facts.extend(session.name.as_ref().map(|name| format!("profile {name}")));
    let owner = |there: &RemoteEndpoint| match role {
        Some(Role::Builder) => "yours".to_owned(),
        Some(_) | None => {
            let name = text(&there.record, "builder.name");
            if name.is_empty() { text(&there.record, "owner").to_owned() } else { name.to_owned() }
        }
    };
    facts.extend(compared.there.as_ref().map(owner));
    facts.push(compared.there.as_ref().map_or_else(|| "new".to_owned(), |there| format!("revision {}", there.revision)));
    let slug = &compared.upload.tool.slug;
    let mut shown = format!(
        "{slug} → {}  ({})\n{}",
        host_name(session.client.base()),
        line(&facts.join(", ")),
        lines(&compared.plan.rows(&compared.check, fee))
    );
    for stored in compared.plan.unchanged_rows() {
        shown += &format!("  kept          {stored}\n");
    }
    if compared.check["needsReview"] == true {
        shown += "  an admin looks at it before it takes calls\n";
    }
    for warning in list(&compared.check, "warnings").filter_map(Value::as_str) {
        shown += &format!("  warning       {}\n", line(warning));
    }
    session.out.text(&shown)
}

fn agree(args: &Args, vouches: bool) -> Result {
    let question = if vouches { ATTEST } else { "publish?" };
    let flags = match (args.yes, vouches) {
        (true, true) => "--attest",
        (false, true) => "--yes --attest",
        (_, false) => "--yes",
    };
    if args.yes && (args.attest || !vouches) {
        return Ok(());
    }
    if prompt::confirm(question, flags)? { Ok(()) } else { Err(Error::refused("nothing was published")) }
}

async fn publish(session: &Session, compared: &PlanParts, body: serde_json::Map<String, Value>, onto: Option<u64>) -> Result {
    let slug = &compared.upload.tool.slug;
    let started = Instant::now();
    let asking = match &compared.there {
        Some(_) => session.client.ask(Method::PATCH, &["ai", "endpoints", slug.as_str()]).if_match(onto),
        None => session.client.post(&["ai", "endpoints", "create"]),
    };
    let mut answer = match asking.upload(&body).send().await {
        Ok(answer) => answer,
        Err(error) if error.code() == "revision_changed" => {
            let now = RemoteEndpoint::read(session, slug).await?.ok_or(error)?;
            let before = compared.there.as_ref().map(|there| there.base(there.fields.clone()));
            return Err(conflict(session, slug, onto.unwrap_or_default(), before.as_ref(), &now).await);
        }
        Err(error) => {
            let problems = compared.upload.problems(&error);
            return Err(if problems.is_empty() { error } else { upload::refused(&problems) });
        }
    };
    let elapsed = started.elapsed().as_millis();
    let there = RemoteEndpoint::of(answer.body["endpoint"].take());
    // Report the host's new state even if the folder's state cannot be written.
    let noted = note(session, compared, &there);
    let waiting = waiting(&there.record);
    let reported = if session.out.json {
        let ended = json!({ "published": true, "revision": there.revision, "version": there.record["version"], "url": there.record["url"], "waiting": waiting, "tookMs": u64::try_from(elapsed).unwrap_or(u64::MAX) });
        document(session, compared, ended)
    } else {
        let waits = if waiting.is_empty() { String::new() } else { format!("   waiting for an admin: {}", line(&waiting)) };
        let version = short(text(&there.record, "version"));
        let url = line(text(&there.record, "url"));
        session.out.text(&format!("published {version}, revision {}, in {elapsed} ms{waits}\n{url}\n", there.revision))
    };
    let is_published = format!("revision {} is published all the same, and this folder does not know it", there.revision);
    let again = format!("once it can be written: tollhouse deploy --onto {}", there.revision);
    noted.map_err(|error| error.more([is_published]).hint(again))?;
    reported
}

/// Lists what waits for an admin.
fn waiting(record: &Value) -> String {
    let mut waits = vec![];
    if matches!(text(record, "review.state"), "held" | "review" | "pending" | "in_review") {
        waits.push("the tool itself".to_owned());
    }
    waits.push(granted(record, "requestedCapabilities"));
    let capabilities = waits.last().is_some_and(|names| !names.is_empty());
    if !capabilities {
        waits.extend(list(record, "requestedHosts").filter_map(Value::as_str).map(str::to_owned));
    }
    waits.retain(|name| !name.is_empty());
    waits.join(", ")
}

/// Records the tool's state on the host in the folder.
fn note(session: &Session, compared: &PlanParts, there: &RemoteEndpoint) -> Result {
    let tool = &compared.upload.tool;
    Folder::note(&tool.folder, &State { slug: tool.slug.clone(), host: session.client.base().clone(), revision: there.revision })?;
    let mut base = there.base(compared.plan.base_fields(there));
    // If the host's handler is kept, the folder's handler is still based on its own version.
    if compared.plan.keeps_handler {
        base.version = text(&compared.check, "version").to_owned();
    }
    base.write(&tool.folder);
    if let Some(bundle) = &compared.upload.bundle {
        bundle.map.keep(&tool.folder, text(&compared.check, "version"));
    }
    Ok(())
}

/// Prints the complete result for programs.
fn document(session: &Session, compared: &PlanParts, ended: Value) -> Result {
    if !session.out.json {
        return Ok(());
    }
    let changes: Vec<_> = compared
        .plan
        .changes
        .iter()
        .map(|change| json!({ "field": change.field, "before": change.before, "after": change.after }))
        .collect();
    let handler =
        compared.plan.handler.as_ref().map(
            |handler| json!({ "before": handler.before, "after": handler.after, "added": handler.lines.0, "removed": handler.lines.1 }),
        );
    let mut document = json!({
        "ok": true,
        "slug": compared.upload.tool.slug,
        "host": host_name(session.client.base()),
        "onto": compared.there.as_ref().map(|there| there.revision),
        "handler": handler,
        "changes": changes,
        "kept": compared.plan.unchanged_rows(),
        "check": compared.check,
    });
    if let (Some(document), Value::Object(ended)) = (document.as_object_mut(), ended) {
        document.extend(ended);
    }
    session.out.document(&document)
}

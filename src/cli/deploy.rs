//! `tollhouse deploy`: shows what would change, and publishes it as a single update of the state that was read, or not
//! at all.

use std::{path::Path, time::Instant};

use reqwest::Method;
use serde_json::{Map, Value, json};
use tollhouse_api::{EndpointChangeResponse, EndpointCheck, EndpointPatch, Manifest, OwnEndpoint, ReviewState, SafetyAttestation};
use tollhouse_base::diff;
use tollhouse_tool::{Slug, StaticResponse, Status};

use super::{
    base::{CredentialChoice, Error, Folder, Result, Role, Session, State, granted, host_name, line, prompt, short},
    check,
    plan::{Baseline, Plan, RemoteEndpoint, conflict, lines},
    tool::{
        Upload,
        scaffold::{NEW_DESCRIPTION, pretty_text},
        upload,
    },
    unset_secrets,
};

/// Arguments of `deploy`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Publish without confirmation
    #[arg(long)]
    yes: bool,
    /// Attest: it is yours, legal, with no secrets or private data
    #[arg(long)]
    attest: bool,
    /// Pause a tool that takes calls until an admin approves it
    #[arg(long)]
    allow_pause: bool,
    /// Publish over this revision, keeping its other changes
    #[arg(long, value_name = "REV")]
    onto: Option<u64>,
    /// Note about this version, for yourself and admins
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// Show the plan, and publish nothing
    #[arg(long)]
    dry_run: bool,
}

const ATTEST: &str = "attest that the content is yours to publish, legal, and has no secrets or private data";

/// The inputs and the result of a plan.
pub(crate) struct PlanParts {
    pub(crate) upload: Upload,
    pub(crate) there: Option<RemoteEndpoint>,
    /// The host's check of the upload.
    pub(crate) check: EndpointCheck,
    pub(crate) plan: Plan,
    /// The handler sources before and after, if they differ.
    pub(crate) sources: Option<(String, String)>,
}

impl PlanParts {
    /// Returns whether publishing pauses a tool that takes calls, because an admin has to approve the new content.
    fn pauses(&self) -> bool {
        self.waits() && self.there.as_ref().is_some_and(|there| there.record.common.status == Status::Active)
    }

    /// Returns whether an admin has to approve what is published. Fields without content need no approval.
    fn waits(&self) -> bool {
        self.check.needs_review && (self.there.is_none() || self.plan.is_vouched_for())
    }
}

pub(crate) async fn run(session: &Session, args: Args) -> Result {
    let upload = Upload::of(&upload::here()?).await.map_err(|problems| upload::refused(&problems))?;
    let (slug, folder) = (upload.tool.slug.clone(), upload.tool.folder.clone());
    let there = RemoteEndpoint::read(session, &slug).await?;
    let known = known(session, &folder, &slug)?;
    let base = known.and_then(|known| Baseline::read(&folder, known));
    let is_unaffected =
        |there: &RemoteEndpoint| base.as_ref().is_some_and(|base| base.changed_on_host(there, &upload.tool.body).is_empty());
    let onto = match (&there, known, args.onto) {
        (None, _, _) => None,
        // An admin's decision, for example, changes the revision and nothing that the folder has.
        (Some(there), Some(known), None) if known == there.revision() || is_unaffected(there) => Some(there.revision()),
        (Some(there), _, Some(onto)) if onto == there.revision() => Some(onto),
        (Some(there), None, None) => return Err(unknown_tool(session, &slug, there)),
        (Some(there), known, onto) => {
            let since = onto.or(known).unwrap_or_default();
            return Err(conflict(session, &slug, since, Baseline::read(&folder, since).as_ref(), there).await);
        }
    };
    let mut compared = compare(session, upload, there, base).await?;
    if compared.plan.changes.iter().any(|change| change.field == "description" && change.after == NEW_DESCRIPTION) {
        compared.check.warnings.push("the description is that of a new tool: say in `tool.json` what yours does".to_owned());
    }
    let unset = unset_secrets::warnings(&session.client, &compared.upload, &compared.check).await;
    compared.check.warnings.extend(unset);
    let role = session.client.credential(CredentialChoice::Manager)?.map(|(role, _)| role);
    show(session, &compared, role).await?;
    if compared.plan.is_empty() && compared.there.is_some() {
        let is_paused = compared.there.as_ref().is_some_and(|there| is_paused(&there.record));
        let paused = if is_paused { ", and the tool is paused" } else { "" };
        session.out.note(&format!("nothing to publish: the host is up to date{paused}"));
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
    confirm(&args, vouches, compared.pauses().then_some(&slug))?;
    let mut body = if compared.there.is_some() { compared.plan.patch(&compared.upload) } else { compared.upload.body() };
    let safety_attestation = vouches.then(SafetyAttestation::accepted);
    upload::extend(&mut body, &EndpointPatch { safety_attestation, note: args.note, ..EndpointPatch::default() });
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
        "`{slug}` already exists on {}, at revision {}, but was not published from this folder",
        session.host(),
        there.revision()
    ));
    error.ending(format!(
        "nothing was published.  compare: tollhouse diff   use theirs: tollhouse pull   publish over it: --onto {}",
        there.revision()
    ))
}

/// Compares a folder with the tool on the host.
pub(crate) async fn compare(session: &Session, upload: Upload, there: Option<RemoteEndpoint>, base: Option<Baseline>) -> Result<PlanParts> {
    let source = async {
        match &there {
            Some(there) => there.source(session).await,
            None => Ok(None),
        }
    };
    let (checked, source) = tokio::join!(check::ask(&session.client, &upload), source);
    let check = checked.map_err(|error| upload::explained(&upload, error))?;
    let mut plan = Plan::of(&upload, &check.version, there.as_ref(), base.as_ref());
    if let (Some(there), Some(kind)) = (&there, upload.tool.body.get("handlerType"))
        && let was = json!(there.record.common.handler_type)
        && was != *kind
    {
        return Err(Error::refused(format!("`{}` is a `{}`; its kind cannot change", upload.tool.slug, was.as_str().unwrap_or_default()))
            .hint("use another slug in tool.json, or delete the tool first"));
    }
    let mut sources = None;
    if let Some(handler) = &mut plan.handler {
        let source = match source {
            // A new source replaces the one that the host has lost.
            Err(error) if error.code() == "source_unavailable" => {
                session.out.note("the host cannot read the tool's current source, so all lines of the new one count as added");
                None
            }
            read => read?,
        };
        let before = source.map(|handler| written(handler.source, handler.response.as_ref().map(StaticResponse::text))).unwrap_or_default();
        let after =
            upload.handler().map(|handler| written(handler.source, handler.response.as_ref().and_then(Value::as_str))).unwrap_or_default();
        (handler.added, handler.removed) = diff::count(&before, &after);
        sources = Some((before, after));
    }
    Ok(PlanParts { upload, there, check, plan, sources })
}

/// Returns a handler as text: its source, or the JSON text of its static response.
fn written(source: Option<String>, response: Option<&str>) -> String {
    source.or_else(|| response.map(pretty_text)).unwrap_or_default()
}

async fn show(session: &Session, compared: &PlanParts, role: Option<Role>) -> Result {
    if session.out.json {
        return Ok(());
    }
    let fee = if role == Some(Role::Builder) {
        let manifest = session.client.get(&["ai", "manifest"]).by(CredentialChoice::Everyone).send::<Manifest>().await;
        manifest.ok().map(|manifest| manifest.body.builders.fee_bps)
    } else {
        None
    };
    let mut facts = vec![];
    facts.extend(session.name.as_ref().map(|name| format!("profile {name}")));
    match &compared.there {
        Some(there) => {
            facts.push(if role == Some(Role::Builder) { "yours".to_owned() } else { there.record.owner.clone() });
            facts.push(format!("revision {}", there.revision()));
        }
        None => facts.push("new".to_owned()),
    }
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
    if compared.pauses() {
        shown += &format!(
            "  warning       this pauses {slug}: its calls get 409 endpoint_paused until an admin approves it, or you roll back\n"
        );
    } else if compared.waits() {
        shown += "  an admin reviews it before it takes calls\n";
    }
    if compared.waits() {
        for reviewed in compared.upload.reviewed(&compared.check) {
            shown += &format!("  warning       {}\n", line(&reviewed));
        }
    }
    for warning in &compared.check.warnings {
        shown += &format!("  warning       {}\n", line(warning));
    }
    session.out.text(&shown)
}

/// Asks for what the flags have not confirmed. `paused` is the tool that publishing pauses.
fn confirm(args: &Args, vouches: bool, paused: Option<&Slug>) -> Result {
    let given = [("--yes", true, args.yes), ("--attest", vouches, args.attest), ("--allow-pause", paused.is_some(), args.allow_pause)];
    let missing: Vec<_> = given.into_iter().filter(|(_, is_needed, is_given)| *is_needed && !is_given).map(|(flag, ..)| flag).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let pause = paused.map(|slug| format!("pause {slug} until an admin approves it"));
    let question = match (pause, vouches) {
        (Some(pause), true) => format!("publish, {pause}, and {ATTEST}?"),
        (Some(pause), false) => format!("publish, and {pause}?"),
        (None, true) => format!("publish, and {ATTEST}?"),
        (None, false) => "publish?".to_owned(),
    };
    if prompt::confirm(&question, &missing.join(" "))? { Ok(()) } else { Err(Error::refused("nothing was published")) }
}

async fn publish(session: &Session, compared: &PlanParts, body: Map<String, Value>, onto: Option<u64>) -> Result {
    let slug = &compared.upload.tool.slug;
    let started = Instant::now();
    let asking = match &compared.there {
        Some(_) => session.client.ask(Method::PATCH, &["ai", "endpoints", slug.as_str()]).if_match(onto),
        None => session.client.post(&["ai", "endpoints", "create"]),
    };
    let answer: EndpointChangeResponse = match asking.upload(&body).send().await {
        Ok(answer) => answer.body,
        Err(error) if error.code() == "revision_changed" => {
            let now = RemoteEndpoint::read(session, slug).await?.ok_or(error)?;
            let before = compared.there.as_ref().map(|there| there.base(there.fields.clone()));
            return Err(conflict(session, slug, onto.unwrap_or_default(), before.as_ref(), &now).await);
        }
        Err(error) => return Err(upload::explained(&compared.upload, error)),
    };
    let elapsed = started.elapsed().as_millis();
    let there = RemoteEndpoint::of(answer.endpoint);
    // Report the host's new state even if the folder's state cannot be written.
    let noted = note(session, compared, &there);
    let waiting = waiting(&there.record);
    let reported = if session.out.json {
        let ended = json!({ "published": true, "revision": there.revision(), "version": there.record.version, "url": there.record.common.url, "waiting": waiting, "tookMs": u64::try_from(elapsed).unwrap_or(u64::MAX) });
        document(session, compared, ended)
    } else {
        let waits = if waiting.is_empty() { String::new() } else { format!("   waiting for an admin: {}", line(&waiting)) };
        let paused = if is_paused(&there.record) { "   paused; to sell it: tollhouse resume" } else { "" };
        let version = short(&there.record.version);
        let url = line(&there.record.common.url);
        session.out.text(&format!("published {version}, revision {}, in {elapsed} ms{waits}{paused}\n{url}\n", there.revision()))
    };
    let is_published = format!("revision {} was published, but could not be stored in this folder", there.revision());
    let again = format!("when the folder is writable again: tollhouse deploy --onto {}", there.revision());
    noted.map_err(|error| error.more([is_published]).hint(again))?;
    reported
}

/// Returns whether an admin holds the tool back.
fn is_held(record: &OwnEndpoint) -> bool {
    matches!(record.review.state, ReviewState::ContentReview | ReviewState::ContentBlocked)
}

/// Returns whether the tool takes no calls because its owner paused it.
fn is_paused(record: &OwnEndpoint) -> bool {
    record.common.status == Status::Paused && !is_held(record)
}

/// Lists what waits for an admin.
fn waiting(record: &OwnEndpoint) -> String {
    let mut waits: Vec<_> = is_held(record).then(|| "the tool itself".to_owned()).into_iter().collect();
    match granted(&record.requested_capabilities) {
        nothing if nothing.is_empty() => waits.extend(record.requested_hosts.iter().cloned()),
        names => waits.push(names),
    }
    waits.join(", ")
}

/// Records the tool's state on the host in the folder.
fn note(session: &Session, compared: &PlanParts, there: &RemoteEndpoint) -> Result {
    let tool = &compared.upload.tool;
    Folder::note(&tool.folder, &State { slug: tool.slug.clone(), host: session.client.base().clone(), revision: there.revision() })?;
    let mut base = there.base(compared.plan.base_fields(there));
    // If the host's handler is kept, the folder's handler is still based on its own version.
    if compared.plan.keeps_handler {
        base.version = compared.check.version.clone();
    }
    base.kept = compared.plan.kept(there);
    base.write(&tool.folder);
    if let Some(bundle) = &compared.upload.bundle {
        bundle.map.keep(&tool.folder, &compared.check.version);
    }
    Ok(())
}

/// Prints the complete result for programs.
fn document(session: &Session, compared: &PlanParts, ended: Value) -> Result {
    if !session.out.json {
        return Ok(());
    }
    let mut document = json!({
        "ok": true,
        "slug": compared.upload.tool.slug,
        "host": host_name(session.client.base()),
        "onto": compared.there.as_ref().map(|there| there.revision()),
        "handler": compared.plan.handler,
        "changes": compared.plan.changes,
        "kept": compared.plan.unchanged_rows(),
        "pauses": compared.pauses(),
        "check": compared.check,
    });
    if let (Some(document), Value::Object(ended)) = (document.as_object_mut(), ended) {
        document.extend(ended);
    }
    session.out.document(&document)
}

//! `tollhouse diff`: shows the differences between the folder and the host.

use serde_json::json;
use tollhouse_base::diff;

use super::{
    base::{Error, Result, Session, host_name, short},
    deploy::{PlanParts, compare},
    plan::{RemoteEndpoint, lines},
    tool::{Upload, upload},
};

pub(crate) async fn run(session: &Session) -> Result {
    let upload = Upload::of(&upload::here()?).await.map_err(|problems| upload::refused(&problems))?;
    let slug = upload.tool.slug.clone();
    let there = RemoteEndpoint::read(session, &slug).await?;
    let there =
        there.ok_or_else(|| Error::refused(format!("`{slug}` is not on {}", session.host())).hint("publish it: tollhouse deploy"))?;
    // Compare everything, regardless of the author.
    let compared = compare(session, upload, Some(there), None).await?;
    let unified = unified(&compared);
    let PlanParts { there, plan, check, .. } = &compared;
    let revision = there.as_ref().map(RemoteEndpoint::revision);
    if session.out.json {
        let changes: Vec<_> =
            plan.changes.iter().map(|change| json!({ "field": change.field, "host": change.before, "folder": change.after })).collect();
        return session.out.document(&json!({ "ok": true, "slug": slug, "revision": revision, "changes": changes, "handler": unified }));
    }
    if plan.is_empty() {
        session.out.note(&format!(
            "{slug} on {} is the same as this folder, revision {}",
            host_name(session.client.base()),
            revision.unwrap_or_default()
        ));
        return Ok(());
    }
    let head = format!("{slug} on {} (revision {}) → this folder\n", host_name(session.client.base()), revision.unwrap_or_default());
    session.out.text(&format!("{head}{}", lines(&plan.rows(check, None))))?;
    unified.map_or(Ok(()), |unified| session.out.copy(&unified))
}

/// Formats the difference of the handlers as a unified diff.
fn unified(compared: &PlanParts) -> Option<String> {
    let (before, after) = compared.sources.as_ref()?;
    let file = compared.upload.published_file();
    let file = file.as_str();
    let revision = compared.there.as_ref().map_or(0, RemoteEndpoint::revision);
    let version = compared.there.as_ref().map(|there| short(&there.record.version)).unwrap_or_default();
    Some(diff::unified(before, after, (&format!("{file} (revision {revision}, {version})"), file)))
}

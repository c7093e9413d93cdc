//! `tollhouse pull`: copies a tool from the host into the folder. It asks before it overwrites local changes.

use std::{env, fs, path::PathBuf};

use serde_json::json;
use tollhouse_api::UploadedHandler;
use tollhouse_catalog::{response_hash, seed_tools::HANDLERS};
use tollhouse_protocol::Language;
use tollhouse_tool::{Slug, StaticResponse};

use super::{
    base::{Error, Folder, Result, Session, State, host_name, line, prompt},
    deploy::known,
    plan::{Baseline, RemoteEndpoint},
    tool::{
        Code, Tool, Upload,
        changes::{self, FIELDS},
        edit, scaffold, source_map,
        upload::refused,
    },
};

/// Arguments of `pull`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Tool, if the folder has none [default: the folder's]
    slug: Option<Slug>,
    /// Overwrite local changes without confirmation
    #[arg(long)]
    yes: bool,
}

struct FileWrite {
    name: String,
    text: String,
    /// Whether the local file was changed since it was last published or pulled.
    is_over: bool,
}

pub(crate) async fn run(session: &Session, args: Args) -> Result {
    let here = env::current_dir()?;
    let folder = here.ancestors().find(|folder| folder.join("tool.json").is_file()).map(PathBuf::from);
    let tool = match &folder {
        Some(folder) => Some(Tool::read(folder).map_err(|problems| refused(&problems))?),
        None => None,
    };
    let slug = match (&tool, args.slug) {
        (Some(tool), Some(named)) if tool.slug != named => {
            return Err(Error::usage(format!("this folder belongs to {}, not to {named}", tool.slug)).hint("use an empty folder"));
        }
        (Some(tool), _) => tool.slug.clone(),
        (None, Some(named)) => named,
        (None, None) => return Err(Error::usage("this is not the folder of a tool").hint("copy a tool into it: tollhouse pull SLUG")),
    };
    let folder = folder.unwrap_or(here);
    let there =
        RemoteEndpoint::read(session, &slug).await?.ok_or_else(|| Error::refused(format!("`{slug}` is not on {}", session.host())))?;
    let handler = there.source(session).await?;
    let known = known(session, &folder, &slug)?;
    let before = Folder::at(&folder)?.map(|found| found.state).filter(|_| known.is_none());
    let base = known.and_then(|known| Baseline::read(&folder, known));
    let mut writes = vec![];
    if let Some(write) = tool_json(&tool, &there, base.as_ref()) {
        writes.push(write);
    }
    let (write, aside) = source(&tool, &folder, &there, handler.as_ref(), base.as_ref()).await?;
    writes.extend(write);
    let over: Vec<_> = writes.iter().filter(|write| write.is_over).map(|write| write.name.clone()).collect();
    if !over.is_empty() && !args.yes {
        let what = if known.is_some() { "the local changes in" } else { "the existing" };
        prompt::require_confirmation(&format!("overwrite {what} {}?", line(&over.join(", "))), "--yes")?;
    }
    for write in &writes {
        fs::write(folder.join(&write.name), &write.text)?;
    }
    if tool.is_none() {
        let is_js = handler.is_some_and(|handler| handler.language == Some(Language::Js));
        let started = scaffold::new(&slug, if is_js { "js" } else { "ts" })
            .into_iter()
            .filter(|file| !matches!(file.name, "tool.json" | "handler.ts" | "handler.js" | "cases.jsonc"));
        scaffold::write(&folder, started.collect(), false)?;
    }
    Folder::note(&folder, &State { slug: slug.clone(), host: session.client.base().clone(), revision: there.revision() })?;
    there.base(there.fields.clone()).write(&folder);
    // The folder now belongs to the host that it was pulled from, and later commands in it use that host.
    if let Some(before) = before {
        let was = format!("{} on {}", before.slug, host_name(&before.host));
        session.out.note(&format!("this folder belonged to {was}; it now belongs to {slug} on {}", session.host()));
    }
    if let Some(aside) = &aside {
        session.out.note(aside);
    }
    let names: Vec<_> = writes.iter().map(|write| write.name.clone()).collect();
    let answer = json!({ "ok": true, "slug": slug, "revision": there.revision(), "written": names, "remark": aside });
    session.out.print(&answer, |_| match &names[..] {
        [] => format!("{slug} is up to date, revision {}\n", there.revision()),
        names => format!("{} updated from revision {} of {slug}\n", line(&names.join(", ")), there.revision()),
    })
}

/// Returns `tool.json` with the host's values, if they differ.
fn tool_json(tool: &Option<Tool>, there: &RemoteEndpoint, base: Option<&Baseline>) -> Option<FileWrite> {
    let name = "tool.json".to_owned();
    let slug = ("slug".to_owned(), json!(there.record.common.slug));
    let Some(tool) = tool else {
        let message = FIELDS.into_iter().map(|field| (field.to_owned(), there.fields[field].clone()));
        let message = message.filter(|(field, value)| !value.is_null() && *value != changes::default(field));
        return Some(FileWrite { name, text: edit::new(&std::iter::once(slug).chain(message).collect::<Vec<_>>()), is_over: false });
    };
    let here = |field: &str| tool.body.get(field).map_or_else(|| changes::default(field), |value| changes::plain(field, value));
    let others = FIELDS.into_iter().map(|field| (field.to_owned(), there.fields[field].clone()));
    let others: Vec<_> = others.filter(|(field, value)| !value.is_null() && *value != here(field)).collect();
    let was = |field: &str| base.and_then(|base| base.fields.get(field).cloned());
    let is_over = others.iter().any(|(field, _)| was(field).is_none_or(|was| was != here(field)));
    (!others.is_empty()).then(|| FileWrite { name, text: edit::with(&tool.text, &others), is_over })
}

/// Returns the handler, if it differs, and a remark if it cannot be written to its own file.
///
/// # Errors
///
/// The folder would have two handlers.
async fn source(
    tool: &Option<Tool>,
    folder: &std::path::Path,
    there: &RemoteEndpoint,
    handler: Option<&UploadedHandler>,
    base: Option<&Baseline>,
) -> Result<(Option<FileWrite>, Option<String>)> {
    let response = handler.and_then(|handler| handler.response.as_ref()).map(StaticResponse::text);
    let theirs = match handler.map(|handler| (&handler.source, handler.language)) {
        Some((Some(source), Some(Language::Ts))) => Some(("handler.ts", source.clone())),
        Some((Some(source), _)) => Some(("handler.js", source.clone())),
        _ => response.map(|response| ("response.json", scaffold::pretty_text(response))),
    };
    let is_theirs = |file: &str| theirs.as_ref().is_some_and(|(name, _)| *name == file);
    if tool.is_none()
        && let Some((other, _)) = HANDLERS.into_iter().find(|(file, _)| !is_theirs(file) && folder.join(file).exists())
    {
        return Err(Error::refused(format!("`{other}` already exists, and a tool can have only one handler")).hint("use an empty folder"));
    }
    let Some((name, theirs)) = theirs else { return Ok((None, None)) };
    // A file that cannot be read counts as different.
    let mine = super::tool::folder::read(&folder.join(name)).unwrap_or_else(|_| Some(String::new()));
    let is_same = mine.as_ref().is_some_and(|mine| *mine == theirs || response.is_some_and(|response| same_response(mine, response)));
    let Some(tool) = tool else {
        let write = FileWrite { name: name.to_owned(), text: theirs, is_over: mine.is_some() };
        return Ok(((!is_same).then_some(write), None));
    };
    let version = &there.record.version;
    // The folder holds the source that the handler is built from, and the host's handler did not change.
    let upload = Upload::of(folder).await.ok();
    let is_made = upload.as_ref().and_then(|upload| upload.bundle.as_ref()).filter(|bundle| bundle.is_made);
    if base.is_some_and(|base| base.version == *version) && is_made.is_some() || is_made.is_some_and(|bundle| bundle.source == theirs) {
        return Ok((None, None));
    }
    if is_made.is_some() || name != tool.handler_file() {
        let aside = format!(".tollhouse/pulled-{}", name);
        _ = fs::create_dir_all(folder.join(".tollhouse"));
        let remark =
            format!("the host's handler was not built from {}; it was saved as {aside}, so that you can merge it", tool.handler_file());
        return Ok((Some(FileWrite { name: aside, text: theirs, is_over: false }), Some(remark)));
    }
    if is_same {
        return Ok((None, None));
    }
    let sent = upload.and_then(|upload| match (&upload.bundle, &upload.tool.code) {
        (Some(bundle), _) => Some(source_map::version(bundle.language, &bundle.source)),
        (None, Code::Response(response)) => Some(response_hash(response)),
        (None, Code::Source { .. } | Code::Builtin) => None,
    });
    let is_over = base.is_none_or(|base| sent.is_none_or(|sent| base.version != sent));
    Ok((Some(FileWrite { name: name.to_owned(), text: theirs, is_over }), None))
}

fn same_response(one: &str, other: &str) -> bool {
    let hash = |text: &str| StaticResponse::read(text).ok().as_ref().map(response_hash);
    hash(one).is_some_and(|one| hash(other) == Some(one))
}

//! `tollhouse init` and `types`: creates a tool's folder, and writes the types for handlers.

use std::{env, path::PathBuf};

use serde_json::json;
use tollhouse_tool::Slug;

use super::{
    base::{Error, Output, Result, line},
    tool::scaffold::{self, File, FileOutcome},
};

/// Arguments of `init`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Tool and folder name [default: `--from`, or this folder's]
    name: Option<Slug>,
    /// Write JavaScript instead of TypeScript
    #[arg(long)]
    js: bool,
    /// Example tool to copy [default: a minimal one]
    #[arg(long, value_name = "SLUG", conflicts_with = "js")]
    from: Option<String>,
}

pub(crate) fn run(out: Output, args: Args) -> Result {
    let here = env::current_dir()?;
    let copied = args.from.as_deref().and_then(|from| from.parse().ok());
    let (folder, slug) = match args.name.or(copied) {
        Some(slug) => (PathBuf::from(slug.as_str()), slug),
        None => {
            let name = here.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
            let name = name.replace(['_', ' ', '.'], "-");
            let none = |_| Error::usage(format!("`{}` is not a valid tool name", line(&name))).hint("give a name: tollhouse init NAME");
            (PathBuf::new(), name.parse::<Slug>().map_err(none)?)
        }
    };
    let files = match &args.from {
        Some(from) => scaffold::copied(&slug, from)?,
        None => scaffold::new(&slug, if args.js { "js" } else { "ts" }),
    };
    // With a second handler, the folder would not be a valid tool.
    let path = here.join(&folder);
    if let Some(other) =
        ["handler.ts", "handler.js"].into_iter().find(|name| path.join(name).exists() && !files.iter().any(|file| file.name == *name))
    {
        return Err(Error::refused(format!("`{}` already exists, and a tool can have only one handler", folder.join(other).display())));
    }
    let written = scaffold::write(&path, files, false)?;
    print(out, &folder, &written)?;
    if !out.json {
        let go = if folder.as_os_str().is_empty() { String::new() } else { format!("cd {} && ", folder.display()) };
        out.note(&format!("next: {go}tollhouse dev"));
    }
    Ok(())
}

pub(crate) fn types(out: Output) -> Result {
    let folder = super::tool::upload::here()?;
    let written = scaffold::write(&folder, scaffold::types().into(), true)?;
    print(out, &PathBuf::new(), &written)
}

fn print(out: Output, folder: &std::path::Path, written: &[(File, FileOutcome)]) -> Result {
    let files: Vec<_> = written
        .iter()
        .map(|(file, made)| json!({ "file": folder.join(file.name), "written": matches!(made, FileOutcome::New | FileOutcome::Replaced), "what": made.label() }))
        .collect();
    out.print(&json!({ "ok": true, "files": files }), |_| {
        let width = written.iter().map(|(file, _)| folder.join(file.name).as_os_str().len()).max().unwrap_or(0);
        written.iter().map(|(file, made)| format!("{:width$}  {}\n", folder.join(file.name).display().to_string(), made.label())).collect()
    })
}

//! Completeness: every operation of the API is used by a page, or is listed below with the reason
//! why not.

use std::{collections::BTreeSet, fs, path::Path};

use regex::Regex;
use tollhouse::http;

/// Operations that no page uses, and the reasons.
const OF_PROGRAMS: &[(&str, &str)] = &[
    ("callTool", "the trial of a tool asks for it by the tool's own address"),
    ("challengeTool", "as callTool"),
    ("getAiCatalog", "for programs that look for MCP servers"),
    ("getIcon", "browsers ask for it unasked"),
    ("getResources", "for programs that look for paid addresses"),
    ("getRobots", "for crawlers"),
    ("getServerCard", "for MCP clients"),
    ("getToolTypes", "for editors"),
    ("getWholeOpenApi", "for programs; the documents have the same as pages"),
    ("isLive", "for who watches the process"),
    ("isReady", "for who balances load"),
    ("listAllEndpoints", "listOwnEndpoints returns the same to admins"),
    ("listToolsAsText", "for language models"),
    ("makeSignInLink", "for programs that sign their user in"),
    ("quoteConversion", "for payers' programs"),
    ("quoteSeller", "for payers' programs"),
    ("readLedger", "for who proves the books, as `tollhouse ledger check` does"),
    ("reconcile", "for who proves the books, as `tollhouse reconcile` does"),
    ("resolveSettlement", "for who proves the books, as `tollhouse settlements resolve` does"),
    ("rotateMasterKey", "for who runs the host, beside the file of the new key"),
];

/// Returns the sources of all pages.
fn written(folder: &Path) -> String {
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let read = |path: &Path| match path.extension().and_then(|name| name.to_str()) {
        _ if path.is_dir() => written(path),
        Some("rs" | "js") if !path.ends_with("codemirror.js") => fs::read_to_string(path).unwrap(),
        _ => String::new(),
    };
    files.iter().map(|path| read(path)).collect()
}

#[test]
fn every_operation_is_asked_for_by_a_page_or_is_one_of_programs() {
    let pages = written(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/web"));
    let is_asked = |row: &http::Operation| {
        let named =
            regex::escape(row.path).replace(r"\{slug\}", "[^/\"`]+").replace(r"\{id\}", "[^/\"`]+").replace(r"\{name\}", "[^/\"`]+");
        let read = row.method == "GET" && Regex::new(&format!("[\"`}}]{named}[\"`?{{]")).unwrap().is_match(&pages);
        let tail = row.path.split_once("{slug}/").map(|(_, tail)| tail);
        let below = tail.is_some_and(|tail| ["\"", "?", "{", "`"].iter().any(|end| pages.contains(&format!("}}/{tail}{end}"))));
        read || below || pages.contains(&format!("\"{}\"", row.id)) || row.method != "GET" && pages.contains(&format!("\"{}\"", row.path))
    };
    let unasked: BTreeSet<_> = http::rows().iter().filter(|row| !is_asked(row)).map(|row| row.id).collect();
    let stated: BTreeSet<_> = OF_PROGRAMS.iter().map(|(id, _)| *id).collect();
    assert_eq!(unasked, stated);
}

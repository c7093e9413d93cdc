//! Checks that the documents match the code, and that every file they name exists.
//! `cargo xtask docs` writes their tables.

#[path = "docs/blocks.rs"]
mod blocks;
#[path = "docs/dashboard.rs"]
mod dashboard;
#[path = "docs/named.rs"]
mod named;
#[path = "docs/payment_reasons.rs"]
mod payment_reasons;
#[path = "docs/samples.rs"]
mod samples;
#[path = "docs/session.rs"]
mod session;
#[path = "docs/tool_types.rs"]
mod tool_types;
#[path = "docs/transcript.rs"]
mod transcript;

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use clap::Args as _;
use serde_json::Value;
use tollhouse::{
    config::Flags,
    front::Code,
    money::Asset,
    telemetry::{Metric, metric_table},
    tool::{Capability, CapabilityRow},
};
use tollhouse_protocol::limits::{self, TABLE};

/// If this variable is `write`, the tables are written instead of compared.
const MODE: &str = "TOLLHOUSE_DOCS";

/// The name of a table, which its marks in a document have, and the function that generates it.
type Table = (&'static str, fn() -> String);

const TABLES: &[Table] = &[
    ("settings", settings),
    ("networks", networks),
    ("limits", limits),
    ("ctx", ctx),
    ("globals", globals),
    ("commands", commands),
    ("metrics", metrics),
    ("packages", packages),
    ("packages-without", packages_without),
];

const END: &str = "<!-- end -->\n";

fn mark(name: &str) -> String {
    format!("<!-- table: {name} -->\n")
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Documents outside `docs/`.
const ALONGSIDE: [&str; 7] =
    ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "fixtures/README.md", "sandbox/README.md"];

/// Returns all documents for people.
fn documents() -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![root().join("docs")]);
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(&folder).expect("the folder is there").flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found.extend(ALONGSIDE.map(|name| root().join(name)).into_iter().filter(|path| path.exists()));
    found.sort();
    found
}

/// Returns the names of the pages that the host generates. They have no file.
fn generated() -> BTreeSet<String> {
    let contents: Value = serde_json::from_str(&read(&root().join("docs/contents.json"))).expect("the file is JSON");
    let parts = contents.as_array().expect("it is a list").iter().filter(|part| part.get("folder").is_none());
    parts.flat_map(|part| part["pages"].as_array().expect("a part has pages")).filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Returns the table of the settings: the text of `--help`, with the default in its own column.
fn settings() -> String {
    let command = Flags::augment_args(clap::Command::new("serve"));
    let rows = command.get_arguments().filter_map(|flag| {
        let (variable, name, help) = (flag.get_env()?.to_str()?, flag.get_long()?, flag.get_help()?.to_string());
        let (what, default) = match help.strip_suffix(']').and_then(|help| help.split_once(" [default: ")) {
            Some((what, default)) => (what.to_owned(), default.to_owned()),
            None => (help, String::new()),
        };
        let one_of: Vec<_> = flag.get_possible_values().iter().map(|value| format!("`{}`", value.get_name())).collect();
        let one_of = if one_of.is_empty() || one_of[0] == "`true`" { String::new() } else { format!(": {}", one_of.join(", ")) };
        Some(format!("| `{variable}` | `--{name}` | {default} | {what}{one_of} |\n"))
    });
    format!("| variable | flag | default | what |\n|---|---|---|---|\n{}", rows.collect::<String>())
}

/// Returns the table of the networks and currencies in which a host can be paid.
fn networks() -> String {
    let rows = Asset::all().iter().map(|asset| {
        let v1 = if asset.network.in_v1 { "yes" } else { "no" };
        format!(
            "| `{}` | `{}` | {v1} | {} | {} | `{}` |\n",
            asset.network.caip2, asset.network.name, asset.symbol, asset.decimals, asset.address
        )
    });
    format!("| network | by name | clients of v1 | token | decimals | address |\n|---|---|---|---|---:|---|\n{}", rows.collect::<String>())
}

fn limits() -> String {
    let row = |row: &limits::LimitRow| {
        format!("| `{}` | {} | {} | {} | {} |\n", row.name, shown(row.default, row.unit), shown(row.ceiling, row.unit), row.unit, row.what)
    };
    format!("| limit | default | ceiling | unit | bounds |\n|---|---:|---:|---|---|\n{}", TABLE.iter().map(row).collect::<String>())
}

/// Formats a number for people: with thousands separators, and bytes in the largest unit that
/// divides them.
fn shown(value: u64, unit: &str) -> String {
    let (value, suffix) = match unit {
        "bytes" if value.is_multiple_of(1 << 20) => (value >> 20, " MiB"),
        "bytes" if value.is_multiple_of(1 << 10) => (value >> 10, " KiB"),
        _ => (value, ""),
    };
    let digits = value.to_string();
    let apart = |(at, digit)| if at > 0 && (digits.len() - at) % 3 == 0 { format!(",{digit}") } else { format!("{digit}") };
    digits.chars().enumerate().map(apart).collect::<String>() + suffix
}

/// Returns the table of the commands, which the binary prints.
fn commands() -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_tollhouse")).args(["man", "--table"]).output().expect("the binary runs");
    String::from_utf8(output.stdout).expect("it is text")
}

/// Returns the table of the metrics.
fn metrics() -> String {
    let row = |Metric { name, kind, labels, what }: &&Metric| {
        let labels: Vec<_> = labels.iter().map(|label| format!("`{label}`")).collect();
        format!("| `{name}` | {} | {} | {what} |\n", kind.as_str(), labels.join(", "))
    };
    format!("| metric | kind | labels | what |\n|---|---|---|---|\n{}", metric_table::ALL.iter().map(row).collect::<String>())
}

fn contract() -> String {
    read(&root().join("runtime-js/tool.d.ts"))
}

/// Returns the table of the members of `ctx`, each with the first sentence of its comment and its
/// type in the contract.
fn ctx() -> String {
    let contract = contract();
    let (_, members) = contract.split_once("\ninterface ToolContext {\n").expect("the contract has ToolContext");
    let (members, _) = members.split_once("\n}").expect("it ends");
    let rows = members.lines().enumerate().filter_map(|(at, line)| {
        let (name, of) = line.strip_prefix("  readonly ")?.split_once(": ")?;
        let before: Vec<_> = members.lines().take(at).collect();
        let mut words = sentences(&comment(&before));
        if let Some((before, _)) = contract.split_once(&format!("\ninterface {} {{", of.trim_end_matches(';'))) {
            words.extend(sentences(&comment(&before.lines().collect::<Vec<_>>())));
        }
        let max = if words.first()?.starts_with("Capability") { 2 } else { 1 };
        Some(format!("| `ctx.{name}` | {} |\n", words.into_iter().take(max).collect::<Vec<_>>().join(" ")))
    });
    format!("| member | what |\n|---|---|\n{}", rows.collect::<String>())
}

/// Returns the comment at the end of these lines, without its stars.
fn comment(lines: &[&str]) -> String {
    let Some(last) = lines.last().filter(|line| line.trim_end().ends_with("*/")) else { return String::new() };
    let begin = lines.iter().rposition(|line| line.trim_start().starts_with("/**")).unwrap_or(lines.len());
    let stars: &[_] = &['/', '*', ' '];
    let words = lines[begin..lines.len() - 1].iter().chain([last]).map(|line| line.trim_matches(stars));
    words.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

fn sentences(text: &str) -> Vec<String> {
    let ends = text.match_indices(". ").map(|(at, _)| at + 1).chain([text.len()]);
    let mut begin = 0;
    let sentences = ends.map(|end| {
        let sentence = text[begin..end].trim().to_owned();
        begin = end;
        sentence
    });
    sentences.filter(|sentence| !sentence.is_empty()).collect()
}

/// Returns the packages that `cargo xtask packages` tries and that do not work, each with the reason.
fn without() -> Vec<(String, String)> {
    let text = read(&root().join("fixtures/tried/baseline.txt"));
    text.lines().filter_map(|line| line.split_once(": ")).map(|(name, reason)| (name.to_owned(), reason.to_owned())).collect()
}

/// Returns the names of the packages that `cargo xtask packages` tries and that work.
fn packages() -> String {
    let tried: Value = serde_json::from_str(&read(&root().join("fixtures/tried/package.json"))).expect("the file is JSON");
    let fails = without();
    // The bundler, and a package that another one needs.
    let works = |name: &&String| !["esbuild", "graphql"].contains(&name.as_str()) && fails.iter().all(|(other, _)| other != *name);
    list(&tried["dependencies"].as_object().expect("it has dependencies").keys().filter(works).cloned().collect())
}

/// Returns the table of the packages that do not work.
fn packages_without() -> String {
    let rows: String = without().iter().map(|(name, reason)| format!("| `{name}` | {reason} |\n")).collect();
    format!("| package | reason |\n|---|---|\n{rows}")
}

/// Returns the names that the contract declares, in lines of normal length.
fn globals() -> String {
    let contract = contract();
    // A module with quotes is no global.
    let declared =
        contract.lines().filter_map(|line| line.strip_prefix("declare ")?.split_once(' ')).filter(|(_, rest)| !rest.starts_with('"'));
    let name = |rest: &str| rest.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned();
    list(&declared.map(|(_, rest)| name(rest)).collect())
}

/// Returns names in lines of normal length.
fn list(names: &BTreeSet<String>) -> String {
    let mut text = String::new();
    let mut width = 0;
    for name in names {
        let item = format!("`{name}`");
        let gap = match width {
            0 => "",
            _ if width + item.len() > 116 => ",\n",
            _ => ", ",
        };
        width = if gap == ", " { width + item.len() + 2 } else { item.len() };
        text += &format!("{gap}{item}");
    }
    text + "\n"
}

#[test]
fn every_capability_opens_a_member_of_ctx_or_a_global_that_reports_it() {
    let (members, contract) = (ctx(), contract());
    let of_ctx = |capability: &&Capability| capability.row().member.starts_with("ctx.");
    let listed: BTreeSet<_> = members.lines().filter_map(|line| line.split_once("` | Capability `")?.1.split('`').next()).collect();
    assert_eq!(listed, Capability::ALL.iter().filter(of_ctx).map(|capability| capability.row().name).collect());
    for capability in Capability::ALL {
        let CapabilityRow { name, member, .. } = capability.row();
        if of_ctx(&capability) {
            assert!(members.contains(&format!("`{member}` | Capability `{name}`.")), "{capability:?}: {members}");
        } else {
            let declaration = [format!("\ndeclare function {member}("), format!("\ndeclare namespace {member} ")];
            let found = declaration.iter().find_map(|declaration| contract.split_once(declaration));
            let (before, _) = found.expect("it is a function or a namespace");
            let of = comment(&before.lines().collect::<Vec<_>>());
            assert!(of.starts_with(&format!("Capability `{name}`.")), "{capability:?}: {of}");
        }
    }
}

/// Returns a document with its tables up to date.
fn filled(text: &str) -> String {
    TABLES.iter().fold(text.to_owned(), |text, (name, table)| {
        let mark = mark(name);
        let Some((before, rest)) = text.split_once(&mark) else { return text };
        let (_, after) = rest.split_once(END).unwrap_or_else(|| panic!("the table `{name}` has no end"));
        format!("{before}{mark}\n{}\n{END}{after}", table())
    })
}

#[test]
fn every_table_matches_the_code() {
    let write = env::var_os(MODE).is_some_and(|mode| mode == "write");
    let mut stale = Vec::new();
    for path in documents() {
        let (there, due) = (read(&path), filled(&read(&path)));
        if there != due && write {
            fs::write(&path, due).expect("a document can be written");
        } else if there != due {
            stale.push(path);
        }
    }
    assert!(stale.is_empty(), "the code says something else than {stale:?}: run `cargo xtask docs`");
}

#[test]
fn every_marked_table_is_known() {
    for path in documents() {
        let text = read(&path);
        let names = text.split("<!-- table: ").skip(1).filter_map(|rest| rest.split_once(" -->"));
        for (name, _) in names {
            assert!(TABLES.iter().any(|(known, _)| *known == name), "{}: no table is called `{name}`", path.display());
        }
    }
}

#[test]
fn every_table_stands_in_one_document() {
    let documents: Vec<_> = documents().iter().map(|path| read(path)).collect();
    for (name, _) in TABLES {
        let positions: usize = documents.iter().map(|text| text.matches(&mark(name)).count()).sum();
        assert_eq!(positions, 1, "the table `{name}`");
    }
}

/// Returns the header lines of tables. A header is followed by a line of dashes.
fn heads(text: &str) -> impl Iterator<Item = &str> {
    let ruled = |line: &str| line.starts_with("|-") && line.chars().all(|c| "|-: ".contains(c));
    text.lines().zip(text.lines().skip(1)).filter(move |(_, below)| ruled(below)).map(|(head, _)| head)
}

/// Documents are also pages of the dashboard, where screen readers cannot announce a column without
/// a name.
#[test]
fn every_column_of_a_table_has_a_name() {
    for path in documents() {
        for head in heads(&prose(&read(&path))) {
            let columns: Vec<_> = head.trim().trim_matches('|').split('|').map(str::trim).collect();
            assert!(columns.iter().all(|column| !column.is_empty()), "{}: {head}", path.display());
        }
    }
}

/// Returns the text without its code blocks.
fn prose(text: &str) -> String {
    let mut fenced = false;
    let lines = text.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    });
    lines.map(|line| format!("{line}\n")).collect()
}

/// Returns the paths in backticks in prose: those that start with a folder or a file of the
/// repository's root. `src/a/{b,c}.rs` gives `src/a/`.
fn named(text: &str) -> Vec<String> {
    let top: BTreeSet<_> =
        fs::read_dir(root()).into_iter().flatten().flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    let quoted = text.split('`').skip(1).step_by(2);
    let paths = quoted.filter(|quoted| match quoted.split_once('/') {
        Some((first, _)) => top.contains(first) && !quoted.contains(char::is_whitespace),
        None => quoted.strip_prefix('.').unwrap_or(quoted).contains('.') && top.contains(*quoted),
    });
    let whole = |path: &str| match path.find(['*', '<', '{']) {
        Some(pattern) => path[..pattern].rsplit_once('/').map_or("", |(folder, _)| folder).to_owned(),
        None => path.split("::").next().unwrap_or_default().to_owned(),
    };
    paths.map(whole).collect()
}

/// Returns the links within the repository, as file and heading.
fn links(text: &str) -> Vec<(String, String)> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let inward = targets.map(|(target, _)| target).filter(|target| !target.contains("://"));
    inward
        .map(|target| target.split_once('#').unwrap_or((target, "")))
        .map(|(file, heading)| (file.to_owned(), heading.to_owned()))
        .collect()
}

/// Returns the anchors of a document, as GitHub makes them: repeated ones are numbered.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut seen = BTreeMap::<String, usize>::new();
    let text = prose(text);
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let anchors = headings.map(|line| {
        let anchor = anchor(line.trim_matches(['#', ' ']));
        let count = seen.entry(anchor.clone()).and_modify(|count| *count += 1).or_default();
        if *count == 0 { anchor } else { format!("{anchor}-{count}") }
    });
    anchors.collect()
}

/// Returns the anchor of a heading.
fn anchor(heading: &str) -> String {
    let heading = heading.split("](").next().unwrap_or_default();
    let stored = heading.to_lowercase().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).collect::<String>();
    stored.replace(' ', "-")
}

#[test]
fn everything_that_documents_name_is_there() {
    let (mut astray, generated) = (Vec::new(), generated());
    let codes = Code::ALL.iter().map(|code| code.row());
    let errors: BTreeSet<_> = codes.map(|row| format!("{}-{}", row.status.as_u16(), row.name)).collect();
    for path in documents() {
        let text = prose(&read(&path));
        astray.extend(
            named(&text).into_iter().filter(|named| !root().join(named).exists()).map(|named| format!("{}: `{named}`", path.display())),
        );
        for (file, heading) in links(&text) {
            let target = if file.is_empty() { path.clone() } else { path.parent().expect("a document is in a folder").join(&file) };
            let name = target.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let is_there = match target.exists() {
                true => heading.is_empty() || anchors(&read(&target)).contains(&heading),
                false => generated.contains(&name) && (name != "errors" || heading.is_empty() || errors.contains(&heading)),
            };
            if !is_there {
                astray.push(format!("{}: {file}#{heading}", path.display()));
            }
        }
    }
    assert!(astray.is_empty(), "{}", astray.join("\n"));
}

/// A host serves its index in place of the README, and the index has other headings.
#[test]
fn pages_link_to_no_heading_of_the_readme() {
    let leads_astray = |(file, heading): &(String, String)| file.trim_start_matches("../") == "README.md" && !heading.is_empty();
    let pages = documents().into_iter().filter(|path| path.starts_with(root().join("docs")));
    let astray: Vec<_> = pages.filter(|path| links(&prose(&read(path))).iter().any(leads_astray)).collect();
    assert!(astray.is_empty(), "{astray:?}");
}

//! A copy of the tree with all mutants of an area, and its build.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde::Deserialize;

use crate::{
    Failure,
    areas::MutationArea,
    mutant::{Genre, Mutant},
    switch::{self, Part},
};

/// Compiler errors about types, names and privacy. A mutant with one of them cannot be built at
/// all.
const TYPES: &[&str] = &[
    "E0061", "E0107", "E0271", "E0277", "E0282", "E0283", "E0308", "E0368", "E0369", "E0412", "E0423", "E0425", "E0432", "E0433", "E0533",
    "E0599", "E0600", "E0605", "E0606", "E0607", "E0614", "E0618", "E0624", "E0782",
];

/// The built tests, and the mutants that they can be run against.
pub(crate) struct Built {
    /// The unit tests.
    pub(crate) own: PathBuf,
    /// The other tests.
    pub(crate) outside: PathBuf,
    /// The folder in which cargo would run them.
    pub(crate) home: PathBuf,
    pub(crate) switched: BTreeSet<usize>,
    pub(crate) unviable: BTreeSet<usize>,
    /// Mutants that must be built one by one.
    pub(crate) alone: BTreeSet<usize>,
    /// The original sources.
    originals: Vec<(PathBuf, String)>,
}

impl Built {
    /// Removes all mutants from the copy.
    pub(crate) fn restore(&self) -> Result<(), Failure> {
        self.originals.iter().try_for_each(|(file, text)| write(file, text))
    }
}

/// Copies the files that git knows.
pub(crate) fn copy(root: &Path, copy: &Path) -> Result<(), Failure> {
    _ = fs::remove_dir_all(copy);
    let listed = Command::new("git").args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(root).output();
    let listed = listed.map_err(|reason| format!("cannot start git: {reason}"))?.stdout;
    for path in String::from_utf8_lossy(&listed).split_terminator('\0').filter(|path| root.join(path).is_file()) {
        let to = copy.join(path);
        let made = to.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::copy(root.join(path), &to));
        made.map_err(|reason| format!("cannot write {}: {reason}", to.display()))?;
    }
    Ok(())
}

/// Builds the tests with as many mutants as possible: those that do not compile are removed, and
/// the build is repeated.
///
/// # Errors
///
/// A compiler error that no mutant causes.
pub(crate) fn build(area: &MutationArea, copy: &Path, target: &Path, mutants: &[Mutant]) -> Result<Built, Failure> {
    let mut files: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    for (number, mutant) in mutants.iter().enumerate() {
        files.entry(&mutant.file).or_default().insert(number);
    }
    let sources: HashMap<_, _> = files.keys().map(|file| Ok((*file, read(&copy.join(file))?))).collect::<Result<_, Failure>>()?;
    let root = read(&copy.join(area.crate_root))?;
    let (mut unviable, mut alone) = (BTreeSet::new(), BTreeSet::new());
    let mut parts: HashMap<&str, Vec<Part>> = HashMap::new();
    loop {
        write(&copy.join(area.crate_root), &format!("{root}{}", switch::MODULE))?;
        for (&file, numbers) in &files {
            let there: Vec<_> = numbers.iter().map(|&number| (number, &mutants[number])).collect();
            let switched = switch::switched(&sources[file], &there).map_err(|reason| format!("cannot parse {file}: {reason}"))?;
            alone.extend(switched.alone);
            unviable.extend(switched.unviable);
            let module = if file == area.crate_root { switch::MODULE } else { "" };
            write(&copy.join(file), &format!("{}{module}", switched.text))?;
            parts.insert(file, switched.parts);
        }
        let messages = match compile(area, copy, target)? {
            Ok((own, outside)) => {
                let home = copy.join(area.crate_root).ancestors().nth(2).unwrap_or(copy).to_owned();
                let switched =
                    files.into_values().flatten().filter(|number| !alone.contains(number) && !unviable.contains(number)).collect();
                let mut originals: Vec<_> = sources.into_iter().map(|(file, text)| (copy.join(file), text)).collect();
                originals.push((copy.join(area.crate_root), root));
                return Ok(Built { own, outside, home, switched, unviable, alone, originals });
            }
            Err(messages) => messages,
        };
        let mut remaining = 0;
        for message in &messages {
            for (number, part) in to_blame(message, &parts) {
                let mutant = &mutants[number];
                if !files.get_mut(mutant.file.as_str()).is_some_and(|numbers| numbers.remove(&number)) {
                    continue;
                }
                remaining += 1;
                let is_of_types = part == Blamed::Own && message.code.as_ref().is_some_and(|code| TYPES.contains(&code.code.as_str()));
                let is_unviable = is_of_types && !(mutant.genre == Genre::FnValue && mutant.is_of_hidden_type());
                if is_unviable {
                    unviable.insert(number)
                } else {
                    alone.insert(number)
                };
            }
        }
        if remaining == 0 {
            return Err(messages.into_iter().map(|message| message.rendered).collect());
        }
        eprintln!("{remaining} mutants do not compile, and are left out");
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Blamed {
    /// The error is in the mutant itself.
    Own,
    /// The error is in code that must match it.
    Whole,
}

/// Returns the mutants that contain an error, or if there are none, those next to it.
fn to_blame(message: &Message, parts: &HashMap<&str, Vec<Part>>) -> Vec<(usize, Blamed)> {
    let at = |is_primary: bool, within: fn(&Part, &Span) -> bool| {
        let spans = message.spans.iter().filter(move |span| span.is_primary == is_primary).flat_map(Span::origins);
        let parts = spans.flat_map(|span| parts.get(span.file_name.as_str()).into_iter().flatten().map(move |part| (part, span)));
        parts.filter(|(part, span)| within(part, span)).map(|(part, _)| part).collect::<Vec<_>>()
    };
    for is_primary in [true, false] {
        let own = at(is_primary, |part, span| part.own.start <= span.byte_start && span.byte_end <= part.own.end);
        if !own.is_empty() {
            return own.into_iter().map(|part| (part.mutant, Blamed::Own)).collect();
        }
    }
    let mut whole = at(true, |part, span| part.whole.start <= span.byte_start && span.byte_end <= part.whole.end);
    let narrowest = whole.iter().map(|part| part.whole.len()).min();
    whole.retain(|part| Some(part.whole.len()) == narrowest);
    whole.into_iter().map(|part| (part.mutant, Blamed::Whole)).collect()
}

/// Compiles the tests of the area. Returns their paths, or the compiler's messages.
fn compile(area: &MutationArea, copy: &Path, target: &Path) -> Result<Result<(PathBuf, PathBuf), Vec<Message>>, Failure> {
    let mut cargo = Command::new("cargo");
    // HTTP tests are in the host's package, tests of the pool in its own.
    let packages = if area.outside.0 == "it" { vec![area.package, "tollhouse"] } else { vec![area.package] };
    cargo.args(["test", "--no-run", "--message-format", "json", "--lib", "--test", area.outside.0]);
    cargo.args(packages.iter().flat_map(|name| ["--package", name]));
    cargo.current_dir(copy).env("CARGO_TARGET_DIR", target).env_remove("CARGO_BUILD_TARGET").stderr(Stdio::inherit());
    let done = cargo.output().map_err(|reason| format!("cannot start cargo: {reason}"))?;
    let lines = String::from_utf8_lossy(&done.stdout);
    let listed: Vec<Line> = lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    if !done.status.success() {
        let errors: Vec<_> = listed.into_iter().filter_map(|line| line.message).filter(|message| message.level == "error").collect();
        return if errors.is_empty() { Err(format!("cargo failed: {}", done.status)) } else { Ok(Err(errors)) };
    }
    let program = |kind: &str, name: &str| {
        let mut built = listed
            .iter()
            .filter(|line| line.target.as_ref().is_some_and(|target| target.name == name && target.kind.iter().any(|one| one == kind)));
        built.find_map(|line| line.executable.clone()).ok_or_else(|| format!("cargo built no tests of the kind `{kind}`"))
    };
    Ok(Ok((program("lib", &area.package.replace('-', "_"))?, program("test", area.outside.0)?)))
}

fn read(file: &Path) -> Result<String, Failure> {
    fs::read_to_string(file).map_err(|reason| format!("cannot read {}: {reason}", file.display()))
}

/// Keeps a file unchanged if it has this text, because cargo compares modification times.
fn write(file: &Path, text: &str) -> Result<(), Failure> {
    if fs::read_to_string(file).is_ok_and(|there| there == text) {
        return Ok(());
    }
    fs::write(file, text).map_err(|reason| format!("cannot write {}: {reason}", file.display()))
}

/// A line of cargo's output: an artifact or a message.
#[derive(Debug, Deserialize)]
struct Line {
    target: Option<Target>,
    executable: Option<PathBuf>,
    message: Option<Message>,
}

#[derive(Debug, Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Message {
    level: String,
    rendered: String,
    code: Option<Code>,
    spans: Vec<Span>,
}

#[derive(Debug, Deserialize)]
struct Code {
    code: String,
}

#[derive(Debug, Deserialize)]
struct Span {
    file_name: String,
    byte_start: usize,
    byte_end: usize,
    is_primary: bool,
    expansion: Option<Box<Expansion>>,
}

#[derive(Debug, Deserialize)]
struct Expansion {
    span: Span,
}

impl Span {
    /// Iterates over the span and the macro uses from which it was expanded.
    fn origins(&self) -> impl Iterator<Item = &Span> {
        std::iter::successors(Some(self), |span| span.expansion.as_ref().map(|expansion| &expansion.span))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(spans: &[(usize, usize, bool)]) -> Message {
        let span = |&(byte_start, byte_end, is_primary): &_| Span {
            file_name: "a.rs".to_owned(),
            byte_start,
            byte_end,
            is_primary,
            expansion: None,
        };
        Message { level: "error".to_owned(), rendered: String::new(), code: None, spans: spans.iter().map(span).collect() }
    }

    #[test]
    fn compile_error_is_attributed_to_its_mutant() {
        let part = |mutant, own, whole| Part { mutant, own, whole };
        let parts = HashMap::from([("a.rs", vec![part(1, 10..20, 0..100), part(2, 20..30, 0..100), part(3, 50..60, 40..80)])]);
        assert_eq!(to_blame(&fault(&[(12, 15, true), (22, 25, false)]), &parts), [(1, Blamed::Own)]);
        assert_eq!(to_blame(&fault(&[(35, 36, true), (22, 25, false)]), &parts), [(2, Blamed::Own)]);
        assert_eq!(to_blame(&fault(&[(61, 65, true)]), &parts), [(3, Blamed::Whole)]);
        assert_eq!(to_blame(&fault(&[(31, 32, true)]), &parts), [(1, Blamed::Whole), (2, Blamed::Whole)]);
        assert_eq!(to_blame(&fault(&[(100, 132, true)]), &parts), []);
    }
}

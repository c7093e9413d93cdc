//! The modules of a crate: what each defines, what it has in scope, and what it names.

use std::{
    cell::RefCell,
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
};

use proc_macro2::Delimiter;

use crate::tokens::{
    Token::{self, Mark, Text, Within, Word},
    tokens,
};

/// Index of a module in [`Modules`]; the root's is 0.
pub(crate) type Id = usize;

/// The parts of a path: `crate`, `a`, `B`.
pub(crate) type Name = Vec<String>;

/// A file, or an inline module in one.
#[derive(Default)]
pub(crate) struct Module {
    pub(crate) file: PathBuf,
    pub(crate) parent: Id,
    pub(crate) children: HashMap<String, Id>,
    /// The items defined here.
    pub(crate) items: HashSet<String>,
    /// The names that a `use` brings into scope, with their paths.
    pub(crate) imports: HashMap<String, Vec<Name>>,
    /// The modules from which everything is in scope.
    pub(crate) globs: Vec<Name>,
    pub(crate) mentions: Vec<Mention>,
}

/// A use of a name.
pub(crate) struct Mention {
    pub(crate) line: usize,
    pub(crate) name: Name,
    /// Whether it is only re-exported, by a `pub use`.
    pub(crate) passed_on: bool,
}

/// The modules of a crate.
pub(crate) struct Modules<'a> {
    pub(crate) all: Vec<Module>,
    sources: &'a HashMap<&'a Path, &'a str>,
    /// The modules that define a name as seen from a module, as far as they were looked for.
    pub(crate) found: RefCell<HashMap<(Id, Name), Vec<Id>>>,
}

/// Where tokens are: directly in a module, between its items, or within an item.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Items,
    Item,
}

impl<'a> Modules<'a> {
    /// Reads the crate with this root: `lib.rs` or `main.rs`.
    pub(crate) fn of(root: &Path, sources: &'a HashMap<&'a Path, &'a str>) -> Self {
        let mut modules = Self { all: vec![], sources, found: RefCell::default() };
        modules.read(0, root.to_path_buf(), &root.with_file_name(""));
        modules
    }

    /// Reads a file if it exists. The files of its children are in `folder`.
    fn read(&mut self, parent: Id, file: PathBuf, folder: &Path) -> Option<Id> {
        let text = self.sources.get(file.as_path())?;
        let tokens = tokens(text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        Some(self.module(parent, file, folder, &tokens))
    }

    fn child(&mut self, id: Id, name: &str, file: PathBuf, folder: &Path) {
        if let Some(child) = self.read(id, file, folder) {
            self.all[id].children.insert(name.to_owned(), child);
        }
    }

    fn module(&mut self, parent: Id, file: PathBuf, folder: &Path, tokens: &[Token]) -> Id {
        let id = self.all.len();
        self.all.push(Module { file, parent, ..Module::default() });
        self.scan(id, folder, tokens, Level::Items);
        id
    }

    fn scan(&mut self, id: Id, folder: &Path, tokens: &[Token], level: Level) {
        let mut rest = tokens;
        while let [_, next @ ..] = rest {
            rest = match rest {
                [Mark('#'), Within(_, attribute), after @ ..] if is_test(attribute) => behind(after, level),
                [Mark('#'), Within(_, attribute), Word(word, _), Word(name, _), Mark(';'), after @ ..]
                    if word == "mod"
                        && let Some(to) = path(attribute) =>
                {
                    let file = beside(&self.all[id].file, to);
                    self.child(id, name, file.clone(), &file.with_file_name(""));
                    after
                }
                [Mark('#'), Within(..), after @ ..] => after,
                // Skip methods, fields and lifetimes. After `..` there may be a name.
                [Mark('.'), Mark('.'), after @ ..] | [Mark('.' | '\''), Word(..), after @ ..] => after,
                [Word(public, _), Within(Delimiter::Parenthesis, _), Word(word, _), after @ ..]
                | [Word(public, _), Word(word, _), after @ ..]
                    if public == "pub" && word == "use" =>
                {
                    self.import(id, after, true)
                }
                // The captures of a type, `use<'a>`, are not an import.
                [Word(word, _), after @ ..] if word == "use" && !matches!(after, [Mark('<'), ..]) => self.import(id, after, false),
                [Word(word, _), Word(name, _), Mark(';'), after @ ..] if word == "mod" => {
                    self.child(id, name, folder.join(format!("{name}.rs")), &folder.join(name));
                    after
                }
                [Word(word, _), Word(name, _), Within(_, inner), after @ ..] if word == "mod" => {
                    let child = self.module(id, self.all[id].file.clone(), &folder.join(name), inner);
                    self.all[id].children.insert(name.clone(), child);
                    after
                }
                [Word(word, _), Mark('!'), Word(name, _), after @ ..] | [Word(word, _), Word(name, _), after @ ..]
                    if level == Level::Items && defines(word) && !defines(name) =>
                {
                    self.all[id].items.insert(name.clone());
                    after
                }
                [Word(..), ..] => self.mention(id, rest),
                [Within(_, inner), after @ ..] => {
                    self.scan(id, folder, inner, Level::Item);
                    after
                }
                _ => next,
            };
        }
    }

    /// Consumes a path. Returns the tokens after it.
    fn mention<'t>(&mut self, id: Id, tokens: &'t [Token]) -> &'t [Token] {
        let [Word(first, line), rest @ ..] = tokens else { return tokens };
        let (mut name, mut rest) = (vec![first.clone()], rest);
        while let [Mark(':'), Mark(':'), Word(word, _), after @ ..] = rest {
            name.push(word.clone());
            rest = after;
        }
        self.all[id].mentions.push(Mention { line: *line, name, passed_on: false });
        rest
    }

    /// Consumes a `use`. Returns the tokens after it.
    fn import<'t>(&mut self, id: Id, tokens: &'t [Token], passed_on: bool) -> &'t [Token] {
        let end = tokens.iter().position(|token| matches!(token, Mark(';'))).unwrap_or(tokens.len());
        let (tree, rest) = tokens.split_at(end);
        self.branch(id, &[], tree, passed_on);
        rest
    }

    /// Consumes a branch of a `use`, below `stem`.
    fn branch(&mut self, id: Id, stem: &[String], tokens: &[Token], passed_on: bool) {
        let (mut name, mut known_as, mut line) = (stem.to_vec(), None, 0);
        for (position, token) in tokens.iter().enumerate() {
            match token {
                Within(_, inner) => {
                    let branches = inner.split(|token| matches!(token, Mark(','))).filter(|branch| !branch.is_empty());
                    return branches.for_each(|branch| self.branch(id, &name, branch, passed_on));
                }
                Mark('*') => {
                    let module = &mut self.all[id];
                    module.globs.push(name.clone());
                    return module.mentions.push(Mention { line, name, passed_on });
                }
                Word(word, _) if word == "as" => {
                    known_as = tokens.get(position + 1);
                    break;
                }
                Word(word, at) => {
                    line = *at;
                    name.push(word.clone());
                }
                Mark(_) | Text(_) => {}
            }
        }
        if name.last().is_some_and(|last| last == "self") {
            name.pop();
        }
        let here = match known_as {
            Some(Word(word, _)) => word.clone(),
            _ => name.last().cloned().unwrap_or_default(),
        };
        let module = &mut self.all[id];
        module.imports.entry(here).or_default().push(name.clone());
        module.mentions.push(Mention { line, name, passed_on });
    }
}

/// Returns the file that a `#[path = …]` in `file` refers to.
fn beside(file: &Path, to: &str) -> PathBuf {
    let mut path = file.with_file_name("");
    for part in Path::new(to) {
        if part == ".." {
            path.pop();
        } else {
            path.push(part);
        }
    }
    path
}

/// Returns whether the word is followed by the name of an item.
fn defines(word: &str) -> bool {
    ["const", "enum", "fn", "macro_rules", "static", "struct", "trait", "type", "union"].contains(&word)
}

/// Returns whether the attribute marks code for tests only.
fn is_test(attribute: &[Token]) -> bool {
    matches!(attribute, [Word(cfg, _), Within(_, of)] if cfg == "cfg" && matches!(&of[..], [Word(test, _)] if test == "test"))
}

/// Returns the path in a `#[path = …]`.
fn path(attribute: &[Token]) -> Option<&str> {
    match attribute {
        [Word(path, _), Mark('='), Text(to)] if path == "path" => Some(to),
        _ => None,
    }
}

/// Returns the tokens after the item, field or statement at the start of `tokens`.
fn behind(tokens: &[Token], level: Level) -> &[Token] {
    let ends = |token: &Token| match token {
        Mark(',') => level == Level::Item,
        Mark(';') | Within(Delimiter::Brace, _) => true,
        Mark(_) | Text(_) | Word(..) | Within(..) => false,
    };
    tokens.iter().position(ends).map_or(&[], |end| &tokens[end + 1..])
}

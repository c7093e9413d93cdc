//! Dependencies between files, read from the sources: which file names an item that another file
//! defines.
//!
//! A dependency goes from a file to the one that *defines* the named item. It comes from a `use` or
//! from a path in the code, however many modules re-export the name. `mod x;` and a `pub use` of a
//! child's item are not dependencies: if a parent only re-exports items of its children, they may
//! name the items that the parent defines itself. A parent that uses an item of a child, and
//! defines an item that the child uses, forms a cycle like any other; the shared part belongs in a
//! third file. Methods and fields, attributes, comments, items of other crates, and code for tests
//! only are not considered.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
};

use crate::modules::{Id, Mention, Modules, Name};

/// File → the files whose definitions it names → the line of the first use, and the name.
pub(crate) type Arrows = BTreeMap<String, BTreeMap<String, (usize, String)>>;

/// Returns all dependencies between the files of `sources` (path, text).
pub(crate) fn arrows(sources: &[(String, String)]) -> Arrows {
    let texts: HashMap<_, _> = sources.iter().map(|(file, text)| (Path::new(file), text.as_str())).collect();
    let mut arrows = Arrows::new();
    for root in texts.keys().filter(|file| is_root(file)) {
        let modules = Modules::of(root, &texts);
        for (id, module) in modules.all.iter().enumerate() {
            for mention in &module.mentions {
                draw(&mut arrows, &modules, id, mention);
            }
        }
    }
    arrows
}

/// Returns whether the file is the root of a crate.
fn is_root(file: &Path) -> bool {
    file.ends_with("lib.rs") || file.ends_with("main.rs") || file.parent() == Some(Path::new("tests"))
}

/// Adds the dependencies of one use of a name.
fn draw(arrows: &mut Arrows, modules: &Modules, id: Id, mention: &Mention) {
    let from = &modules.all[id].file;
    for definer in modules.definers(id, &mention.name) {
        let to = &modules.all[definer].file;
        if to == from || mention.passed_on && modules.is_below(definer, id) {
            continue;
        }
        let text = |file: &Path| file.to_string_lossy().into_owned();
        let first = (mention.line, mention.name.join("::"));
        let drawn = arrows.entry(text(from)).or_default().entry(text(to)).or_insert_with(|| first.clone());
        if first < *drawn {
            *drawn = first;
        }
    }
}

/// Maximum number of parts of a path. A longer one comes from re-exports that form a ring.
const MAX_PARTS: usize = 16;

impl Modules<'_> {
    fn is_below(&self, id: Id, above: Id) -> bool {
        let mut id = id;
        while id != 0 && id != above {
            id = self.all[id].parent;
        }
        id == above
    }

    /// Returns the modules that define `name` as seen from the module `id`. Returns none if it is
    /// itself a module, or not from this crate. A name within a module that cannot be found there
    /// counts as defined there, by a macro.
    fn definers(&self, id: Id, name: &Name) -> Vec<Id> {
        self.resolve(id, name)
    }

    fn resolve(&self, id: Id, name: &[String]) -> Vec<Id> {
        let (module, rest) = self.descend(id, name);
        match rest {
            [first, ..] if rest.len() < name.len() && !self.sees(module, first) => vec![module],
            _ => self.find(module, rest),
        }
    }

    /// Follows `name` as far as its parts are modules. Returns the last module and the remaining
    /// parts.
    fn descend<'n>(&self, id: Id, name: &'n [String]) -> (Id, &'n [String]) {
        let (mut id, mut rest) = (id, name);
        while let [first, after @ ..] = rest {
            let module = &self.all[id];
            let is_more = after.is_empty() && (module.items.contains(first) || module.imports.contains_key(first));
            id = match first.as_str() {
                "crate" => 0,
                "super" => module.parent,
                "self" => id,
                _ if is_more => break,
                _ => match module.children.get(first) {
                    Some(child) => *child,
                    None => break,
                },
            };
            rest = after;
        }
        (id, rest)
    }

    /// Returns whether the module has a definition or an import of `name`.
    fn sees(&self, id: Id, name: &str) -> bool {
        self.all[id].imports.contains_key(name) || !self.find(id, &[name.to_owned()]).is_empty()
    }

    /// Returns the modules that define a name that is not a child of this module. Re-exports that
    /// form a ring define nothing.
    fn find(&self, id: Id, name: &[String]) -> Vec<Id> {
        if name.len() > MAX_PARTS {
            return vec![];
        }
        let key = (id, name.to_vec());
        if let Some(found) = self.found.borrow().get(&key) {
            return found.clone();
        }
        self.found.borrow_mut().insert(key.clone(), vec![]);
        let found = self.search(id, name);
        self.found.borrow_mut().insert(key, found.clone());
        found
    }

    fn search(&self, id: Id, name: &[String]) -> Vec<Id> {
        let (module, [first, after @ ..]) = (&self.all[id], name) else { return vec![] };
        if module.items.contains(first) {
            return vec![id];
        }
        if let Some(imports) = module.imports.get(first) {
            return imports.iter().flat_map(|import| self.resolve(id, &[import, after].concat())).collect();
        }
        let globs = module.globs.iter().map(|glob| self.descend(id, glob)).filter(|(_, rest)| rest.is_empty());
        globs.flat_map(|(of, _)| self.find(of, name)).collect()
    }
}

//! Which file names what which other file defines, read from the sources.
//!
//! An arrow goes from a file to the one that *defines* what it names, in a `use` or in passing, however many modules pass the
//! name on. `mod x;` and a `pub use` of what a child defines are no arrows: a parent that only passes on what its children
//! define may be named by them for what it defines itself. A parent that uses what a child defines, and defines what that child
//! uses, is a circle like any other: what both need stands in a third file. Not seen are methods and fields, attributes,
//! comments, what another crate defines, and all that is there for tests alone.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
};

use crate::modules::{Id, Mention, Modules, Name};

/// File → the files whose definitions it names → the line of the first mention, and what it names.
pub(crate) type Arrows = BTreeMap<String, BTreeMap<String, (usize, String)>>;

/// All arrows between the files of `sources` (path, text).
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

/// Whether the file is the root of a crate.
fn is_root(file: &Path) -> bool {
    file.ends_with("lib.rs") || file.ends_with("main.rs") || file.parent() == Some(Path::new("tests"))
}

/// Draws the arrows of one mention.
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

/// How many names may stand for one another: more do so in a ring.
const MAX_STEPS: usize = 16;

impl Modules<'_> {
    fn is_below(&self, id: Id, above: Id) -> bool {
        let mut id = id;
        while id != 0 && id != above {
            id = self.all[id].parent;
        }
        id == above
    }

    /// The modules that define what is called `name` in the module `id`; none for a module itself, and for what is not this
    /// crate's. What is in a module and not seen there was defined there, by a macro.
    fn definers(&self, id: Id, name: &Name) -> Vec<Id> {
        self.resolve(id, name, MAX_STEPS)
    }

    fn resolve(&self, id: Id, name: &[String], steps: usize) -> Vec<Id> {
        let (module, rest) = self.descend(id, name);
        match rest {
            [first, ..] if rest.len() < name.len() && !self.sees(module, first) => vec![module],
            _ => self.find(module, rest, steps),
        }
    }

    /// The module that `name` leads to, as far as its pieces are modules, and the pieces that are none.
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

    /// Whether the module says where what is called `name` comes from.
    fn sees(&self, id: Id, name: &str) -> bool {
        self.all[id].imports.contains_key(name) || !self.find(id, &[name.to_owned()], MAX_STEPS).is_empty()
    }

    /// The definers of a name that the module does not have as a child.
    fn find(&self, id: Id, name: &[String], steps: usize) -> Vec<Id> {
        let (module, [first, after @ ..], 1..) = (&self.all[id], name, steps) else { return vec![] };
        if module.items.contains(first) {
            return vec![id];
        }
        if let Some(imports) = module.imports.get(first) {
            return imports.iter().flat_map(|import| self.resolve(id, &[import, after].concat(), steps - 1)).collect();
        }
        let globs = module.globs.iter().map(|glob| self.descend(id, glob)).filter(|(_, rest)| rest.is_empty());
        globs.flat_map(|(of, _)| self.find(of, name, steps - 1)).collect()
    }
}

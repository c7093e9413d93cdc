//! Checks that files have no cyclic dependencies, however long.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::{
    arrows::{Arrows, arrows},
    sources,
};

#[test]
fn no_arrows_go_in_a_circle() {
    let files: Vec<_> = ["src", "sandbox", "xtask", "tests"].iter().flat_map(|folder| sources(folder)).collect();
    let circles = circles(&arrows(&files));
    assert!(circles.is_empty(), "circles of files: {}\n\n{}", circles.len(), circles.join("\n\n"));
}

/// Returns a shortest cycle through each file that is in one, each cycle once, as readable text.
fn circles(arrows: &Arrows) -> Vec<String> {
    let mut options = BTreeMap::<BTreeSet<&str>, Vec<&str>>::new();
    for method in arrows.keys().filter_map(|file| path_back(arrows, file)) {
        options.entry(method.iter().copied().collect()).or_insert(method);
    }
    options.into_values().map(|method| cycle_text(arrows, &method)).collect()
}

/// Returns the shortest way from a file back to itself, with each file once.
fn path_back<'a>(arrows: &'a Arrows, start: &'a str) -> Option<Vec<&'a str>> {
    let (mut came_from, mut next) = (BTreeMap::<&str, &str>::new(), VecDeque::from([start]));
    while let Some(file) = next.pop_front() {
        for to in arrows.get(file).into_iter().flat_map(BTreeMap::keys) {
            if to == start {
                let mut method = vec![file];
                while let Some(before) = came_from.get(method[method.len() - 1]) {
                    method.push(before);
                }
                method.reverse();
                return Some(method);
            }
            if !came_from.contains_key(to.as_str()) {
                came_from.insert(to.as_str(), file);
                next.push_back(to);
            }
        }
    }
    None
}

/// Formats a cycle: which file names which item of which other file.
fn cycle_text(arrows: &Arrows, method: &[&str]) -> String {
    let step = |(position, file): (usize, &&str)| {
        let (line, name) = &arrows[*file][method[(position + 1) % method.len()]];
        format!("{file}:{line} names `{name}` of")
    };
    let mut lines: Vec<_> = method.iter().enumerate().map(step).collect();
    lines.push(method[0].to_owned());
    lines.join("\n")
}

/// Returns the cycles of a crate with these files.
fn circles_of(files: &[(&str, &str)]) -> Vec<String> {
    let files: Vec<_> = files.iter().map(|(file, text)| (format!("src/{file}.rs"), (*text).to_owned())).collect();
    circles(&arrows(&files))
}

const ROOT: (&str, &str) = ("lib", "mod a; mod b; mod c;");

#[test]
fn a_circle_is_reported_as_the_way_around_it() {
    let files = [
        ROOT,
        ("a", "\npub use crate::b::passed;\npub struct A(super::b::B);"),
        ("b", "use crate::{a, c::{self, D}};\npub struct B;\npub fn passed() {}\n"),
        ("c", "pub struct D; impl D { fn a(&self) { call!(|it| crate::a::A::new(it)) } }"),
    ];
    let expected =
        "src/a.rs:2 names `crate::b::passed` of\nsrc/b.rs:1 names `crate::c::D` of\nsrc/c.rs:1 names `crate::a::A::new` of\nsrc/a.rs";
    assert_eq!(circles_of(&files), [expected]);
}

#[test]
fn reexporting_parent_is_not_in_a_cycle() {
    let child = ("a/child", "use super::Parent;\npub struct Child(Parent);");
    let passes_on = ("a", "mod child;\npub use child::Child;\npub struct Parent;");
    assert_eq!(circles_of(&[ROOT, passes_on, child]), [""; 0]);
    let needs = ("a", "mod child;\npub use child::Child;\npub struct Parent;\nfn make() -> Child {}");
    assert_eq!(circles_of(&[ROOT, needs, child]), ["src/a.rs:4 names `Child` of\nsrc/a/child.rs:1 names `super::Parent` of\nsrc/a.rs"]);
}

#[test]
fn reexports_belong_to_their_definer() {
    let files = [ROOT, ("a", "pub use crate::b::B;"), ("b", "pub struct B; use crate::c::C;"), ("c", "use crate::a::B; pub struct C;")];
    assert_eq!(circles_of(&files), ["src/b.rs:1 names `crate::c::C` of\nsrc/c.rs:1 names `crate::a::B` of\nsrc/b.rs"]);
}

#[test]
fn names_in_tests_methods_and_comments_are_not_dependencies() {
    let unseen = "pub struct A; // crate::b::B
        /// [`crate::b::B`]
        #[cfg(test)] fn of<C, D>() -> crate::b::B {}
        fn text() -> impl Sized + use<> { self.b.b().b::<u8>() }
        #[cfg(test)] mod tests { use crate::b::B; }";
    assert_eq!(circles_of(&[ROOT, ("a", unseen), ("b", "use super::a::A; pub struct B; pub fn b() {}")]), [""; 0]);
}

//! The crates, and parts of crates, that can be tested.

use crate::Failure;

/// A part of the tree whose tests must catch every change of it.
pub(crate) struct MutationArea {
    pub(crate) name: &'static str,
    pub(crate) package: &'static str,
    /// The root file of the package's crate.
    pub(crate) crate_root: &'static str,
    /// Sources, as globs.
    files: &'static [&'static str],
    /// Sources among these that belong to other areas.
    without: &'static [&'static str],
    /// The unit tests, as parts of their names.
    pub(crate) own: &'static [&'static str],
    /// The other tests: their binary, and parts of their names.
    pub(crate) outside: (&'static str, &'static [&'static str]),
}

const GUARD: &[&str] = &["src/capability/guard.rs", "src/capability/guard/**"];
const SECRETS: &[&str] = &["src/capability/secret.rs", "src/capability/secret/**"];

const AREAS: &[MutationArea] = &[
    MutationArea {
        name: "money",
        package: "tollhouse-money",
        crate_root: "src/money/lib.rs",
        files: &["src/money/**"],
        without: &[],
        own: &[],
        outside: (
            "it",
            &[
                "payments::",
                "settlements::",
                "credits::",
                "crash::",
                "revenue::",
                "payouts::",
                "bearer::",
                "story::",
                "gates::",
                "quotes::",
                "metered::",
                "upto::",
                "ledger::",
                "refunds::",
                "extensions::",
                "x402_rules::",
                "chain::",
                "upgrade_path::",
                "payment_binding::",
                "payment_ids::",
                "unpaid::",
                "clients::",
            ],
        ),
    },
    MutationArea {
        name: "call",
        package: "tollhouse-call",
        crate_root: "src/call/lib.rs",
        files: &["src/call/**"],
        without: &[],
        own: &[],
        outside: (
            "it",
            &[
                "errors::",
                "call_paths::",
                "payments::",
                "settlements::",
                "calls::",
                "logs::",
                "shares::",
                "long_texts::",
                "streams::",
                "drafts::",
                "owners::",
                "mcp::",
                "readiness::",
                "builders::",
                "upgrade_path::",
                "payment_binding::",
                "payment_ids::",
                "unpaid::",
                "web::admin_pages::",
                "web::lists::",
            ],
        ),
    },
    MutationArea {
        name: "capability",
        package: "tollhouse-capability",
        crate_root: "src/capability/lib.rs",
        files: &["src/capability/**"],
        without: &[GUARD[0], GUARD[1], SECRETS[0], SECRETS[1]],
        own: &[],
        outside: ("it", &["isolation::", "contract::", "fixtures::", "logs::", "secrets::", "gates::", "errors::"]),
    },
    MutationArea {
        name: "guard",
        package: "tollhouse-capability",
        crate_root: "src/capability/lib.rs",
        files: GUARD,
        without: &[],
        own: &["guard::"],
        outside: ("it", &["readiness::", "secrets::", "contract::", "story::"]),
    },
    MutationArea {
        name: "secrets",
        package: "tollhouse-capability",
        crate_root: "src/capability/lib.rs",
        files: SECRETS,
        without: &[],
        own: &["secret::"],
        outside: ("it", &["secrets::"]),
    },
    MutationArea {
        name: "pool",
        package: "tollhouse-pool",
        crate_root: "sandbox/pool/src/lib.rs",
        files: &["sandbox/pool/src/**"],
        without: &[],
        own: &[],
        outside: ("pool", &[]),
    },
];

pub(crate) fn find(name: &str) -> Result<&'static MutationArea, Failure> {
    let names: Vec<_> = AREAS.iter().map(|area| format!("`{}`", area.name)).collect();
    AREAS
        .iter()
        .find(|area| area.name == name)
        .ok_or_else(|| format!("`cargo xtask mutants` takes one of these crates or parts of one: {}", names.join(", ")))
}

impl MutationArea {
    /// Returns its package and sources as options of cargo-mutants.
    pub(crate) fn sources(&self) -> Vec<&'static str> {
        let files = self.files.iter().flat_map(|glob| ["--file", *glob]);
        let without = self.without.iter().flat_map(|glob| ["--exclude", *glob]);
        ["--package", self.package].into_iter().chain(files).chain(without).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_and_tests_of_every_area_are_there() {
        let there = |path: String| assert!(crate::root().join(&path).exists(), "{path}");
        for area in AREAS {
            there(area.crate_root.to_owned());
            for glob in area.files.iter().chain(area.without) {
                there(glob.trim_end_matches("/**").to_owned());
            }
            for claims in area.outside.1 {
                there(format!("tests/it/{}.rs", claims.trim_end_matches("::").replace("::", "/")));
            }
        }
    }
}

//! Tiers: how a worker executes code.

use std::{cmp::Ordering, fmt};

use serde::{
    Deserialize, Serialize,
    de::{
        IntoDeserializer,
        value::{Error, StrDeserializer},
    },
};

/// How a worker executes code, ordered by strictness. Stored by number, so new variants are added at the end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub enum Tier {
    /// As fast as the engine can: V8 compiles frequently used code and maps it as executable.
    #[default]
    Jit,
    /// The engine interprets, and only the program itself is ever executable. QuickJS has no other
    /// mode.
    Jitless,
    /// Like `jit`, with `WebAssembly`. The host chooses it for tools with the capability `wasm`. Nobody sets it.
    Wasm,
}

impl Tier {
    /// All tiers, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Jit, Self::Jitless, Self::Wasm];

    /// The tiers that operators set.
    pub const SETTABLE: [Self; 2] = [Self::Jit, Self::Jitless];

    /// Returns the tier that operators set by this JSON name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::of_worker(name).filter(|tier| Self::SETTABLE.contains(tier))
    }

    /// Returns the tier that a worker is started in by this JSON name.
    #[must_use]
    pub fn of_worker(name: &str) -> Option<Self> {
        let name: StrDeserializer<'_, Error> = name.into_deserializer();
        Self::deserialize(name).ok()
    }

    /// Returns the tier of workers for code that this tier applies to. `wasm`: whether the code is granted WebAssembly,
    /// which only a compiler can run.
    #[must_use]
    pub fn with_wasm(self, wasm: bool) -> Self {
        match self {
            Self::Jit if wasm => Self::Wasm,
            // Without a grant, no setting can lead to this tier.
            Self::Wasm if !wasm => Self::Jit,
            tier => tier,
        }
    }

    fn strictness(self) -> u8 {
        match self {
            Self::Wasm => 0,
            Self::Jit => 1,
            Self::Jitless => 2,
        }
    }
}

impl Ord for Tier {
    fn cmp(&self, other: &Self) -> Ordering {
        self.strictness().cmp(&other.strictness())
    }
}

impl PartialOrd for Tier {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiers_are_ordered_by_strictness_and_named() {
        assert_eq!(Tier::Jit.max(Tier::Jitless), Tier::Jitless);
        assert_eq!(Tier::Jit.max(Tier::Wasm), Tier::Jit);
        assert_eq!(Tier::ALL.map(|tier| Tier::of_worker(&tier.to_string())), Tier::ALL.map(Some));
        assert_eq!(Tier::ALL.map(|tier| Tier::named(&tier.to_string())), [Some(Tier::Jit), Some(Tier::Jitless), None]);
        assert_eq!(Tier::ALL.map(|tier| tier as usize), [0, 1, 2], "the numbers are stored");
        assert_eq!((Tier::named("Jit"), Tier::default()), (None, Tier::Jit));
    }

    #[test]
    fn webassembly_needs_a_grant_and_a_compiler() {
        assert_eq!(Tier::ALL.map(|tier| tier.with_wasm(true)), [Tier::Wasm, Tier::Jitless, Tier::Wasm]);
        assert_eq!(Tier::ALL.map(|tier| tier.with_wasm(false)), [Tier::Jit, Tier::Jitless, Tier::Jit]);
    }
}

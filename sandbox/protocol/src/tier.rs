//! Tiers: how a worker executes code.

use std::fmt;

use serde::{
    Deserialize, Serialize,
    de::{
        IntoDeserializer,
        value::{Error, StrDeserializer},
    },
};

/// How a worker executes code. Later variants are stricter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub enum Tier {
    /// As fast as the engine can: V8 compiles frequently used code and maps it as executable.
    #[default]
    Jit,
    /// The engine interprets, and only the program itself is ever executable. QuickJS has no other
    /// mode.
    Jitless,
}

impl Tier {
    /// All tiers.
    pub const ALL: [Self; 2] = [Self::Jit, Self::Jitless];

    /// Returns the tier with this JSON name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let name: StrDeserializer<'_, Error> = name.into_deserializer();
        Self::deserialize(name).ok()
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
        assert_eq!(Tier::ALL.map(|tier| Tier::named(&tier.to_string())), Tier::ALL.map(Some));
        assert_eq!((Tier::named("Jit"), Tier::default()), (None, Tier::Jit));
    }
}

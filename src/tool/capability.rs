//! The capabilities: what of `ctx` a handler has by a grant alone, each said once.

use serde::{Deserialize, Serialize};

/// Hands the table of capabilities to the macro `$then`: here it declares [`Capability`] and [`Capabilities`], in the host's half of
/// the ops the gates before them.
///
/// A row is the name that ops go by, the capability, its name in records, the member of `ctx` that it opens, what it touches, what
/// becomes of the member where it is not granted, what a tool that has it does, and what granting it allows.
#[macro_export]
macro_rules! capabilities {
    ($then:ident) => {
        $then! {
            kv Kv "kv" "kv" Keeps "is refused"
                "keeps values between calls" "keep values of its own between calls, up to its limits";
            files Files "files" "files" Keeps "is refused"
                "keeps files between calls" "keep files of its own between calls, up to its limits";
            http_get_json HttpGetJson "httpGetJson" "httpGetJson" Others "is refused"
                "reads JSON from hosts that it was allowed"
                "have this host ask the hosts that it was allowed, and read the JSON that they answer; nothing else of the network";
            logs Logs "logs" "log" Nothing "writes nothing"
                "writes a log for its builder" "write lines that its builder reads, also what callers sent to it";
        }
    };
}

/// What a capability reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touches {
    /// What the endpoint keeps from call to call.
    Keeps,
    /// Servers of others: those among the endpoint's allowed hosts.
    Others,
    /// Nothing that another call sees.
    Nothing,
}

/// What is known of a capability.
#[derive(Debug)]
pub struct CapabilityRow {
    /// As records and policies say it.
    pub name: &'static str,
    /// The member of `ctx` that it opens.
    pub member: &'static str,
    /// What it reaches.
    pub touches: Touches,
    /// What becomes of the member without it.
    pub without: &'static str,
    /// What a tool that has it does, told to who builds or calls it.
    pub does: &'static str,
    /// What granting it allows, told to who decides.
    pub allows: &'static str,
}

macro_rules! declare {
    ($($field:ident $capability:ident $name:literal $member:literal $touches:ident $without:literal $does:literal $allows:literal;)*) => {
        /// One of what a handler may touch.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Capability { $(#[doc = concat!("`ctx.", $member, "`.")] $capability,)* }

        impl Capability {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$capability,)*];

            /// What stands in the table.
            #[must_use]
            pub const fn row(self) -> &'static CapabilityRow {
                match self {
                    $(Self::$capability => {
                        &CapabilityRow {
                            name: $name,
                            member: $member,
                            touches: Touches::$touches,
                            without: $without,
                            does: $does,
                            allows: $allows,
                        }
                    })*
                }
            }
        }

        /// What a handler may touch.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct Capabilities {
            $(#[doc = concat!("`ctx.", $member, "`.")] #[serde(rename = $name)] pub $field: bool,)*
        }

        impl Capabilities {
            /// Every one.
            pub const ALL: Self = Self { $($field: true,)* };

            /// Whether this one is there.
            #[must_use]
            pub const fn has(self, capability: Capability) -> bool {
                match capability {
                    $(Capability::$capability => self.$field,)*
                }
            }

            /// What `self` has and `other` has not.
            #[must_use]
            pub fn without(self, other: Self) -> Self {
                Self { $($field: self.$field && !other.$field,)* }
            }

            /// What either has.
            #[must_use]
            pub fn union(self, other: Self) -> Self {
                Self { $($field: self.$field || other.$field,)* }
            }
        }
    };
}

capabilities!(declare);

impl Capabilities {
    /// What both have.
    #[must_use]
    pub fn intersection(self, other: Self) -> Self {
        self.without(self.without(other))
    }

    /// Whether there is one at all.
    #[must_use]
    pub fn any(self) -> bool {
        self != Self::default()
    }

    /// Those that are there.
    pub fn each(self) -> impl Iterator<Item = Capability> {
        Capability::ALL.iter().copied().filter(move |capability| self.has(*capability))
    }

    /// The names of those that are there.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        self.each().map(|capability| capability.row().name)
    }

    /// Whether one that is there touches this.
    #[must_use]
    pub fn touch(self, what: Touches) -> bool {
        self.each().any(|capability| capability.row().touches == what)
    }
}

impl Capability {
    /// The line of a manifest that asks for it.
    #[must_use]
    pub fn asked_by(self) -> String {
        let CapabilityRow { name, touches, .. } = self.row();
        match touches {
            Touches::Others => format!("`capabilities.{name}: true` and `allowedHosts`"),
            Touches::Keeps | Touches::Nothing => format!("`capabilities.{name}: true`"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_rows_are_of_one_name_or_one_member() {
        for (place, capability) in Capability::ALL.iter().enumerate() {
            let row = capability.row();
            assert!(
                Capability::ALL[..place].iter().all(|other| other.row().name != row.name && other.row().member != row.member),
                "{row:?}"
            );
        }
    }

    #[test]
    fn sets_are_added_and_taken_apart_one_by_one() {
        let all = Capabilities::ALL;
        assert_eq!(all.each().count(), Capability::ALL.len());
        for capability in Capability::ALL {
            let name = capability.row().name;
            let one: Capabilities = serde_json::from_value(serde_json::json!({ name: true })).unwrap();
            assert!(one.has(*capability) && one.any() && one.names().eq([name]));
            assert!(!all.without(one).has(*capability) && all.without(one).union(one) == all);
            assert_eq!((all.intersection(one), one.without(all)), (one, Capabilities::default()));
        }
    }
}

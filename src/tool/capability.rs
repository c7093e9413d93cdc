//! The table of capabilities: the members of `ctx` that a handler can use only with a grant.

use serde::{Deserialize, Serialize};

/// Passes the table of capabilities to the macro `$then`. Here it declares [`Capability`] and [`Capabilities`]; in the
/// host's part of the ops it declares their gates.
///
/// A row consists of the name used by ops, the capability, its name in records, what a handler uses, what it touches,
/// what happens to that without a grant, what a tool with it does, and what granting it allows.
#[macro_export]
macro_rules! capabilities {
    ($then:ident) => {
        $then! {
            kv Kv "kv" "ctx.kv" Keeps "is refused"
                "stores values between calls" "store its own values between calls, within its limits";
            files Files "files" "ctx.files" Keeps "is refused"
                "stores files between calls" "store its own files between calls, within its limits";
            http_get_json HttpGetJson "httpGetJson" "ctx.httpGetJson" Others "is refused"
                "reads JSON from its allowed hosts"
                "request JSON from its allowed hosts, through this host, and nothing else on the network";
            fetch Fetch "fetch" "fetch" Others "is refused"
                "sends requests to its allowed hosts"
                "send any request to its allowed hosts, through this host, and reach nothing else on the network";
            logs Logs "logs" "ctx.log" Nothing "writes nothing"
                "writes a log for its builder" "write log lines that its builder can read, including texts from callers";
            wasm Wasm "wasm" "WebAssembly" Nothing "is not defined"
                "runs WebAssembly"
                "compile and run WebAssembly, which no review can read, within the limits of its calls";
        }
    };
}

/// The objects that a capability affects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CapabilityScope {
    /// The data that a tool stores between calls.
    Keeps,
    /// Servers of others, among the tool's allowed hosts.
    Others,
    /// Nothing that another call can see.
    Nothing,
}

/// The description of a capability.
#[derive(Debug)]
pub struct CapabilityRow {
    /// Its name in records and policies.
    pub name: &'static str,
    /// The member of `ctx`, or the global, that it opens, as a handler writes it.
    pub member: &'static str,
    /// The objects that it affects.
    pub touches: CapabilityScope,
    /// The behavior of the member without a grant.
    pub without: &'static str,
    /// A description for builders and callers of what a tool with it does.
    pub does: &'static str,
    /// A description for admins of what granting it allows.
    pub allows: &'static str,
}

macro_rules! declare {
    ($($field:ident $capability:ident $name:literal $member:literal $touches:ident $without:literal $does:literal $allows:literal;)*) => {
        /// A capability of a handler.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Capability { $(#[doc = concat!("`", $member, "`.")] $capability,)* }

        impl Capability {
            /// All capabilities.
            pub const ALL: &[Self] = &[$(Self::$capability,)*];

            /// Returns its row of the table.
            pub const fn row(self) -> &'static CapabilityRow {
                match self {
                    $(Self::$capability => {
                        &CapabilityRow {
                            name: $name,
                            member: $member,
                            touches: CapabilityScope::$touches,
                            without: $without,
                            does: $does,
                            allows: $allows,
                        }
                    })*
                }
            }
        }

        /// A set of capabilities.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
        #[serde(default, deny_unknown_fields)]
        pub struct Capabilities {
            $(#[doc = concat!("`", $member, "`.")] #[serde(rename = $name)] pub $field: bool,)*
        }

        impl Capabilities {
            /// The set of all capabilities.
            pub const ALL: Self = Self { $($field: true,)* };

            /// Returns whether the set contains this capability.
            pub const fn has(self, capability: Capability) -> bool {
                match capability {
                    $(Capability::$capability => self.$field,)*
                }
            }

            /// Returns the capabilities in `self` but not in `other`.
            #[must_use]
            pub fn without(self, other: Self) -> Self {
                Self { $($field: self.$field && !other.$field,)* }
            }

            /// Returns the capabilities in either set.
            #[must_use]
            pub fn union(self, other: Self) -> Self {
                Self { $($field: self.$field || other.$field,)* }
            }
        }
    };
}

capabilities!(declare);

impl Capabilities {
    /// Returns the capabilities in both sets.
    #[must_use]
    pub fn intersection(self, other: Self) -> Self {
        self.without(self.without(other))
    }

    /// Returns whether the set is not empty.
    pub fn any(self) -> bool {
        self != Self::default()
    }

    /// Returns the capabilities in the set.
    pub fn each(self) -> impl Iterator<Item = Capability> {
        Capability::ALL.iter().copied().filter(move |capability| self.has(*capability))
    }

    /// Returns the names of the capabilities in the set.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        self.each().map(|capability| capability.row().name)
    }

    /// Returns the capabilities in the set that reach servers of others.
    #[must_use]
    pub fn of_network(self) -> Self {
        Self { http_get_json: self.http_get_json, fetch: self.fetch, ..Self::default() }
    }

    /// Returns whether a capability in the set affects `what`.
    pub fn touch(self, what: CapabilityScope) -> bool {
        self.each().any(|capability| capability.row().touches == what)
    }
}

impl Capability {
    /// Returns the lines of a manifest that request it.
    pub fn manifest_lines(self) -> String {
        let CapabilityRow { name, touches, .. } = self.row();
        match touches {
            CapabilityScope::Others => format!("`capabilities.{name}: true` and `allowedHosts`"),
            CapabilityScope::Keeps | CapabilityScope::Nothing => format!("`capabilities.{name}: true`"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capability_names_and_members_are_unique() {
        for (position, capability) in Capability::ALL.iter().enumerate() {
            let row = capability.row();
            assert!(
                Capability::ALL[..position].iter().all(|other| other.row().name != row.name && other.row().member != row.member),
                "{row:?}"
            );
        }
    }

    #[test]
    fn capabilities_of_the_network_are_those_that_touch_others() {
        for capability in Capability::ALL {
            let touches_others = capability.row().touches == CapabilityScope::Others;
            assert_eq!(Capabilities::ALL.of_network().has(*capability), touches_others, "{capability:?}");
        }
    }

    #[test]
    fn set_operations_agree() {
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

//! Rules of granting. Pure functions from what an endpoint has and what is wanted to what it gets.

use tollhouse_capability::{AllowedHosts, host_of_entry};
use tollhouse_tool::{ANY_PUBLIC_HOST, Capabilities, Endpoint, VersionMaker};

use super::Policy;

/// The actor who changes an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangedBy {
    /// The host itself, which publishes the built-in tools.
    Host,
    Admin,
    /// The builder who owns the endpoint.
    Builder,
}

impl ChangedBy {
    /// Returns the name in events.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Admin => "admin",
            Self::Builder => "owner",
        }
    }
}

impl From<ChangedBy> for VersionMaker {
    fn from(by: ChangedBy) -> Self {
        match by {
            ChangedBy::Host => Self::Host,
            ChangedBy::Admin => Self::Admin,
            ChangedBy::Builder => Self::Owner,
        }
    }
}

/// Capabilities, and the hosts for those of the network.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct AccessSet {
    pub(super) capabilities: Capabilities,
    pub(super) hosts: Vec<String>,
}

impl AccessSet {
    fn union(&self, other: &Self) -> Self {
        let added = other.hosts.iter().filter(|host| !self.hosts.contains(host));
        let hosts = self.hosts.iter().chain(added).cloned().collect();
        Self { capabilities: self.capabilities.union(other.capabilities), hosts }
    }

    pub(super) fn without(&self, other: &Self) -> Self {
        let hosts = self.hosts.iter().filter(|host| !other.hosts.contains(host)).cloned().collect();
        Self { capabilities: self.capabilities.without(other.capabilities), hosts }
    }

    fn intersection(&self, other: &Self) -> Self {
        self.without(&self.without(other))
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.capabilities.any() && self.hosts.is_empty()
    }
}

/// Granted, requested and withheld rights of an endpoint. The other parts never overlap with
/// `granted`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Entitlements {
    pub(super) granted: AccessSet,
    pub(super) requested: AccessSet,
    pub(super) withheld: AccessSet,
}

impl Entitlements {
    pub(super) fn of(endpoint: &Endpoint) -> Self {
        let reach = |capabilities, hosts: &[String]| AccessSet { capabilities, hosts: hosts.to_vec() };
        Self {
            granted: reach(endpoint.capabilities, &endpoint.allowed_hosts),
            requested: reach(endpoint.requested_capabilities, &endpoint.requested_hosts),
            withheld: reach(endpoint.withheld_capabilities, &endpoint.withheld_hosts),
        }
    }

    pub(super) fn put(self, endpoint: &mut Endpoint) {
        (endpoint.capabilities, endpoint.allowed_hosts) = (self.granted.capabilities, self.granted.hosts);
        (endpoint.requested_capabilities, endpoint.requested_hosts) = (self.requested.capabilities, self.requested.hosts);
        (endpoint.withheld_capabilities, endpoint.withheld_hosts) = (self.withheld.capabilities, self.withheld.hosts);
    }

    /// Returns what the owner wants now: granted and requested rights.
    pub(super) fn requested(&self) -> AccessSet {
        self.granted.union(&self.requested)
    }

    /// Handles the request of `by` for exactly `wanted`. `any_public` says whether an admin lets the builder's tools
    /// list any public host.
    pub(super) fn changed(&self, wanted: &AccessSet, policy: &Policy, by: ChangedBy, any_public: bool) -> Self {
        if by == ChangedBy::Builder { self.request(wanted, policy, any_public) } else { self.replace(wanted) }
    }

    /// Handles the owner's request for exactly `wanted`. The owner keeps granted rights in it, and
    /// gets those that the policy grants without approval, unless an admin withheld them. The rest
    /// is requested. Hosts depend on the capabilities of the network: they need no approval if the
    /// policy grants one of these to builders, and each that is wanted. No policy grants any public
    /// host, which would include hosts that an admin withheld.
    fn request(&self, wanted: &AccessSet, policy: &Policy, any_public: bool) -> Self {
        let free = policy.builder_capabilities.of_network();
        let is_free = free.any() && !wanted.capabilities.of_network().without(free).any();
        let is_free = |host: &String| match host.as_str() {
            ANY_PUBLIC_HOST => any_public && self.withheld.hosts.is_empty(),
            _ => is_free && !self.withholds(host),
        };
        let hosts = wanted.hosts.iter().filter(|&host| is_free(host)).cloned().collect();
        let free = AccessSet { capabilities: policy.builder_capabilities, hosts }.without(&self.withheld);
        let granted = wanted.intersection(&self.granted.union(&free));
        Self { requested: wanted.without(&granted), granted, withheld: self.withheld.clone() }
    }

    /// Returns whether an admin withheld the host of an entry, one that its wildcard covers, or a wildcard that covers it,
    /// at any port. A withheld [`ANY_PUBLIC_HOST`] stands for no other entry.
    fn withholds(&self, entry: &str) -> bool {
        let is_withheld = |withheld: &String| {
            host_of_entry(withheld) == host_of_entry(entry)
                || covers(entry, withheld)
                || (withheld != ANY_PUBLIC_HOST && covers(withheld, entry))
        };
        self.withheld.hosts.iter().any(is_withheld)
    }

    /// Sets the granted rights, as an admin.
    fn replace(&self, wanted: &AccessSet) -> Self {
        let taken = self.granted.without(wanted);
        Self { granted: wanted.clone(), requested: self.requested.without(wanted), withheld: self.withheld.union(&taken).without(wanted) }
    }

    /// Grants `given` as an admin's answer to a request. The rest of the request is dropped.
    pub(super) fn approved(&self, given: &AccessSet) -> Self {
        Self { granted: self.granted.union(given), requested: AccessSet::default(), withheld: self.withheld.without(given) }
    }

    /// Rejects a request as an admin. The owner can ask again.
    pub(super) fn rejected(&self) -> Self {
        Self { requested: AccessSet::default(), ..self.clone() }
    }

    /// Restores a request that an admin has decided about, except for rights granted since.
    pub(super) fn reopened(&self, request: &AccessSet) -> Self {
        Self { requested: self.requested.union(&request.without(&self.granted)), ..self.clone() }
    }

    /// Revokes `taken` as an admin. Only an admin can grant it again. A wildcard that covers one of its hosts goes with it,
    /// because the tool would still reach that host.
    pub(super) fn revoked(&self, taken: &AccessSet) -> Self {
        let mut granted = self.granted.without(taken);
        granted.hosts.retain(|entry| !entry.starts_with('*') || !taken.hosts.iter().any(|host| covers(entry, host)));
        Self { granted, requested: self.requested.without(taken), withheld: self.withheld.union(taken) }
    }
}

/// Returns whether an entry allows the host of another one at some port.
fn covers(entry: &str, other: &str) -> bool {
    AllowedHosts::parse(&[entry]).is_ok_and(|hosts| hosts.allows_at_any_port(host_of_entry(other)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses capabilities such as `kv files http logs`, and hosts, which contain a dot.
    fn reach(words: &str) -> AccessSet {
        let mut reach = AccessSet::default();
        for word in words.split_whitespace() {
            match word {
                "kv" => reach.capabilities.kv = true,
                "files" => reach.capabilities.files = true,
                "http" => reach.capabilities.http_get_json = true,
                "fetch" => reach.capabilities.fetch = true,
                "logs" => reach.capabilities.logs = true,
                "wasm" => reach.capabilities.wasm = true,
                host => reach.hosts.push(host.to_owned()),
            }
        }
        reach
    }

    fn standing(granted: &str, requested: &str, withheld: &str) -> Entitlements {
        Entitlements { granted: reach(granted), requested: reach(requested), withheld: reach(withheld) }
    }

    fn policy(free: &str) -> Policy {
        Policy { builder_capabilities: reach(free).capabilities, ..Policy::default() }
    }

    #[test]
    fn builder_gets_what_the_policy_grants_and_requests_the_rest() {
        for (name, before, wanted, free, after) in [
            ("first", standing("", "", ""), "kv files", "kv logs", standing("kv", "files", "")),
            ("hosts wait", standing("", "", ""), "http a.b", "kv", standing("", "http a.b", "")),
            ("hosts are free with http", standing("", "", ""), "http a.b", "http", standing("http a.b", "", "")),
            ("hosts are free with fetch", standing("", "", ""), "fetch a.b", "fetch", standing("fetch a.b", "", "")),
            ("hosts wait for the other", standing("", "", ""), "http fetch a.b", "http", standing("http", "fetch a.b", "")),
            ("a host for fetch waits", standing("fetch a.b", "", ""), "fetch a.b c.d", "http", standing("fetch a.b", "c.d", "")),
            ("granted before stays", standing("files", "", ""), "files", "", standing("files", "", "")),
            ("a new host waits", standing("http a.b", "", ""), "http a.b c.d", "kv", standing("http a.b", "c.d", "")),
            ("removing is at once", standing("kv http a.b", "files", ""), "kv", "kv", standing("kv", "", "")),
            ("taken away is asked for", standing("", "", "kv a.b"), "kv a.b", "kv http", standing("", "kv a.b", "kv a.b")),
            ("taken away at another port", standing("http", "", "a.b"), "http a.b:8443", "http", standing("http", "a.b:8443", "a.b")),
            ("taken away without subdomains", standing("http", "", "a.b"), "http *.a.b", "http", standing("http", "*.a.b", "a.b")),
            ("taken away under a wildcard", standing("http", "", "x.a.b"), "http *.a.b", "http", standing("http", "*.a.b", "x.a.b")),
            ("taken away with its wildcard", standing("http", "", "*.a.b"), "http x.a.b", "http", standing("http", "x.a.b", "*.a.b")),
            ("WebAssembly waits for its own grant", standing("", "", ""), "kv wasm", "kv fetch", standing("kv", "wasm", "")),
            ("dropped and wanted again", standing("", "", ""), "files", "kv", standing("", "files", "")),
        ] {
            assert_eq!(before.request(&reach(wanted), &policy(free), false), after, "{name}");
        }
    }

    #[test]
    fn any_public_host_is_free_only_for_builders_with_a_grant() {
        let free = policy("kv http fetch");
        for (before, any_public, after) in [
            (standing("", "", ""), false, standing("fetch a.b", "*", "")),
            (standing("", "", ""), true, standing("fetch a.b *", "", "")),
            (standing("*", "", ""), false, standing("fetch a.b *", "", "")),
            (standing("", "", "*"), true, standing("fetch a.b", "*", "*")),
            (standing("", "", "c.d"), true, standing("fetch a.b", "*", "c.d")),
        ] {
            assert_eq!(before.request(&reach("fetch a.b *"), &free, any_public), after, "{before:?}");
        }
    }

    #[test]
    fn admin_grants_rejects_and_revokes() {
        let request = standing("kv", "files http a.b c.d", "logs");
        assert_eq!(request.approved(&request.requested), standing("kv files http a.b c.d", "", "logs"));
        assert_eq!(request.approved(&reach("http a.b")), standing("kv http a.b", "", "logs"));
        assert_eq!(request.approved(&reach("logs")), standing("kv logs", "", ""));
        assert_eq!(request.rejected(), standing("kv", "", "logs"));
        assert_eq!(request.rejected().reopened(&request.requested), request);
        assert_eq!(request.approved(&reach("http a.b")).reopened(&request.requested), standing("kv http a.b", "files c.d", "logs"));
        assert_eq!(request.revoked(&reach("kv a.b")), standing("", "files http c.d", "logs kv a.b").sorted_like(&["a.b"]));
        assert_eq!(request.replace(&reach("files")), standing("files", "http a.b c.d", "logs kv"));
        assert_eq!(request.replace(&reach("kv logs")), standing("kv logs", "files http a.b c.d", ""));
    }

    #[test]
    fn a_wildcard_goes_with_a_revoked_host_that_it_covers() {
        for (granted, taken, left) in [
            ("fetch *.a.b c.d", "x.a.b", "fetch c.d"),
            ("fetch * c.d", "e.f", "fetch c.d"),
            ("fetch *.a.b c.d", "c.d", "fetch *.a.b"),
            ("fetch *.a.b c.d", "x.y.a.b", "fetch *.a.b c.d"),
            ("fetch c.d", "c.d:8443", "fetch c.d"),
        ] {
            let after = standing(granted, "", "").revoked(&reach(taken));
            assert_eq!(after, standing(left, "", taken), "{granted} without {taken}");
            let again = after.request(&reach(granted), &policy("fetch"), true);
            assert_eq!(again.granted, reach(left), "{granted} without {taken}, wanted again");
        }
    }

    impl Entitlements {
        /// Returns `self` with these withheld hosts in this order, for comparison.
        fn sorted_like(mut self, hosts: &[&str]) -> Self {
            self.withheld.hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
            self
        }
    }

    #[test]
    fn revoked_rights_are_not_regained_by_requesting() {
        let all = ["kv", "files", "http", "logs", "a.b"];
        for taken in all {
            let after = standing("kv files http logs a.b", "", "").revoked(&reach(taken));
            let again = after.request(&reach("kv files http logs a.b"), &policy("kv files http logs"), true);
            assert_eq!(again.granted.intersection(&reach(taken)), AccessSet::default(), "{taken}");
            assert_eq!(again.requested, reach(taken));
        }
    }
}

//! The rules of granting: pure, from what an endpoint has and what somebody wants to what it gets.

use tollhouse_tool::{Capabilities, Endpoint, Maker};

use super::Policy;

/// Who changes an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// The host itself, which publishes what it ships.
    Host,
    /// An admin.
    Admin,
    /// The builder whose endpoint it is.
    Builder,
}

impl By {
    /// The name in events.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Admin => "admin",
            Self::Builder => "owner",
        }
    }
}

impl From<By> for Maker {
    fn from(by: By) -> Self {
        match by {
            By::Host => Self::Host,
            By::Admin => Self::Admin,
            By::Builder => Self::Owner,
        }
    }
}

/// Capabilities, and the hosts that `httpGetJson` reaches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Reach {
    pub(super) capabilities: Capabilities,
    pub(super) hosts: Vec<String>,
}

impl Reach {
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

/// What an endpoint may touch, what is asked for, and what an admin took away. No part overlaps with `granted`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) granted: Reach,
    pub(super) requested: Reach,
    pub(super) withheld: Reach,
}

impl Standing {
    pub(super) fn of(endpoint: &Endpoint) -> Self {
        let reach = |capabilities, hosts: &[String]| Reach { capabilities, hosts: hosts.to_vec() };
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

    /// What the owner wants at this moment: what they have and what they asked for.
    pub(super) fn wanted(&self) -> Reach {
        self.granted.union(&self.requested)
    }

    /// The owner wants exactly `wish`. They keep what they have of it and get what the policy lets
    /// them take, unless an admin took it away; the rest is requested. Hosts come with `httpGetJson`:
    /// they are free where the policy lets builders take that.
    pub(super) fn asked(&self, wish: &Reach, policy: &Policy) -> Self {
        let hosts = if policy.builder_capabilities.http_get_json { wish.hosts.clone() } else { vec![] };
        let free = Reach { capabilities: policy.builder_capabilities, hosts }.without(&self.withheld);
        let granted = wish.intersection(&self.granted.union(&free));
        Self { requested: wish.without(&granted), granted, withheld: self.withheld.clone() }
    }

    /// An admin sets what the endpoint has.
    pub(super) fn set(&self, wish: &Reach) -> Self {
        let taken = self.granted.without(wish);
        Self { granted: wish.clone(), requested: self.requested.without(wish), withheld: self.withheld.union(&taken).without(wish) }
    }

    /// An admin grants `given`. The request is answered with that: what it had beyond is gone.
    pub(super) fn approved(&self, given: &Reach) -> Self {
        Self { granted: self.granted.union(given), requested: Reach::default(), withheld: self.withheld.without(given) }
    }

    /// An admin refuses what is asked for. The owner may ask again.
    pub(super) fn rejected(&self) -> Self {
        Self { requested: Reach::default(), ..self.clone() }
    }

    /// What was `asked` when an admin decided about it is asked again, but for what is granted by now.
    pub(super) fn reopened(&self, asked: &Reach) -> Self {
        Self { requested: self.requested.union(&asked.without(&self.granted)), ..self.clone() }
    }

    /// An admin takes `taken` away; only an admin gives it back.
    pub(super) fn revoked(&self, taken: &Reach) -> Self {
        Self { granted: self.granted.without(taken), requested: self.requested.without(taken), withheld: self.withheld.union(taken) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `kv files http logs` and hosts by a dot in them.
    fn reach(words: &str) -> Reach {
        let mut reach = Reach::default();
        for word in words.split_whitespace() {
            match word {
                "kv" => reach.capabilities.kv = true,
                "files" => reach.capabilities.files = true,
                "http" => reach.capabilities.http_get_json = true,
                "logs" => reach.capabilities.logs = true,
                host => reach.hosts.push(host.to_owned()),
            }
        }
        reach
    }

    fn standing(granted: &str, requested: &str, withheld: &str) -> Standing {
        Standing { granted: reach(granted), requested: reach(requested), withheld: reach(withheld) }
    }

    fn policy(free: &str) -> Policy {
        Policy { builder_capabilities: reach(free).capabilities, ..Policy::default() }
    }

    #[test]
    fn a_builder_gets_what_the_policy_allows_and_asks_for_the_rest() {
        for (name, before, wish, free, after) in [
            ("first", standing("", "", ""), "kv files", "kv logs", standing("kv", "files", "")),
            ("hosts wait", standing("", "", ""), "http a.b", "kv", standing("", "http a.b", "")),
            ("hosts are free with http", standing("", "", ""), "http a.b", "http", standing("http a.b", "", "")),
            ("granted before stays", standing("files", "", ""), "files", "", standing("files", "", "")),
            ("a new host waits", standing("http a.b", "", ""), "http a.b c.d", "kv", standing("http a.b", "c.d", "")),
            ("removing is at once", standing("kv http a.b", "files", ""), "kv", "kv", standing("kv", "", "")),
            ("taken away is asked for", standing("", "", "kv a.b"), "kv a.b", "kv http", standing("", "kv a.b", "kv a.b")),
            ("dropped and wanted again", standing("", "", ""), "files", "kv", standing("", "files", "")),
        ] {
            assert_eq!(before.asked(&reach(wish), &policy(free)), after, "{name}");
        }
    }

    #[test]
    fn an_admin_grants_refuses_and_takes_back() {
        let asked = standing("kv", "files http a.b c.d", "logs");
        assert_eq!(asked.approved(&asked.requested), standing("kv files http a.b c.d", "", "logs"));
        assert_eq!(asked.approved(&reach("http a.b")), standing("kv http a.b", "", "logs"));
        assert_eq!(asked.approved(&reach("logs")), standing("kv logs", "", ""));
        assert_eq!(asked.rejected(), standing("kv", "", "logs"));
        assert_eq!(asked.rejected().reopened(&asked.requested), asked);
        assert_eq!(asked.approved(&reach("http a.b")).reopened(&asked.requested), standing("kv http a.b", "files c.d", "logs"));
        assert_eq!(asked.revoked(&reach("kv a.b")), standing("", "files http c.d", "logs kv a.b").sorted_like(&["a.b"]));
        assert_eq!(asked.set(&reach("files")), standing("files", "http a.b c.d", "logs kv"));
        assert_eq!(asked.set(&reach("kv logs")), standing("kv logs", "files http a.b c.d", ""));
    }

    impl Standing {
        /// `self` with these withheld hosts; capabilities have no order.
        fn sorted_like(mut self, hosts: &[&str]) -> Self {
            self.withheld.hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
            self
        }
    }

    #[test]
    fn nothing_that_was_taken_away_comes_back_by_asking() {
        let all = ["kv", "files", "http", "logs", "a.b"];
        for taken in all {
            let after = standing("kv files http logs a.b", "", "").revoked(&reach(taken));
            let again = after.asked(&reach("kv files http logs a.b"), &policy("kv files http logs"));
            assert_eq!(again.granted.intersection(&reach(taken)), Reach::default(), "{taken}");
            assert_eq!(again.requested, reach(taken));
        }
    }
}

//! Compiled code of large sources, which workers get instead of compiling them again.
//!
//! Compiled code controls the worker that loads it. So a worker compiles a source before it runs any of that
//! source. Only workers of the same owner, bundle and tier get the compiled code, and it is never on disk.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use tollhouse_fair::lock::Lock;
use tollhouse_protocol::{Bundle, Tier, limits::COMPILED_BYTES};

/// Maximum bytes of all code.
const MAX_BYTES: usize = 64 << 20;
/// Maximum bytes of the code of one owner.
const MAX_OWNER_BYTES: usize = MAX_BYTES / 4;
/// Bytes that an entry counts at least, so that there are at most 1,024.
const LEAST_BYTES: usize = 64 << 10;

/// The code, least recently used first.
#[derive(Debug, Default)]
pub(crate) struct CodeCache(Lock<VecDeque<Entry>>);

/// The code of one bundle.
#[derive(Debug)]
struct Entry {
    owner: Box<str>,
    specifier: Box<str>,
    version: Box<str>,
    tier: Tier,
    code: Bytes,
}

impl Entry {
    fn is_of(&self, owner: &str, bundle: &Bundle, tier: Tier) -> bool {
        *self.version == *bundle.version && *self.specifier == *bundle.specifier && *self.owner == *owner && self.tier == tier
    }

    fn bytes(&self) -> usize {
        self.code.len().max(LEAST_BYTES)
    }
}

impl CodeCache {
    /// Returns the code of a bundle.
    pub(crate) fn get(&self, owner: &str, bundle: &Bundle, tier: Tier) -> Option<Bytes> {
        let mut entries = self.0.lock();
        let at = entries.iter().position(|entry| entry.is_of(owner, bundle, tier))?;
        let entry = entries.remove(at)?;
        let code = entry.code.clone();
        entries.push_back(entry);
        Some(code)
    }

    /// Keeps the code of a bundle. Code that is empty or too large is not kept.
    pub(crate) fn put(&self, owner: &str, bundle: &Bundle, tier: Tier, code: Bytes) {
        if code.is_empty() || code.len() > COMPILED_BYTES {
            return;
        }
        let (specifier, version) = (bundle.specifier.as_str().into(), bundle.version.as_str().into());
        let mut entries = self.0.lock();
        entries.retain(|entry| !entry.is_of(owner, bundle, tier));
        entries.push_back(Entry { owner: owner.into(), specifier, version, tier, code });
        while let Some(crowding) = crowding_owner(&entries) {
            let Some(oldest) = entries.iter().position(|entry| entry.owner == crowding) else { return };
            entries.remove(oldest);
        }
    }

    /// Drops the code of a bundle that did not load with it.
    pub(crate) fn forget(&self, owner: &str, bundle: &Bundle, tier: Tier) {
        self.0.lock().retain(|entry| !entry.is_of(owner, bundle, tier));
    }
}

/// Returns the owner with the most bytes, if these or all bytes exceed their maximum.
fn crowding_owner(entries: &VecDeque<Entry>) -> Option<Box<str>> {
    let mut owners = BTreeMap::<&str, usize>::new();
    for entry in entries {
        *owners.entry(&entry.owner).or_default() += entry.bytes();
    }
    let total: usize = owners.values().sum();
    let (owner, most) = owners.into_iter().max_by_key(|(_, bytes)| *bytes)?;
    (most > MAX_OWNER_BYTES || total > MAX_BYTES).then(|| owner.into())
}

#[cfg(test)]
mod tests {
    use tollhouse_protocol::Schemas;

    use super::*;

    fn bundle(version: usize) -> Bundle {
        Bundle { version: version.to_string(), specifier: "tool:/x/1".into(), source: None, schemas: Schemas::default() }
    }

    fn code(mib: usize) -> Bytes {
        vec![1; mib << 20].into()
    }

    #[test]
    fn only_the_same_owner_bundle_and_tier_get_code() {
        let cache = CodeCache::default();
        cache.put("a", &bundle(1), Tier::Jit, code(1));
        assert_eq!(cache.get("a", &bundle(1), Tier::Jit), Some(code(1)));
        let other = Bundle { specifier: "tool:/y/1".into(), ..bundle(1) };
        assert!([&bundle(2), &other].iter().all(|bundle| cache.get("a", bundle, Tier::Jit).is_none()));
        assert!(cache.get("b", &bundle(1), Tier::Jit).is_none() && cache.get("a", &bundle(1), Tier::Wasm).is_none());
        cache.forget("a", &bundle(1), Tier::Jit);
        assert_eq!(cache.get("a", &bundle(1), Tier::Jit), None);
        for unusable in [Bytes::new(), code(5)] {
            cache.put("a", &bundle(1), Tier::Jit, unusable);
            assert_eq!(cache.get("a", &bundle(1), Tier::Jit), None);
        }
    }

    #[test]
    fn compiled_code_is_limited_in_all_and_by_owner() {
        let cache = CodeCache::default();
        let held = |owner: &str| (0..2_000).filter(|version| cache.get(owner, &bundle(*version), Tier::Jit).is_some()).count();
        for version in 0..10 {
            cache.put("a", &bundle(version), Tier::Jit, code(4));
        }
        assert_eq!(held("a"), 4);
        assert!(cache.get("a", &bundle(9), Tier::Jit).is_some(), "the oldest go first");
        for owner in ["b", "c", "d", "e"] {
            (0..3).for_each(|version| cache.put(owner, &bundle(version), Tier::Jit, code(4)));
        }
        assert_eq!(["b", "c", "d", "e"].map(held), [3; 4], "the owner with the most gives way");
        assert_eq!(held("a"), 4);
        cache.put("f", &bundle(0), Tier::Jit, code(4));
        assert_eq!((held("a"), held("f")), (3, 1));
        let small = CodeCache::default();
        (0..2_000).for_each(|version| small.put(&format!("o{}", version % 8), &bundle(version), Tier::Jit, Bytes::from_static(b"1")));
        assert_eq!(small.0.lock().len(), 1_024);
    }
}

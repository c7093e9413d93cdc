//! Random histories, compared with a map.

use super::{harness::*, random::random};

pub async fn random_history_matches_a_map(store: impl Store) {
    let mut chance = Chance::seeded();
    let mut model: BTreeMap<(Space, Vec<u8>), Vec<u8>> = BTreeMap::new();
    for _ in 0..1_500 {
        step(&store, &mut model, &mut chance).await;
    }
    same_as(&store, &model).await;
}

const SPACES: [Space; 3] = [Space::Kv, Space::Logs, Space::Secrets];

/// Applies one random commit or read to the store and to the model.
pub async fn step(store: &impl Store, model: &mut BTreeMap<(Space, Vec<u8>), Vec<u8>>, chance: &mut Chance) {
    if chance.below(3) == 0 {
        return scan_both(store, model, chance).await;
    }
    let checks: Vec<Check> = (0..chance.below(3))
        .map(|_| {
            let (space, key) = (chance.space(), chance.key());
            let mut expected = model.get(&(space, key.clone())).cloned();
            if chance.below(5) == 0 {
                expected = Some(b"never written".to_vec());
            }
            Check { space, key, expected: expected.map(Into::into) }
        })
        .collect();
    let writes: Vec<Write> = (0..chance.below(6))
        .map(|_| Write { space: chance.space(), key: chance.key(), value: (chance.below(3) > 0).then(|| chance.value()) })
        .collect();
    let holds = checks.iter().all(|check| model.get(&(check.space, check.key.clone())).map(Vec::as_slice) == check.expected.as_deref());
    let durability = if chance.below(20) == 0 { Durable } else { Buffered };
    match store.apply(Batch::of(checks, writes.clone()), durability).await {
        Ok(_) => assert!(holds, "a commit went through whose check does not hold"),
        Err(StoreError::Conflict) => return assert!(!holds, "a commit was refused whose checks hold"),
        Err(error) => panic!("{error}"),
    }
    for write in writes {
        match write.value {
            Some(value) => model.insert((write.space, write.key), value),
            None => model.remove(&(write.space, write.key)),
        };
    }
}

async fn scan_both(store: &impl Store, model: &BTreeMap<(Space, Vec<u8>), Vec<u8>>, chance: &mut Chance) {
    let (space, limit) = (chance.space(), chance.below(12));
    let mut range = match chance.below(3) {
        0 => KeyRange::prefix(&chance.key()),
        _ => KeyRange { start: chance.bound(), end: chance.bound(), ..KeyRange::all() },
    };
    if chance.below(3) == 0 {
        range.bytes = chance.below(2_000);
    }
    let direction = if chance.below(2) == 0 { Forward } else { Backward };
    let within = |key: &Vec<u8>| std::ops::RangeBounds::contains(&(range.start.clone(), range.end.clone()), key);
    let inside = model.iter().filter(|((s, key), _)| *s == space && within(key)).map(|((_, key), value)| (key.clone(), value.clone()));
    let mut bytes = 0;
    let goes_on = |(key, value): &(Vec<u8>, Vec<u8>)| {
        let before = bytes;
        bytes += key.len() + value.len();
        before < range.bytes
    };
    let requested: KeyValues = match direction {
        Forward => inside.take(limit).take_while(goes_on).collect(),
        Backward => inside.rev().take(limit).take_while(goes_on).collect(),
    };
    assert!(store.scan(space, range.clone(), limit, direction).await.unwrap() == requested, "{space:?} {range:?} {limit} {direction:?}");
}

pub async fn same_as(store: &impl Store, model: &BTreeMap<(Space, Vec<u8>), Vec<u8>>) {
    for space in SPACES {
        let requested: KeyValues =
            model.iter().filter(|((s, _), _)| *s == space).map(|((_, key), value)| (key.clone(), value.clone())).collect();
        assert!(all(store, space).await == requested, "{space:?}");
        for (key, value) in requested {
            assert!(store.get(space, &key).await.unwrap() == Some(value));
        }
    }
}

/// Random values for these histories.
pub struct Chance(fastrand::Rng);

impl Chance {
    pub fn seeded() -> Self {
        Self(random())
    }

    pub fn below(&mut self, limit: usize) -> usize {
        self.0.usize(..limit)
    }

    fn space(&mut self) -> Space {
        *self.0.choice(&SPACES).unwrap()
    }

    /// Keys are short and of few different bytes, so that they collide, are adjacent, and are
    /// prefixes of each other.
    fn key(&mut self) -> Vec<u8> {
        (0..self.below(5)).map(|_| *self.0.choice(&[0, 1, b'a', 0xfe, 0xff]).unwrap()).collect()
    }

    fn value(&mut self) -> Vec<u8> {
        let size = match self.below(10) {
            0 => self.below(40_000),
            1 => 4_090 + self.below(12),
            _ => self.below(60),
        };
        vec![self.0.u8(..); size]
    }

    fn bound(&mut self) -> Bound<Vec<u8>> {
        match self.below(5) {
            0 => Bound::Unbounded,
            1 | 2 => Bound::Excluded(self.key()),
            _ => Bound::Included(self.key()),
        }
    }
}

//! Packs: many small values under one key.
//!
//! For values that are written by the thousand and read seldom, a pack costs the store a fraction of what one key for
//! each would cost. A pack contains its format, then for each item the length of its name, the length of its value, the
//! name and the value. Packs stay below the size at which sled splits values, because its log is slowest at freeing
//! split values.

use bytes::Buf as _;

use super::Value;

/// Version of the layout described above.
const FORMAT: u8 = 1;

/// Maximum size of a pack with more than one item, in bytes.
const FULL: usize = 4_000;
/// Bytes of an item besides its name and value.
const HEAD: usize = 5;

/// A value to put into a pack, with its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item<'a> {
    /// The name, at most 255 bytes.
    pub name: &'a [u8],
    /// The value.
    pub value: &'a [u8],
}

/// An encoded pack. It starts with its own format number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pack(Vec<u8>);

impl Pack {
    /// Returns its items in order. It stops at the first malformed item.
    pub fn items(&self) -> impl Iterator<Item = Item<'_>> {
        unpack(&self.0)
    }

    /// Returns its size in bytes.
    pub fn bytes(&self) -> usize {
        self.0.len()
    }
}

impl Value for Pack {
    fn to_bytes(&self) -> Vec<u8> {
        self.0.clone()
    }

    fn of_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Self(bytes.to_vec()))
    }
}

/// Groups `items` into packs, in order. Each pack comes with the number of its items.
pub fn packs<'a>(items: &[Item<'a>]) -> impl Iterator<Item = (usize, Pack)> {
    let mut rest = items;
    std::iter::from_fn(move || {
        let mut bytes = 1;
        let fits = |item: &&Item<'a>| {
            bytes += HEAD + item.name.len() + item.value.len();
            bytes <= FULL
        };
        let count = rest.iter().take_while(fits).count().max(1).min(rest.len());
        let (some, behind) = rest.split_at(count);
        rest = behind;
        (count > 0).then(|| (count, Pack(pack(some))))
    })
}

fn pack(items: &[Item<'_>]) -> Vec<u8> {
    let bytes: usize = items.iter().map(|item| HEAD + item.name.len() + item.value.len()).sum();
    let mut pack = Vec::with_capacity(1 + bytes);
    pack.push(FORMAT);
    for Item { name, value } in items {
        let (name_bytes, value_bytes) = (u8::try_from(name.len()), u32::try_from(value.len()));
        pack.push(name_bytes.expect("names in packs are ids"));
        pack.extend_from_slice(&value_bytes.expect("values in packs are small").to_be_bytes());
        pack.extend_from_slice(name);
        pack.extend_from_slice(value);
    }
    pack
}

fn unpack(pack: &[u8]) -> impl Iterator<Item = Item<'_>> {
    let mut rest = pack.strip_prefix(&[FORMAT]).unwrap_or_default();
    std::iter::from_fn(move || {
        let (name_bytes, value_bytes) = (rest.try_get_u8().ok()?, rest.try_get_u32().ok()?);
        Some(Item { name: rest.split_off(..usize::from(name_bytes))?, value: rest.split_off(..value_bytes as usize)? })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_read_as_they_were_packed() {
        let items = [(&b"a"[..], &b"one"[..]), (b"", b""), (&[b'x'; 255], &[7; 70_000])];
        let items = items.map(|(name, value)| Item { name, value });
        let packs: Vec<_> = packs(&items).collect();
        assert_eq!(packs.iter().map(|(count, _)| *count).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(packs.iter().flat_map(|(_, pack)| pack.items()).collect::<Vec<_>>(), items);
        assert_eq!(super::packs(&[]).count(), 0);
    }

    #[test]
    fn packs_are_filled_up_to_the_limit() {
        let items = [Item { name: b"name", value: &[7; 650] }; 100];
        for (count, pack) in packs(&items) {
            assert_eq!(count, pack.items().count());
            assert!(pack.bytes() <= FULL && (count == 6 || count == 100 % 6), "{count} in {}", pack.bytes());
        }
    }

    #[test]
    fn a_damaged_pack_ends_at_the_first_malformed_item() {
        let items = [Item { name: b"a", value: b"one" }, Item { name: b"b", value: b"two" }];
        let whole = pack(&items);
        for cut in 0..whole.len() {
            let read: Vec<_> = unpack(&whole[..cut]).collect();
            assert!(items.starts_with(&read), "cut at {cut}");
        }
        assert_eq!(unpack(b"\x02whatever").count(), 0);
    }
}

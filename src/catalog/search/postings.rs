//! The texts that contain a stem, as variable-length numbers: two or three bytes for each.

use super::text::Slot;

/// Slots and weights of the texts with a stem, in the order in which they were added.
#[derive(Debug, Default)]
pub(super) struct Postings {
    /// For each text the difference to the slot before, and the weight.
    bytes: Vec<u8>,
    last: Slot,
    len: u32,
}

impl Postings {
    pub(super) fn push(&mut self, slot: Slot, weight: u16) {
        // A slot that is used again may be lower than the one before.
        write(&mut self.bytes, slot.wrapping_sub(self.last));
        write(&mut self.bytes, u32::from(weight));
        self.last = slot;
        self.len += 1;
    }

    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Slot, u16)> {
        let (mut bytes, mut slot) = (self.bytes.as_slice(), 0_u32);
        std::iter::from_fn(move || {
            slot = slot.wrapping_add(read(&mut bytes)?);
            Some((slot, read(&mut bytes)? as u16))
        })
    }
}

impl FromIterator<(Slot, u16)> for Postings {
    fn from_iter<I: IntoIterator<Item = (Slot, u16)>>(texts: I) -> Self {
        let mut postings = Self::default();
        texts.into_iter().for_each(|(slot, weight)| postings.push(slot, weight));
        postings.bytes.shrink_to_fit();
        postings
    }
}

/// Takes a number from the front of `bytes`: seven bits per byte, lowest first.
fn read(bytes: &mut &[u8]) -> Option<u32> {
    let (mut number, mut shift) = (0, 0);
    loop {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u32::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
        shift += 7;
    }
}

fn write(bytes: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

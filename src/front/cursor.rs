//! Cursors: where the next page of a list begins, in a form that no reader makes up.
//!
//! A cursor holds its place and a checksum of that place, the list and what was asked of it, so that one that was changed,
//! shortened, or given for another list or question is told apart. It is no secret and grants nothing: whoever may read the list may
//! read it from any place. It outlives the process, and any host of the same version reads it.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};

/// Bytes of the checksum.
const CHECK: usize = 8;
/// Longest cursor, in characters.
const LONGEST: usize = 256;

/// The cursor of `place` in the list that `of` names, with all that was asked of it.
#[must_use]
pub fn write(of: &[&str], place: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode([place, &check(of, place)].concat())
}

/// The place that a cursor of this list holds; `None` for one that [`write()`] did not make for it.
#[must_use]
pub fn read(of: &[&str], cursor: &str) -> Option<Vec<u8>> {
    let mut place = URL_SAFE_NO_PAD.decode(Some(cursor).filter(|cursor| cursor.len() <= LONGEST)?).ok()?;
    let checked = place.split_off(place.len().checked_sub(CHECK)?);
    (checked == check(of, &place)).then_some(place)
}

fn check(of: &[&str], place: &[u8]) -> [u8; CHECK] {
    let mut hash = Sha256::new();
    for part in of.iter().map(|part| part.as_bytes()).chain([place]) {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let hash = hash.finalize();
    std::array::from_fn(|index| hash[index])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_holds_for_its_list_alone() {
        let cursor = write(&["tools", "a"], b"here");
        assert_eq!(read(&["tools", "a"], &cursor).unwrap(), b"here");
        for other in [&["tools", "b"][..], &["tools"], &["toolsa"], &["tools", "a", ""], &["tool", "sa"]] {
            assert_eq!(read(other, &cursor), None, "{other:?}");
        }
    }

    #[test]
    fn a_cursor_that_was_made_up_is_told_apart() {
        let cursor = write(&["tools"], b"here");
        let made_up = URL_SAFE_NO_PAD.encode("here");
        for wrong in ["", "%", "a", &made_up, &cursor[1..], &cursor[..cursor.len() - 1], &format!("{cursor}A"), &"A".repeat(300)] {
            assert_eq!(read(&["tools"], wrong), None, "{wrong}");
        }
    }
}

//! Cursors: opaque positions of the next page of a list.
//!
//! A cursor contains its position and a checksum over the position, the list and its query. The checksum rejects a
//! cursor that was changed, truncated or made for another list or query. A cursor is not secret and grants nothing:
//! anyone who can read the list can read it from any position. It stays valid after a restart, and on every host of the
//! same version.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};

/// Length of the checksum, in bytes.
const CHECK: usize = 8;
/// Maximum length of a cursor, in characters.
const MAX_LEN: usize = 256;

/// Encodes the cursor of `place` in the list and query named by `of`.
#[must_use]
pub fn write(of: &[&str], position: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode([position, &check(of, position)].concat())
}

/// Decodes the position of a cursor. Returns `None` if [`write()`] did not make it for this list and query.
#[must_use]
pub fn read(of: &[&str], cursor: &str) -> Option<Vec<u8>> {
    let mut position = URL_SAFE_NO_PAD.decode(Some(cursor).filter(|cursor| cursor.len() <= MAX_LEN)?).ok()?;
    let checked = position.split_off(position.len().checked_sub(CHECK)?);
    (checked == check(of, &position)).then_some(position)
}

fn check(of: &[&str], position: &[u8]) -> [u8; CHECK] {
    let mut hash = Sha256::new();
    for part in of.iter().map(|part| part.as_bytes()).chain([position]) {
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
    fn cursor_is_valid_only_for_its_list() {
        let cursor = write(&["tools", "a"], b"here");
        assert_eq!(read(&["tools", "a"], &cursor).unwrap(), b"here");
        for other in [&["tools", "b"][..], &["tools"], &["toolsa"], &["tools", "a", ""], &["tool", "sa"]] {
            assert_eq!(read(other, &cursor), None, "{other:?}");
        }
    }

    #[test]
    fn forged_cursor_is_rejected() {
        let cursor = write(&["tools"], b"here");
        let made_up = URL_SAFE_NO_PAD.encode("here");
        for wrong in ["", "%", "a", &made_up, &cursor[1..], &cursor[..cursor.len() - 1], &format!("{cursor}A"), &"A".repeat(300)] {
            assert_eq!(read(&["tools"], wrong), None, "{wrong}");
        }
    }
}

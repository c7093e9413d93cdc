//! Arguments as the scripts pass them.

use tollhouse_protocol::limits::{LIST_DEFAULT, LIST_LIMIT};

/// An optional number: below 0 is none.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates, and below 0 is none")]
pub(super) fn whole(number: f64) -> Option<u64> {
    (number >= 0.0).then_some(number as u64)
}

/// An optional text: empty is none.
pub(super) fn some(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

/// The `limit` of a list: as many as are asked for, and no more than there may be.
pub(super) fn page(limit: f64) -> u32 {
    whole(limit).map_or(LIST_DEFAULT, |limit| u32::try_from(limit).unwrap_or(u32::MAX).min(LIST_LIMIT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_is_what_is_asked_for_up_to_the_limit() {
        for (asked, page) in [(-1.0, LIST_DEFAULT), (1.0, 1), (f64::from(LIST_LIMIT), LIST_LIMIT), (9_007_199_254_740_991.0, LIST_LIMIT)] {
            assert_eq!(super::page(asked), page, "{asked}");
        }
    }
}

//! Long literals of packages that many tools bundle, so that nobody has to review them again.

use super::operator::sha256_hex;

/// SHA-256 of each literal, in ascending order.
const LITERALS: [&str; 9] = [
    "04eae3dab5866316c7682f123d50561e7ff7c54a37f91b7e021b0764a9aac2e9", // @pdf-lib/standard-fonts 1.0.0, metrics of a font
    "21d916b616860e69be418c8c684fad9c6d67ed237d2752a060b7aa16ed27c6cc", // @pdf-lib/standard-fonts 1.0.0, metrics of a font
    "233753d50a3eb1eb2ef165f46dc9f153ee6436adcf18e00ca16563b4c60ed4c8", // @pdf-lib/standard-fonts 1.0.0, metrics of a font
    "4fc2ab12b9a3adace5544430d8b3df713977e7aaf722c0f58dd7d2d0bc50d023", // @pdf-lib/standard-fonts 1.0.0, metrics of a font
    "7396cc684978e79bcc34cf4874bae48537fe80df3db8a49aec72e19c8c2dec6e", // entities 7.0.1 and 8.0.0, HTML entities
    "9585c1bbaf55bf176924d0f8ace43a7e4d8405317f275cb8b805319bbe310a7e", // @pdf-lib/standard-fonts 1.0.0, metrics of a font
    "c1358aec68f53fc447b21e53f24e38e64d78e52d07b7c255b9108627581f148e", // @pdf-lib/standard-fonts 1.0.0, metrics of a font
    "c70deefd8a677087e820292b463c42d8d2428ead4f14abcbeb576355dbb27dfc", // @pdf-lib/standard-fonts 1.0.0, metrics of a font
    "e12b6bb1c9f03622788876068f3e12583f967a63ee3315991a93975f45f11689", // @pdf-lib/standard-fonts 1.0.0, metrics of a font
];

/// Returns whether a literal is part of a well-known package.
pub(super) fn is_known(literal: &str) -> bool {
    LITERALS.binary_search(&sha256_hex(literal).as_str()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_literals_are_sorted_hashes() {
        assert!(LITERALS.is_sorted() && LITERALS.iter().all(|hash| hash.len() == 64));
        assert!(!is_known(&"A".repeat(9_000)));
    }
}

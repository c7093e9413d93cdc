//! American spellings of verbs.

/// Stems of verbs in `-ize`, whose British spelling has an `s`.
const IZE_STEMS: &[&str] = &[
    "anonym",
    "author",
    "canonical",
    "categor",
    "character",
    "custom",
    "deserial",
    "emphas",
    "final",
    "general",
    "initial",
    "item",
    "local",
    "material",
    "maxim",
    "memor",
    "minim",
    "modern",
    "monet",
    "neutral",
    "normal",
    "optim",
    "organ",
    "parallel",
    "penal",
    "prior",
    "random",
    "real",
    "recogn",
    "sanit",
    "serial",
    "special",
    "stabil",
    "standard",
    "summar",
    "symbol",
    "synchron",
    "token",
    "unauthor",
    "util",
    "visual",
];

/// Returns the American spelling of a verb in `-ise`.
pub(super) fn ize(word: &str) -> Option<String> {
    const ENDINGS: &[&str] = &["e", "es", "ed", "er", "ers", "ing", "ation", "ations", "able"];
    let lower = word.to_lowercase();
    let parts = IZE_STEMS.iter().find_map(|stem| Some((stem, lower.strip_prefix(stem)?.strip_prefix("is")?)));
    parts.filter(|(_, ending)| ENDINGS.contains(ending)).map(|(stem, ending)| format!("{stem}iz{ending}"))
}

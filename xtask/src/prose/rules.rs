//! The rules for prose, each with a name, a check and the advice in its message.

use super::{
    passage::{Area, CODE, Passage, Word, sentences, words},
    phrases,
    rule::Rule,
    spelling::ize,
};

/// Maximum number of words in a sentence.
const MAX_SENTENCE: usize = 25;

/// Maximum number of words in a cell.
const MAX_CELL: usize = 15;

/// Maximum number of characters in a line of a document, outside tables and code.
pub(super) const MAX_LINE: usize = 120;

/// Maximum number of characters in the help of a command or flag.
const MAX_HELP: usize = 60;

/// A text that breaks a rule.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) rule: Rule,
    pub(super) area: Area,
    pub(super) line: usize,
    /// The words that break the rule.
    pub(super) text: String,
    /// Advice on how to fix it.
    pub(super) advice: String,
}

/// Returns the findings in a passage, in the order of the rules.
pub(super) fn check(passage: &Passage) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut add = |rule, offset, text: &str, advice: String| {
        let text = text.replace(CODE, "`…`");
        found.push(Finding { rule, area: passage.area, line: passage.line(offset), text, advice });
    };
    let words = words(&passage.text);
    for at in 0..words.len() {
        let text = |count: usize| {
            let last = &words[at + count - 1];
            &passage.text[words[at].start..last.start + last.text.len()]
        };
        for (rule, count, instead) in phrases::find(&words[at..]) {
            if rule != Rule::May || passage.area != Area::Comment {
                add(rule, words[at].start, text(count), format!("write: {instead}"));
            }
        }
        if let Some(instead) = ize(words[at].text) {
            add(Rule::Spelling, words[at].start, words[at].text, format!("write: {instead}"));
        }
        if let Some(count) = has_be(&words[at..]) {
            add(Rule::HasBe, words[at].start, text(count), "name the action: *Pauses a tool*".to_owned());
        }
    }
    for (start, sentence) in sentences(&passage.text) {
        if is_noun_clause(passage, sentence) {
            add(Rule::NounClause, start, &head(sentence), "begin with the actor or the thing".to_owned());
        }
        let count = longest_part(passage.area, sentence);
        let is_limited = matches!(passage.area, Area::Document | Area::Page | Area::Error | Area::ApiError | Area::SettingHelp);
        if is_limited && count > MAX_SENTENCE && !is_list_of_code(sentence) {
            add(Rule::LongSentence, start, &head(sentence), format!("split it: {count} words, and the limit is {MAX_SENTENCE}"));
        }
    }
    let text = passage.text.trim();
    let count = words_of(text);
    if passage.area == Area::Cell && count > MAX_CELL && !is_list_of_code(text) {
        add(
            Rule::LongCell,
            0,
            &head(text),
            format!("shorten it, or move a part below the table: {count} words, and the limit is {MAX_CELL}"),
        );
    }
    let first = words.first().filter(|first| text.starts_with(first.text)).map_or("", |word| word.text);
    if (passage.is_alone || passage.area == Area::ApiError) && is_lower(first) {
        add(Rule::SentenceCase, 0, &head(text), "begin with a capital".to_owned());
    }
    if passage.area == Area::Error && is_capitalized(first) {
        add(Rule::ErrorCase, 0, &head(text), "begin in lower case, because other errors embed it; put a name in backticks".to_owned());
    }
    if matches!(passage.area, Area::Help | Area::SettingHelp | Area::ApiError) && text.ends_with('.') && !text.ends_with("..") {
        add(Rule::FinalPeriod, 0, &head(text), "remove the final period".to_owned());
    }
    found
}

/// Checks the help of a command or flag as it is shown.
pub(super) fn check_help(help: &str, line: usize) -> Option<Finding> {
    let shown = help.replace('`', "");
    let length = shown.chars().count();
    let advice = || format!("shorten it: {length} characters, and the limit is {MAX_HELP}; a second paragraph can have the rest");
    (length > MAX_HELP).then(|| Finding { rule: Rule::HelpLength, area: Area::Help, line, text: head(&shown), advice: advice() })
}

/// Checks a line of a document.
pub(super) fn check_line(text: &str, line: usize) -> Option<Finding> {
    let length = text.chars().count();
    let advice = || format!("break it after a sentence or a clause: {length} characters, and the limit is {MAX_LINE}");
    (length > MAX_LINE).then(|| Finding { rule: Rule::LongLine, area: Area::Document, line, text: head(text), advice: advice() })
}

/// Returns the number of words of a sentence. An error has no periods: its parts end at colons and semicolons. The default
/// of a setting does not count.
fn longest_part(area: Area, sentence: &str) -> usize {
    match area {
        Area::Error | Area::ApiError => sentence.split([':', ';']).map(words_of).max().unwrap_or_default(),
        Area::SettingHelp => words_of(sentence.split(" [default").next().unwrap_or_default()),
        _ => words_of(sentence),
    }
}

/// Returns the first words of a text.
fn head(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    let is_cut = words.len() > 8;
    format!("{}{}", words[..words.len().min(8)].join(" "), if is_cut { " …" } else { "" })
}

fn words_of(text: &str) -> usize {
    text.split_whitespace().filter(|word| word.contains(|char: char| char.is_alphanumeric() || char == CODE)).count()
}

/// Returns whether a text has no words but code, so that it is looked through rather than read.
fn is_list_of_code(text: &str) -> bool {
    !text.contains(char::is_alphanumeric)
}

/// Returns whether a word is a usual word without a capital, and not a name.
fn is_lower(word: &str) -> bool {
    const NAMES: &[&str] = &["curl", "npm"];
    word.len() > 1 && !NAMES.contains(&word) && word.bytes().all(|byte| byte.is_ascii_lowercase() || matches!(byte, b'-' | b'\''))
}

/// Returns whether a word is a usual word with a capital, and not a name such as `PostgreSQL`.
fn is_capitalized(word: &str) -> bool {
    const COMMON: &[&str] = &[
        "The", "A", "An", "This", "That", "No", "Not", "Only", "It", "Its", "There", "You", "Your", "Each", "Every", "Too", "At", "In",
        "On", "Cannot", "Unknown", "Invalid", "Missing", "Failed", "Send", "Use",
    ];
    COMMON.contains(&word)
}

/// Returns how many words `has X be` has at the start of `words`.
fn has_be(words: &[Word<'_>]) -> Option<usize> {
    const BREAKS: &[&str] = &[
        "to", "must", "can", "cannot", "could", "should", "will", "would", "may", "might", "shall", "not", "that", "which", "who", "been",
        "and", "or", "than", "what", "let", "lets", "nor",
    ];
    if !words.first().is_some_and(|word| ["has", "have", "had"].contains(&word.text.to_lowercase().as_str())) {
        return None;
    }
    let object = words[1..].iter().take(6).take_while(|word| !word.is_first && !BREAKS.contains(&word.text)).collect::<Vec<_>>();
    object.iter().position(|word| word.text == "be").filter(|at| *at > 0).map(|at| at + 2)
}

/// Returns whether a sentence begins with a clause that is used as a noun.
fn is_noun_clause(passage: &Passage, sentence: &str) -> bool {
    let mut words = sentence.trim_start_matches(['*', '(']).split_whitespace();
    let (first, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let begins = match first {
        "What" | "Who" | "Whoever" | "Whose" => true,
        "That" => second == "which",
        // A comma ends the group that a part is of: *Of two requests, one succeeds.*
        "Of" => second != "course" && !sentence.contains(','),
        _ => false,
    };
    // Headings, questions and names of pages are no sentences.
    begins && !passage.is_heading && !sentence.contains('?') && sentence.ends_with(['.', ':', ';']) && words.count() > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(area: Area, text: &str) -> Vec<Rule> {
        let mut passage = Passage::new(area);
        passage.push_marked(text, 1);
        passage.is_alone = area == Area::Page;
        check(&passage).into_iter().map(|finding| finding.rule).collect()
    }

    #[track_caller]
    fn assert_finds(rule: Rule, area: Area, found: &[&str], free: &[&str]) {
        for text in found {
            assert_eq!(rules(area, text), [rule], "{text}");
        }
        for text in free {
            assert_eq!(rules(area, text), [], "{text}");
        }
    }

    #[test]
    fn words_are_found_in_the_excluded_sense_only() {
        let found = [
            "The limit stands in the table.",
            "Each tool runs anew.",
            "It was called often of late.",
            "You can take it back.",
            "The store is away.",
            "No library is to be had.",
            "It restarts by itself.",
            "Ten is its most.",
            "The host lets go of the lease.",
            "This mends the row.",
            "A member of the body is missing.",
            "Every face has this limit.",
            "Calls come in by one door.",
            "The command ends with 3.",
        ];
        let free = [
            "A value stands in for the key.",
            "It keeps a number of late answers.",
            "Take the backup first.",
            "The server is away from the network.",
            "At most ten calls run, most of them free.",
            "Its most recent call failed.",
            "Let the tool run.",
            "The members of the team are builders.",
            "The host faces the internet.",
            "The command ends with exit code 3.",
            "Write `anew` there.",
        ];
        assert_finds(Rule::Word, Area::Document, &found, &free);
    }

    #[test]
    fn told_is_found_for_information() {
        let found = ["The caller is told 429.", "The message tells the reason."];
        assert_finds(Rule::Told, Area::Comment, &found, &["The caller gets 429.", "The host cannot tell why."]);
    }

    #[test]
    fn may_is_found_in_texts_for_users() {
        assert_finds(Rule::May, Area::Message, &["the proxy may block streams"], &["the proxy can block streams", "valid until 3 May2026"]);
        assert_finds(Rule::May, Area::Comment, &[], &["One address may use a quarter of it."]);
    }

    #[test]
    fn a_causative_have_is_found() {
        let found = ["Has a revoked credit be one again.", "They have the balance be zero."];
        let free =
            ["It has been paid.", "The rows have to be read.", "Tools that have a price can be called.", "It has a name, so be brief."];
        assert_finds(Rule::HasBe, Area::Comment, &found, &free);
    }

    #[test]
    fn noun_clauses_are_found_at_the_start_of_a_sentence() {
        let found = [
            "What does not fit is refused.",
            "It ends. Who asks too often waits.",
            "That which is paid stays.",
            "Of each case it holds the code.",
            "Whoever asks waits.",
        ];
        let free = [
            "What happens next?",
            "The host knows what it sold.",
            "Whole numbers only.",
            "What a handler gets",
            "Of course it ends.",
            "Of two payments, one runs.",
            "It ends, whoever asks.",
        ];
        assert_finds(Rule::NounClause, Area::Document, &found, &free);
        assert_finds(Rule::NounClause, Area::Cell, &[], &["What you pay"]);
    }

    #[test]
    fn british_spellings_are_found_outside_code() {
        let found = ["It was cancelled.", "Authorised callers pay.", "This summarises rows.", "The colour changes."];
        let free =
            ["It was canceled.", "`cancelled` is a status.", "The promise is exact.", "Otherwise it rises.", "A real island is small."];
        assert_finds(Rule::Spelling, Area::Document, &found, &free);
    }

    #[test]
    fn long_sentences_and_cells_are_found() {
        let words = |count: usize| format!("Pay{}.", " once".repeat(count - 1));
        assert_finds(Rule::LongSentence, Area::Document, &[&words(26)], &[&words(25), &format!("{} {}", words(20), words(20))]);
        assert_finds(Rule::LongSentence, Area::Comment, &[], &[&words(40)]);
        let error = format!("the host cannot start: {}", "no ".repeat(22));
        assert_finds(Rule::LongSentence, Area::Error, &[&"no ".repeat(26)], &[&error]);
        let setting = format!("Days [default: {}]", "no ".repeat(26));
        assert_finds(Rule::LongSentence, Area::SettingHelp, &[], &[&setting]);
        let list = vec![CODE.to_string(); 26].join(", ");
        assert_finds(Rule::LongSentence, Area::Document, &[&format!("Use {list}")], &[&list]);
        assert_finds(Rule::LongCell, Area::Cell, &[&words(16), &format!("see {list}")], &[&words(15), &list]);
    }

    #[test]
    fn sentence_case_is_required_of_pages_and_not_of_errors() {
        assert_finds(Rule::SentenceCase, Area::Page, &["no calls yet"], &["No calls yet", "`slug` is taken", "x402 requires it"]);
        assert_finds(Rule::SentenceCase, Area::ApiError, &["the body is not valid JSON"], &["The body is not valid JSON"]);
        assert_finds(
            Rule::ErrorCase,
            Area::Error,
            &["The body is too large"],
            &["the body is too large", "JSON is required", "`Slug` is taken"],
        );
    }

    #[test]
    fn help_is_short_and_has_no_final_period() {
        assert_finds(
            Rule::FinalPeriod,
            Area::Help,
            &["Restore a revoked credit."],
            &["Restore a revoked credit", "Tools to list, as in a..z.."],
        );
        let long = "Restore a revoked credit, and all that was in it when it was revoked";
        assert_eq!(check_help(long, 7).map(|finding| (finding.rule, finding.line)), Some((Rule::HelpLength, 7)));
        assert_eq!(check_help("Tool, or URL of an x402 resource [default: the folder's]", 7), None);
    }

    #[test]
    fn long_lines_are_found() {
        assert_eq!(check_line(&"é".repeat(MAX_LINE), 1), None);
        assert_eq!(check_line(&"é".repeat(MAX_LINE + 1), 1).map(|finding| finding.rule), Some(Rule::LongLine));
    }
}

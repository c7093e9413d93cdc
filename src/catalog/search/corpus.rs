//! The tools and questions of `fixtures/search`, which the search is held against.

use std::str::FromStr;

/// Families in as many settings make the tools.
const SETTINGS: usize = 9;

/// One in so many families is asked for obliquely too, which an index of words mostly cannot answer: without these the questions
/// would be kinder than people are.
const OBLIQUE: usize = 3;

/// How far a setting is from the one before it, for one family: settings are few, and neighbours should share few.
const STEP: usize = 4;

/// A tool, and what people ask who want it.
pub(crate) struct Tool {
    pub(crate) slug: String,
    pub(crate) title: String,
    pub(crate) tags: Vec<String>,
    pub(crate) description: String,
}

/// What is asked, and the slug of the tool that is meant.
pub(crate) struct Asked {
    pub(crate) words: String,
    pub(crate) wanted: String,
    /// Of a family that was looked at while the weights were chosen.
    pub(crate) looked_at: bool,
}

/// All of the fixture.
#[derive(Default)]
pub(crate) struct Corpus {
    pub(crate) tools: Vec<Tool>,
    /// As people ask.
    pub(crate) questions: Vec<Asked>,
    /// As somebody types who knows the tool.
    pub(crate) keywords: Vec<Asked>,
}

/// For whom a tool is: the end of its slug, and words for its title and its description.
type Setting<'a> = [&'a str; 3];

impl FromStr for Corpus {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fields = |line: &str| line.split('|').map(|field| field.trim().to_owned()).collect::<Vec<_>>();
        let lines = || text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let settings: Vec<_> = lines().filter_map(|line| line.strip_prefix("= ")).map(fields).collect();
        let mut corpus = Self::default();
        for (place, line) in lines().filter(|line| !line.starts_with("= ")).enumerate() {
            let family: [String; 7] = fields(line).try_into().map_err(|_| format!("not seven fields: {line}"))?;
            for turn in 0..SETTINGS {
                let setting = &settings[(place + turn * STEP) % settings.len()];
                let [slug, title, described] = setting.as_slice() else { return Err(format!("not three fields: {setting:?}")) };
                corpus.add(&family, [slug, title, described], place, turn);
            }
        }
        Ok(corpus)
    }
}

impl Corpus {
    fn add(&mut self, family: &[String; 7], setting: Setting<'_>, place: usize, turn: usize) {
        let [slug, title, tags, description, question, oblique, keywords] = family;
        let [setting_slug, setting_title, setting_described] = setting;
        let wanted = format!("{slug}-{setting_slug}");
        // Each question once, in another setting for each family.
        if turn == place % SETTINGS {
            let asked = |words: &str| Asked { words: words.to_owned(), wanted: wanted.clone(), looked_at: place.is_multiple_of(2) };
            self.questions.push(asked(question));
            if place.is_multiple_of(OBLIQUE) {
                self.questions.push(asked(oblique));
            }
            self.keywords.push(asked(keywords));
        }
        self.tools.push(Tool {
            title: format!("{title} {setting_title}"),
            tags: tags.split(',').map(|tag| tag.trim().to_owned()).collect(),
            description: format!("{} It works {setting_described}.", description),
            slug: wanted,
        });
    }
}

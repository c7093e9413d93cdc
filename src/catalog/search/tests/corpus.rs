//! The tools and questions of `fixtures/search`, which measure the quality of the search.

use std::str::FromStr;

/// Number of settings. Each family of tools exists in each setting.
const SETTINGS: usize = 9;

/// One in this many families has an indirect question too, which a word index usually cannot
/// answer. Without those, the questions would be easier than real ones.
const OBLIQUE: usize = 3;

/// Distance between the settings of successive families. There are few settings, and neighboring
/// families should not share them.
const STEP: usize = 4;

/// A tool, and questions of people who look for it.
pub(crate) struct Tool {
    pub(crate) slug: String,
    pub(crate) title: String,
    pub(crate) tags: Vec<String>,
    pub(crate) description: String,
}

/// A question, and the slug of the intended tool.
pub(crate) struct SampleQuery {
    pub(crate) words: String,
    pub(crate) requested: String,
    /// Whether its family was used to choose the weights.
    pub(crate) in_sample: bool,
}

/// The whole fixture.
#[derive(Default)]
pub(crate) struct Corpus {
    pub(crate) tools: Vec<Tool>,
    /// Natural questions.
    pub(crate) questions: Vec<SampleQuery>,
    /// Keywords of people who know the tool.
    pub(crate) keywords: Vec<SampleQuery>,
}

/// The audience of a tool: suffix of its slug, and words for its title and description.
type Setting<'a> = [&'a str; 3];

impl FromStr for Corpus {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fields = |line: &str| line.split('|').map(|field| field.trim().to_owned()).collect::<Vec<_>>();
        let lines = || text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let settings: Vec<_> = lines().filter_map(|line| line.strip_prefix("= ")).map(fields).collect();
        let mut corpus = Self::default();
        for (position, line) in lines().filter(|line| !line.starts_with("= ")).enumerate() {
            let family: [String; 7] = fields(line).try_into().map_err(|_| format!("not seven fields: {line}"))?;
            for turn in 0..SETTINGS {
                let setting = &settings[(position + turn * STEP) % settings.len()];
                let [slug, title, described] = setting.as_slice() else { return Err(format!("not three fields: {setting:?}")) };
                corpus.add(&family, [slug, title, described], position, turn);
            }
        }
        Ok(corpus)
    }
}

impl Corpus {
    fn add(&mut self, family: &[String; 7], setting: Setting<'_>, position: usize, turn: usize) {
        let [slug, title, tags, description, question, oblique, keywords] = family;
        let [setting_slug, setting_title, setting_described] = setting;
        let requested = format!("{slug}-{setting_slug}");
        // Each question once, in a different setting for each family.
        if turn == position % SETTINGS {
            let request =
                |words: &str| SampleQuery { words: words.to_owned(), requested: requested.clone(), in_sample: position.is_multiple_of(2) };
            self.questions.push(request(question));
            if position.is_multiple_of(OBLIQUE) {
                self.questions.push(request(oblique));
            }
            self.keywords.push(request(keywords));
        }
        self.tools.push(Tool {
            title: format!("{title} {setting_title}"),
            tags: tags.split(',').map(|tag| tag.trim().to_owned()).collect(),
            description: format!("{} It works {setting_described}.", description),
            slug: requested,
        });
    }
}

//! Code blocks of the documents, with the marks in the first line of their fence.

use std::path::{Path, PathBuf};

use super::read;

/// A code block of a document.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    /// Its document, relative to the repository.
    pub(crate) file: PathBuf,
    /// Line of its fence, from 1.
    pub(crate) line: usize,
    /// The first word of its fence. Empty if there is none.
    pub(crate) language: String,
    /// The other words of its fence.
    pub(crate) marks: Vec<String>,
    pub(crate) text: String,
}

/// The comment before a block that no test can run, as in texts that are rendered elsewhere too.
const NOT_RUN: &str = "<!-- not run: ";
/// The comment with a command for something that the document describes in words, for example an edit.
const HIDDEN: &str = "<!-- run: ";

impl Block {
    pub(crate) fn is(&self, languages: &[&str]) -> bool {
        languages.contains(&&*self.language)
    }

    pub(crate) fn is_shell(&self) -> bool {
        self.is(&["sh", "bash", "console"])
    }

    pub(crate) fn has(&self, mark: &str) -> bool {
        self.marks.iter().any(|known| known == mark)
    }

    /// Returns the value of a mark `name=value`.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.marks.iter().find_map(|mark| mark.strip_prefix(name)?.strip_prefix('='))
    }

    /// Returns its place, for reports.
    pub(crate) fn place(&self) -> String {
        format!("{}:{}", self.file.display(), self.line)
    }

    /// Returns its commands, each with the output below it. A block without prompts is one command
    /// without output.
    pub(crate) fn commands(&self) -> Vec<(String, Option<String>)> {
        if !self.text.lines().any(|line| line.starts_with("$ ")) {
            return vec![(self.text.clone(), None)];
        }
        let (mut commands, mut until) = (Vec::<(String, String)>::new(), None::<String>);
        let mut continues = false;
        for line in self.text.lines() {
            let begins = line.strip_prefix("$ ").filter(|_| !continues);
            let text = begins.unwrap_or(line);
            let Some((command, output)) = (match begins {
                Some(_) => {
                    commands.push(Default::default());
                    commands.last_mut()
                }
                None => commands.last_mut(),
            }) else {
                continue;
            };
            if begins.is_none() && !continues {
                *output += &format!("{line}\n");
                continue;
            }
            *command += &format!("{text}\n");
            match &until {
                Some(mark) if text.trim() == mark => until = None,
                Some(_) => {}
                None => until = here_document(text),
            }
            continues = until.is_some() || text.ends_with('\\') || is_open(command);
        }
        commands.into_iter().map(|(command, output)| (command, Some(output))).collect()
    }
}

/// Returns whether a command has a single quote without its end.
fn is_open(command: &str) -> bool {
    let (mut quote, mut is_escaped) = (None, false);
    for char in command.chars() {
        match (quote, char) {
            _ if is_escaped => is_escaped = false,
            (None | Some('"'), '\\') => is_escaped = true,
            (Some(open), char) if open == char => quote = None,
            (None, '\'' | '"') => quote = Some(char),
            _ => {}
        }
    }
    quote.is_some()
}

/// Returns the last line of the here-document that a line begins.
fn here_document(line: &str) -> Option<String> {
    let (_, mark) = line.split_once("<<")?;
    let mark: String = mark.trim_start_matches(['-', ' ', '\'', '"']).chars().take_while(|char| char.is_alphanumeric()).collect();
    (!mark.is_empty()).then_some(mark)
}

/// Returns the code blocks of a document, also those in lists.
pub(crate) fn blocks(root: &Path, path: &Path) -> Vec<Block> {
    let file = path.strip_prefix(root).unwrap_or(path).to_owned();
    blocks_of(&file, &read(path))
}

fn blocks_of(file: &Path, text: &str) -> Vec<Block> {
    let (mut blocks, mut open) = (Vec::<Block>::new(), None::<(usize, Block)>);
    let mut before = "";
    for (at, line) in text.lines().enumerate() {
        let bare = line.trim_start();
        match (&mut open, bare.strip_prefix("```")) {
            (None, Some(info)) => {
                let mut words = info.split_whitespace().map(str::to_owned);
                let (language, mut marks) = (words.next().unwrap_or_default(), words.collect::<Vec<_>>());
                marks.extend(before.trim_start().starts_with(NOT_RUN).then(|| "norun".to_owned()));
                let block = Block { file: file.to_owned(), line: at + 1, language, marks, text: String::new() };
                open = Some((line.len() - bare.len(), block));
            }
            (Some(_), Some("")) => blocks.extend(open.take().map(|(_, block)| block)),
            (Some((indent, block)), _) => {
                let depth = (line.len() - bare.len()).min(*indent);
                block.text += &format!("{}\n", &line[depth..]);
            }
            (None, None) => {
                let command = bare.strip_prefix(HIDDEN).and_then(|rest| rest.strip_suffix(" -->"));
                blocks.extend(command.map(|command| {
                    let (language, text) = ("sh".to_owned(), format!("{command}\n"));
                    Block { file: file.to_owned(), line: at + 1, language, marks: vec![], text }
                }));
            }
        }
        before = line;
    }
    assert!(open.is_none(), "{}: a fence has no end", file.display());
    blocks
}

#[test]
fn blocks_are_found_in_lists_and_with_their_marks() {
    let text = "```sh\na\n```\n\n1. b\n\n   ```json answer=getThing norun\n   {\n     \"a\": 1\n   }\n   ```\n<!-- not run: c -->\n```sh\nd\n```\n\n\
        Edit it:\n\n<!-- run: sed -i s/a/b/ e -->\n";
    let found = blocks_of(Path::new("x.md"), text);
    assert_eq!(found.iter().map(|block| &*block.text).collect::<Vec<_>>(), ["a\n", "{\n  \"a\": 1\n}\n", "d\n", "sed -i s/a/b/ e\n"]);
    assert_eq!((found[1].value("answer"), found[1].has("norun"), found[1].place()), (Some("getThing"), true, "x.md:7".to_owned()));
    assert!(found[2].has("norun") && !found[0].has("norun"));
}

#[test]
fn commands_are_separate_from_their_output() {
    let text = "```sh\n$ a \\\n  b\nout\n$ cat <<'E' > f\n$ x\nE\n$ c 'd\n e'\none\ntwo\n```\n";
    let commands = blocks_of(Path::new("x.md"), text)[0].commands();
    let expected = [("a \\\n  b\n", "out\n"), ("cat <<'E' > f\n$ x\nE\n", ""), ("c 'd\n e'\n", "one\ntwo\n")];
    assert_eq!(commands, expected.map(|(command, output)| (command.to_owned(), Some(output.to_owned()))));
}

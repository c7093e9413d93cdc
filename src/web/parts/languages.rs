//! Syntax highlighting of code blocks by language: scripts, shell, transcripts and configuration.
//!
//! It only chooses colors: whatever the source contains, the pieces join to it unchanged.

use super::highlight::{Highlight, Piece};

/// Class of a prompt, which is not copied.
pub(super) const PROMPT: &str = "p";
/// Class of output, which is not copied.
pub(super) const OUTPUT: &str = "o";

const KEYWORD: &str = "k";
const STRING: &str = "s";
const NUMBER: &str = "n";
const COMMENT: &str = "c";

/// The features of a language that are highlighted. In all of them, both quotes enclose strings, and
/// `#` after white space begins a comment that goes to the end of the line.
struct Syntax {
    /// Whether three quotes in a row enclose several lines.
    has_long_strings: bool,
    /// Whether the first word of each line is highlighted, as the name of a command or setting.
    names_first: bool,
    /// Whether a `|`, `;` or `&` begins another command.
    has_pipes: bool,
    keywords: &'static str,
}

const SHELL: Syntax = Syntax {
    has_pipes: true,
    keywords: "case cd do done elif else esac exit export fi for function if in return set then until while",
    ..SETTINGS
};
const PYTHON: Syntax = Syntax {
    has_long_strings: true,
    names_first: false,
    keywords: "False None True and as assert async await break class continue def del elif else except finally for from global if import \
        in is lambda nonlocal not or pass raise return try while with yield",
    ..SETTINGS
};
/// TOML, INI, YAML, and the settings of proxies and containers.
const SETTINGS: Syntax = Syntax { has_long_strings: false, names_first: true, has_pipes: false, keywords: "false null off on true" };

/// Returns the pieces of a source in this language, with a class for each highlighted one.
pub(super) fn pieces<'s>(language: &str, source: &'s str) -> Vec<Piece<'s>> {
    match language {
        "js" | "mjs" | "javascript" | "ts" | "typescript" | "json" | "jsonc" => Highlight::new(source).pieces(0, source.len()),
        "sh" | "bash" | "console" if is_transcript(source) => transcript(source),
        "sh" | "bash" | "console" => Scanner::new(&SHELL, source).pieces(),
        "py" | "python" => Scanner::new(&PYTHON, source).pieces(),
        "toml" | "ini" | "yaml" | "yml" | "nginx" | "caddy" | "caddyfile" | "dockerfile" | "haproxy" => {
            Scanner::new(&SETTINGS, source).pieces()
        }
        _ => vec![(None, source)],
    }
}

/// Returns whether a shell block shows commands with their output.
fn is_transcript(source: &str) -> bool {
    source.lines().any(|line| line.starts_with("$ "))
}

/// Highlights commands after a prompt, and their output.
fn transcript(source: &str) -> Vec<Piece<'_>> {
    let (mut pieces, mut rest) = (vec![], source);
    while !rest.is_empty() {
        let lines = match rest.strip_prefix("$ ") {
            Some(command) => {
                let (prompt, _) = rest.split_at(2);
                pieces.push((Some(PROMPT), prompt));
                let end = command_end(command);
                pieces.extend(Scanner::new(&SHELL, &command[..end]).pieces());
                2 + end
            }
            None => {
                let end = rest.split_inclusive('\n').take_while(|line| !line.starts_with("$ ")).map(str::len).sum();
                pieces.push((Some(OUTPUT), &rest[..end]));
                end
            }
        };
        rest = &rest[lines..];
    }
    pieces
}

/// Returns the offset after a command, which can have continued lines and here-documents.
fn command_end(source: &str) -> usize {
    let (mut end, mut until) = (0, None::<&str>);
    for line in source.split_inclusive('\n') {
        end += line.len();
        let text = line.trim_end();
        match until {
            Some(mark) if text.trim_start() == mark => until = None,
            Some(_) => continue,
            None => until = here_mark(text),
        }
        if until.is_none() && !text.ends_with('\\') {
            break;
        }
    }
    end
}

/// Returns the last line of the here-document that a line begins.
fn here_mark(line: &str) -> Option<&str> {
    let (_, mark) = line.split_once("<<")?;
    let mark = mark.trim_start_matches(['-', ' ']).split([' ', '>', '|', ';', '&', '<']).next()?.trim_matches(['\'', '"']);
    mark.starts_with(char::is_alphabetic).then_some(mark)
}

/// Reads a source into pieces.
struct Scanner<'s> {
    syntax: &'static Syntax,
    source: &'s str,
    at: usize,
    /// Begin of the text that is not in a piece yet.
    begin: usize,
    /// Whether the next word is the first of a line or command.
    is_first: bool,
    pieces: Vec<Piece<'s>>,
}

impl<'s> Scanner<'s> {
    fn new(syntax: &'static Syntax, source: &'s str) -> Self {
        Self { syntax, source, at: 0, begin: 0, is_first: true, pieces: vec![] }
    }

    fn pieces(mut self) -> Vec<Piece<'s>> {
        while let Some(char) = self.source[self.at..].chars().next() {
            self.step(char);
        }
        self.push(None, self.at);
        self.pieces
    }

    fn step(&mut self, char: char) {
        let rest = &self.source[self.at..];
        let follows = self.source[..self.at].chars().next_back();
        if char == '#' && follows.is_none_or(char::is_whitespace) {
            self.mark(COMMENT, rest.find('\n').unwrap_or(rest.len()));
        } else if let Some(length) = matches!(char, '\'' | '"').then(|| self.string(rest, char)).flatten() {
            self.mark(STRING, length);
            self.is_first = false;
        } else if char.is_alphabetic() || char == '_' {
            let length = rest.find(|char: char| !char.is_alphanumeric() && !"_-.".contains(char)).unwrap_or(rest.len());
            self.word(&rest[..length]);
        } else if char.is_ascii_digit() && follows.is_none_or(|char| !char.is_alphanumeric() && !"-_./:".contains(char)) {
            self.mark(NUMBER, rest.find(|char: char| !char.is_alphanumeric() && char != '.').unwrap_or(rest.len()));
            self.is_first = false;
        } else if self.syntax.has_pipes && rest.starts_with("<<") && here_mark(rest.lines().next().unwrap_or_default()).is_some() {
            self.here_document(rest);
        } else {
            self.at += char.len_utf8();
            // A continued line is part of the same command.
            let begins = char == '\n' && follows != Some('\\') || self.syntax.has_pipes && "|;&(".contains(char);
            // A flag, a variable or a path is not a name.
            self.is_first = begins || self.is_first && (char.is_whitespace() || "[-".contains(char) && !self.syntax.has_pipes);
        }
    }

    fn word(&mut self, word: &str) {
        let is_assigned = self.syntax.has_pipes && self.source[self.at + word.len()..].starts_with('=');
        let is_name = self.is_first && self.syntax.names_first && !is_assigned;
        if is_name || self.syntax.keywords.split(' ').any(|keyword| keyword == word) && !self.is_part(word) {
            self.mark(KEYWORD, word.len());
        } else {
            self.at += word.len();
        }
        self.is_first = false;
    }

    /// Returns whether a word is part of a longer one, for example of a path or flag.
    fn is_part(&self, word: &str) -> bool {
        let beside = |char: Option<char>| char.is_some_and(|char| "-_./=:$".contains(char));
        beside(self.source[..self.at].chars().next_back()) || self.source[self.at + word.len()..].starts_with(['/', '=', '.'])
    }

    /// Returns the length of the string that begins here. `None` if it has no end.
    fn string(&self, rest: &str, quote: char) -> Option<usize> {
        let long = [quote; 3].iter().collect::<String>();
        if self.syntax.has_long_strings && rest.starts_with(&long) {
            return rest[3..].find(&long).map(|at| at + 6);
        }
        let mut is_escaped = false;
        for (at, char) in rest.char_indices().skip(1) {
            match char {
                // Only strings of the shell continue on the next line.
                '\n' if !self.syntax.has_pipes => return None,
                _ if is_escaped => is_escaped = false,
                '\\' if quote == '"' || !self.syntax.has_pipes => is_escaped = true,
                _ if char == quote => return Some(at + 1),
                _ => {}
            }
        }
        None
    }

    /// Passes the rest of the line, and marks the here-document below it.
    fn here_document(&mut self, rest: &str) {
        let first = rest.find('\n').map_or(rest.len(), |at| at + 1);
        let mark = rest.lines().next().and_then(here_mark).unwrap_or_default();
        self.at += first;
        let mut length = 0;
        for line in rest[first..].split_inclusive('\n') {
            length += line.trim_end().len();
            if line.trim() == mark {
                break;
            }
            length += line.len() - line.trim_end().len();
        }
        self.mark(STRING, length);
        self.is_first = true;
    }

    fn mark(&mut self, class: &'static str, length: usize) {
        self.push(None, self.at);
        self.at += length;
        self.push(Some(class), self.at);
    }

    /// Adds the text up to `end` as a piece.
    fn push(&mut self, class: Option<&'static str>, end: usize) {
        let text = &self.source[self.begin..end];
        if !text.is_empty() {
            self.pieces.push((class, text));
        }
        self.begin = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked<'s>(language: &str, source: &'s str) -> Vec<(&'static str, &'s str)> {
        pieces(language, source).into_iter().filter_map(|(class, text)| Some((class?, text))).collect()
    }

    #[test]
    fn shell_commands_strings_and_comments_are_marked() {
        let source = "# Pay.\nexport KEY='a b' && curl -s localhost:4020/x | jq .a-b  # shown\nN=5 tollhouse call\n";
        assert_eq!(
            marked("sh", source),
            [("c", "# Pay."), ("k", "export"), ("s", "'a b'"), ("k", "curl"), ("k", "jq"), ("c", "# shown"), ("n", "5"),]
        );
        assert_eq!(marked("sh", "cat > a <<'END'\nit's # no\nEND\nls\n"), [("k", "cat"), ("s", "it's # no\nEND"), ("k", "ls")]);
    }

    #[test]
    fn transcript_has_prompts_commands_and_output() {
        let source = "$ curl a \\\n  b\nok \"1\"\n$ cat <<E\nx\nE\nx\n";
        assert_eq!(
            pieces("sh", source),
            [
                (Some("p"), "$ "),
                (Some("k"), "curl"),
                (None, " a \\\n  b\n"),
                (Some("o"), "ok \"1\"\n"),
                (Some("p"), "$ "),
                (Some("k"), "cat"),
                (None, " <<E\n"),
                (Some("s"), "x\nE"),
                (None, "\n"),
                (Some("o"), "x\n"),
            ]
        );
    }

    #[test]
    fn settings_and_python_are_marked() {
        assert_eq!(
            marked("toml", "[a]\nb = 1 # c\nd = \"e\"\n"),
            [("k", "a"), ("k", "b"), ("n", "1"), ("c", "# c"), ("k", "d"), ("s", "\"e\"")]
        );
        assert_eq!(marked("nginx", "server {\n  proxy_pass http://a;\n}\n"), [("k", "server"), ("k", "proxy_pass")]);
        assert_eq!(marked("python", "def a(b):\n    return '''c\n'd'''\n"), [("k", "def"), ("k", "return"), ("s", "'''c\n'd'''")]);
        assert_eq!(marked("text", "if true"), []);
    }

    #[test]
    fn pieces_join_to_the_whole_source() {
        for language in ["sh", "python", "toml", "json", "text"] {
            for odd in
                ["'", "\"\\", "<<'E'\n", "$ a\n", "# é\n", "\u{1f600}'\u{202e}\n", "'''", "a<<E\n<<F\nE", "0x_é.\\\n", "$ \\", "|&;("]
            {
                for source in [odd.to_owned(), odd.repeat(40), format!("$ {odd}")] {
                    assert_eq!(pieces(language, &source).into_iter().map(|(_, text)| text).collect::<String>(), source, "{language}");
                }
            }
        }
    }
}

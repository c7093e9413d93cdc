#!/usr/bin/env python3
"""Print random texts of the repository, so that a person can judge how they read.

    python3 xtask/sample_text.py docs|pages|errors [SEED] [COUNT]

A draw with the same seed has the same texts until they change: texts are sorted by the hash of seed and text.
"""

import hashlib
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# String literals, comments, and character literals, which can contain a quote.
TOKEN = re.compile(r'r(#+)"(.*?)"\1|"((?:[^"\\]|\\.)*)"|(//[^\n]*)|(/\*.*?\*/)|' + r"('(?:[^'\\\n]|\\[^\n]{1,8})')", re.S)
WORDS = re.compile(r"[A-Za-z][a-z']+(?:[ ,.:;]+(?:[`{(\"]*)[A-Za-z0-9][\w'`-]*){2,}")
# Code beside the text of an error.
ERROR = re.compile(r"#\[error|Error|Err\(|hint|reason|[Pp]roblem|refuse|invalid|malformed|mismatch")


def files(folder, suffix):
    """Yield the files below a folder, without those of tests."""
    for path in sorted((ROOT / folder).rglob(f"*{suffix}")):
        if "tests" not in path.parts and path.name != "tests.rs" and "vendor" not in path.parts:
            yield path


def literals(path):
    """Yield line and value of each string literal of a Rust file, up to its tests."""
    source = path.read_text()
    source = re.split(r"\n#\[cfg\(test\)\]\s*mod tests \{", source)[0]
    for match in TOKEN.finditer(source):
        value = match[2] if match[1] else match[3]
        before = source[: match.start()].rsplit("\n", 1)[-1]
        if value is None or re.search(r"reason = $|\.expect\($|tracing::\w+!|\b(warn|info|error|debug)!\(", before):
            continue
        value = re.sub(r"\\\n\s*", "", value).replace('\\"', '"').replace("\\n", "\n")
        yield source.count("\n", 0, match.start()) + 1, value


def sentences():
    """Yield the sentences and table cells of the README and the documents."""
    for path in [ROOT / "README.md", *files("docs", ".md")]:
        fenced = False
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if line.lstrip().startswith("```"):
                fenced = not fenced
            elif not fenced and not line.startswith(("#", "<!--", "|--")):
                parts = re.split(r"(?<!\\)\|", line) if line.startswith("|") else re.split(r"(?<=[.:?]) (?=[A-Z])", line)
                for part in parts:
                    if len(part.split()) >= 4:
                        yield path, number, part.strip(" >-")


def pages():
    """Yield the strings of pages."""
    for path in files("src/web", ".rs"):
        for number, value in literals(path):
            if WORDS.search(value):
                yield path, number, value


def errors():
    """Yield texts of errors, of the API's error table, and of the help of commands."""
    for path in files("src", ".rs"):
        source = path.read_text()
        cli = "src/cli" in str(path) or path.name in ("error_codes.rs", "main.rs")
        lines = source.splitlines()
        for number, value in literals(path):
            near = "\n".join(lines[max(0, number - 2) : number])
            if WORDS.search(value) and "src/web" not in str(path) and (cli or ERROR.search(near)):
                yield path, number, value
        if "clap" in source or "#[arg(" in source:
            for match in re.finditer(r"((?:^ *///[^\n]*\n)+)((?: *#\[[^\n]*\n)*) *(?:pub(?:\([^)]*\))? )?\w+(?::|\(|,| \{)", source, re.M):
                # The help of a flag or a command is a doc comment within a struct or an enum.
                text = " ".join(line.strip().lstrip("/").strip() for line in match[1].splitlines())
                # Help has no final period, unlike other doc comments.
                if match[1].startswith("    ///") and not text.endswith("."):
                    yield path, source.count("\n", 0, match.start()) + 1, text


def main():
    """Draw and print."""
    group = {"docs": sentences, "pages": pages, "errors": errors}.get(sys.argv[1] if len(sys.argv) > 1 else "")
    if group is None:
        sys.exit(__doc__)
    seed, count = (sys.argv[2:] + ["1", "50"][len(sys.argv) - 2 :])[:2]
    drawn = {}
    for path, number, text in group():
        drawn.setdefault(text, f"{path.relative_to(ROOT)}:{number}")
    order = sorted(drawn, key=lambda text: hashlib.sha256(f"{seed} {text}".encode()).digest())
    for index, text in enumerate(order[: int(count)], 1):
        shown = text.replace("\n", " ")
        print(f"{index:2} {drawn[text]}: {shown}")


main()

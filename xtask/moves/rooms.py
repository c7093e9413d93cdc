#!/usr/bin/env python3
"""Makes a crate of each room of `src`: moves `src/ROOM.rs` to `src/ROOM/lib.rs`, turns paths between rooms into paths between crates,
and writes the manifests. Run from the root of the repository, once."""
import os, re, subprocess, sys, tomllib
from pathlib import Path

ROOMS = ["base", "telemetry", "store", "replica", "objects", "backup", "tool", "account", "event", "money", "capability", "catalog",
         "call", "operate", "config", "front", "http", "mcp", "web", "app"]
IDENT = r"[A-Za-z_][A-Za-z0-9_]*"

def git(*words): subprocess.run(["git", *words], check=True)

def close(text, at):
    """The place behind the brace that closes the one at `at`."""
    depth = 0
    for i in range(at, len(text)):
        if text[i] == "{": depth += 1
        elif text[i] == "}":
            depth -= 1
            if depth == 0: return i + 1
    raise ValueError("unbalanced")

def parts(inner):
    out, depth, start = [], 0, 0
    for i, c in enumerate(inner):
        if c == "{": depth += 1
        elif c == "}": depth -= 1
        elif c == "," and depth == 0:
            out.append(inner[start:i].strip()); start = i + 1
    out.append(inner[start:].strip())
    return [p for p in out if p]

def one(room, item):
    """The path of a `use` for `item`, a path below `crate`, in the crate of `room`."""
    first = re.match(IDENT, item).group(0) if re.match(IDENT, item) else ""
    if first not in ROOMS: return "crate::" + item
    rest = item[len(first):]
    crate = "crate" if first == room else f"tollhouse_{first}"
    if rest == "": return f"{crate} as {first}"
    if rest.startswith(" as "): return crate + rest
    assert rest.startswith("::"), item
    rest = rest[2:]
    if rest == "self": return f"{crate} as {first}"
    if rest.startswith("{"):
        inner = parts(rest[1:-1])
        if "self" in inner:
            inner.remove("self")
            own = f"{crate} as {first}"
            return [own, f"{crate}::{{{', '.join(inner)}}}"] if inner else own
    return f"{crate}::{rest}"

USE = re.compile(r"(?P<attrs>(?:#\[[^\n]*\]\s*)*)(?P<head>(?:pub(?:\([^)]*\))?\s+)?use\s+)crate::(?P<open>\{)?")

def rewrite(room, text):
    out, at = [], 0
    for m in USE.finditer(text):
        if m.start() < at: continue
        # In a comment or a string: leave to the plain replacement.
        line = text.rfind("\n", 0, m.start("head")) + 1
        if text[line:m.start("head")].strip() not in ("",) : continue
        out.append(text[at:m.start()])
        if m.group("open"):
            end = close(text, m.start("open"))
            items = parts(re.sub(r"//[^\n]*", "", text[m.start("open") + 1:end - 1]))
            semi = text.index(";", end) + 1
        else:
            semi = text.index(";", m.end()) + 1
            items = [text[m.end():semi - 1].strip()]
        own, uses = [], []
        for item in items:
            path = one(room, re.sub(r"\s+", " ", item))
            for p in (path if isinstance(path, list) else [path]):
                if p.startswith("crate::"): own.append(p[7:])
                else: uses.append(p)
        if own: uses.insert(0, "crate::" + (own[0] if len(own) == 1 else "{" + ", ".join(own) + "}"))
        attrs, head = m.group("attrs"), m.group("head")
        out.append("\n".join(f"{attrs}{head}{u};" for u in uses))
        at = semi
    out.append(text[at:])
    text = "".join(out)
    def inline(m):
        first = m.group(1)
        if first == room: return "crate::"
        return f"tollhouse_{first}::"
    text = re.sub(r"(?<![\w$])crate::(" + "|".join(ROOMS) + r")::", inline, text)
    text = re.sub(r"(?<![\w$])crate::(" + "|".join(ROOMS) + r")(?![\w:])", lambda m: "crate" if m.group(1) == room else f"tollhouse_{m.group(1)}", text)
    text = re.sub(r"\$crate::" + room + "::", "$crate::", text)
    text = text.replace(f"pub(in crate::{room})", "pub(crate)").replace(f"pub(in crate::{room}::", "pub(in crate::")
    return text

def sources(folder): return sorted(Path(folder).rglob("*.rs"))

def main():
    root = tomllib.loads(Path("Cargo.toml").read_text())
    deps = root["dependencies"]; dev = root["dev-dependencies"]
    for room in ROOMS:
        git("mv", f"src/{room}.rs", f"src/{room}/lib.rs")
    for room in ROOMS:
        for path in sources(f"src/{room}"):
            text = path.read_text()
            path.write_text(rewrite(room, text))
    for room in ROOMS:
        manifest(room, deps, dev)

def manifest(room, deps, dev):
    normal, test = "", ""
    for path in sources(f"src/{room}"):
        text = re.sub(r"^\s*//.*$", "", path.read_text(), flags=re.M)
        is_test = any(p in ("tests", "tests.rs", "testing", "testing.rs") for p in path.parts) or path.name in ("tests.rs", "testing.rs")
        if is_test: test += text
        else:
            cut = text.find("\n#[cfg(test)]\nmod tests {")
            if cut >= 0: test += text[cut:]; text = text[:cut]
            normal += text
    def uses(text, name):
        ident = name.replace("-", "_")
        return re.search(r"(?<![\w])" + ident + r"\b\s*(::|;|\{| as )|extern crate " + ident, text) is not None
    lines = [f'[package]', f'name = "tollhouse-{room}"', 'version.workspace = true', 'edition.workspace = true', 'rust-version.workspace = true',
             'license.workspace = true', 'publish.workspace = true', '', '[lib]', 'path = "lib.rs"', '']
    needs = [f"tollhouse-{r}" for r in ROOMS if r != room]
    table, more = [], []
    for name in [*needs, *deps]:
        if uses(normal, name): table.append(name)
        elif uses(test, name): more.append(name)
    for name in dev:
        if name not in deps and (uses(normal, name) or uses(test, name)): more.append(name)
    # Features for tests alone.
    if re.search(r"start_paused|tokio::time::(pause|advance|resume)", test + normal) : more.append("tokio-test")
    lines += ["[dependencies]"] + [f"{n}.workspace = true" for n in sorted(set(table))]
    lines += ["", "[dev-dependencies]"] + [('tokio = { workspace = true, features = ["test-util"] }' if n == "tokio-test" else f"{n}.workspace = true") for n in sorted(set(more))]
    lines += ["", "[features]", "# What the tests of crates above this one take of it.", "testing = []", "", "[lints]", "workspace = true", ""]
    Path(f"src/{room}/Cargo.toml").write_text("\n".join(lines))

main()

def root_manifest():
    path = Path("Cargo.toml"); text = path.read_text()
    pass
    own = "".join(f'tollhouse-{r} = {{ path = "src/{r}" }}\n' for r in ROOMS)
    text = text.replace('[workspace.dependencies]\n', '[workspace.dependencies]\n' + own, 1)
    # What the binary still uses itself.
    head, rest = text.split("\n[dependencies]\n", 1)
    block, rest = rest.split("\n\n", 1)
    binary = "".join(re.sub(r"^\s*//.*$", "", p.read_text(), flags=re.M) for p in Path("src").rglob("*.rs") if p.parts[1] not in ROOMS)
    its = "".join(re.sub(r"^\s*//.*$", "", p.read_text(), flags=re.M) for p in Path("tests").rglob("*.rs") if p.parts[1] != "fuzz")
    kept, moved = [], []
    for line in block.splitlines():
        name = line.split(".")[0].split(" ")[0]; ident = name.replace("-", "_")
        used = lambda t: re.search(r"(?<!\w)" + ident + r"\b\s*(::|;|\{)", t)
        if used(binary): kept.append(line)
        elif used(its): moved.append(line)
    kept += [f"tollhouse-{r}.workspace = true" for r in ROOMS]
    text = head + "\n[dependencies]\n" + "\n".join(sorted(set(kept))) + "\n\n" + rest
    text = text.replace("[dev-dependencies]\n", "[dev-dependencies]\n" + "".join(l + "\n" for l in moved), 1)
    path.write_text(text)
    lib = Path("src/lib.rs"); text = lib.read_text()
    text = re.sub(r"^pub mod (\w+);$", r"pub use tollhouse_\1 as \1;", text, flags=re.M)
    lib.write_text(text)

root_manifest()

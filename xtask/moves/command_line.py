"""Makes the command line a crate: `src/cli`, with what operators run on a stopped host in `src/cli/operator`."""
import re, subprocess
from pathlib import Path
def git(*w): subprocess.run(["git", *w], check=True)
OPS = ["check", "doctor", "ledger", "mend", "rotate", "save", "verify"]
ns = {}
src = open('xtask/moves/rooms.py').read()
exec(src[:src.index("def sources")], ns)          # close, parts
close, parts = ns["close"], ns["parts"]
Path("src/cli/operator").mkdir()
git("mv", "src/cli.rs", "src/cli/lib.rs")
for op in OPS: git("mv", f"src/{op}.rs", f"src/cli/operator/{op}.rs")
git("mv", "src/doctor", "src/cli/operator/doctor")
Path("src/cli/operator.rs").write_text("//! The commands of an operator, which need no running host.\n\n" + "".join(f"pub mod {op};\n" for op in OPS))
USE = re.compile(r"(?P<attrs>(?:#\[[^\n]*\]\s*)*)(?P<head>(?:pub(?:\([^)]*\))?\s+)?use\s+)(?P<root>crate|tollhouse)::(?P<open>\{)?")
def item(root, path, in_op):
    first = re.match(r"\w+", path).group(0); rest = path[len(first):]
    if root == "tollhouse":
        crate = f"tollhouse_{first}"
        if rest == "": return [f"{crate} as {first}"]
        rest = rest[2:] if rest.startswith("::") else rest
        if rest.startswith("{"):
            inner = parts(rest[1:-1])
            if "self" in inner:
                inner.remove("self"); return [f"{crate} as {first}"] + ([f"{crate}::{{{', '.join(inner)}}}"] if inner else [])
        return [f"{crate}::{rest}"]
    if first == "cli":
        rest = rest[2:]
        if rest.startswith("{"): return [f"crate::{{{', '.join(parts(rest[1:-1]))}}}"]
        return [f"crate::{rest}"]
    if first in OPS: return [f"crate::operator::{path}"]
    return [f"crate::{path}"]
for p in sorted(Path("src/cli").rglob("*.rs")):
    t = p.read_text(); in_op = "operator" in p.parts; out, at = [], 0
    for m in USE.finditer(t):
        if m.start() < at: continue
        line = t.rfind("\n", 0, m.start("head")) + 1
        if t[line:m.start("head")].strip(): continue
        out.append(t[at:m.start()])
        if m.group("open"):
            end = close(t, m.start("open")); semi = t.index(";", end) + 1
            items = parts(re.sub(r"//[^\n]*", "", t[m.start("open")+1:end-1]))
        else:
            semi = t.index(";", m.end()) + 1; items = [t[m.end():semi-1].strip()]
        uses = [u for i in items for u in item(m.group("root"), re.sub(r"\s+", " ", i), in_op)]
        out.append("\n".join(f"{m.group('attrs')}{m.group('head')}{u};" for u in uses)); at = semi
    out.append(t[at:]); t = "".join(out)
    t = re.sub(r"(?<![\w$])crate::cli::", "crate::", t)
    t = re.sub(r"(?<![\w:])tollhouse::(\w+)::", r"tollhouse_\1::", t)
    t = re.sub(r"(?<![\w$])crate::(" + "|".join(OPS) + r")::", lambda m: m.group(0) if not in_op and m.group(1) == "check" else f"crate::operator::{m.group(1)}::", t)
    p.write_text(t)
lib = Path("src/cli/lib.rs"); s = lib.read_text()
s = s.replace("mod open;\nmod pay;", "mod open;\npub mod operator;\nmod pay;")
i = s.index("\nmod audit;"); s = s[:i] + "\n#![warn(missing_docs)]\n" + s[i:]
lib.write_text(s)

"""Moves imports of crates of this workspace to those of other crates."""
import re, subprocess
from pathlib import Path
changed = 0
for m in sorted(Path("src").glob("*/Cargo.toml")):
    for p in sorted(m.parent.rglob("*.rs")):
        rows = p.read_text().split("\n")
        # Statements of use at column 0, with their place; (start, end) by lines.
        stmts, i = [], 0
        while i < len(rows):
            r = rows[i]
            if re.match(r"mod tests \{", r): break
            if re.match(r"use ", r):
                j = i
                while ";" not in rows[j]: j += 1
                stmts.append((i, j)); i = j + 1
            else: i += 1
        if not stmts: continue
        root = lambda s: re.match(r"use (?:::)?(\w+)", rows[s[0]]).group(1)
        has_attr = lambda s: s[0] > 0 and rows[s[0]-1].startswith("#[")
        moves = [s for s in stmts if root(s).startswith("tollhouse_") and root(s) not in ("tollhouse_protocol","tollhouse_fair","tollhouse_pace","tollhouse_pool","tollhouse_fuzz") and not has_attr(s)]
        if not moves: continue
        ext = [s for s in stmts if s not in moves and root(s) not in ("std","core","alloc","crate","super","self") and not has_attr(s)]
        text = [rows[k] for s in moves for k in range(s[0], s[1]+1)]
        own = [s for s in stmts if root(s) in ("crate","super","self")]
        std = [s for s in stmts if root(s) in ("std","core","alloc")]
        drop = {k for s in moves for k in range(s[0], s[1]+1)}
        if ext: at, pre, post = ext[-1][1] + 1, [], []
        elif own and own[0][0] < moves[0][0]: at, pre, post = own[0][0], [], [""]
        elif std and not own: at, pre, post = std[-1][1]+1, [""], []
        elif std: at, pre, post = own[0][0], [], [""]
        else: continue
        out = []
        for k, r in enumerate(rows):
            if k == at: out += pre + text + post
            if k not in drop: out.append(r)
        if at == len(rows): out += pre + text
        s = "\n".join(out)
        s = re.sub(r"\n\n\n+", "\n\n", s)
        p.write_text(s); changed += 1
print(changed)

use super::*;

fn nested(levels: usize) -> String {
    format!("const a =\n{}1{};\nconst b = 2;", "(".repeat(levels), ")".repeat(levels))
}

#[test]
fn brackets_and_operators_count_as_levels_and_excess_is_reported_by_line() {
    assert!(check(&nested(LEVELS)).is_ok());
    let error = check(&nested(LEVELS + 1)).unwrap_err();
    assert_eq!((error.line, error.message.as_str()), (Some(2), "the source is nested deeper than 500 levels"));
    for (before, after) in [("[", "]"), ("{", "}"), ("([{", "}])"), ("!", ""), ("- ", ""), ("`${", "}`"), ("(", "")] {
        let source = format!("\n\n{}1{}", before.repeat(LEVELS + 1), after.repeat(LEVELS + 1));
        assert_eq!(check(&source).unwrap_err().line, Some(3), "{before}");
    }
}

#[test]
fn brackets_in_strings_comments_and_regular_expressions_do_not_count() {
    for piece in [
        "a('(((');\n",
        "a(\"\\\"[[\");\n",
        "// ((((\n",
        "/* ((( */\n",
        "a(`((((`);\n",
        "a(`${b(`[[[`)}`);\n",
        "a(/\\(\\[/);\n",
        "a(/[(]/);\n",
        "a(/[[]/);\n",
        "a(/'/);\n",
        "a = /[/(]/;\n",
        "a = b / (c) / 2;\n",
        "a('\\\n((');\n",
        "i++; --j; a = +b - -c;\n",
    ] {
        assert!(check(&piece.repeat(2 * LEVELS)).is_ok(), "{piece}");
    }
}

#[test]
fn chain_is_reported_with_the_line_on_which_it_begins() {
    for (chain, end) in [
        ("type B = ", "keyof "),
        ("type B =", "\nkeyof"),
        ("const b = ", "new "),
        ("const b = c => ", "(d, e) =>\n"),
        ("", "for (let i = 0, j = 1; i < 2; i++) "),
        ("", "if (a(1, 2)) { b(); return { c: 1, d: 2 }; } else "),
        ("", "if (a)\n{\n  b()\n  c()\n}\nelse "),
        ("", "label:\n"),
        ("const b = '(' + ", "c ** "),
        ("const b = [1, 2, ", "c = "),
    ] {
        for apart in [";", ""] {
            let before = ["'use strict'", "const a = 1", "a(2)\n// Of 3.", "a[4]"].map(|line| format!("{line}{apart}\n")).concat();
            let after = format!("const d = 5{apart}\nd(){apart}\n").repeat(2 * LEVELS);
            let data = "[12345, 'a', { b: `c` }],\n".repeat(2 * LEVELS);
            let source = format!("{before}{chain}{}1{apart}\n{after}const e = [{data}'{}']\n", end.repeat(LEVELS), "f".repeat(9_999));
            assert_eq!(check(&source).unwrap(), 6, "{chain}{end}{apart}");
        }
    }
    assert_eq!(check("").unwrap(), 1);
}

use super::*;

fn nested(levels: usize) -> String {
    format!("const a =\n{}1{};\nconst b = 2;", "(".repeat(levels), ")".repeat(levels))
}

#[test]
fn levels_are_those_of_brackets_and_operators_and_more_are_refused_where_they_are() {
    assert!(check(&nested(LEVELS)).is_ok());
    let error = check(&nested(LEVELS + 1)).unwrap_err();
    assert_eq!((error.line, error.message.as_str()), (Some(2), "the source is nested deeper than 500 levels"));
    for (before, after) in [("[", "]"), ("{", "}"), ("([{", "}])"), ("!", ""), ("- ", ""), ("`${", "}`"), ("(", "")] {
        let source = format!("\n\n{}1{}", before.repeat(LEVELS + 1), after.repeat(LEVELS + 1));
        assert_eq!(check(&source).unwrap_err().line, Some(3), "{before}");
    }
}

#[test]
fn brackets_in_texts_comments_and_regular_expressions_do_not_add_up() {
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
fn chain_is_told_by_the_line_of_its_statement() {
    let chain = format!("const a = 1;\n\n  type B = {}1;\nconst c = 3;\n", "keyof ".repeat(LEVELS));
    assert_eq!(check(&chain).unwrap(), 3);
    assert_eq!(check("").unwrap(), 1);
}

//! Minifies style sheets.

/// Space around punctuation, and its replacement.
const SPACES: [(&str, &str); 10] =
    [(" {", "{"), ("{ ", "{"), ("; }", "}"), (";}", "}"), (" }", "}"), ("; ", ";"), (": ", ":"), (", ", ","), (" > ", ">"), (" ~ ", "~")];

/// Removes comments, line breaks and most spaces from a style sheet. Assumes that lines end with
/// punctuation, and that no string contains punctuation with a space.
pub(super) fn slim(style: &str) -> String {
    let (mut slim, mut rest) = (String::with_capacity(style.len()), style);
    while let Some((before, comment)) = rest.split_once("/*") {
        slim += before;
        rest = comment.split_once("*/").map_or("", |(_, after)| after);
    }
    slim += rest;
    let joined: String = slim.lines().map(str::trim).collect();
    SPACES.iter().fold(joined, |slim, (from, to)| slim.replace(from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minified_style_is_equivalent() {
        let style = "/* a */\n.a, .b > :is(p, td) {\n  margin: 0 auto; /* b */\n  color: light-dark(#fff, #000);\n}\n@media (min-width: 64rem) {\n  .c::after { content: \"/\"; }\n}\n";
        let requested = ".a,.b>:is(p,td){margin:0 auto;color:light-dark(#fff,#000)}@media (min-width:64rem){.c::after{content:\"/\"}}";
        assert_eq!(slim(style), requested);
    }

    #[test]
    fn minifying_loses_no_rule() {
        for style in [include_str!("site.css"), include_str!("figures.css"), include_str!("docs.css")] {
            let describe = |style: &str| style.chars().filter(|char| !char.is_whitespace() && *char != ';').collect::<String>();
            let (mut bare, mut rest) = (String::new(), style);
            while let Some((before, comment)) = rest.split_once("/*") {
                bare += before;
                rest = comment.split_once("*/").expect("a comment has an end").1;
            }
            bare += rest;
            assert_eq!(describe(&slim(style)), describe(&bare));
            let whole = bare.lines().map(str::trim).filter(|line| !line.is_empty());
            for line in whole {
                assert!(line.ends_with(['{', '}', ';', ',']), "a line goes on in the next one: {line}");
                let texts = line.split('"').skip(1).step_by(2);
                assert!(texts.clone().all(|text| SPACES.iter().all(|(mark, _)| !text.contains(mark))), "{line}");
            }
        }
    }
}

//! Foreign text stays text, whatever it contains. It creates no element, runs nothing, and hides
//! nothing.

use reqwest::Method;
use serde_json::json;

use super::{html, page, text};
use crate::{harness::Host, listing::fixed};

/// Texts that have become markup on other sites.
pub(super) const HOSTILE: [&str; 40] = [
    "<script>alert(1)</script>",
    "</title><script>alert(1)</script>",
    "\"><script>alert(1)</script>",
    "'><img src=x onerror=alert(1)>",
    "<img src=x onerror=alert(1)//",
    "<svg onload=alert(1)>",
    "<svg><script>alert&#40;1)</script>",
    "<math><mtext></p><img src=x onerror=alert(1)>",
    "<iframe srcdoc='<script>alert(1)</script>'>",
    "<style>*{display:none}</style>",
    "<link rel=stylesheet href=//evil.example>",
    "<base href=//evil.example>",
    "<meta http-equiv=refresh content=0;url=//evil.example>",
    "<form action=//evil.example><button>x",
    "<a href=javascript:alert(1)>x</a>",
    "javascript:alert(1)",
    "[x](javascript:alert(1))",
    "![x](//evil.example/x.png)",
    "https://evil.example/",
    "<!-- ",
    "--> <b>x</b>",
    "<![CDATA[<b>x</b>]]>",
    "</bdi></p></main><h1>x</h1>",
    "</textarea></style></script></noscript><b>x</b>",
    "<b>x</b>",
    "&lt;b&gt;x&lt;/b&gt;",
    "&#x3c;script&#x3e;",
    "&amp;amp;",
    "\" onmouseover=\"alert(1)",
    "' autofocus onfocus='alert(1)",
    "{{constructor.constructor('alert(1)')()}}",
    "${alert(1)}",
    "<%= 7*7 %>",
    "\u{202e}evitca\u{202c} paused",
    "a\u{200b}dmin \u{2066}x\u{2069}",
    "\u{7f}\u{9b}31mred",
    "Z\u{0351}\u{036b}\u{0343}algo\u{0310}\u{035b}\u{0301}",
    "';rm -rf ~;'",
    "$(touch pwned) `touch pwned`",
    "\u{feff}x\u{e0041}\u{2028}y",
];

/// Returns the elements with their attributes, except for marks of odd characters.
pub(super) fn shape(html: &str) -> Vec<String> {
    let html = html.replace("<span class=\"odd\">", "");
    let tags = html.split('<').skip(1).map(|rest| rest.split('>').next().unwrap());
    let named = tags.map(|tag| {
        // Text between quotes is a value.
        tag.split('"').step_by(2).collect::<String>()
    });
    named.filter(|tag| tag != "/span" && tag != "code" && tag != "/code").collect()
}

#[test]
fn browsers_are_shown_the_same_words() {
    let shown: Vec<String> = serde_json::from_str(include_str!("../../../fixtures/browser/hostile.json")).expect("it is a list of texts");
    assert_eq!(shown, HOSTILE);
}

#[tokio::test]
async fn words_of_others_make_no_markup() {
    let host = Host::start().await;
    let of = async |slug: &str, words: &str| {
        // Tags must be ASCII and short.
        let tag = if words.len() <= 32 && words.bytes().all(|byte| (b' '..=b'~').contains(&byte)) { words } else { "tag" };
        let mut tool = fixed(slug, words, 0.01, &[tag]);
        tool["description"] = json!(words);
        tool["inputSchema"] = json!({
            "type": "object", "required": [words],
            "properties": { words: { "type": "string", "description": words, "enum": [words], "default": words, "pattern": "x", "format": words } },
        });
        tool["outputSchema"] =
            json!({ "type": "object", "description": words, "properties": { words: { "title": words, "const": words } } });
        let made = host.manage(Method::POST, "/ai/endpoints/create", &tool).await;
        assert_eq!(made.status, 200, "{words}: {made:?}");
        html(&page(&host, &format!("/dashboard/tools/{slug}")).await.is(200))
    };
    let plain = shape(&of("plain", "plain").await);
    for (position, words) in HOSTILE.iter().enumerate() {
        let slug = format!("tool-{position}");
        let html = of(&slug, words).await;
        assert_eq!(shape(&html), plain, "{words}");
        let seen = text(&html);
        let begins: String = words.chars().take_while(|char| (' '..='~').contains(char) && *char != '`').collect();
        assert!(seen.matches(begins.as_str()).count() >= 8, "{words} is shown: {seen}");
        for odd in ['\u{202e}', '\u{200b}', '\u{2066}', '\u{7f}', '\u{9b}', '\u{feff}', '\u{e0041}', '\u{2028}'] {
            assert!(!html.contains(odd), "{words}");
        }
    }
    let list = html(&page(&host, "/dashboard").await.is(200));
    for words in HOSTILE {
        assert!(!words.contains('<') || !list.contains(words), "{words}");
    }
    assert_eq!(list.matches("<script").count(), 2, "its own");
    assert_eq!(list.matches("<svg").count(), 1, "its own");
}

/// Maximum size of a page, in bytes, when others fill it as much as they can.
const MAX_LEN: usize = 80 << 10;

#[tokio::test]
async fn words_of_others_make_no_page_long() {
    let host = Host::start().await;
    let odd = |chars: usize| "\u{202e}a".repeat(chars / 2);
    let long =
        json!({ "description": odd(400), "enum": (0..24).map(|n| format!("{n}{}", odd(78))).collect::<Vec<_>>(), "default": odd(80) });
    for (slug, reported) in [("often", long), ("heavy", json!({ "default": vec![1; 5_000] }))] {
        let members: serde_json::Map<_, _> = (0..60).map(|n| (format!("m{n}"), json!({ "$ref": "#/$defs/x" }))).collect();
        let schema = json!({ "type": "object", "$defs": { "x": reported }, "properties": members });
        let mut tool = fixed(slug, &odd(120), 0.01, &["tag"]);
        (tool["description"], tool["inputSchema"], tool["outputSchema"]) = (json!(odd(2_000)), schema.clone(), schema);
        host.manage(Method::POST, "/ai/endpoints/create", &tool).await.is(200);
        let html = html(&page(&host, &format!("/dashboard/tools/{slug}")).await.is(200));
        assert!(html.len() < MAX_LEN, "{slug}: {} bytes", html.len());
        assert!(html.contains("are not shown here") && html.contains("the complete schema"), "{slug}");
    }
    for number in 0..45 {
        let mut tool = fixed(&format!("odd-{number}"), &odd(120), 0.01, &["tag"]);
        tool["description"] = json!(odd(2_000));
        host.manage(Method::POST, "/ai/endpoints/create", &tool).await.is(200);
    }
    let list = html(&page(&host, "/dashboard?tag=tag").await.is(200));
    assert!(list.len() < MAX_LEN, "{} bytes", list.len());
}

#[tokio::test]
async fn words_of_the_address_make_no_markup() {
    let host = Host::start().await;
    let encoded = |words: &str| form_urlencoded(words);
    let plain = shape(&html(&page(&host, "/dashboard?q=plain&tag=plain").await.is(200)));
    let removed = shape(&html(&page(&host, "/dashboard/tools/plain").await.is(404)));
    for words in HOSTILE {
        let words = encoded(words);
        assert_eq!(shape(&html(&page(&host, &format!("/dashboard?q={words}&tag={words}")).await.is(200))), plain, "{words}");
        assert_eq!(shape(&html(&page(&host, &format!("/dashboard/tools/{words}")).await.is(404))), removed, "{words}");
        for path in ["/dashboard/receipts", "/dashboard/payments", "/dashboard", "/guides"] {
            let html = html(&page(&host, &format!("{path}/{words}")).await.is(404));
            assert_eq!(html.matches("<script").count(), 2, "{words}");
        }
    }
}

/// Encodes every byte as `%XX`.
fn form_urlencoded(words: &str) -> String {
    words.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

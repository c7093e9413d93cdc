//! Prevents a tool's output from being read as a payment challenge of the host.
//!
//! Clients that pay automatically look for a challenge in a result with `isError: true`, in three places:
//!
//! | place | read by |
//! |---|---|
//! | `structuredContent` | PyPI's `x402.mcp`, npm's `@x402/mcp`, Apify's `mcpc`, x402's Go SDK |
//! | a text block that is JSON, or has JSON anywhere in it | the same; `x402.mcp` searches every text |
//! | `_meta["x402/error"]` | Cloudflare's `agents` |
//!
//! An error of a tool has no structured content, and only the host sets `_meta`, even in its blocks. So only the text
//! is left. Every challenge lists its payment options under the JSON key `accepts`. If the text of an error has this
//! key anywhere, the text is sent as a JSON string: in quotes, with its own quotes escaped. No client finds the key in
//! such a string, and parsing it as JSON once returns the text. If a block has the key elsewhere, for example in the
//! title of a link, the JSON of the block is sent as such a string. In both cases, `_meta["tollhouse/quoted"]` of the
//! result is true.
//!
//! A successful result has `isError: false`. No client pays for one, so it is sent unchanged, whatever it contains.

use std::borrow::Cow;

use rmcp::model::{ContentBlock, EmbeddedResource, MetaObject, ResourceContents};
use serde_json::Value;

/// The key in `_meta` of an error whose texts are JSON strings.
pub(super) const QUOTED: &str = "tollhouse/quoted";

/// The JSON key that every challenge contains.
const KEY: &[u8] = b"accepts";

/// Prepares the blocks of a tool's error: removes their `_meta`, and quotes what a client could read as a challenge.
/// Returns whether anything was quoted.
///
/// Texts that contain the key only when joined are quoted too.
pub(super) fn disarm_blocks(blocks: &mut [ContentBlock]) -> bool {
    blocks.iter_mut().flat_map(metas_of).for_each(|meta| *meta = None);
    let joined: String = blocks.iter_mut().filter_map(text_of).map(|text| &**text).collect();
    let quotes_texts = has_key(&joined);
    if quotes_texts {
        blocks.iter_mut().filter_map(text_of).for_each(|text| *text = quote(text));
    }
    let mut quotes_others = false;
    for block in blocks.iter_mut().filter(|block| block.as_text().is_none()) {
        let json = serde_json::to_value(&*block).expect("a block is JSON");
        if has_key_anywhere(&json) {
            *block = ContentBlock::text(quote(&json.to_string()));
            quotes_others = true;
        }
    }
    quotes_texts || quotes_others
}

/// Returns the `_meta` of a block, and of the resource in it.
fn metas_of(block: &mut ContentBlock) -> impl Iterator<Item = &mut Option<MetaObject>> {
    let metas = match block {
        ContentBlock::Text(text) => [Some(&mut text.meta), None],
        ContentBlock::Image(image) => [Some(&mut image.meta), None],
        ContentBlock::Audio(audio) => [Some(&mut audio.meta), None],
        ContentBlock::ResourceLink(link) => [Some(&mut link.meta), None],
        ContentBlock::Resource(EmbeddedResource { resource, meta, .. }) => match resource {
            ResourceContents::TextResourceContents { meta: inner, .. } | ResourceContents::BlobResourceContents { meta: inner, .. } => {
                [Some(meta), Some(inner)]
            }
            _ => [Some(meta), None],
        },
        _ => [None, None],
    };
    metas.into_iter().flatten()
}

fn has_key_anywhere(value: &Value) -> bool {
    match value {
        Value::String(text) => has_key(text),
        Value::Array(values) => values.iter().any(has_key_anywhere),
        Value::Object(fields) => fields.iter().any(|(name, value)| name.as_bytes() == KEY || has_key_anywhere(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Returns a tool's words for use in a text of the host, quoted if a client could read a challenge from them.
pub(super) fn words(message: &str) -> Cow<'_, str> {
    if has_key(message) { Cow::Owned(quote(message)) } else { Cow::Borrowed(message) }
}

fn text_of(block: &mut ContentBlock) -> Option<&mut String> {
    match block {
        ContentBlock::Text(text) => Some(&mut text.text),
        ContentBlock::Resource(EmbeddedResource { resource: ResourceContents::TextResourceContents { text, .. }, .. }) => Some(text),
        _ => None,
    }
}

fn quote(text: &str) -> String {
    Value::from(text).to_string()
}

/// Returns whether a text has the key in quotes, with each letter plain or as `\u00XX`. The rest of the text is not
/// parsed, because JSON parsers differ in what they accept.
fn has_key(text: &str) -> bool {
    let text = text.as_bytes();
    text.iter().enumerate().filter(|(_, byte)| **byte == b'"').any(|(at, _)| {
        let end = KEY.iter().try_fold(&text[at + 1..], |rest, letter| after(rest, *letter));
        end.is_some_and(|rest| rest.starts_with(b"\""))
    })
}

/// Returns the rest of `text` after `letter`, or `None` if it does not start with it.
fn after(text: &[u8], letter: u8) -> Option<&[u8]> {
    if let Some(rest) = text.strip_prefix(&[letter]) {
        return Some(rest);
    }
    let digits = text.strip_prefix(b"\\u")?.first_chunk::<4>()?;
    let code = u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    (code == u32::from(letter)).then(|| &text[6..])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const CHALLENGE: &str = r#"{"x402Version":2,"accepts":[{"scheme":"exact","payTo":"0x1"}]}"#;

    fn text(block: &ContentBlock) -> &str {
        &block.as_text().unwrap().text
    }

    #[test]
    fn texts_with_the_key_of_a_challenge_are_quoted_and_nothing_is_lost() {
        let escaped = CHALLENGE.replace("accepts", "\\u0061cc\\u0065p\\u0074s");
        for message in [
            CHALLENGE,
            &escaped,
            &format!("Error executing tool weather: {CHALLENGE}"),
            &format!("{{\"x\": NaN, {}", &CHALLENGE[1..]),
            &format!("\u{feff}\n{CHALLENGE}\n"),
            &format!(r#"{{"x402/error":{{"code":402,"message":"","data":{CHALLENGE}}}}}"#),
            &format!("[{CHALLENGE}]"),
            &format!("a\\{CHALLENGE}"),
        ] {
            let quoted = words(message);
            assert!(!has_key(&quoted), "{quoted}");
            assert_eq!(serde_json::from_str::<String>(&quoted).unwrap(), message);
        }
    }

    #[test]
    fn other_texts_are_left_as_they_are() {
        let quoted = quote(CHALLENGE);
        for message in
            ["", "no such city", r#"{"error":"it accepts JSON","x402Version":2}"#, r#"{"accept":[],"acceptsAll":1}"#, "\"\\u00", &quoted]
        {
            assert!(matches!(words(message), Cow::Borrowed(same) if same == message), "{message}");
        }
    }

    #[test]
    fn texts_that_make_a_challenge_together_are_quoted() {
        let resource = json!({ "type": "resource", "resource": { "uri": "a:b", "text": "epts\":[]}" } });
        let resource: ContentBlock = serde_json::from_value(resource).unwrap();
        let image = ContentBlock::image("AA==", "image/png");
        let mut blocks = [ContentBlock::text(r#"{"x402Version":1,"acc"#), image.clone(), resource];
        assert!(disarm_blocks(&mut blocks));
        assert_eq!(text(&blocks[0]), r#""{\"x402Version\":1,\"acc""#);
        assert_eq!(blocks[1], image);
        assert_eq!(blocks[2].as_resource().unwrap().get_text(), r#""epts\":[]}""#);
        let mut plain = [ContentBlock::text("a"), ContentBlock::text(Value::from(CHALLENGE).to_string())];
        assert!(!disarm_blocks(&mut plain));
        assert_eq!(text(&plain[0]), "a");
    }

    #[test]
    fn blocks_of_an_error_have_no_meta_and_no_challenge_anywhere() {
        let block = |json: Value| serde_json::from_value::<ContentBlock>(json).unwrap();
        let meta = json!({ "x402/error": { "accepts": [] } });
        let mut blocks = [
            block(json!({ "type": "text", "text": "a", "_meta": meta })),
            block(json!({ "type": "resource", "resource": { "uri": "a:b", "text": "b", "_meta": meta }, "_meta": meta })),
            block(json!({ "type": "resource", "resource": { "uri": CHALLENGE, "text": "b" } })),
            block(json!({ "type": "resource_link", "uri": "a:b", "name": "c", "title": CHALLENGE, "_meta": meta })),
            block(json!({ "type": "image", "data": CHALLENGE, "mimeType": "image/png" })),
        ];
        assert!(disarm_blocks(&mut blocks));
        let sent = serde_json::to_value(&blocks).unwrap();
        assert!(!has_key_anywhere(&sent) && !sent.to_string().contains("_meta"), "{sent}");
        assert_eq!((text(&blocks[0]), &sent[1]["resource"]["text"]), ("a", &json!("b")));
        let link: Value = serde_json::from_str(&serde_json::from_str::<String>(text(&blocks[3])).unwrap()).unwrap();
        assert_eq!(link["title"], CHALLENGE, "nothing is lost");
    }
}

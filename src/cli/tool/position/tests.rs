use super::*;

const TEXT: &str =
    "{\n  \"slug\": \"a\\\"b\",\n  \"limits\": { \"wallMs\" : 10, \"wallMs\": 20 },\n  \"tags\": [\"ü\", {\"x\": [1, 2]}, true]\n}";

#[test]
fn value_or_the_nearest_around_it_is_found_by_pointer() {
    let text = |pointer: &str| {
        let (started, end) = find(TEXT, pointer);
        &TEXT[started..end]
    };
    assert_eq!(text("/slug"), "\"a\\\"b\"");
    assert_eq!(text("/limits/wallMs"), "20");
    assert_eq!(text("/tags/1/x/1"), "2");
    assert_eq!(text("/tags/2"), "true");
    assert_eq!(text("/limits/none/deeper"), "{ \"wallMs\" : 10, \"wallMs\": 20 }");
    assert_eq!(text("/none"), TEXT);
    assert_eq!(text(""), TEXT);
}

#[test]
fn incomplete_text_has_positions() {
    for end in (0..TEXT.len()).filter(|end| TEXT.is_char_boundary(*end)) {
        let (started, end_of) = find(&TEXT[..end], "/tags/1/x/1");
        assert!(started <= end_of && end_of <= end + 1, "{end}");
    }
}

#[test]
fn position_counts_characters_from_one() {
    let (started, _) = find(TEXT, "/tags/1");
    assert_eq!(FilePosition::of_byte("tool.json", TEXT, started).to_string(), "tool.json:4:17");
    assert_eq!(position("", 9), (1, 1));
}

#[test]
fn column_in_other_units_is_converted() {
    const ROW: &str = "é 日本 😀 x";
    let describe =
        |line, column, units: fn(char) -> usize| FilePosition::at("a.ts", line, column).counted(&format!("first\n{ROW}\r\n"), units).column;
    for (character, (byte, _)) in ROW.char_indices().enumerate() {
        let requested = u32::try_from(character).ok().map(|before| before + 1);
        let column = |units: usize| u32::try_from(units).unwrap() + 1;
        assert_eq!(describe(2, column(byte), char::len_utf8), requested);
        assert_eq!(describe(2, column(ROW[..byte].encode_utf16().count()), char::len_utf16), requested);
    }
    // Beyond the end of the line, and on a line that does not exist.
    assert_eq!((describe(2, 40, char::len_utf16), describe(9, 40, char::len_utf8)), (Some(39), Some(40)));
    assert_eq!(FilePosition::file("a.ts").counted(ROW, char::len_utf8), FilePosition::file("a.ts"));
}

//! The README holds what the code holds: every limit with its numbers, every setting.

use std::{fs, path::Path};

use tollhouse_protocol::limits::{Row, TABLE};

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)).expect("the file is there")
}

/// A number as the README writes it: thousands apart, bytes in the largest unit that fits evenly.
fn shown(value: u64, unit: &str) -> String {
    let (value, suffix) = match unit {
        "bytes" if value.is_multiple_of(1 << 20) => (value >> 20, " MiB"),
        "bytes" if value.is_multiple_of(1 << 10) => (value >> 10, " KiB"),
        _ => (value, ""),
    };
    let digits = value.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text + suffix
}

fn line(row: &Row) -> String {
    format!("| `{}` | {} | {} | {} | {} |", row.name, shown(row.default, row.unit), shown(row.ceiling, row.unit), row.unit, row.what)
}

#[test]
fn every_limit_stands_in_the_readme_with_its_numbers() {
    let readme = read("README.md");
    let missing: Vec<_> = TABLE.iter().map(line).filter(|line| !readme.lines().any(|there| there == line)).collect();
    assert!(missing.is_empty(), "README.md lacks these rows:\n{}", missing.join("\n"));
}

#[test]
fn every_setting_stands_in_the_readme() {
    let (readme, config) = (read("README.md"), read("src/config.rs"));
    let settings: Vec<_> = config.split("env = \"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert!(settings.len() > 5, "no settings found in src/config.rs");
    let missing: Vec<_> = settings.into_iter().filter(|name| !readme.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "README.md lacks these settings: {}", missing.join(", "));
}

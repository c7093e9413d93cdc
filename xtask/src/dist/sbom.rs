//! The bill of materials of a release, in CycloneDX 1.5 JSON.

use std::fmt::Write as _;

use super::{crates::Crate, inside::Embedded, release::Release};

/// Returns the document: all crates, and the parts that are within them or within the host.
pub(crate) fn write(release: &Release, inside: &[Embedded]) -> String {
    let components: Vec<_> = release.crates.iter().map(component).chain(inside.iter().map(vendored)).collect();
    let own = inside.iter().filter(|one| one.of.is_none()).map(|one| one.purl.clone());
    let mut depends = vec![depends_on("tollhouse", release.crates.iter().map(purl).chain(own))];
    for (index, one) in release.crates.iter().enumerate() {
        let within: Vec<_> = inside.iter().filter(|inside| inside.of == Some(index)).map(|one| one.purl.clone()).collect();
        if !within.is_empty() {
            depends.push(depends_on(&purl(one), within.into_iter()));
        }
    }
    format!(
        "{{\n  \"bomFormat\": \"CycloneDX\",\n  \"specVersion\": \"1.5\",\n  \"version\": 1,\n  \"metadata\": {{\n    \"timestamp\": {time},\n    \"component\": {{ \"type\": \"application\", \"bom-ref\": \"tollhouse\", \"name\": \"tollhouse\", \"version\": {version}, \"licenses\": [{{ \"expression\": \"Apache-2.0\" }}] }}\n  }},\n  \"components\": [\n{components}\n  ],\n  \"dependencies\": [\n{depends}\n  ]\n}}\n",
        time = text(&utc(release.epoch)),
        version = text(&release.version),
        components = components.join(",\n"),
        depends = depends.join(",\n"),
    )
}

fn depends_on(of: &str, parts: impl Iterator<Item = String>) -> String {
    let parts: Vec<_> = parts.map(|part| text(&part)).collect();
    format!("    {{ \"ref\": {}, \"dependsOn\": [{}] }}", text(of), parts.join(", "))
}

fn vendored(one: &Embedded) -> String {
    let purl = text(&one.purl);
    let cpe = one.cpe.as_ref().map(|cpe| format!(", \"cpe\": {}", text(cpe))).unwrap_or_default();
    format!(
        "    {{ \"type\": \"library\", \"bom-ref\": {purl}, \"name\": {}, \"version\": {}, \"purl\": {purl}{cpe}, \"licenses\": [{{ \"expression\": {} }}] }}",
        text(&one.name),
        text(&one.version),
        text(&one.license)
    )
}

fn purl(one: &Crate) -> String {
    format!("pkg:cargo/{}@{}", one.name, one.version.replace('+', "%2B"))
}

fn component(one: &Crate) -> String {
    let purl = text(&purl(one));
    let hash = one.sha256.as_ref().map(|sha256| format!(", \"hashes\": [{{ \"alg\": \"SHA-256\", \"content\": {} }}]", text(sha256)));
    let license = (!one.license.is_empty()).then(|| format!(", \"licenses\": [{{ \"expression\": {} }}]", text(&one.license)));
    format!(
        "    {{ \"type\": \"library\", \"bom-ref\": {purl}, \"name\": {}, \"version\": {}, \"purl\": {purl}{}{} }}",
        text(&one.name),
        text(&one.version),
        hash.unwrap_or_default(),
        license.unwrap_or_default()
    )
}

/// Quotes a JSON string.
pub(crate) fn text(of: &str) -> String {
    let mut quoted = String::from("\"");
    for c in of.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if u32::from(c) < 0x20 => _ = write!(quoted, "\\u{:04x}", u32::from(c)),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Formats seconds since 1970 as in RFC 3339 (civil calendar from days, by Howard Hinnant's
/// algorithm).
fn utc(epoch: u64) -> String {
    let (days, seconds) = (epoch / 86_400 + 719_468, epoch % 86_400);
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let part = (5 * day_of_year + 2) / 153;
    let (day, month) = (day_of_year - (153 * part + 2) / 5 + 1, if part < 10 { part + 3 } else { part - 9 });
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn crate_internals_depend_on_their_crate() {
        let one = |name: &str| Crate { name: name.into(), version: "1.0.0".into(), license: "MIT".into(), sha256: None, source: None };
        let inside = |name: &str, cpe: Option<&str>, of| Embedded {
            name: name.into(),
            version: "2.1".into(),
            license: "BSD-3-Clause".into(),
            purl: format!("pkg:generic/{name}@2.1"),
            cpe: cpe.map(str::to_owned),
            of,
        };
        let none = PathBuf::new;
        let release = Release {
            version: "0.1.0".into(),
            arch: "amd64".into(),
            epoch: 0,
            host: none(),
            worker: none(),
            crates: vec![one("a"), one("b")],
            folder: none(),
            quick: true,
        };
        let reported = write(&release, &[inside("engine", Some("cpe:2.3:a:x:engine"), Some(1)), inside("editor", None, None)]);
        for line in [
            "    { \"type\": \"library\", \"bom-ref\": \"pkg:generic/engine@2.1\", \"name\": \"engine\", \"version\": \"2.1\", \"purl\": \"pkg:generic/engine@2.1\", \"cpe\": \"cpe:2.3:a:x:engine\", \"licenses\": [{ \"expression\": \"BSD-3-Clause\" }] },",
            "    { \"ref\": \"tollhouse\", \"dependsOn\": [\"pkg:cargo/a@1.0.0\", \"pkg:cargo/b@1.0.0\", \"pkg:generic/editor@2.1\"] },",
            "    { \"ref\": \"pkg:cargo/b@1.0.0\", \"dependsOn\": [\"pkg:generic/engine@2.1\"] }",
        ] {
            assert!(reported.lines().any(|reported| reported == line), "no {line} in {reported}");
        }
    }

    #[test]
    fn times_and_strings_are_encoded_as_json() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(utc(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(utc(1_795_550_400), "2026-11-24T20:00:00Z");
        assert_eq!(text("a\"b\\c\n"), "\"a\\\"b\\\\c\\u000a\"");
    }
}

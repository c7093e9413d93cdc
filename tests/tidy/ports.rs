//! Checks that no test and no step of `cargo xtask` needs a fixed port, because a running host or another program may use
//! it. The system chooses their ports.

use std::collections::BTreeSet;

use regex::Regex;

use crate::sources;

/// Ports that let the system choose (0), or that refuse connections: nothing uses 1 and 9 anymore.
const HARMLESS: [u32; 3] = [0, 1, 9];

/// Other ports that nothing listens on and nothing connects to: the file, the port and the reason.
const NAMED: &[(&str, u32, &str)] = &[
    ("tests/docs/session.rs", 4020, "replaced by the address of the test's host"),
    ("tests/it/browsers.rs", 3000, "the origin of a page"),
    ("tests/it/failures.rs", 6274, "the origin of a page"),
    ("tests/it/harness/balancer.rs", 8400, "replaced by a socket that the system chose"),
    ("tests/it/harness/examples.rs", 80, "a text that is shortened"),
    ("tests/it/mcp/protocol.rs", 6274, "the origin of a page"),
    ("tests/it/telemetry/prometheus.rs", 4020, "replaced by the address of the test's host"),
    ("xtask/src/main.rs", 8080, "an example in the help"),
];

/// This file, whose test names ports.
const OWN: &str = "tests/tidy/ports.rs";

/// Returns the ports of addresses of this machine and of flags, with their lines.
fn ports(text: &str) -> Vec<(usize, u32)> {
    let forms = [
        r"(?:127\.0\.0\.1|localhost|0\.0\.0\.0|\[::1?\]|LOCALHOST|UNSPECIFIED)(?::|\)?, ?)([0-9]+)",
        r#""(?:--port|-p)", "([0-9]+)""#,
        r"\[127, 0, 0, 1\]\)?, ([0-9]+)",
    ];
    let forms = forms.map(|form| Regex::new(form).expect("the form is valid"));
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
    let found = lines.flat_map(|(index, line)| {
        let digits = forms.iter().flat_map(move |form| form.captures_iter(line).filter_map(|found| found.get(1)));
        digits.filter_map(move |digits| Some((index + 1, digits.as_str().parse::<u32>().ok()?)))
    });
    found.filter(|(_, port)| !HARMLESS.contains(port)).collect()
}

#[test]
fn tests_and_xtask_need_no_fixed_port() {
    let of_sandbox = sources("sandbox").into_iter().filter(|(file, _)| file.contains("/tests/"));
    let files = ["tests", "xtask"].into_iter().flat_map(sources).chain(of_sandbox).filter(|(file, _)| file != OWN);
    let (mut wrong, mut seen) = (vec![], BTreeSet::new());
    for (file, text) in files {
        for (line, port) in ports(&text) {
            if NAMED.iter().any(|(known, named, _)| *known == file && *named == port) {
                seen.insert((file.clone(), port));
            } else {
                wrong.push(format!("{file}:{line}: port {port}: let the system choose it, or explain in `{OWN}` why nothing uses it"));
            }
        }
    }
    let stale = NAMED.iter().filter(|(file, port, _)| !seen.contains(&((*file).to_owned(), *port)));
    wrong.extend(stale.map(|(file, port, _)| format!("{file} has no port {port}")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn fixed_ports_are_found() {
    let text = "connect(\"127.0.0.1:0\")\nurl(\"http://localhost:5432/a\") // \n// 127.0.0.1:1234\n(Ipv4Addr::LOCALHOST, 8545)\n\
        args([\"--port\", \"9515\"])\nat([127, 0, 0, 1], 9090)\nat(\"[::1]:4020\", \"0.0.0.0:4021\")\nformat!(\"127.0.0.1:{port}\")\n";
    assert_eq!(ports(text), [(2, 5432), (4, 8545), (5, 9515), (6, 9090), (7, 4020), (7, 4021)]);
}

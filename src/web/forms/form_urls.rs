//! Checks of the addresses that forms use: only those of the dashboard.

use percent_encoding::percent_decode_str;

/// Maximum length of an address, in bytes, so that forms which carry it stay small.
const MAX: usize = 2 << 10;

/// Returns whether this is the address of a dashboard page.
pub(crate) fn is_page(path: &str) -> bool {
    let begins = path.strip_prefix("/dashboard").is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?', '#']));
    let below = begins && path.len() <= MAX;
    let names = path.split(['?', '#']).next().unwrap_or_default();
    // Parent segments could lead out of the dashboard, to content of others.
    let leads_on = names.split('/').skip(2).all(|name| !matches!(&*percent_decode_str(name).decode_utf8_lossy(), "." | ".."));
    let acts = ["/dashboard/api/", "/dashboard/do/"].iter().any(|start| names.starts_with(start));
    below && leads_on && !acts && !names.contains("//") && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
}

/// Returns whether forms of pages can be sent to this address.
pub(super) fn is_form(path: &str) -> bool {
    let operation = path.strip_prefix("/dashboard/do/");
    let names_one = |id: &str| !id.is_empty() && path.len() <= MAX && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    operation.map_or_else(|| is_page(path), names_one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn form_leads_back_only_to_dashboard_pages() {
        for page in ["/dashboard", "/dashboard/home", "/dashboard?q=a", "/dashboard#x"] {
            assert!(is_page(page), "{page}");
        }
        for other in [
            "",
            "/",
            "//evil.example",
            "/dashboardx",
            "https://evil.example/dashboard",
            "/dashboard/\\evil",
            "/dashboard\n",
            "/assets/x",
            "/dashboard/../tools/x",
            "/dashboard/..",
            "/dashboard/%2e%2E/tools/x",
            "/dashboard/.%2e//evil.example",
            "/dashboard//evil.example",
            "/dashboard/./x",
            "/dashboard/api/ai/x",
            &format!("/dashboard?q={}", "a".repeat(MAX)),
            &format!("/dashboard/do/{}", "a".repeat(MAX)),
        ] {
            assert!(!is_page(other) && !is_form(other), "{other}");
        }
    }

    #[test]
    fn forms_are_sent_to_pages_and_operations() {
        for (path, takes) in [
            ("/dashboard/new", true),
            ("/dashboard/do/setSecret", true),
            ("/dashboard/do/", false),
            ("/dashboard/do/../api/x", false),
            ("/dashboard/do/setSecret?x", false),
            ("/dashboard/api/do/setSecret", false),
        ] {
            assert_eq!(is_form(path), takes, "{path}");
        }
    }
}

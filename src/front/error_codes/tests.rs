use super::*;

#[test]
fn status_class_matches_the_party_at_fault() {
    for code in Code::ALL {
        let CodeRow { name, status, fault, .. } = code.row();
        let fits = if status.is_server_error() { *fault != Party::Caller } else { *fault != Party::Host };
        assert!(status.is_client_error() || status.is_server_error(), "{name}");
        assert!(fits, "{name} is {status} and the {}'s", fault.as_str());
    }
}

#[test]
fn rows_with_one_name_differ_in_status_or_charge() {
    for (position, code) in Code::ALL.iter().enumerate() {
        let describe = |code: &Code| (code.row().name, code.row().status, code.row().charged.as_str());
        assert!(Code::ALL[..position].iter().all(|other| describe(other) != describe(code)), "{code:?}");
    }
}

#[test]
fn texts_are_in_sentence_case_without_a_final_period() {
    for code in Code::ALL {
        for text in [Some(code.row().sentence), code.row().hint].into_iter().flatten() {
            assert!(!text.ends_with('.') && text.starts_with(|first: char| first.is_uppercase() || first == '`'), "{code:?}: {text}");
        }
        let name = code.row().name;
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
    }
}

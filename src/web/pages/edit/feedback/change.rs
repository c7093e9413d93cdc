//! Changes by field: the user's own before publishing, and somebody else's.

use maud::{Markup, html};

use crate::{
    pages::edit::draft::ToolDraft,
    parts::{DiffNames, diff, text::words},
};

/// Shows the changes to publish, with the builder's attestation.
pub(super) fn review(before: Option<&ToolDraft>, draft: &ToolDraft, statement: Option<&str>, unvouched: bool) -> Markup {
    let changed: Vec<_> = before.map(|before| draft.changed(before)).unwrap_or_default();
    html! {
        section.told aria-labelledby="told-review" {
            h2 #told-review { @if before.is_some() { "What changes" } @else { "Publish it" } }
            @for field in &changed {
                h3 { (field.title) }
                (diff(DiffNames { old: "what is published", new: "what you typed" }, field.before, field.after))
            }
            @if before.is_none() {
                p { "The check found nothing that keeps it from being published." }
                label.box {
                    input type="checkbox" name="paused" value="true" checked[!draft.get("paused").is_empty()];
                    "Publish it paused: it takes no calls before it is resumed in its settings."
                }
            }
            @if before.is_none() || !changed.is_empty() {
                div.field {
                    label for="field-note" { "Note on this version" }
                    input #field-note name="note" maxlength=(tollhouse_tool::public_texts::MAX_VERSION_NOTE) autocomplete="off" value=(draft.get("note"));
                    p.note { "For you and for admins, beside it in the list of versions. It may stay empty." }
                }
                @if unvouched { p.problem role="alert" { "Nothing was published: a builder vouches for what they upload." } }
                @if let Some(statement) = statement {
                    label.box {
                        input #field-attested type="checkbox" name="attested" value="true" checked[draft.get("attested") == "true"]
                            aria-invalid=[unvouched.then_some("true")];
                        span { (words(statement)) }
                    }
                }
                p.buttons { button.primary name="do" value="publish" { "Publish" } }
            } @else {
                p { "Nothing in this form differs from what is published: there is nothing to publish." }
            }
        }
    }
}

/// Shows somebody else's changes since the form was opened, and the effect on the typed text.
pub(super) fn conflict(base: &ToolDraft, theirs: &ToolDraft, ours: &ToolDraft, revision: u64) -> Markup {
    let changed: Vec<_> = base.differing(theirs).collect();
    html! {
        section.told.problems role="alert" aria-labelledby="told-conflict" {
            h2 #told-conflict { "It was changed meanwhile" }
            p {
                "It is at revision " (revision) " now, and this form was begun on an earlier one. Nothing was published, and what you typed is below as it was. "
                @if changed.is_empty() { "The other change is none of what stands in this form: its state, limits or isolation, perhaps." }
                @else { "The other change:" }
            }
            @for field in &changed {
                h3 { (field.title) }
                (diff(DiffNames { old: "what you began with", new: "what is published" }, field.before, field.after))
                p.muted {
                    @if ours.get(field.name) == field.before { "You have not touched it: going on takes what is published." }
                    @else if ours.get(field.name) == field.after { "You have typed the same." }
                    @else { "You have changed it too: going on keeps what you typed." }
                }
            }
            p.buttons { button name="do" value={ "onto-" (revision) } { "Go on from revision " (revision) } }
        }
    }
}

/// Shows that the form continues from another revision.
pub(super) fn went(revision: u64, taken: &[&str]) -> Markup {
    html! {
        p.notice role="status" {
            "You go on from revision " (revision) ". "
            @if !taken.is_empty() { "As it is published, since you had not touched it: " (taken.join(", ")) ". " }
            "All else stands as you typed it, and is not published yet."
        }
    }
}

//! Changes by field: the user's own before publishing, and somebody else's.

use maud::{Markup, html};

use crate::{DiffNames, diff, pages::edit::draft::ToolDraft, words};

/// Shows the changes to publish, with the builder's attestation.
pub(super) fn review(before: Option<&ToolDraft>, draft: &ToolDraft, statement: Option<&str>, unvouched: bool) -> Markup {
    let changed: Vec<_> = before.map(|before| draft.changed(before)).unwrap_or_default();
    html! {
        section.told aria-labelledby="told-review" {
            h2 #told-review { @if before.is_some() { "Changes" } @else { "Publish the tool" } }
            @for field in &changed {
                h3 { (field.title) }
                (diff(DiffNames { old: "the published version", new: "your version" }, field.before, field.after))
            }
            @if before.is_none() {
                p { "The check found nothing that prevents publishing." }
                label.box {
                    input type="checkbox" name="paused" value="true" checked[!draft.get("paused").is_empty()];
                    "Publish it paused. It takes no calls until you resume it in its settings."
                }
            }
            @if before.is_none() || !changed.is_empty() {
                div.field {
                    label for="field-note" { "Note on this version" }
                    input #field-note name="note" maxlength=(tollhouse_tool::public_texts::MAX_VERSION_NOTE) autocomplete="off" value=(draft.get("note"));
                    p.note { "Optional. Shown to you and to admins in the list of versions." }
                }
                @if unvouched { p.problem role="alert" { "Nothing was published. First confirm the statement below." } }
                @if let Some(statement) = statement {
                    label.box {
                        input #field-attested type="checkbox" name="attested" value="true" checked[draft.get("attested") == "true"]
                            aria-invalid=[unvouched.then_some("true")];
                        span { (words(statement)) }
                    }
                }
                p.buttons { button.primary name="do" value="publish" { "Publish" } }
            } @else {
                p { "This form is the same as the published version, so there is nothing to publish." }
            }
        }
    }
}

/// Shows somebody else's changes since the form was opened, and the effect on the typed text.
pub(super) fn conflict(base: &ToolDraft, theirs: &ToolDraft, ours: &ToolDraft, revision: u64) -> Markup {
    let changed: Vec<_> = base.differing(theirs).collect();
    html! {
        section.told.problems role="alert" aria-labelledby="told-conflict" {
            h2 #told-conflict { "The tool has changed in the meantime" }
            p {
                "The tool is now at revision " (revision) ", but this form started from an earlier one. Nothing was published. Your text is unchanged below. "
                @if changed.is_empty() { "The other change is outside this form, for example in the state, the limits or the isolation." }
                @else { "The other change:" }
            }
            @for field in &changed {
                h3 { (field.title) }
                (diff(DiffNames { old: "the version you started from", new: "the published version" }, field.before, field.after))
                p.muted {
                    @if ours.get(field.name) == field.before { "You did not change this field. If you continue, it gets the published text." }
                    @else if ours.get(field.name) == field.after { "You made the same change." }
                    @else { "You also changed this field. If you continue, it keeps your text." }
                }
            }
            p.buttons { button name="do" value={ "onto-" (revision) } { "Continue from revision " (revision) } }
        }
    }
}

/// Shows that the form continues from another revision.
pub(super) fn went(revision: u64, taken: &[&str]) -> Markup {
    html! {
        p.notice role="status" {
            "You continue from revision " (revision) ". "
            @if !taken.is_empty() { "Taken from the published version, because you did not change them: " (taken.join(", ")) ". " }
            "All other fields keep your text, which is not published yet."
        }
    }
}

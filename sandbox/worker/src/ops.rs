//! The ops: all functions of this process that the scripts of `runtime-js` can call.
//!
//! No op waits, and none trusts its arguments. An op that makes a request to the host returns a
//! number at once. [`CallState`] sends the request and delivers the answer.

mod args;
mod body;
mod charge;
mod clone;
mod compression;
mod crypto;
mod form;
mod host_ops;
mod log;
mod outcome;
mod progress;
mod rejections;
mod stream;
mod text;
mod timers;
mod url;
mod urlpattern;
mod web_crypto;

use deno_core::{Extension, OpDecl, OpState};

use crate::{call_state::CallState, scripts};

/// Returns the extension with the scripts and these ops, without deno_core's own.
pub(crate) fn extension(call: CallState) -> Extension {
    let ops = table();
    let names: Vec<&'static str> = ops.iter().map(|op| op.name).chain(NEEDED_BY_CORE.iter().copied()).collect();
    Extension {
        ops: ops.into(),
        op_state_fn: Some(Box::new(move |state: &mut OpState| state.put(call))),
        middleware_fn: Some(Box::new(move |op| if names.contains(&op.name) { op } else { op.disable() })),
        ..scripts::extension()
    }
}

/// Ops that deno_core's own scripts call at start-up if no snapshot has run them.
const NEEDED_BY_CORE: &[&str] =
    if cfg!(feature = "v8") { &[] } else { &["op_get_extras_binding_object", "op_get_ext_import_meta_proto", "op_set_captured_bootstrap"] };

fn table() -> Vec<OpDecl> {
    let own = vec![
        host_ops::op_file_write_text(),
        timers::op_sleep(),
        timers::op_forget(),
        timers::op_task(),
        rejections::op_watch_rejections(),
        log::op_log(),
        progress::op_progress(),
        charge::op_charge(),
        body::op_body_read(),
        body::op_fetch_read(),
        body::op_fetch_cancel(),
        clone::op_is_proxy(),
        text::op_text_encode(),
        text::op_text_decode(),
        text::op_encoding_name(),
        text::op_text_decode_as(),
        text::op_text_decoder(),
        text::op_text_decode_piece(),
        text::op_base64_encode(),
        text::op_base64_decode(),
        url::op_url_parse(),
        url::op_url_join(),
        url::op_url_set(),
        url::op_params_parse(),
        url::op_params_serialize(),
        urlpattern::op_urlpattern_parse(),
        urlpattern::op_urlpattern_input(),
        form::op_multipart(),
        compression::op_compression_new(),
        compression::op_compression_write(),
        compression::op_compression_finish(),
        crypto::op_random(),
        crypto::op_uuid(),
        crypto::op_digest(),
        outcome::op_output_bytes(),
        outcome::op_returned(),
        outcome::op_responded(),
        outcome::op_responded_bytes(),
        outcome::op_threw(),
        stream::op_streams(),
        stream::op_stream_open(),
        stream::op_stream_write(),
        stream::op_streamed(),
        outcome::op_background_work(),
        outcome::op_loaded(),
        outcome::op_unloadable(),
    ];
    host_ops::table().into_iter().chain(own).chain(web_crypto::table()).collect()
}

//! Compiled code of a source, which a worker makes before it runs any of it.

use tollhouse_protocol::{Language, Source};

use super::*;

#[tokio::test]
async fn compiled_code_is_taken_only_as_the_first_message_about_a_large_source() {
    let code = || ToHost::Compiled(Bytes::from_static(b"code"));
    let line = || ToHost::Log(LogLine { level: LogLevel::Info, message: "m".into(), fields: String::new() });
    for (bytes, had, answer, taken) in [
        (256 << 10, false, vec![code(), loaded()], Some("code")),
        (256 << 10, false, vec![loaded()], Some("")),
        (256 << 10, false, vec![line(), code(), loaded()], None),
        (256 << 10, false, vec![code(), code(), loaded()], None),
        (256 << 10, true, vec![code(), loaded()], None),
        ((256 << 10) - 1, false, vec![code(), loaded()], None),
    ] {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (link, mut buffers, mut peer) = (link(ours), Buffers::default(), Peer(theirs));
        let source = Some(Source { text: vec![b' '; bytes].into(), language: Language::Js });
        let bundle = Bundle { version: "1".into(), specifier: "tool:/x/1".into(), source, schemas: Schemas::default() };
        let (load, mut compiled) = (Load { bundle, limits: Limits::default() }, Bytes::new());
        let given = had.then(|| Bytes::from_static(b"earlier"));
        let worker = async {
            if had {
                assert!(matches!(peer.receive().await, ToWorker::Code(code) if code == "earlier"));
            }
            assert!(matches!(peer.receive().await, ToWorker::Load(_)));
            peer.send(&answer).await;
            peer
        };
        let (ended, _peer) = tokio::join!(crate::exchange::load(&link, &mut buffers, load, given, &mut compiled), worker);
        let found = ended.ok().map(|_| compiled);
        assert_eq!(found.as_deref(), taken.map(str::as_bytes), "{bytes} {had} {answer:?}");
    }
}

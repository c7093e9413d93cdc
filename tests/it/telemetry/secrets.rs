//! Neither secrets nor bodies leave the host through its metrics, traces or log.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use super::{collector::Collector, metrics};
use crate::harness::{Host, Payer, eventually, js};

/// Parses the lines of the log, which are JSON objects.
fn lines(log: &str) -> Vec<Value> {
    let objects = log.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")));
    objects.collect()
}

#[tokio::test]
async fn nothing_secret_and_nothing_of_a_body_is_in_anything_that_is_reported() {
    let collector = Collector::start().await;
    let host = Host::builder()
        .env("TOLLHOUSE_OTLP_ENDPOINT", &collector.url)
        .env("TOLLHOUSE_OTLP_METRICS_MS", 200)
        .env("TOLLHOUSE_OTLP_HEADERS", "authorization=marked-key-of-the-collector")
        .env("TOLLHOUSE_LOG_FORMAT", "json")
        .env("TOLLHOUSE_LOG", "info,tollhouse=trace")
        .env("TOLLHOUSE_AUTH_FAILURES", 0)
        .start()
        .await;
    let source = "export default (req, ctx) => {
        ctx.log.info('marked-line-of-the-tool');
        if (req.input.fails) throw new Error('marked-error ' + ctx.env.API_TOKEN);
        return { result: 'marked-result', said: req.input.words };
    };";
    for (slug, price) in [("free", 0.0), ("paid", 0.01)] {
        host.publish(&js(slug, price, source)).await;
        let secret = json!({ "name": "API_TOKEN", "value": "marked-secret-value", "visibility": "env" });
        host.manage(Method::POST, &format!("/ai/endpoints/{slug}/secrets"), &secret).await.is(200);
    }
    let body = json!({ "words": "marked-body", "marked-name": 1 });
    host.call("free", &body).await.is(200);
    host.call("free", &json!({ "fails": "marked-body" })).await.is(502);
    host.post("/tools/free", &json!("marked-body-that-is-text")).await;
    host.get("/tools/free?words=marked-query").await;
    let credit = host.mint(1.0).await;
    host.call_credit("paid", &body, &credit).await.is(200);
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("paid").await);
    let encoded = payment.encoded();
    host.call_paid("paid", &body, &payment).await.is(200);
    host.mcp().call("free", body.clone(), json!({ "traceparent": "marked-context", "other": "marked-meta" })).await;
    host.mcp().call("paid", body.clone(), json!({ "x402/payment": payer.pay(&host.challenge("paid").await).payload })).await;
    let (_, key) = host.register("Builder").await;
    let wrong = host.request(Method::POST, "/tools/free").json(&body).header("x-admin-token", "marked-wrong-token");
    host.send(wrong).await.is(401);
    let state = host.request(Method::POST, "/tools/free").json(&body).header("tracestate", "marked-state without sense");
    host.send(state.header("user-agent", "marked-agent").header("cookie", "marked-cookie")).await.is(200);
    let answer = metrics(&host).await;
    eventually("spans and metrics", Duration::from_secs(20), || async {
        (collector.spans().len() > 30 && !collector.bodies("metrics").is_empty()).then_some(())
    })
    .await;

    let (sent, log) = (collector.text(), host.log());
    let signature = payment.payload["payload"]["signature"].as_str().unwrap();
    for (what, text) in [("/metrics", &answer), ("OTLP", &sent), ("the log", &log)] {
        let found = text
            .match_indices("marked-")
            .map(|(at, _)| &text[at..text.len().min(at + 60)])
            .find(|found| !found.contains("key-of-the-collector"));
        assert_eq!(found, None, "{what}");
        for secret in [&*host.admin, &credit, &key, &encoded, signature, &payer.secret()] {
            assert!(!text.contains(secret), "{what} has {secret}");
        }
    }
    assert!(!log.contains("marked-"), "{log}");
}

#[tokio::test]
async fn a_line_of_the_log_has_the_ids_of_the_trace_that_it_belongs_to() {
    let collector = Collector::start().await;
    // An unreachable facilitator causes a log line.
    let facilitated = Host::builder()
        .env("TOLLHOUSE_OTLP_ENDPOINT", &collector.url)
        .env("TOLLHOUSE_LOG_FORMAT", "json")
        .settled_by("http://127.0.0.1:1")
        .start()
        .await;
    facilitated.publish(&js("paid", 0.01, "export default () => ({});")).await;
    let payment = Payer::new().pay(&facilitated.challenge("paid").await);
    let answer = facilitated.call_paid("paid", &json!({}), &payment).await.is(502);
    let trace = answer.has("traceresponse").split('-').nth(1).unwrap().to_owned();
    let lines = lines(&facilitated.log());
    let of_it = lines.iter().find(|line| line["message"] == "the facilitator could not verify a payment").unwrap();
    assert_eq!((of_it["trace_id"].as_str(), of_it["level"].as_str()), (Some(&*trace), Some("WARN")), "{of_it}");
    assert!(of_it["fields"]["payment.id"].as_str().unwrap().starts_with("pmt_"), "{of_it}");
}

//! Lists of tools, and notifications of their changes.

use std::{collections::BTreeSet, fs, time::Duration};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use reqwest::Method;
use serde_json::{Value, json};

use super::{COUNTER, MOODY, PRICE, refusal};
use crate::{
    harness::{Host, Replied, eventually, js},
    listing::fixed,
};

#[tokio::test]
async fn tools_are_listed_with_their_prices() {
    let host = Host::start().await;
    let mut tool = js("count", PRICE, COUNTER);
    tool["description"] = json!("Counts.");
    tool["outputSchema"] =
        json!({ "type": "object", "properties": { "runs": { "$ref": "#/$defs/n" } }, "$defs": { "n": { "type": "integer" } } });
    host.publish(&tool).await;
    host.publish(&js("free", 0.0, MOODY)).await;

    let listed = host.mcp().ask("tools/list", json!({})).await.result();
    assert!(listed["ttlMs"].is_u64() && listed["cacheScope"] == "public", "{listed}");
    let names: Vec<_> = listed["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["search_tools", "quote_tool", "get_receipt", "count", "free"]);

    let paid = host.mcp().tool("count").await.unwrap();
    assert!(paid["description"].as_str().unwrap().contains("0.01 USD"), "{paid}");
    assert_eq!(paid["inputSchema"]["type"], "object");
    assert_eq!(paid["annotations"]["readOnlyHint"], false, "spending money is nothing to do unasked");
    let meta = &paid["_meta"];
    assert_eq!((&meta["agents-x402/paymentRequired"], &meta["agents-x402/priceUSD"]), (&json!(true), &json!(PRICE)));
    let mut terms = host.challenge("count").await["accepts"][0].clone();
    terms["paymentRequired"] = json!(true);
    assert_eq!(meta["x402"], terms);
    // The schema of the structured content accepts both a challenge and a result.
    let schema = jsonschema::validator_for(&paid["outputSchema"]).unwrap();
    let unpaid = host.mcp().call("count", json!({}), json!({})).await;
    assert!(schema.is_valid(&unpaid["structuredContent"]));
    assert!(schema.is_valid(&json!({ "runs": 1 })) && !schema.is_valid(&json!({ "runs": "one" })));

    let free = host.mcp().tool("free").await.unwrap();
    assert_eq!(free["_meta"]["tollhouse/priceUsd"], 0);
    assert_eq!(free["_meta"].get("x402"), None);

    let mut narrowed = host.mcp();
    narrowed.query = "?tools=free,search_tools";
    let names: Vec<_> = narrowed.tools().await.iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(names, ["search_tools", "free"]);
    narrowed.ask("tools/call", json!({ "name": "count", "arguments": {} })).await.fails(200, -32602);
    let found = narrowed.call("search_tools", json!({ "query": "counts" }), json!({})).await;
    assert_eq!(found["structuredContent"]["total"], 0);
    let found = host.mcp().call("search_tools", json!({ "query": "Counts please" }), json!({})).await;
    assert_eq!(found["structuredContent"]["tools"][0]["name"], "count");
}

/// More tools than fit on a page.
const MANY: usize = 205;

/// Starts a host with [`MANY`] tools, named `tool-000` and so on.
async fn crowded() -> Host {
    let folder = tempfile::tempdir().unwrap();
    for n in 0..MANY {
        let (slug, mut tool) = (format!("tool-{n:03}"), fixed(&format!("tool-{n:03}"), "Tool", 0.0, &[]));
        tool.as_object_mut().unwrap().remove("handler");
        fs::create_dir(folder.path().join(&slug)).unwrap();
        fs::write(folder.path().join(&slug).join("tool.json"), tool.to_string()).unwrap();
        fs::write(folder.path().join(&slug).join("response.json"), "{}").unwrap();
    }
    Host::builder().with_catalogue().flag("--tools", folder.path().display()).start().await
}

#[tokio::test]
async fn tools_that_find_others_come_first_and_lists_say_how_many_more_there_are() {
    let host = crowded().await;
    for mut client in [host.mcp(), host.mcp_legacy()] {
        let mut names = vec![];
        for accept in ["application/json, text/event-stream", "text/event-stream"] {
            client.accept = accept;
            let first = client.ask("tools/list", json!({})).await.result();
            let next = &first["nextCursor"];
            let last = client.ask("tools/list", json!({ "cursor": next })).await.result();
            let counts = |page: &Value| ["total", "remaining"].map(|name| page["_meta"][format!("tollhouse/{name}")].as_u64().unwrap());
            assert_eq!((counts(&first), counts(&last)), ([MANY as u64 + 3, 8], [MANY as u64 + 3, 0]));
            assert_eq!(last.get("nextCursor"), None);
            let tools = [&first, &last].map(|page| page["tools"].as_array().unwrap().clone()).concat();
            names.push(tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>());
        }
        assert_eq!(names[0][..4], ["search_tools", "quote_tool", "get_receipt", "tool-000"]);
        assert_eq!(names[0].iter().collect::<BTreeSet<_>>().len(), MANY + 3);
        assert_eq!(names[0], names[1], "in a stream as in JSON");
    }
}

#[tokio::test]
async fn a_list_is_the_same_in_a_stream_as_in_json() {
    let host = Host::builder().with_catalogue().start().await;
    for (slug, price) in [("rows", 0.0), ("rows-paid", PRICE)] {
        let mut tool = js(slug, price, "export default () => Response.json([0.5]);");
        tool["outputSchema"] = json!({ "type": "array", "items": { "type": "number", "maximum": 0.123_456_789_012_345_6 } });
        host.publish(&tool).await;
    }
    for mut client in [host.mcp(), host.mcp_legacy()] {
        let json = client.ask("tools/list", json!({})).await;
        client.accept = "text/event-stream";
        let streamed = client.ask("tools/list", json!({})).await;
        assert!(streamed.streamed && !json.streamed);
        assert_eq!(json.response, streamed.response);
    }
}

#[tokio::test]
async fn a_cursor_that_was_made_up_is_refused() {
    let host = crowded().await;
    let next = host.mcp().ask("tools/list", json!({})).await.result()["nextCursor"].as_str().unwrap().to_owned();
    let made_up = ["", "nonsense", "%", &URL_SAFE_NO_PAD.encode("tool-100"), &next[1..], &next[..next.len() - 1], &format!("{next}A")];
    for mut client in [host.mcp(), host.mcp_legacy()] {
        for cursor in made_up {
            client.ask("tools/list", json!({ "cursor": cursor })).await.fails(200, -32602);
        }
        // A cursor that is not a string is rejected as well.
        for accept in ["application/json, text/event-stream", "text/event-stream"] {
            client.accept = accept;
            for cursor in [json!(5), json!(false), json!({}), json!([next])] {
                client.ask("tools/list", json!({ "cursor": cursor })).await.fails(200, -32602);
            }
        }
        client.accept = "*/*";
        client.ask("tools/list", json!({ "cursor": next })).await.result();
        client.query = "?tools=tool-001,tool-204";
        client.ask("tools/list", json!({ "cursor": next })).await.fails(200, -32602);
    }
}

#[tokio::test]
async fn a_cursor_that_is_null_asks_for_the_first_page() {
    let host = crowded().await;
    for mut client in [host.mcp(), host.mcp_legacy()] {
        let first = client.ask("tools/list", json!({})).await.result();
        for accept in ["application/json, text/event-stream", "text/event-stream"] {
            client.accept = accept;
            assert_eq!(client.ask("tools/list", json!({ "cursor": null })).await.result(), first, "{accept}");
        }
    }
}

#[tokio::test]
async fn tool_filter_of_a_connection_has_a_maximum() {
    let host = crowded().await;
    let names = |max: usize| (0..max).map(|n| format!("tool-{n:03}")).collect::<Vec<_>>().join(",");
    let query = |names: String| &*Box::leak(format!("?tools={names}").into_boxed_str());
    for mut client in [host.mcp(), host.mcp_legacy()] {
        client.query = query(names(100));
        let listed = client.ask("tools/list", json!({})).await.result();
        assert_eq!((listed["tools"].as_array().unwrap().len(), &listed["_meta"]["tollhouse/total"]), (100, &json!(100)));
        for (many, reported) in
            [(names(101), "101 names, and the maximum is 100"), ("a,".repeat(30_000), "bytes, and the maximum is 16384")]
        {
            client.query = query(many);
            for (method, params) in [("tools/list", json!({})), ("tools/call", json!({ "name": "tool-001", "arguments": {} }))] {
                let refused = client.ask(method, params).await;
                let error = refused.fails(400, -32600);
                assert!(error["message"].as_str().unwrap().contains(reported), "{error}");
                assert_eq!(refused.response["id"], 1);
            }
        }
    }
}

#[tokio::test]
async fn search_accepts_tags_and_price_and_rejects_others() {
    let host = Host::start().await;
    host.publish(&fixed("rain-today", "Rain today", 0.0, &["weather"])).await;
    host.publish(&fixed("rain-radar", "Rain radar", 0.05, &["weather", "maps"])).await;
    let search = async |arguments: Value| host.mcp().call("search_tools", arguments, json!({})).await;
    for (arguments, requested) in [
        (json!({ "query": "will it be raining" }), &["rain-radar", "rain-today"][..]),
        (json!({ "query": "rain", "maxPriceUsd": 0.01 }), &["rain-today"]),
        (json!({ "query": "rain", "tags": ["Maps"] }), &["rain-radar"]),
        (json!({ "query": "rain", "tags": ["maps"], "maxPriceUsd": 0 }), &[]),
    ] {
        let found = search(arguments.clone()).await["structuredContent"].clone();
        let mut names: Vec<_> = found["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        names.sort_unstable();
        assert_eq!((names.as_slice(), &found["total"]), (requested, &json!(requested.len())), "{arguments}");
    }
    for wrong in [
        json!({}),
        json!({ "query": "a".repeat(201) }),
        json!({ "query": "rain", "limit": 0 }),
        json!({ "query": "rain", "limit": 51 }),
        json!({ "query": "rain", "maxPriceUsd": -1 }),
        json!({ "query": "rain", "tags": vec!["a"; 17] }),
        json!({ "query": "rain", "price": 1 }),
    ] {
        let refused = search(wrong.clone()).await;
        assert_eq!(refused["isError"], true, "{wrong}");
        assert!(refused["content"][0]["text"].as_str().unwrap().starts_with("invalid_input: "), "{refused}");
    }
}

#[tokio::test]
async fn results_of_any_shape_are_structured_in_the_revision_that_has_them() {
    let host = Host::start().await;
    let shapes = [
        ("list", json!({ "type": "array", "items": { "type": "integer" } }), "[1, 2]", json!([1, 2])),
        ("word", json!({ "type": "string" }), "'one'", json!("one")),
        ("none", json!({ "type": "boolean" }), "false", json!(false)),
        ("void", json!({ "type": ["object", "null"] }), "null", json!(null)),
    ];
    for (slug, schema, answer, _) in &shapes {
        for price in [0.0, PRICE] {
            let slug = if price > 0.0 { format!("{slug}-paid") } else { (*slug).to_owned() };
            let mut tool = js(&slug, price, &format!("export default () => Response.json({answer});"));
            tool["outputSchema"] = schema.clone();
            host.publish(&tool).await;
        }
    }
    let (modern, legacy) = (host.mcp(), host.mcp_legacy());
    for (slug, schema, _, value) in &shapes {
        assert_eq!(&modern.tool(slug).await.unwrap()["outputSchema"], schema);
        let result = modern.call(slug, json!({}), json!({})).await;
        assert_eq!((result.get("structuredContent"), &result["content"][0]["text"]), (Some(value), &json!(value.to_string())), "{slug}");
        // The schema also accepts a challenge.
        let paid = format!("{slug}-paid");
        let both = jsonschema::validator_for(&modern.tool(&paid).await.unwrap()["outputSchema"]).unwrap();
        let unpaid = modern.call(&paid, json!({}), json!({})).await;
        assert!(both.is_valid(value) && both.is_valid(&unpaid["structuredContent"]) && !both.is_valid(&json!(1.5)), "{slug}");
        // Clients of older versions reject the whole list if the schema is not of an object.
        for name in [*slug, &paid] {
            assert_eq!(legacy.tool(name).await.unwrap().get("outputSchema"), None, "{name}");
        }
        let result = legacy.call(slug, json!({}), json!({})).await;
        assert_eq!((result.get("structuredContent"), &result["content"][0]["text"]), (None, &json!(value.to_string())), "{slug}");
    }
}

#[tokio::test]
async fn a_header_that_clients_refuse_is_refused_at_publish() {
    let host = Host::start().await;
    let with = |property: Value| {
        let mut tool = js("region", 0.0, MOODY);
        tool["inputSchema"] = json!({ "type": "object", "properties": { "region": property } });
        tool
    };
    let good = json!({ "type": "string", "x-mcp-header": "Region" });
    let wrong = [
        (json!({ "type": "string", "x-mcp-header": "Region Name" }), "/inputSchema/properties/region/x-mcp-header"),
        (json!({ "type": "number", "x-mcp-header": "Region" }), "/inputSchema/properties/region/x-mcp-header"),
        (json!({ "type": "array", "items": good }), "/inputSchema/properties/region/items/x-mcp-header"),
    ];
    for (property, pointer) in &wrong {
        let error =
            host.manage(Method::POST, "/ai/endpoints/create", &with(property.clone())).await.fails(422, "invalid_endpoint", "caller");
        assert_eq!(error["pointer"], *pointer, "{error}");
    }
    host.publish(&with(good)).await;
    for (property, pointer) in &wrong {
        let patch = json!({ "inputSchema": with(property.clone())["inputSchema"] });
        let error = host.manage(Method::PATCH, "/ai/endpoints/region", &patch).await.fails(422, "invalid_endpoint", "caller");
        assert_eq!(error["pointer"], *pointer, "{error}");
    }
}

#[tokio::test]
async fn changes_show_at_once_and_reach_listeners() {
    let host = Host::start().await;
    let params = json!({ "notifications": { "toolsListChanged": true, "promptsListChanged": true } });
    let mut stream = host.mcp().request("subscriptions/listen", params).send().await.unwrap();
    assert!(stream.headers()["content-type"].to_str().unwrap().starts_with("text/event-stream"));
    let mut text = String::new();
    let mut next = async || loop {
        if let Some((event, rest)) = text.split_once("\n\n").map(|(event, rest)| (event.to_owned(), rest.to_owned())) {
            text = rest;
            if let Some(data) = event.lines().find_map(|line| line.strip_prefix("data:")) {
                return serde_json::from_str::<Value>(data.trim()).unwrap();
            }
            continue;
        }
        let chunk = tokio::time::timeout(Duration::from_secs(10), stream.chunk()).await.expect("no message came").unwrap().unwrap();
        text += std::str::from_utf8(&chunk).unwrap();
    };
    let acknowledged = next().await;
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(acknowledged["params"]["notifications"], json!({ "toolsListChanged": true }));
    let mut describe = async || {
        let describe = next().await;
        assert_eq!(describe["method"], "notifications/tools/list_changed");
        assert_eq!(describe["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 1);
    };

    host.publish(&js("count", PRICE, COUNTER)).await;
    describe().await;
    assert_eq!(host.mcp().tool("count").await.unwrap()["_meta"]["tollhouse/priceUsd"], PRICE);
    host.change("count", &json!({ "priceUsd": 0.5 })).await;
    describe().await;
    assert_eq!(host.mcp().tool("count").await.unwrap()["_meta"]["tollhouse/priceUsd"], 0.5);
    host.change("count", &json!({ "status": "paused" })).await;
    describe().await;
    assert!(host.mcp().tool("count").await.is_none());
    refusal(&host.mcp().call("count", json!({}), json!({})).await, "endpoint_paused");
    // A host that is shutting down ends the stream properly.
    host.terminate();
    assert_eq!(next().await["result"]["resultType"], "complete");
}

#[tokio::test]
async fn listeners_have_a_limit_of_streams() {
    let host = Host::builder().flag("--mcp-address-listeners", 2).flag("--address-connections", 40).start().await;
    let params = || json!({ "notifications": { "toolsListChanged": true } });
    let listen = async || host.mcp().request("subscriptions/listen", params()).send().await.unwrap();
    let (first, second) = (listen().await, listen().await);
    assert_eq!((first.status().as_u16(), second.status().as_u16()), (200, 200));
    let refused = host.send(host.mcp().request("subscriptions/listen", params())).await;
    assert!(refused.has("retry-after").parse::<u64>().unwrap() > 0);
    let error = Replied::read(&refused).fails(429, -32600);
    assert!(error["message"].as_str().unwrap().contains("has reached its limit of 2 streams"), "{error}");
    // A stream that ends makes room for another one.
    drop(first);
    eventually("a place is free", Duration::from_secs(20), async || (listen().await.status() == 200).then_some(())).await;

    let mut json_only = host.mcp();
    json_only.accept = "application/json";
    json_only.ask("subscriptions/listen", params()).await.fails(406, -32600);
    host.mcp().ask("subscriptions/listen", json!({ "notifications": { "toolsListChanged": "yes" } })).await.fails(200, -32602);
}

#[tokio::test]
async fn streams_that_listen_take_places_of_connections() {
    let host = Host::builder().flag("--address-connections", 8).start().await;
    let mut streams = vec![];
    let refused = loop {
        let params = json!({ "notifications": { "toolsListChanged": true } });
        let Ok(answer) = host.mcp().request("subscriptions/listen", params).send().await else { break 503 };
        match answer.status().as_u16() {
            200 => streams.push(answer),
            other => break other,
        }
    };
    assert!(matches!(refused, 429 | 503), "{refused}");
    assert!(streams.len() <= 4, "each is a connection of its own and a stream that stays: {}", streams.len());
}

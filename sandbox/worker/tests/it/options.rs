//! Options of `ctx`'s functions: known ones are accepted, others are rejected.

use serde_json::{Value, json};
use tollhouse_protocol::OpRequest;

use crate::harness::Worker;

#[test]
fn unknown_option_is_a_type_error_that_lists_known_ones_and_nothing_is_sent() {
    for (use_of_it, message) in [
        (
            "ctx.httpGetJson('https://a.example/', { method: 'POST' })",
            "ctx.httpGetJson has no option `method`, only `headers`, `timeoutMs` and `auth`: it sends a GET without a body",
        ),
        (
            "ctx.httpGetJson('https://a.example/', { timeout: 5 })",
            "ctx.httpGetJson has no option `timeout`, only `headers`, `timeoutMs` and `auth`: `timeoutMs` limits its duration, in milliseconds",
        ),
        (
            "ctx.httpGetJson('https://a.example/', { auth: { header: 'a', env: 'B', prefix: 'Bearer ' } })",
            "auth of ctx.httpGetJson has no option `prefix`, only `header` and `env`",
        ),
        ("ctx.httpGetJson('https://a.example/', 'GET')", "the options of ctx.httpGetJson must be an object"),
        ("ctx.kv.get('a', { consistency: 'strong' })", "ctx.kv.get has no options"),
        (
            "ctx.kv.set('a', 1, { expireIn: 1 })",
            "ctx.kv.set has no option `expireIn`, only `ttlMs`: after `ttlMs` milliseconds the key is gone",
        ),
        ("ctx.kv.set('a', 1, { ttlMs: 1, overwrite: false })", "ctx.kv.set has no option `overwrite`, only `ttlMs`"),
        ("ctx.kv.set('a', 1, 60)", "the options of ctx.kv.set must be an object"),
        ("ctx.kv.delete('a', { prefix: true })", "ctx.kv.delete has no options"),
        ("ctx.kv.list({ reverse: true })", "ctx.kv.list has no option `reverse`, only `prefix`, `limit` and `cursor`"),
        ("ctx.kv.list('a')", "the options of ctx.kv.list must be an object"),
        ("ctx.kv.atomic({ retries: 3 })", "ctx.kv.atomic has no options"),
        ("ctx.kv.atomic().check('a', 1, { versionstamp: 1 })", "check of ctx.kv.atomic has no options"),
        (
            "ctx.kv.atomic().set('a', 1, { ttl: 1 })",
            "set of ctx.kv.atomic has no option `ttl`, only `ttlMs`: after `ttlMs` milliseconds the key is gone",
        ),
        ("ctx.kv.atomic().add('n', 1, { ttlMs: 1 })", "add of ctx.kv.atomic has no options"),
        ("ctx.kv.atomic().delete('n', {})", "delete of ctx.kv.atomic has no options"),
        ("ctx.kv.atomic().commit({ wait: true })", "commit of ctx.kv.atomic has no options"),
        ("ctx.files.read('a', { encoding: 'utf8' })", "ctx.files.read has no options"),
        ("ctx.files.readText('a', {})", "ctx.files.readText has no options"),
        ("ctx.files.readJson('a', {})", "ctx.files.readJson has no options"),
        ("ctx.files.write('a', 'b', { append: true })", "ctx.files.write has no options"),
        ("ctx.files.delete('a', { recursive: true })", "ctx.files.delete has no options"),
        ("ctx.files.list({ delimiter: '/' })", "ctx.files.list has no option `delimiter`, only `prefix`, `limit` and `cursor`"),
        ("ctx.charge('0.01', { currency: 'EUR' })", "ctx.charge takes only an amount in dollars, and no options"),
        ("ctx.charge('0.01', 'EUR')", "ctx.charge takes only an amount in dollars, and no options"),
        ("ctx.progress('half', 0.5, { to: 'caller' })", "ctx.progress has no options"),
        ("ctx.waitUntil(null, { timeoutMs: 5 })", "ctx.waitUntil has no options"),
        // Surplus arguments.
        (
            "ctx.httpGetJson('https://a.example/', { timeoutMs: 5 }, { headers: {} })",
            "ctx.httpGetJson takes at most 2 arguments: put all options into one object",
        ),
        (
            "ctx.httpGetJson('https://a.example/', undefined, 5)",
            "ctx.httpGetJson takes at most 2 arguments: put all options into one object",
        ),
        ("ctx.kv.get('a', 'b')", "ctx.kv.get takes at most 1 argument"),
        ("ctx.kv.get('a', undefined, {})", "ctx.kv.get takes at most 1 argument"),
        ("ctx.kv.delete('a', ['b'])", "ctx.kv.delete takes at most 1 argument"),
        ("ctx.kv.set('a', 1, {}, { ttlMs: 1 })", "ctx.kv.set takes at most 3 arguments: put all options into one object"),
        ("ctx.kv.list({ prefix: 'a' }, { limit: 1 })", "ctx.kv.list takes at most 1 argument: put all options into one object"),
        ("ctx.kv.atomic(3)", "ctx.kv.atomic takes at most 0 arguments"),
        ("ctx.kv.atomic().check('a', 1, 2)", "check of ctx.kv.atomic takes at most 2 arguments"),
        ("ctx.kv.atomic().set('a', 1, {}, 2)", "set of ctx.kv.atomic takes at most 3 arguments: put all options into one object"),
        ("ctx.kv.atomic().add('n', 1, 60)", "add of ctx.kv.atomic takes at most 2 arguments"),
        ("ctx.kv.atomic().sum('n', 1, 60)", "add of ctx.kv.atomic takes at most 2 arguments"),
        ("ctx.kv.atomic().delete('n', 'm')", "delete of ctx.kv.atomic takes at most 1 argument"),
        ("ctx.kv.atomic().commit(true)", "commit of ctx.kv.atomic takes at most 0 arguments"),
        ("ctx.files.read('a', 'utf8')", "ctx.files.read takes at most 1 argument"),
        ("ctx.files.readText('a', 'utf8')", "ctx.files.readText takes at most 1 argument"),
        ("ctx.files.readJson('a', JSON.parse)", "ctx.files.readJson takes at most 1 argument"),
        ("ctx.files.write('a', 'b', 'utf8')", "ctx.files.write takes at most 2 arguments"),
        ("ctx.files.delete('a', 'b')", "ctx.files.delete takes at most 1 argument"),
        ("ctx.files.list({}, 'a/')", "ctx.files.list takes at most 1 argument: put all options into one object"),
        ("ctx.progress('half', 0.5, 'caller')", "ctx.progress takes at most 2 arguments"),
    ] {
        let mut worker = Worker::handler(&format!("return await {use_of_it};"));
        assert_eq!(worker.thrown(&Value::Null), format!("TypeError: {message}"), "{use_of_it}");
        assert_eq!((worker.ops.len(), worker.messages.len()), (0, 0), "{use_of_it}");
    }
}

/// A new function of `ctx` needs a row above, and one in `ended.rs`.
#[test]
fn every_function_of_ctx_is_tried_with_an_option_and_after_its_call() {
    let mut worker = Worker::handler(
        "const names = [];
         const walk = (value, name) => {
           for (const key of Object.getOwnPropertyNames(value).filter((key) => key !== 'constructor' && key !== 'prototype')) {
             const member = value[key];
             if (typeof member === 'function') names.push(`${name}.${key}`);
             if (typeof member === 'function' || (typeof member === 'object' && member !== null)) walk(member, `${name}.${key}`);
           }
         };
         walk(ctx, 'ctx');
         walk(Object.getPrototypeOf(ctx.kv.atomic()), 'ctx.kv.atomic()');
         return names;",
    );
    let names: Vec<String> = serde_json::from_value(worker.json(&Value::Null)).unwrap();
    assert!(names.len() > 20, "{names:?}");
    let (options, ended) = (include_str!("options.rs"), include_str!("ended.rs"));
    for name in &names {
        // A line of the log takes any values.
        let takes_any = name.starts_with("ctx.log");
        assert!(takes_any || options.contains(&format!("\"{name}(")), "no row has an option that {name} does not know");
        let of_ended = name.replace("ctx.kv.atomic().", "atomic.").replace("ctx.", "old.");
        assert!(ended.contains(&format!("{of_ended}(")), "{name} is not tried after its call");
    }
}

#[test]
fn known_options_and_map_arguments_pass() {
    let mut worker = Worker::handler(
        "await Promise.all(['a', 'b'].map(ctx.kv.get)); await ctx.kv.get('a', undefined, null);
         await ctx.kv.set('a', 1, null); await ctx.kv.set('a', 1, { ttlMs: undefined, other: undefined }); await ctx.kv.list({}); await ctx.files.list(null);
         await ctx.httpGetJson('https://a.example/', { timeoutMs: 5, headers: undefined, auth: null, signal: undefined });
         ctx.log('one', { any: 1 }, 'and', { more: 2 });
         return 1;",
    );
    assert_eq!(worker.json(&Value::Null), json!(1));
    assert_eq!(
        (worker.ops.len(), worker.logs[0].message.as_str(), worker.logs[0].fields.as_str()),
        (8, r#"one and {"more":2}"#, r#"{"any":1}"#)
    );
}

#[test]
fn headers_are_read_as_an_object_as_rows_and_as_headers() {
    for headers in
        ["{ 'x-a': 'c', b: 1 }", "[['x-a', 'c'], ['b', 1]]", "new Map([['x-a', 'c'], ['b', '1']])", "new Headers({ 'x-a': 'c', b: '1' })"]
    {
        let mut worker = Worker::handler(&format!("await ctx.httpGetJson('https://a.example/', {{ headers: {headers} }}); return 1;"));
        worker.json(&Value::Null);
        let OpRequest::HttpGetJson { headers: sent, .. } = &worker.ops[0] else { panic!("{:?}", worker.ops) };
        assert_eq!(sent, &[("x-a".to_owned(), "c".to_owned()), ("b".to_owned(), "1".to_owned())], "{headers}");
    }
    for headers in ["'x-a: c'", "['x-a: c']", "[['x-a']]", "[['x-a', 'b', 'c']]", "5", "[1]"] {
        let mut worker = Worker::handler(&format!("return await ctx.httpGetJson('https://a.example/', {{ headers: {headers} }});"));
        assert!(worker.thrown(&Value::Null).starts_with("TypeError: "), "{headers}");
        assert_eq!(worker.ops.len(), 0, "{headers}");
    }
}

#[test]
fn error_of_a_response_has_its_status() {
    let mut worker = Worker::handler(
        "const errors = [];
         for (const path of ['missing', '10.0.0.1']) await ctx.httpGetJson(`https://${path}/`).catch((e) => errors.push([e.name, e.code, e.status ?? null, 'status' in e]));
         return errors;",
    );
    assert_eq!(worker.json(&Value::Null), json!([["ToolError", "not_json", 404, true], ["ToolError", "forbidden_address", null, false]]));
}

//! Schemas that would block a naive validator, and some that only look dangerous.

use serde_json::{Map, Value, json};

/// The expected result for a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// The publication is refused.
    Refused,
    /// Its calls are stopped, and the tool is named as the cause.
    Stopped,
    /// The input is rejected at once, although a list of the reasons would take long.
    Unfit,
    /// It is less dangerous than it looks: its calls are answered.
    Answered,
}

/// A schema that could block a validator, and an input that would.
pub struct Shape {
    pub name: &'static str,
    pub schema: Value,
    pub input: Value,
    pub fate: Fate,
}

impl Shape {
    /// Applies the schema to the field `value`.
    fn within_value(mut self) -> Self {
        self.schema = json!({ "properties": { "value": self.schema } });
        self
    }
}

/// Returns definitions that each contain the next one.
pub fn chain(levels: usize, made: impl Fn(Value) -> Value) -> Value {
    let next = |level: usize| json!({ "$ref": format!("#/$defs/d{level}") });
    let mut defs: Map<_, _> = (0..levels).map(|level| (format!("d{level}"), made(next(level + 1)))).collect();
    defs.insert(format!("d{levels}"), json!({ "type": "object" }));
    json!({ "$defs": defs, "$ref": "#/$defs/d0" })
}

fn doubling(name: &'static str, made: impl Fn(Value) -> Value) -> Shape {
    Shape { name, schema: chain(28, made), input: json!({}), fate: Fate::Refused }
}

fn refused(name: &'static str, schema: Value) -> Shape {
    Shape { name, schema, input: json!({}), fate: Fate::Refused }
}

/// A schema that applies itself several times to a part of each value, and a deep value that does
/// not match.
pub fn recursive(name: &'static str, made: impl Fn(Value) -> Value, deeper: impl Fn(Value) -> Value) -> Shape {
    let mut node = made(json!({ "$ref": "#/$defs/n" }));
    node["type"] = json!(["object", "array"]);
    let schema = json!({ "$defs": { "n": node }, "$ref": "#/$defs/n" });
    Shape { name, schema, input: (0..60).fold(json!(1), |inner, _| deeper(inner)), fate: Fate::Unfit }
}

/// Takes as many steps as the size of `schema` multiplied by that of `input`.
fn product(name: &'static str, schema: Value, input: Value) -> Shape {
    Shape { name, schema, input, fate: Fate::Stopped }
}

fn linear(name: &'static str, schema: Value, input: Value) -> Shape {
    Shape { name, schema, input: json!({ "answer": true, "value": input }), fate: Fate::Answered }.within_value()
}

/// Returns a text without repetitions.
fn random_ab(length: usize) -> String {
    let mut random = fastrand::Rng::with_seed(1);
    (0..length).map(|_| if random.bool() { 'a' } else { 'b' }).collect()
}

pub fn in_a(inner: Value) -> Value {
    json!({ "a": inner })
}

fn in_ab(inner: Value) -> Value {
    json!({ "ab": inner })
}

fn in_list(inner: Value) -> Value {
    json!([inner])
}

pub fn shapes() -> Vec<Shape> {
    let all = |count: usize, one: &dyn Fn(usize) -> Value| json!({ "allOf": (0..count).map(one).collect::<Vec<_>>() });
    let keys = |count: usize| Value::Object((0..count).map(|at| (format!("k{at}"), json!(1))).collect());
    let items = |count: usize, one: &dyn Fn(usize) -> Value| Value::Array((0..count).map(one).collect());
    let long = |part: &str| json!(part.repeat(900_000 / part.len()));
    vec![
        doubling("allOf", |next| json!({ "allOf": [next, next] })),
        doubling("anyOf", |next| json!({ "anyOf": [{ "not": next }, next] })),
        doubling("oneOf", |next| json!({ "oneOf": [{ "not": next }, next] })),
        doubling("not not", |next| json!({ "not": { "not": next }, "allOf": [next] })),
        doubling("if then else", |next| json!({ "if": next, "then": next, "else": next })),
        doubling("dependentSchemas", |next| json!({ "dependentSchemas": { "a": next, "b": next } })),
        doubling("properties and patternProperties", |next| json!({ "properties": { "ab": next }, "patternProperties": { "a": next } })),
        doubling("unevaluatedProperties", |next| json!({ "allOf": [next], "unevaluatedProperties": next })),
        doubling("items and contains", |next| json!({ "items": next, "contains": next })),
        refused("nested deeply", (0..40).fold(json!({}), |inner, _| json!({ "not": inner }))),
        refused("many patterns", {
            json!({ "properties": (0..1_000).map(|at| (format!("p{at}"), json!({ "pattern": format!("^\\w{{9}}{at}") }))).collect::<Map<_, _>>() })
        }),
        refused("long patterns", json!({ "pattern": format!("^({})$", "a|".repeat(5_000)) })),
        refused("a huge enum", json!({ "enum": (0..30_000).collect::<Vec<_>>() })),
        recursive("allOf of itself", |n| json!({ "properties": { "a": { "allOf": [n, n] } } }), in_a),
        recursive(
            "oneOf of itself",
            |n| json!({ "oneOf": [{ "properties": { "a": n } }, { "properties": { "a": n }, "required": ["b"] }] }),
            in_a,
        ),
        recursive(
            "anyOf that fits last",
            |n| json!({ "anyOf": [{ "properties": { "a": n }, "required": ["b"] }, { "properties": { "a": n } }] }),
            in_a,
        ),
        recursive("two patterns of one name", |n| json!({ "patternProperties": { "a": n, "b": n } }), in_ab),
        recursive(
            "dependentSchemas of itself",
            |n| json!({ "properties": { "a": n }, "dependentSchemas": { "a": { "properties": { "a": n } } } }),
            in_a,
        ),
        recursive("items of itself, twice", |n| json!({ "items": n, "allOf": [{ "items": n }] }), in_list),
        recursive("prefixItems of itself, twice", |n| json!({ "prefixItems": [n], "anyOf": [{ "prefixItems": [n] }] }), in_list),
        recursive(
            "unevaluatedProperties of itself",
            |n| json!({ "anyOf": [{ "properties": { "a": n } }], "unevaluatedProperties": n, "additionalProperties": n }),
            in_a,
        ),
        Shape {
            schema: json!({
                "$dynamicAnchor": "n",
                "type": "object",
                "properties": { "a": { "allOf": [{ "$dynamicRef": "#n" }, { "$dynamicRef": "#n" }] } },
            }),
            ..recursive("$dynamicRef", |n| n, in_a)
        },
        product("uniqueItems again and again", all(2_800, &|_| json!({ "uniqueItems": true })), items(90_000, &|at| json!(at))),
        product(
            "contains again and again",
            all(2_000, &|at| json!({ "contains": { "const": at + 90_000 } })),
            items(92_000, &|at| json!(at)),
        ),
        product(
            "a long enum of objects",
            json!({ "items": { "enum": (0..5_000).map(|at| json!([at])).collect::<Vec<_>>() } }),
            items(60_000, &|at| json!([at % 5_000])),
        ),
        product("propertyNames", json!({ "propertyNames": all(2_000, &|at| json!({ "maxLength": at + 10 })) }), keys(60_000)),
        product(
            "patternProperties",
            json!({ "patternProperties": (0..60).map(|at| (format!("[ab]*a[ab]{{14}}c{at}"), json!({}))).collect::<Map<_, _>>() }),
            Value::Object((0..60).map(|at| (format!("{at}{}", random_ab(13_000)), json!(1))).collect()),
        ),
        Shape {
            fate: Fate::Unfit,
            ..product(
                "a long required",
                json!({ "items": { "required": (0..5_000).map(|at| format!("k{at}")).collect::<Vec<_>>() } }),
                items(60_000, &|_| json!({})),
            )
        },
        linear("lengths of a long string", all(1_000, &|at| json!({ "minLength": at })), long("é")),
        linear("a pattern that others go back in", json!({ "not": { "pattern": "^(a+)+$" } }), json!(format!("{}b", "a".repeat(900_000)))),
        linear("a long const", json!({ "not": { "const": vec![1; 20_000] } }), items(20_000, &|at| json!(at / 20_000))),
        product("formats of a long string", all(2_000, &|_| json!({ "not": { "format": "uri" } })), long("a")),
        product(
            "patterns over a long string",
            all(60, &|at| json!({ "pattern": format!("[ab]*a[ab]{{14}}c{at}") })),
            json!(random_ab(900_000)),
        ),
    ]
}

//! Arguments for a tool of which the demo knows only the schema.

use serde_json::{Map, Value, json};

/// Deepest nesting of generated arguments.
const MAX_DEPTH: usize = 8;
/// Most values that are generated for one call: a schema that refers to itself has no end.
const MAX_VALUES: usize = 256;
/// Longest generated text, in characters.
const MAX_TEXT: u64 = 1_000;

/// Generates an object that fits the schema in simple cases: required members, fixed values, first choices, types,
/// formats, lower bounds, and references within the schema. Unconstrained texts quote the user.
pub(super) fn example(schema: &Value, said: &str) -> Value {
    let mut maker = Maker { root: schema, said, left: MAX_VALUES };
    let made = maker.make(schema, MAX_DEPTH);
    if made.is_object() { made } else { json!({}) }
}

struct Maker<'a> {
    root: &'a Value,
    said: &'a str,
    left: usize,
}

impl Maker<'_> {
    fn make(&mut self, schema: &Value, depth: usize) -> Value {
        if depth == 0 || self.left == 0 {
            return Value::Null;
        }
        self.left -= 1;
        let fixed = [schema.get("const"), schema.get("default"), schema["examples"].get(0), schema["enum"].get(0)];
        if let Some(value) = fixed.into_iter().flatten().next() {
            return value.clone();
        }
        if let Some(target) = schema["$ref"].as_str().and_then(|path| self.root.pointer(path.strip_prefix('#')?)) {
            return self.make(target, depth - 1);
        }
        let choices = ["anyOf", "oneOf", "allOf"].into_iter().find_map(|name| schema[name].as_array());
        if let Some(choice) = choices.and_then(|all| all.iter().find(|choice| choice["type"] != "null")) {
            return self.make(choice, depth - 1);
        }
        let kinds = schema["type"].as_array().map_or(std::slice::from_ref(&schema["type"]), Vec::as_slice);
        match kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null") {
            Some("string") => self.text(schema).into(),
            Some("integer") => json!(number(schema).ceil() as i64),
            Some("number") => json!(number(schema)),
            Some("boolean") => true.into(),
            Some("array") => {
                let items = schema["minItems"].as_u64().unwrap_or(1).min(MAX_VALUES as u64);
                (0..items).map(|_| self.make(&schema["items"], depth - 1)).collect()
            }
            None if schema["properties"].is_null() => Value::Null,
            None | Some("object") => self.object(schema, depth),
            Some(_) => Value::Null,
        }
    }

    fn object(&mut self, schema: &Value, depth: usize) -> Value {
        let required = schema["required"].as_array();
        let wanted = |name: &str| required.is_none_or(|names| names.iter().any(|wanted| wanted == name));
        let properties = schema["properties"].as_object().into_iter().flatten();
        let members = properties.filter(|(name, _)| wanted(name));
        members.map(|(name, schema)| (name.clone(), self.make(schema, depth - 1))).collect::<Map<_, _>>().into()
    }

    fn text(&self, schema: &Value) -> String {
        let text = match schema["format"].as_str() {
            Some("date-time") => "2026-01-01T12:00:00Z",
            Some("date") => "2026-01-01",
            Some("time") => "12:00:00Z",
            Some("email") => "someone@example.com",
            Some("uri" | "url") => "https://example.com/",
            Some("uuid") => "00000000-0000-4000-8000-000000000000",
            _ => self.said,
        };
        let (least, most) = (schema["minLength"].as_u64(), schema["maxLength"].as_u64());
        let mut text: String = text.chars().take(most.unwrap_or(MAX_TEXT).min(MAX_TEXT) as usize).collect();
        let missing = least.unwrap_or(0).min(MAX_TEXT).saturating_sub(text.chars().count() as u64);
        text.extend((0..missing).map(|_| '.'));
        text
    }
}

/// Smallest allowed number, else 1, else the largest.
fn number(schema: &Value) -> f64 {
    let above = schema["exclusiveMinimum"].as_f64().map(|bound| bound + 1.0);
    let below = schema["maximum"].as_f64().or(schema["exclusiveMaximum"].as_f64().map(|bound| bound - 1.0));
    let number = schema["minimum"].as_f64().or(above).unwrap_or(below.unwrap_or(1.0).min(1.0));
    match schema["multipleOf"].as_f64().filter(|step| *step > 0.0) {
        Some(step) => (number / step).ceil() * step,
        None => number,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_fit_their_schema() {
        let schema = json!({
            "type": "object",
            "required": ["color", "text", "n", "x", "on", "list", "when", "unit", "point", "maybe", "short", "six"],
            "properties": {
                "color": { "enum": ["red", "green"] },
                "text": { "type": "string" },
                "optional": { "type": "string" },
                "n": { "type": "integer", "minimum": 3 },
                "x": { "type": "number", "maximum": 0.5 },
                "on": { "type": ["null", "boolean"] },
                "list": { "type": "array", "items": { "type": "integer" }, "minItems": 2 },
                "when": { "type": "string", "format": "date" },
                "unit": { "type": "string", "default": "C" },
                "point": { "$ref": "#/$defs/point" },
                "maybe": { "anyOf": [{ "type": "null" }, { "const": 7 }] },
                "short": { "type": "string", "maxLength": 2 },
                "six": { "type": "integer", "exclusiveMinimum": 4, "multipleOf": 3 },
            },
            "$defs": { "point": { "properties": { "x": { "type": "number" } } } },
        });
        let expected = json!({
            "color": "red", "text": "héllo", "n": 3, "x": 0.5, "on": true, "list": [1, 1], "when": "2026-01-01", "unit": "C",
            "point": { "x": 1.0 }, "maybe": 7, "short": "hé", "six": 6,
        });
        assert_eq!(example(&schema, "héllo"), expected);
    }

    #[test]
    fn a_schema_without_sense_or_end_is_survived() {
        for schema in [json!(null), json!(true), json!([]), json!({ "type": "string" }), json!({ "type": 7 })] {
            assert_eq!(example(&schema, "x"), json!({}), "{schema}");
        }
        let wide: Map<_, _> = (0..50).map(|n| (format!("p{n}"), json!({ "$ref": "#" }))).collect();
        let made = example(&json!({ "properties": wide }), "x").to_string();
        assert!(made.len() < 100_000, "{} bytes", made.len());
        let many =
            json!({ "properties": { "a": { "type": "array", "minItems": u64::MAX, "items": { "$ref": "#" } } } });
        assert!(example(&many, "x").to_string().len() < 1_000_000);
    }
}

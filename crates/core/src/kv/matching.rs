//! Conditions of searches: filters on the members of a value, and patterns of namespaces.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, HashMap},
};

use serde_json::{Value, value::RawValue};

use super::{KvNamespace, decimal::Decimal};
use crate::limits::MAX_KV_CONDITIONS;

/// Reason for which a filter is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidFilter {
    /// The object of a member holds a name with `$` that is no operator.
    #[error("the filter of member {0:?} has the operator {1:?}; there are $eq, $ne, $gt, $gte, $lt and $lte")]
    Operator(String, String),
    /// The object of a member holds operators and other names.
    #[error("the filter of member {0:?} has operators beside other names")]
    Mixed(String),
    /// The filter has too many conditions.
    #[error("the filter has {0} conditions, but at most {MAX_KV_CONDITIONS}")]
    TooMany(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Eq,
    Ne,
    Gt,
    Gte,
    Lt,
    Lte,
}

impl Operator {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "$eq" => Self::Eq,
            "$ne" => Self::Ne,
            "$gt" => Self::Gt,
            "$gte" => Self::Gte,
            "$lt" => Self::Lt,
            "$lte" => Self::Lte,
            _ => return None,
        })
    }

    /// True if a member meets the condition. A member that is absent differs from every value, and is neither less nor greater.
    fn holds(self, member: Option<&Operand>, wanted: &Wanted) -> bool {
        let order = || member.and_then(|member| wanted.order_of(member));
        let equals = || member.is_some_and(|member| wanted.is(member));
        match self {
            Self::Eq => equals(),
            Self::Ne => !equals(),
            Self::Gt => order() == Some(Ordering::Greater),
            Self::Gte => matches!(order(), Some(Ordering::Greater | Ordering::Equal)),
            Self::Lt => order() == Some(Ordering::Less),
            Self::Lte => matches!(order(), Some(Ordering::Less | Ordering::Equal)),
        }
    }
}

/// Value that a condition names.
#[derive(Debug, Clone)]
pub struct Wanted(Option<Operand>);

#[derive(Debug, Clone)]
enum Operand {
    /// Number, as a decimal, because a float would round some numbers.
    Number(Decimal),
    /// Value of any other kind.
    Other(Value),
}

impl Operand {
    /// Reads a JSON text; `None` if it has what no [`Value`] represents, such as a lone surrogate.
    fn of(text: &RawValue) -> Option<Self> {
        match Decimal::of(text.get()) {
            Some(number) => Some(Self::Number(number)),
            None => serde_json::from_str(text.get()).ok().map(Self::Other),
        }
    }
}

impl From<Box<RawValue>> for Wanted {
    fn from(text: Box<RawValue>) -> Self {
        Self(Operand::of(&text))
    }
}

impl Wanted {
    /// True if a member has this value.
    pub fn equals(&self, member: &RawValue) -> bool {
        Operand::of(member).is_some_and(|member| self.is(&member))
    }

    fn is(&self, member: &Operand) -> bool {
        match (member, &self.0) {
            (Operand::Number(one), Some(Operand::Number(other))) => one == other,
            (Operand::Other(one), Some(Operand::Other(other))) => equal(one, other),
            _ => false,
        }
    }

    /// Order of a member relative to this value: of two numbers, or of two texts by their bytes; `None` for other values.
    fn order_of(&self, member: &Operand) -> Option<Ordering> {
        match (member, self.0.as_ref()?) {
            (Operand::Number(one), Operand::Number(other)) => Some(one.cmp(other)),
            (Operand::Other(Value::String(one)), Operand::Other(Value::String(other))) => Some(one.cmp(other)),
            _ => None,
        }
    }
}

/// Conditions on the top-level members of a value, all of which must hold.
#[derive(Debug, Clone, Default)]
pub struct KvFilter(Vec<(String, Vec<(Operator, Wanted)>)>);

impl KvFilter {
    /// Reads a filter: for each member a value that it equals, or an object of operators.
    pub fn new(members: BTreeMap<String, Box<RawValue>>) -> Result<Self, InvalidFilter> {
        let mut conditions = Vec::new();
        if members.len() > MAX_KV_CONDITIONS {
            return Err(InvalidFilter::TooMany(members.len()));
        }
        for (name, wanted) in members {
            let operators: BTreeMap<String, Box<RawValue>> = serde_json::from_str(wanted.get()).unwrap_or_default();
            if !operators.keys().any(|name| name.starts_with('$')) {
                conditions.push((name, vec![(Operator::Eq, Wanted::from(wanted))]));
                continue;
            }
            let mut of_member = Vec::new();
            for (operator, wanted) in operators {
                if !operator.starts_with('$') {
                    return Err(InvalidFilter::Mixed(name));
                }
                let Some(known) = Operator::named(&operator) else {
                    return Err(InvalidFilter::Operator(name, operator));
                };
                of_member.push((known, Wanted::from(wanted)));
            }
            conditions.push((name, of_member));
        }
        match conditions.iter().map(|(_, of_member)| of_member.len()).sum() {
            ..=MAX_KV_CONDITIONS => Ok(Self(conditions)),
            count => Err(InvalidFilter::TooMany(count)),
        }
    }

    /// True if the filter has no condition.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True if a value, given as JSON, meets all conditions. A value that is no object has no members.
    pub fn takes(&self, text: &str) -> bool {
        self.0.iter().zip(members_of(text, &self.0)).all(|((_, conditions), member)| {
            let member = member.and_then(Operand::of);
            conditions.iter().all(|(operator, wanted)| operator.holds(member.as_ref(), wanted))
        })
    }
}

/// Members of a JSON text that have these names, which are sorted; none of a text that is no object. Members are left unparsed,
/// since others may have what no [`Value`] represents, such as a lone surrogate. The names may be longer than the text: time is
/// taken by the text alone.
pub fn members_of<'t, T>(text: &'t str, names: &[(String, T)]) -> Vec<Option<&'t RawValue>> {
    let mut found = vec![None; names.len()];
    let members: HashMap<String, &RawValue> = serde_json::from_str(text).unwrap_or_default();
    for (name, member) in members {
        if let Ok(at) = names.binary_search_by(|(wanted, _)| wanted.cmp(&name)) {
            found[at] = Some(member);
        }
    }
    found
}

/// Equality of JSON values: numbers by their values, objects in any order of their members.
fn equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => Decimal::of(&one.to_string()) == Decimal::of(&other.to_string()),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| equal(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(name, value)| other.get(name).is_some_and(|other| equal(value, other)))
        }
        (one, other) => one == other,
    }
}

/// Label of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LabelPattern {
    /// A label of this text.
    Is(String),
    /// A label of any text.
    Any,
}

/// Condition on the labels of a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamespaceMatch {
    /// The first labels of a namespace.
    Prefix(Vec<LabelPattern>),
    /// The last labels of a namespace.
    Suffix(Vec<LabelPattern>),
}

impl NamespaceMatch {
    /// True if these labels meet the condition.
    pub fn takes(&self, labels: &[&str]) -> bool {
        let (path, part) = match self {
            Self::Prefix(path) => (path, labels.get(..path.len())),
            Self::Suffix(path) => (path, labels.len().checked_sub(path.len()).and_then(|start| labels.get(start..))),
        };
        let fits = |(label, pattern): (&&str, &LabelPattern)| match pattern {
            LabelPattern::Is(wanted) => *label == wanted,
            LabelPattern::Any => true,
        };
        part.is_some_and(|part| part.iter().zip(path).all(fits))
    }

    /// A namespace with which all begin that meet the condition.
    pub fn root(&self) -> KvNamespace {
        let Self::Prefix(path) = self else { return KvNamespace::default() };
        let known = path.iter().map_while(|label| match label {
            LabelPattern::Is(label) => Some(label.as_str()),
            LabelPattern::Any => None,
        });
        KvNamespace::new(&known.collect::<Vec<_>>()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(filter: &Value) -> Result<KvFilter, InvalidFilter> {
        KvFilter::new(serde_json::from_str(&filter.to_string()).expect("an object"))
    }

    fn takes(filter: Value, value: &Value) -> bool {
        read(&filter).expect("a filter").takes(&value.to_string())
    }

    #[test]
    fn a_member_that_no_value_holds_hides_no_other_one() {
        let filter = read(&json!({ "n": 1 })).expect("a filter");
        assert!(filter.takes(r#"{"n":1,"half":"\ud800","far":1e999}"#));
        assert!(!filter.takes(r#"{"n":"\ud800"}"#) && !filter.takes("1"));
    }

    #[test]
    fn numbers_are_compared_as_they_are_written() {
        let takes = |filter: &str, value: &str| {
            let members = serde_json::from_str(&format!("{{\"n\":{filter}}}")).expect("an object");
            KvFilter::new(members).expect("a filter").takes(&format!("{{\"n\":{value}}}"))
        };
        // Floats may not tell the two numbers apart, but the second one is greater.
        for (less, greater) in [
            ("9007199254740992", "9007199254740993"),
            ("9007199254740992.0", "9007199254740993"),
            ("-9007199254740993", "-9007199254740992.0"),
            ("18446744073709551616", "18446744073709551617"),
            ("0.1", "0.10000000000000000001"),
        ] {
            assert!(takes(&format!("{{\"$gt\":{less}}}"), greater) && takes(&format!("{{\"$lt\":{greater}}}"), less));
            assert!(!takes(less, greater) && takes(less, less), "{less} {greater}");
        }
        // Inside other values a float is compared with an integer as well.
        assert!(takes("[1, {\"a\":1e2}]", "[1.0,{\"a\":100}]"));
        assert!(!takes("[9007199254740992.0]", "[9007199254740993]"));
    }

    #[test]
    fn members_are_compared_as_json() {
        let value = json!({ "n": 1, "big": u64::MAX, "s": "b", "o": { "a": [1.0, null] }, "z": null });
        for filter in [
            json!({}),
            json!({ "n": 1.0 }),
            json!({ "n": { "$eq": 1 }, "s": { "$gt": "a", "$lte": "b" } }),
            json!({ "big": { "$gt": u64::MAX - 1 } }),
            json!({ "o": { "a": [1, null] } }),
            json!({ "z": null, "absent": { "$ne": null } }),
            json!({ "s": { "$ne": 1 } }),
        ] {
            assert!(takes(filter.clone(), &value), "{filter}");
        }
        for filter in [
            json!({ "n": "1" }),
            json!({ "n": { "$gt": 1 } }),
            json!({ "s": { "$gt": 0 } }),
            json!({ "absent": null }),
            json!({ "absent": { "$lt": 5 } }),
            json!({ "n": 1, "s": "c" }),
            json!({ "o": { "a": [1, null], "b": 1 } }),
        ] {
            assert!(!takes(filter.clone(), &value), "{filter}");
        }
        assert!(!takes(json!({ "a": 1 }), &json!([1])) && takes(json!({ "a": { "$ne": 1 } }), &json!([1])));
    }

    #[test]
    fn a_filter_with_an_unknown_operator_is_refused() {
        let refused = |filter: Value| read(&filter).map(drop);
        assert_eq!(refused(json!({ "a": { "$in": [1] } })), Err(InvalidFilter::Operator("a".into(), "$in".into())));
        assert_eq!(refused(json!({ "a": { "$gt": 1, "b": 1 } })), Err(InvalidFilter::Mixed("a".into())));
        assert_eq!(refused(json!({ "a": { "b": { "$in": 1 } } })), Ok(()), "operators are at the top only");
    }

    #[test]
    fn a_filter_has_a_bounded_number_of_conditions() {
        let members =
            |count: usize| Value::Object((0..count).map(|n| (format!("m{n}"), json!({ "$ne": 1 }))).collect());
        assert!(takes(members(MAX_KV_CONDITIONS), &json!({ "m0": 2 })));
        let refused = |filter: &Value| read(filter).err();
        assert_eq!(refused(&members(MAX_KV_CONDITIONS + 1)), Some(InvalidFilter::TooMany(MAX_KV_CONDITIONS + 1)));
        // Several conditions on a member count as several.
        let pairs = |count: usize| (0..count).map(|n| (format!("m{n}"), json!({ "$gt": 1, "$lt": 9 }))).collect();
        assert!(refused(&Value::Object(pairs(MAX_KV_CONDITIONS / 2))).is_none());
        let many = Value::Object(pairs(MAX_KV_CONDITIONS / 2 + 1));
        assert_eq!(refused(&many), Some(InvalidFilter::TooMany(MAX_KV_CONDITIONS + 2)));
    }

    #[test]
    fn namespaces_are_matched_by_their_ends() {
        let is = |label: &str| LabelPattern::Is(label.into());
        let (prefix, suffix) = (NamespaceMatch::Prefix, NamespaceMatch::Suffix);
        let labels = ["a", "b", "c"];
        assert!(
            prefix(vec![is("a"), LabelPattern::Any]).takes(&labels) && suffix(vec![is("b"), is("c")]).takes(&labels)
        );
        assert!(!prefix(vec![is("b")]).takes(&labels) && !suffix(vec![is("a"), LabelPattern::Any]).takes(&labels));
        assert!(
            !prefix(vec![LabelPattern::Any; 4]).takes(&labels) && !suffix(vec![LabelPattern::Any; 4]).takes(&labels)
        );
        assert_eq!(prefix(vec![is("a"), LabelPattern::Any, is("c")]).root().labels(), ["a"]);
        assert_eq!(suffix(vec![is("a")]).root().labels(), [""; 0]);
    }
}

//! JSON Patch (RFC 6902) on a document, all of it or no part, as `fast-json-patch` 3.1.1 applies it for the client.
//!
//! Written here instead of taken from a crate, because patches come from untrusted clients: `json-patch` 5.0.0 panics
//! when it has to undo a move to the root, loses the value that a failed `move` had taken out, and takes 1 and 1.0 for
//! different. Work is bounded, see [`apply`], and so are size and depth of the document.

use serde_json::{Map, Value};

use crate::limits::{MAX_JSON_DEPTH, MAX_STATE_BYTES};

/// The patch does not apply; the document is unchanged.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refused;

/// Number of members beyond which a removal leaves the others in another order, so that a patch stays linear.
const ORDERED_MEMBERS: usize = 256;

/// Takes a member out, as JavaScript does: the others keep their order.
fn take(members: &mut Map<String, Value>, name: &str) -> Option<Value> {
    if members.len() <= ORDERED_MEMBERS { members.shift_remove(name) } else { members.swap_remove(name) }
}

/// Size of the JSON text of a value, in bytes (about).
pub(super) fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 5,
        Value::String(text) => text.len() + 3,
        Value::Array(values) => 3 + values.iter().map(size).sum::<usize>(),
        Value::Object(members) => 3 + members.iter().map(|(name, value)| name.len() + 3 + size(value)).sum::<usize>(),
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(values) => 1 + values.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// Undo record of one operation.
enum Undo {
    /// Put this value back into the place that held it.
    Put(Vec<String>, Value),
    /// Remove the value from the place, which was empty.
    Clear(Vec<String>),
    /// Remove the element that was inserted at this index.
    Cut(Vec<String>, usize),
    /// Insert this value again, which was removed.
    Return(Vec<String>, Value),
    /// Insert the moved value again at its origin; the record of its later operation hands it over.
    Restore(Vec<String>),
}

/// Effect of a patch that was applied.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Applied {
    /// Size of the document now, in bytes.
    pub size: usize,
    /// Size of the copied values, in bytes.
    pub copied: usize,
}

/// Applies all operations to a document of this [`size`], or none. Operations of a kind that RFC 6902 does not know are
/// left out, as the client does. At most `copy` bytes are copied, and no patch makes the document grow beyond
/// [`MAX_STATE_BYTES`].
///
/// Operations that may cost much more work than a patch is long (inserting into a large array, copying, moving deeper)
/// are paid from the purse, whether the patch applies or not; if the purse is empty such an operation is refused. The
/// purse may be overdrawn by one operation, and so by one document.
pub(super) fn apply(
    document: &mut Value,
    size: usize,
    patch: Value,
    copy: usize,
    purse: &mut i64,
) -> Result<Applied, Refused> {
    let Value::Array(operations) = patch else { return Err(Refused) };
    let (undo, hand) = (Vec::new(), None);
    let mut patcher =
        Patcher { document, purse, before: size, added: 0, removed: 0, copied: 0, undo, hand, undoing: false };
    let done = operations.into_iter().try_for_each(|operation| patcher.operation(operation, copy));
    match done.and_then(|()| patcher.size_now()) {
        Ok(size) => Ok(Applied { size, copied: patcher.copied }),
        Err(refused) => {
            patcher.undoing = true;
            while let Some(undo) = patcher.undo.pop() {
                patcher.revert(undo);
            }
            Err(refused)
        }
    }
}

struct Patcher<'a> {
    document: &'a mut Value,
    purse: &'a mut i64,
    before: usize,
    /// Sizes of values and names that were put in, and of names that were taken out. Values that were taken out are
    /// measured at the end, once they are known to be gone: so each is measured once.
    added: usize,
    removed: usize,
    copied: usize,
    undo: Vec<Undo>,
    /// Value that is being moved, also while the move is undone.
    hand: Option<Value>,
    undoing: bool,
}

impl Patcher<'_> {
    fn size_now(&self) -> Result<usize, Refused> {
        let gone = self.undo.iter().map(|undo| match undo {
            Undo::Put(_, value) | Undo::Return(_, value) => size(value),
            Undo::Clear(_) | Undo::Cut(..) | Undo::Restore(_) => 0,
        });
        let size = (self.before + self.added).saturating_sub(self.removed + gone.sum::<usize>());
        if size > MAX_STATE_BYTES && size > self.before { Err(Refused) } else { Ok(size) }
    }

    fn operation(&mut self, operation: Value, copy: usize) -> Result<(), Refused> {
        let Value::Object(mut operation) = operation else { return Err(Refused) };
        let Some(Value::String(op)) = operation.remove("op") else { return Ok(()) };
        if !matches!(&*op, "add" | "remove" | "replace" | "move" | "copy" | "test") {
            return Ok(());
        }
        let path = pointer(&operation, "path")?;
        match &*op {
            "add" => self.add_new(path, operation.remove("value").ok_or(Refused)?, false),
            "remove" => {
                if path.is_empty() {
                    return self.add_new(path, Value::Null, false);
                }
                let value = self.take(&path)?;
                self.undo.push(Undo::Return(path, value));
                Ok(())
            }
            "replace" => {
                let value = operation.remove("value").ok_or(Refused)?;
                within_depth(path.len(), &value)?;
                let place = find(self.document, &path).ok_or(Refused)?;
                self.added += size(&value);
                let old = std::mem::replace(place, value);
                self.undo.push(Undo::Put(path, old));
                Ok(())
            }
            "move" => {
                let from = pointer(&operation, "from")?;
                if from == path {
                    return find(self.document, &from).map(drop).ok_or(Refused);
                }
                let value = self.take(&from)?;
                let deeper = path.len() > from.len();
                self.undo.push(Undo::Restore(from));
                let mut allowed = Ok(());
                if deeper {
                    allowed = solvent(self.purse).and_then(|()| within_depth(path.len(), &value));
                    pay(self.purse, size(&value));
                }
                if allowed.is_err() {
                    self.hand = Some(value);
                    return Err(Refused);
                }
                self.add(path, value, true)
            }
            "copy" => {
                let from = pointer(&operation, "from")?;
                solvent(self.purse)?;
                let source = find(self.document, &from).ok_or(Refused)?;
                let bytes = size(source);
                pay(self.purse, bytes);
                self.copied += bytes;
                if self.copied > copy || self.before + self.added + bytes > 2 * MAX_STATE_BYTES {
                    return Err(Refused);
                }
                let value = source.clone();
                self.add_new(path, value, true)
            }
            _ => {
                let value = operation.get("value").ok_or(Refused)?;
                let found = find(self.document, &path).ok_or(Refused)?;
                if equal(found, value) { Ok(()) } else { Err(Refused) }
            }
        }
    }

    fn add_new(&mut self, path: Vec<String>, value: Value, lax: bool) -> Result<(), Refused> {
        within_depth(path.len(), &value)?;
        self.added += size(&value);
        self.add(path, value, lax)
    }

    /// `lax`: an index behind the end of an array means its end, which `fast-json-patch` allows for copy and move.
    fn add(&mut self, mut path: Vec<String>, value: Value, lax: bool) -> Result<(), Refused> {
        let Some(last) = path.pop() else {
            let old = std::mem::replace(self.document, value);
            self.undo.push(Undo::Put(path, old));
            return Ok(());
        };
        match find(self.document, &path) {
            Some(Value::Object(members)) => {
                let name = last.len() + 3;
                let old = members.insert(last.clone(), value);
                path.push(last);
                self.undo.push(match old {
                    Some(old) => Undo::Put(path, old),
                    None => {
                        self.added += name;
                        Undo::Clear(path)
                    }
                });
            }
            Some(Value::Array(values)) => {
                let at = match &*last {
                    "-" => Some(values.len()),
                    "" => Some(0),
                    digits => number(digits).map(|at| if lax { at.min(values.len()) } else { at }),
                };
                let at = at.filter(|at| *at == values.len() || *at < values.len() && *self.purse > 0);
                let Some(at) = at else {
                    self.hand = Some(value);
                    return Err(Refused);
                };
                pay(self.purse, values.len() - at);
                values.insert(at, value);
                self.undo.push(Undo::Cut(path, at));
            }
            _ => {
                self.hand = Some(value);
                return Err(Refused);
            }
        }
        Ok(())
    }

    /// Takes a value out of its parent.
    fn take(&mut self, path: &[String]) -> Result<Value, Refused> {
        let (last, parent) = path.split_last().ok_or(Refused)?;
        match find(self.document, parent).ok_or(Refused)? {
            Value::Object(members) => {
                let value = take(members, last).ok_or(Refused)?;
                self.removed += last.len() + 3;
                Ok(value)
            }
            Value::Array(values) => {
                let at = index(last).filter(|at| *at < values.len()).ok_or(Refused)?;
                let shifted = values.len() - at - 1;
                // The operation has paid for its undo.
                if shifted > 0 && !self.undoing {
                    solvent(self.purse)?;
                    pay(self.purse, shifted);
                }
                Ok(values.remove(at))
            }
            _ => Err(Refused),
        }
    }

    fn revert(&mut self, undo: Undo) {
        match undo {
            Undo::Put(path, value) => {
                self.hand = find(self.document, &path).map(|place| std::mem::replace(place, value));
            }
            Undo::Clear(path) => self.hand = self.take(&path).ok(),
            Undo::Cut(path, at) => {
                if let Some(Value::Array(values)) = find(self.document, &path) {
                    self.hand = Some(values.remove(at));
                }
            }
            Undo::Return(path, value) => self.put_back(path, value),
            Undo::Restore(path) => {
                let value = self.hand.take().unwrap_or_default();
                self.put_back(path, value);
            }
        }
    }

    fn put_back(&mut self, mut path: Vec<String>, value: Value) {
        let Some(last) = path.pop() else { return };
        match find(self.document, &path) {
            Some(Value::Object(members)) => {
                members.insert(last, value);
            }
            Some(Value::Array(values)) => values.insert(index(&last).unwrap_or(0).min(values.len()), value),
            _ => {}
        }
    }
}

/// Fails if the purse is empty.
fn solvent(purse: &i64) -> Result<(), Refused> {
    if *purse > 0 { Ok(()) } else { Err(Refused) }
}

fn pay(purse: &mut i64, work: usize) {
    *purse = purse.saturating_sub(i64::try_from(work).unwrap_or(i64::MAX));
}

/// Fails if the document would be deeper than fits into an event and into storage.
fn within_depth(path: usize, value: &Value) -> Result<(), Refused> {
    if path + depth(value) < MAX_JSON_DEPTH { Ok(()) } else { Err(Refused) }
}

/// Reference tokens of a JSON Pointer (RFC 6901) in a member. Names that would reach a JavaScript prototype are
/// refused, as `fast-json-patch` does.
fn pointer(operation: &Map<String, Value>, member: &str) -> Result<Vec<String>, Refused> {
    let Some(Value::String(text)) = operation.get(member) else { return Err(Refused) };
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let tokens = text.strip_prefix('/').ok_or(Refused)?.split('/');
    let mut path: Vec<String> = Vec::new();
    for token in tokens.take(MAX_JSON_DEPTH + 1) {
        let token = unescape(token)?;
        if token == "__proto__" || token == "prototype" && path.last().is_some_and(|last| last == "constructor") {
            return Err(Refused);
        }
        path.push(token);
    }
    if path.len() > MAX_JSON_DEPTH { Err(Refused) } else { Ok(path) }
}

fn unescape(token: &str) -> Result<String, Refused> {
    let mut text = String::with_capacity(token.len());
    let mut rest = token;
    while let Some(at) = rest.find('~') {
        text.push_str(&rest[..at]);
        text.push(match rest.as_bytes().get(at + 1) {
            Some(b'0') => '~',
            Some(b'1') => '/',
            _ => return Err(Refused),
        });
        rest = &rest[at + 2..];
    }
    text.push_str(rest);
    Ok(text)
}

/// Array index without leading zeros.
fn index(token: &str) -> Option<usize> {
    number(token).filter(|_| token == "0" || !token.starts_with('0'))
}

fn number(digits: &str) -> Option<usize> {
    let all = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    all.then(|| digits.parse().unwrap_or(usize::MAX))
}

fn find<'a>(document: &'a mut Value, path: &[String]) -> Option<&'a mut Value> {
    path.iter().try_fold(document, |value, token| match value {
        Value::Object(members) => members.get_mut(token),
        Value::Array(values) => values.get_mut(index(token)?),
        _ => None,
    })
}

/// True if two values are the same JSON: numbers are compared by their value, as doubles.
fn equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| equal(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(name, one)| other.get(name).is_some_and(|other| equal(one, other)))
        }
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Random numbers that can be repeated.
    struct Chance(u64);

    impl Chance {
        fn below(&mut self, limit: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as usize % limit
        }

        fn value(&mut self) -> Value {
            let values = [json!(1), json!("text"), json!(null), json!([1, 2]), json!({"a": {"b": []}}), json!([[{}]])];
            values[self.below(values.len())].clone()
        }

        fn operation(&mut self) -> Value {
            const PATHS: [&str; 14] =
                ["", "/a", "/b", "/a/a", "/a/b", "/b/0", "/b/1", "/b/-", "/a/b/0", "/a/b/-", "/0", "/b/0/a", "/", "/-"];
            let op = ["add", "remove", "replace", "move", "copy", "add", "test"][self.below(7)];
            let (from, path) = (PATHS[self.below(14)], PATHS[self.below(14)]);
            json!({"op": op, "from": from, "path": path, "value": self.value()})
        }
    }

    #[test]
    fn a_patch_applies_whole_or_not_at_all_and_the_size_is_known() {
        let mut chance = Chance(7);
        let (mut applied, mut refused) = (0, 0);
        for _ in 0..20_000 {
            let mut document = json!({"a": {"a": 1, "b": [1, 2]}, "b": [chance.value(), chance.value()]});
            let mut known = size(&document);
            for _ in 0..4 {
                let patch: Value = (0..chance.below(5)).map(|_| chance.operation()).collect();
                let before = document.clone();
                match apply(&mut document, known, patch.clone(), usize::MAX, &mut i64::MAX.clone()) {
                    Ok(done) => {
                        applied += 1;
                        known = done.size;
                    }
                    Err(Refused) => {
                        refused += 1;
                        assert_eq!(document, before, "{patch}");
                    }
                }
                assert_eq!(known, size(&document), "{before} {patch}");
            }
        }
        assert!(applied > 10_000 && refused > 10_000, "{applied} {refused}");
    }

    #[test]
    fn copies_cannot_grow_a_document_without_bound() {
        let mut document = json!({"a": "x".repeat(1_024)});
        let mut known = size(&document);
        let double = json!([{"op": "copy", "from": "", "path": "/b"}, {"op": "move", "from": "/b", "path": "/a/x"}]);
        let list = json!([{"op": "add", "path": "", "value": {"l": ["xxxxxxxxxxxxxxxx"]}}]);
        known = apply(&mut document, known, list, 0, &mut i64::MAX.clone()).expect("applies").size;
        let twice = json!([{"op": "copy", "from": "/l", "path": "/m"}, {"op": "move", "from": "/m", "path": "/l/-"}]);
        let mut done = 0;
        while let Ok(applied) = apply(&mut document, known, twice.clone(), MAX_STATE_BYTES, &mut i64::MAX.clone()) {
            (known, done) = (applied.size, done + 1);
            assert!(done < 128, "neither depth nor size ended it");
        }
        assert!(known <= MAX_STATE_BYTES && done > 10);
        let many: Value = std::iter::repeat_n(json!({"op": "copy", "from": "/l", "path": "/m"}), 10).collect();
        assert_eq!(apply(&mut document, known, many, known, &mut i64::MAX.clone()), Err(Refused));
        assert_eq!(apply(&mut document, known, double, usize::MAX, &mut i64::MAX.clone()), Err(Refused));
    }

    #[test]
    fn a_document_cannot_become_deeper_than_an_event() {
        let mut document = json!({});
        let mut known = size(&document);
        for _ in 0..1_000 {
            let deeper = json!([{"op": "copy", "from": "", "path": "/a"}, {"op": "test", "path": "/b", "value": 1}]);
            assert_eq!(apply(&mut document, known, deeper, usize::MAX, &mut i64::MAX.clone()), Err(Refused));
            let deeper = json!([{"op": "copy", "from": "", "path": "/a"}]);
            known = apply(&mut document, known, deeper, usize::MAX, &mut i64::MAX.clone())
                .map_or(known, |applied| applied.size);
        }
        assert_eq!(depth(&document), MAX_JSON_DEPTH - 1);
        let long = json!([{"op": "add", "path": "/a".repeat(1_000_000), "value": 1}]);
        assert_eq!(apply(&mut document, known, long, usize::MAX, &mut i64::MAX.clone()), Err(Refused));
    }

    #[test]
    fn an_empty_purse_refuses_what_is_much_work_and_nothing_else() {
        let mut document = json!({"l": vec![0; 1_000], "a": {"b": {}}});
        let (known, before) = (size(&document), document.clone());
        let mut purse = 10_000;
        let front: Value = std::iter::repeat_n(json!({"op": "add", "path": "/l/0", "value": 1}), 20).collect();
        assert_eq!(apply(&mut document, known, front, 0, &mut purse), Err(Refused));
        assert!(document == before && (-2_000..=0).contains(&purse), "{purse}");
        for much in [
            json!([{"op": "remove", "path": "/l/0"}]),
            json!([{"op": "move", "from": "/l/0", "path": "/x"}]),
            json!([{"op": "move", "from": "/l", "path": "/a/l"}]),
            json!([{"op": "copy", "from": "/l", "path": "/m"}]),
        ] {
            assert_eq!(apply(&mut document, known, much.clone(), usize::MAX, &mut 0), Err(Refused), "{much}");
            assert_eq!(document, before, "{much}");
            assert!(apply(&mut document.clone(), known, much, usize::MAX, &mut 1).is_ok());
        }
        let cheap = json!([
            {"op": "add", "path": "/l/-", "value": 1}, {"op": "remove", "path": "/l/1000"},
            {"op": "replace", "path": "/l/0", "value": 1}, {"op": "move", "from": "/l", "path": "/m"},
        ]);
        assert!(apply(&mut document, known, cheap, 0, &mut 0).is_ok());
    }
}

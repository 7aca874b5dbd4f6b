//! Numbers of items in arrays, bounded before the items are read.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{Error, SeqAccess, Visitor},
};

use super::string_end;

/// True if an array has more than `most` items. `array` must be valid JSON; for any other text the result is arbitrary.
pub fn has_more_items(array: &str, most: usize) -> bool {
    let text = array.as_bytes();
    let (mut at, mut depth, mut commas) = (0, 0usize, 0);
    while at < text.len() && commas < most {
        match text[at] {
            b'"' => {
                at = string_end(text, at);
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b',' if depth == 1 => commas += 1,
            _ => {}
        }
        at += 1;
    }
    let is_empty = || array.trim_ascii().strip_prefix('[').is_some_and(|rest| rest.trim_ascii_start().starts_with(']'));
    commas >= most && !is_empty()
}

/// Items of an array, of which there are at most `N`: a longer array is refused while it is read.
#[derive(Debug, Default)]
pub struct AtMost<T, const N: usize>(pub Vec<T>);

impl<'de, T: Deserialize<'de>, const N: usize> Deserialize<'de> for AtMost<T, N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Items<T, const N: usize>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>, const N: usize> Visitor<'de> for Items<T, N> {
            type Value = AtMost<T, N>;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an array")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
                let mut all = Vec::new();
                while let Some(item) = items.next_element()? {
                    if all.len() == N {
                        return Err(A::Error::custom(format_args!("an array has more than {N} items")));
                    }
                    all.push(item);
                }
                Ok(AtMost(all))
            }
        }
        deserializer.deserialize_seq(Items(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_counted_up_to_a_limit() {
        for (array, items) in [("[]", 0), (" [ ] ", 0), ("[1]", 1), (r#"["a,b",[1,2],{"a":[3,4]}]"#, 3), ("[[],[]]", 2)]
        {
            for most in 0..5 {
                assert_eq!(has_more_items(array, most), items > most, "{array} {most}");
            }
        }
        assert_eq!(serde_json::from_str::<AtMost<u8, 2>>("[1,2]").map(|all| all.0).ok(), Some(vec![1, 2]));
        assert!(serde_json::from_str::<AtMost<u8, 2>>("[1,2,3]").is_err());
    }
}

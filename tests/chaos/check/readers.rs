//! What readers saw against the log.

use std::collections::BTreeMap;

use super::{Found, Log};
use crate::history::{Class, Line};

pub(super) fn check(name: &str, readers: &BTreeMap<&str, Vec<&Line>>, log: &Log, found: &mut Found) {
    for (reader, lines) in readers {
        found.readers += 1;
        let mut cursor = 0;
        let mut stood = None;
        for line in lines {
            match line {
                Line::Joined { after, epoch, tail, .. } => {
                    found.joins += 1;
                    if *epoch != log.epoch {
                        let what = format!("{name}: {reader} was let in to log {epoch}, this is {}", log.epoch);
                        found.wrong(Class::Lost, 1, what);
                    }
                    if *tail > log.entries.len() as u64 {
                        let what = format!("{name}: {reader} was told tail {tail}, the log has {}", log.entries.len());
                        found.wrong(Class::Lost, tail - log.entries.len() as u64, what);
                    }
                    if *after != cursor {
                        let what = format!("{name}: {reader} stood at {cursor} and was let in at {after}");
                        found.wrong(Class::Lost, 1, what);
                    }
                }
                Line::Read { first, last, digest, .. } => {
                    if *first > cursor + 1 {
                        let what = format!("{name}: {reader} stood at {cursor} and was sent {first}");
                        found.wrong(Class::Lost, first - cursor - 1, what);
                    } else if *first <= cursor {
                        let what = format!("{name}: {reader} stood at {cursor} and was sent {first} to {last}");
                        found.wrong(Class::Duplicated, cursor + 1 - first, what);
                    }
                    match log.digest(*first, *last) {
                        None => {
                            let what = format!("{name}: {reader} saw {first} to {last}, the log ends before");
                            found.wrong(Class::Lost, 1, what);
                        }
                        Some(is) if is != *digest => {
                            let what =
                                format!("{name}: {reader} saw {first} to {last} otherwise than the log has them");
                            found.wrong(Class::Interleaved, 1, what);
                        }
                        Some(_) => found.deliveries += last + 1 - first,
                    }
                    cursor = *last;
                }
                Line::Stood { cursor, .. } => stood = Some(*cursor),
                _ => {}
            }
        }
        // Readers that were closed on purpose say nothing at the end.
        if stood.is_some_and(|stood| stood != log.entries.len() as u64) {
            let what = format!("{name}: {reader} stands at {stood:?} in the end, the tail is {}", log.entries.len());
            found.wrong(Class::Unfinished, 1, what);
        }
    }
}

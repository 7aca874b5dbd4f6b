//! Reads what strace wrote, and checks: write, then sync, then acknowledgement.

use std::collections::HashMap;

/// One system call: lines `began` and `ended` of the trace.
#[derive(Debug, Clone)]
struct Call {
    name: String,
    /// Everything after the opening parenthesis.
    text: String,
    result: Option<i64>,
    began: usize,
    ended: usize,
}

/// The calls of a trace made with `strace -f -ttt -y`.
fn calls(trace: &str) -> Vec<Call> {
    let mut open: HashMap<&str, usize> = HashMap::new();
    let mut calls: Vec<Call> = Vec::new();
    for (at, line) in trace.lines().enumerate() {
        let mut words = line.splitn(2, char::is_whitespace);
        let (Some(pid), Some(rest)) = (words.next(), words.next()) else { continue };
        let Some((_time, rest)) = rest.trim_start().split_once(' ') else { continue };
        if let Some(resumed) = rest.strip_prefix("<... ") {
            let Some(call) = open.remove(pid).map(|index| &mut calls[index]) else { continue };
            call.ended = at;
            call.result = result(resumed);
        } else if let Some((name, text)) = rest.split_once('(') {
            let unfinished = text.ends_with("<unfinished ...>");
            if unfinished {
                open.insert(pid, calls.len());
            }
            let (result, ended) = if unfinished { (None, usize::MAX) } else { (result(text), at) };
            calls.push(Call { name: name.to_owned(), text: text.to_owned(), result, began: at, ended });
        }
    }
    calls
}

fn result(text: &str) -> Option<i64> {
    text.rsplit_once(" = ")?.1.split_whitespace().next()?.parse().ok()
}

/// For each of `acks` pairs `(mark, ack)`: some write to a `-wal` file holds `mark`, and between it and the first
/// write elsewhere that holds `ack` a sync of that file began and ended well. What is wrong, if anything.
pub fn order(trace: &str, acks: &[(String, String)]) -> Result<(), String> {
    let calls = calls(trace);
    let to_wal = |call: &Call| call.text.split(',').next().is_some_and(|file| file.contains("-wal>"));
    for (mark, ack) in acks {
        let written = calls.iter().find(|call| call.name == "pwrite64" && to_wal(call) && call.text.contains(mark));
        let written = written.ok_or_else(|| format!("{mark} was not written to the write-ahead log"))?;
        let acked = calls.iter().find(|call| {
            matches!(call.name.as_str(), "write" | "writev" | "sendto" | "sendmsg") && call.text.contains(ack)
        });
        let acked = acked.ok_or_else(|| format!("{mark} was not acknowledged by {ack}"))?;
        let synced = calls.iter().find(|call| {
            matches!(call.name.as_str(), "fsync" | "fdatasync")
                && to_wal(call)
                && call.result == Some(0)
                && call.began > written.ended
                && call.ended < acked.began
        });
        if synced.is_none() {
            return Err(format!(
                "{mark} was written in line {}, acknowledged in line {}, and not synced in between",
                written.ended + 1,
                acked.began + 1
            ));
        }
    }
    Ok(())
}

/// The trace without the lines that hold any of these.
pub fn without(trace: &str, words: &[&str]) -> String {
    trace
        .lines()
        .filter(|line| !words.iter().any(|word| line.contains(word)))
        .fold(String::new(), |all, line| all + line + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITE: &str = "7 1.1 pwrite64(3</d/x.db-wal>, \"mark-1\", 6, 0) = 6\n";
    const SYNC: &str = "7 1.2 fsync(3</d/x.db-wal>) = 0\n";
    const ACK: &str = "8 1.3 writev(9<socket:[1]>, [{iov_base=\"ack-1\", iov_len=5}], 1) = 5\n";

    fn verdict(lines: &[&str]) -> Result<(), String> {
        order(&lines.concat(), &[("mark-1".into(), "ack-1".into())])
    }

    /// The negative control: every wrong order is seen.
    #[test]
    fn wrong_orders_are_seen() {
        assert_eq!(verdict(&[WRITE, SYNC, ACK]), Ok(()));
        let begins = "7 1.2 fdatasync(3</d/x.db-wal> <unfinished ...>\n";
        let ends = "7 1.4 <... fdatasync resumed>) = 0\n";
        assert_eq!(verdict(&[WRITE, begins, ends, ACK]), Ok(()));
        for wrong in [
            vec![WRITE, ACK, SYNC],
            vec![SYNC, WRITE, ACK],
            vec![WRITE, ACK],
            vec![WRITE, begins, ACK, ends],
            vec![begins, WRITE, ends, ACK],
            vec![WRITE, "7 1.2 fsync(3</d/x.db-wal>) = -1 EIO (Input/output error)\n", ACK],
            vec![WRITE, "7 1.2 fsync(4</d/x.db>) = 0\n", ACK],
            vec![SYNC, ACK],
            vec![WRITE, SYNC],
        ] {
            assert!(verdict(&wrong).is_err(), "{wrong:#?}");
        }
    }
}

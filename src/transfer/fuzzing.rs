//! Fuzz target for untrusted files of an export.

use std::fs;

use super::{
    agents::AgentLine,
    checkpoints::CheckpointLine,
    directory::{Directory, MANIFEST},
    format::{AnnotationLine, ThreadLine},
    items::ItemsLine,
    kv::EntryLine,
    manifest::{self, ThreadEntry},
    reading::ThreadFile,
    streams::StreamLine,
};

/// Reads the data as a manifest, a thread's file, an agent, an annotation, an item list, a checkpoint, a plain stream and a key-value entry. The manifest for the thread's file is
/// generated, so that reading goes beyond the digests.
pub(crate) fn export(data: &[u8]) {
    let path = std::env::temp_dir().join(format!("threadline-fuzzing-{}", std::process::id()));
    let Ok(directory) = Directory::make(&path) else { return };
    let _ = serde_json::from_slice::<AgentLine>(data);
    if let Ok(line) = serde_json::from_slice::<AnnotationLine>(data)
        && let Ok((_, annotation)) = line.annotation.annotation()
    {
        assert!(!annotation.payload.contains(['\r', '\n']), "one line");
    }
    let _ = serde_json::from_slice::<ItemsLine>(data);
    let _ = serde_json::from_slice::<CheckpointLine>(data);
    let _ = serde_json::from_slice::<StreamLine>(data);
    if let Ok(line) = serde_json::from_slice::<EntryLine>(data) {
        let _ = line.entry();
    }
    if fs::write(directory.at(MANIFEST), data).is_ok() {
        let _ = manifest::read(&directory);
    }
    if let Some(entry) = entry(data)
        && fs::write(directory.at(&entry.file), data).is_ok()
        && let Ok(mut file) = ThreadFile::open(&directory, &entry)
    {
        let mut seqs = 0;
        while let Ok(Some(batch)) = file.next_batch() {
            assert_eq!(batch.first_seq, seqs + 1, "no hole");
            seqs = batch.last_seq;
        }
        assert!(seqs <= entry.tail);
    }
    let _ = fs::remove_dir_all(&path);
}

fn entry(data: &[u8]) -> Option<ThreadEntry> {
    let first = data.split(|byte| *byte == b'\n').next()?;
    let thread = serde_json::from_slice::<ThreadLine>(first).ok()?.thread.thread(None).thread;
    Some(ThreadEntry {
        project_id: thread.project,
        thread_id: thread.id,
        user_id: thread.user,
        claimed: true,
        epoch: thread.epoch,
        tail: thread.tail,
        version: thread.version,
        file: "thread.ndjson".to_owned(),
        bytes: data.len() as u64,
        sha256: threadline_core::hex(&<sha2::Sha256 as sha2::Digest>::digest(data)),
    })
}

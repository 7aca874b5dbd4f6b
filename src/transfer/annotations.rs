//! Export and import of the annotations of threads. An annotation that exists already stays unchanged.

use std::collections::{BTreeMap, HashMap};

use super::{
    directory::{ANNOTATIONS, Directory, Facts, NewFile},
    error::{Damage, TransferError},
    format::{AnnotationFacts, AnnotationLine},
    manifest::{FileEntry, ThreadName, Threads, name_of},
    reading::Lines,
};
use threadline_core::{
    NewAnnotation, ThreadKey,
    limits::{MAX_ANNOTATION_PAGE, MAX_PAGE},
};
use threadline_store::{AnnotatedThread, TransferStore};

/// Imported threads: their keys in the store.
pub type Taken = HashMap<ThreadName, ThreadKey>;

/// Writes the annotations of the exported threads, ordered by project and thread. Returns `None`, and leaves no file,
/// if there are none.
pub async fn write(
    store: &dyn TransferStore,
    directory: &Directory,
    threads: &Threads,
) -> Result<Option<FileEntry>, TransferError> {
    let annotated = annotated(store, threads).await?;
    let (mut file, mut count) = (None, 0);
    for (name, key) in annotated {
        let mut after = 0;
        // The page of a thread that was deleted meanwhile is absent.
        while let Some(page) = store.annotations(key, after, MAX_ANNOTATION_PAGE).await? {
            let Some((last, _)) = page.last() else { break };
            after = *last;
            for (_, annotation) in page {
                let annotation = AnnotationFacts::of(name.clone(), annotation)?;
                let file = match &mut file {
                    Some(file) => file,
                    none => none.insert(NewFile::begin(directory, ANNOTATIONS)?),
                };
                file.line(&AnnotationLine { annotation })?;
                count += 1;
            }
        }
    }
    let Some(file) = file else {
        directory.remove(ANNOTATIONS)?;
        return Ok(None);
    };
    let Facts { bytes, sha256 } = file.finish()?;
    Ok(Some(FileEntry { count, bytes, sha256 }))
}

/// Threads of a page that are exported, with their names and keys.
pub fn exported(page: Vec<AnnotatedThread>, threads: &Threads) -> impl Iterator<Item = (ThreadName, ThreadKey)> {
    let named = page
        .into_iter()
        .map(|thread| (name_of(&thread.project, &thread.user, &thread.id, thread.claimed), thread.key, thread.epoch));
    let taken = named.filter(|(name, _, epoch)| threads.get(name).is_some_and(|entry| entry.epoch == *epoch));
    taken.map(|(name, key, _)| (name, key))
}

/// Finds those exported threads that have annotations.
async fn annotated(
    store: &dyn TransferStore,
    threads: &Threads,
) -> Result<BTreeMap<ThreadName, ThreadKey>, TransferError> {
    let (mut found, mut after) = (BTreeMap::new(), None);
    loop {
        let page = store.annotated_threads(after, MAX_PAGE).await?;
        let Some(last) = page.last() else { return Ok(found) };
        after = Some(last.key);
        found.extend(exported(page, threads));
    }
}

fn open(directory: &Directory, file: &FileEntry) -> Result<Lines<'static>, Damage> {
    Lines::open(directory, ANNOTATIONS, file.facts())
}

/// Reads the next annotation and the name of its thread. `None` at the end of an intact file.
fn next(lines: &mut Lines<'_>) -> Result<Option<(ThreadName, NewAnnotation)>, Damage> {
    if !lines.advance()? {
        return Ok(None);
    }
    let facts = lines.parse::<AnnotationLine>()?.annotation;
    facts.annotation().map(Some).map_err(|error| lines.damage(error))
}

/// Stores the annotations of these threads, after the complete file has been validated.
pub async fn put(
    store: &dyn TransferStore,
    directory: &Directory,
    file: &FileEntry,
    taken: &Taken,
) -> Result<(), TransferError> {
    let mut lines = open(directory, file).map_err(TransferError::Damaged)?;
    while next(&mut lines).map_err(TransferError::Damaged)?.is_some() {}
    let mut lines = open(directory, file).map_err(TransferError::Damaged)?;
    while let Some((name, annotation)) = next(&mut lines).map_err(TransferError::Damaged)? {
        if let Some(key) = taken.get(&name) {
            store.put_annotation(*key, annotation).await?;
        }
    }
    Ok(())
}

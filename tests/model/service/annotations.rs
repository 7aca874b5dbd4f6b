//! Annotations: by whom, how many at once, and until when.

use threadline_core::{AnnotationId, NewAnnotation, ThreadId, limits::MAX_ANNOTATION_PAGE};
use threadline_engine::{ChangeThreadError, ListCursor, PageError};
use threadline_store::{LineageCause, LineageStore as _};

use crate::support::{Node, run_id, run_seed};

pub fn annotation(id: &str) -> NewAnnotation {
    let id = AnnotationId::new(id).expect("id");
    NewAnnotation::new(id, "user_action".into(), None, None).expect("an annotation")
}

#[test]
fn a_page_is_full_up_to_its_limit_and_says_whether_more_follow() {
    run_seed(0, async {
        let node = Node::start();
        let (annotations, thread) = (&node.service.annotations, node.thread("t").await);
        for n in 0..MAX_ANNOTATION_PAGE + 2 {
            assert!(annotations.put(&node.alice, &thread, annotation(&n.to_string())).await.expect("puts"));
        }
        assert!(!annotations.put(&node.alice, &thread, annotation("0")).await.expect("puts"));
        let one = annotations.list(&node.alice, &thread, None, 1).await.expect("lists").next.expect("more");
        let page = async |number, limit| {
            let after = ListCursor { number, ..one };
            let page = annotations.list(&node.alice, &thread, Some(after), limit).await.expect("lists");
            (page.items.first().map(|(number, _)| *number), page.items.len(), page.next.is_some())
        };
        let most = MAX_ANNOTATION_PAGE as u64;
        assert_eq!(one.number, 1);
        assert_eq!(page(0, usize::MAX).await, (Some(1), MAX_ANNOTATION_PAGE, true));
        assert_eq!(page(1, usize::MAX).await, (Some(2), MAX_ANNOTATION_PAGE, true));
        assert_eq!(page(2, usize::MAX).await, (Some(3), MAX_ANNOTATION_PAGE, false));
        assert_eq!(page(most, 0).await, (Some(most + 1), 1, true));
        assert_eq!(page(most + 2, 10).await, (None, 0, false));
    });
}

#[test]
fn a_draining_node_stores_no_annotation() {
    run_seed(0, async {
        let node = Node::start();
        let (annotations, thread) = (&node.service.annotations, node.thread("t").await);
        annotations.put(&node.alice, &thread, annotation("a")).await.expect("puts");
        node.service.drain();
        let refused = annotations.put(&node.alice, &thread, annotation("b")).await;
        assert!(matches!(refused, Err(ChangeThreadError::Draining)), "{refused:?}");
        assert_eq!(annotations.list(&node.alice, &thread, None, 10).await.expect("reads").items.len(), 1);
    });
}

// A lost annotation's number is given to another one, which a reader after it would miss.
#[test]
fn a_cursor_of_a_list_belongs_to_one_thread_and_annotations_also_to_one_generation() {
    run_seed(0, async {
        let node = Node::start();
        let (annotations, runs) = (&node.service.annotations, &node.service.runs);
        let (thread, other) = (node.thread("t").await, node.thread("other").await);
        for id in ["a", "b", "c"] {
            annotations.put(&node.alice, &thread, annotation(id)).await.expect("puts");
            node.run(&thread, id).await;
            runs.finish(&node.alice, &thread, &run_id(id), 0).await.expect("finishes");
        }
        let noted = annotations.list(&node.alice, &thread, None, 1).await.expect("lists").next.expect("more");
        let listed = runs.list(&node.alice, &thread, None, 1, None).await.expect("lists").next.expect("more");
        let both = async |thread: &ThreadId| {
            let after = annotations.list(&node.alice, thread, Some(noted), 10).await;
            let before = runs.list(&node.alice, thread, Some(listed), 10, None).await;
            (after.map(|page| page.items.len()), before.map(|page| page.items.len()))
        };
        assert!(matches!(both(&thread).await, (Ok(2), Ok(2))));
        assert!(matches!(both(&other).await, (Err(PageError::LogReplaced(_)), Err(PageError::LogReplaced(_)))));
        let lineage = node.store.adopt(LineageCause::RolledBack).await.expect("adopts");
        node.store.lineage().open(lineage);
        // No fence is given twice, so the list of runs continues, also after the log has got another epoch.
        assert!(matches!(both(&thread).await, (Err(PageError::LogReplaced(_)), Ok(2))));
        node.run(&thread, "d").await;
        assert!(matches!(both(&thread).await, (Err(PageError::LogReplaced(_)), Ok(2))));
        node.service.threads.delete(&node.alice, &thread).await.expect("deletes");
        node.thread("t").await;
        assert!(matches!(both(&thread).await, (Err(PageError::LogReplaced(_)), Err(PageError::LogReplaced(_)))));
    });
}

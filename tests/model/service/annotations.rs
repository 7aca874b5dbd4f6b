//! Annotations: by whom, how many at once, and until when.

use threadline_core::{AnnotationId, NewAnnotation, limits::MAX_ANNOTATION_PAGE};
use threadline_engine::{ChangeThreadError, Page};

use crate::support::{Node, run_seed};

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
        let page = async |after, limit| {
            let Page { items: page, more } = annotations.list(&node.alice, &thread, after, limit).await.expect("lists");
            (page.first().map(|(number, _)| *number), page.len(), more)
        };
        let most = MAX_ANNOTATION_PAGE as u64;
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
        assert_eq!(annotations.list(&node.alice, &thread, 0, 10).await.expect("reads").items.len(), 1);
    });
}

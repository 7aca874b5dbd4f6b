//! Agents that were made over the API.

use threadline_core::ProjectId;

use crate::support::{Env, agent, project};

pub async fn agents_are_kept_by_project(env: Env) {
    let other = ProjectId::new("other").expect("id");
    let list = async |project: &ProjectId| {
        let agents = env.store.agents(project).await.expect("lists");
        agents.into_iter().map(|(id, definition)| format!("{id}={definition}")).collect::<Vec<_>>()
    };
    assert_eq!(list(&project()).await, [""; 0]);
    for (id, definition) in [("b", "1"), ("a", "2"), ("b", "3")] {
        env.store.put_agent(&project(), &agent(id), definition, None).await.expect("puts");
    }
    env.store.put_agent(&other, &agent("a"), "4", None).await.expect("puts");
    assert_eq!(list(&project()).await, ["a=2", "b=3"]);
    assert_eq!(list(&other).await, ["a=4"]);
    assert!(env.store.delete_agent(&project(), &agent("a"), None).await.expect("deletes"));
    assert!(!env.store.delete_agent(&project(), &agent("a"), None).await.expect("deletes"));
    assert_eq!(list(&project()).await, ["b=3"]);
    assert_eq!(list(&other).await, ["a=4"]);
}

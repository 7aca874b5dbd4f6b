use threadline_core::{Scopes, Timestamp, UserId};
use tokio::time;

use super::*;

fn principal(project: &str, user: Option<&str>, credential: Credential) -> Principal {
    Principal {
        project: ProjectId::new(project).expect("an id"),
        user: user.map(|user| UserId::new(user).expect("an id")),
        scopes: Scopes::ALL,
        credential,
        ticket: None,
    }
}

pub(in crate::limits) fn client(project: &str, user: &str) -> Principal {
    principal(
        project,
        Some(user),
        Credential::Token { expires_at: Timestamp(i64::MAX), signer: None, by: None, issued_at: None },
    )
}

pub(in crate::limits) fn key(project: &str, user: Option<&str>) -> Principal {
    principal(project, user, Credential::Operator)
}

fn quotas(value: u64) -> Quotas {
    Quotas {
        requests_per_second: value,
        request_burst: 2 * value,
        sockets: value,
        runs: value,
        append_bytes_per_second: 1_000 * value,
        append_byte_burst: 2_000 * value,
        ..Quotas::NONE
    }
}

fn of_users(value: u64) -> Quota {
    Quota::new(Limits { user: quotas(value), ..Limits::default() })
}

fn refusals(quota: &Quota) -> Vec<(Limit, u64)> {
    quota.limited().filter(|(_, count)| *count > 0).collect()
}

#[tokio::test(start_paused = true)]
async fn requests_of_one_client_are_limited_and_no_others() {
    let quota = of_users(2);
    let ann = client("p", "ann");
    for _ in 0..4 {
        assert_eq!(quota.admit(&ann), Ok(()));
    }
    let refused = quota.admit(&ann).expect_err("a fifth one");
    assert_eq!(refused, Limited { limit: Limit::UserRequests, value: 2, wait: Duration::from_millis(500) });
    assert!(refused.to_string().contains("userRequestsPerSecond"), "{refused}");
    for other in [client("p", "bob"), client("q", "ann"), key("p", Some("ann")), key("p", None)] {
        assert_eq!(quota.admit(&other), Ok(()), "{other:?}");
    }
    time::advance(refused.wait).await;
    assert_eq!(quota.admit(&ann), Ok(()));
    assert!(quota.admit(&ann).is_err());
    assert_eq!(refusals(&quota), [(Limit::UserRequests, 2)]);
}

#[tokio::test(start_paused = true)]
async fn the_limits_of_a_project_hold_for_its_keys_and_users_together() {
    let quota = Quota::new(Limits { project: quotas(1), user: Quotas::NONE, ..Limits::default() });
    assert_eq!((quota.admit(&key("p", None)), quota.admit(&client("p", "ann"))), (Ok(()), Ok(())));
    for refused in [key("p", Some("bob")), client("p", "bob")] {
        assert_eq!(quota.admit(&refused).map_err(|limited| limited.limit), Err(Limit::ProjectRequests));
    }
    assert_eq!(quota.admit(&key("q", None)), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_user_who_has_used_everything_costs_the_project_nothing() {
    let quota = Quota::new(Limits { user: quotas(1), project: quotas(4), ..Limits::default() });
    let passed = (0..100).filter(|_| quota.admit(&client("p", "ann")).is_ok()).count();
    assert_eq!(passed, 2);
    let passed = (0..100).filter(|_| quota.admit(&key("p", None)).is_ok()).count();
    assert_eq!(passed, 6);
}

#[tokio::test(start_paused = true)]
async fn development_has_only_the_limits_that_were_set() {
    let developer = principal("p", Some("dev"), Credential::Development);
    let quota = of_users(1);
    for _ in 0..100 {
        assert_eq!((quota.admit(&developer), quota.append(&developer, 1 << 20)), (Ok(()), Ok(())));
        assert_eq!((quota.pace(&developer, 1, 1 << 20), quota.runs(&developer)), (None, None));
    }
    let quota = Quota::new(Limits { development: quotas(1), ..Limits::default() });
    assert_eq!((0..100).filter(|_| quota.admit(&developer).is_ok()).count(), 2);
}

#[tokio::test(start_paused = true)]
async fn bytes_are_counted_once_they_are_there() {
    let quota = of_users(1);
    let ann = client("p", "ann");
    // More than the burst at once: the append passes, and the excess must be refilled.
    assert_eq!(quota.append(&ann, 10_000), Ok(()));
    let refused = quota.append(&ann, 1).expect_err("in debt");
    assert_eq!(
        (refused.limit, refused.value, refused.wait),
        (Limit::UserAppendBytes, 1_000, Duration::from_millis(8_001))
    );
    assert_eq!(quota.admit(&ann), Ok(()), "requests are another matter");
    time::advance(refused.wait).await;
    assert_eq!(quota.append(&ann, 1), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_socket_is_slowed_down_to_the_rate() {
    let quota = of_users(10);
    let (ann, begun) = (client("p", "ann"), Instant::now());
    let mut frames = 0;
    while begun.elapsed() < Duration::from_secs(10) {
        frames += 1;
        if let Some(until) = quota.pace(&ann, 1, 0) {
            time::sleep_until(until).await;
        }
    }
    assert!((119..=121).contains(&frames), "the burst of 20 and 10 a second: {frames}");
    let until = quota.pace(&ann, 0, 120_000).expect("a pause");
    assert_eq!((until - Instant::now()).as_secs(), 10);
    assert!(refusals(&quota).iter().any(|(limit, count)| *limit == Limit::UserRequests && *count > 90));
}

#[test]
fn a_place_is_given_back_when_it_is_dropped() {
    let quota = Quota::new(Limits { user: quotas(2), project: quotas(3), ..Limits::default() });
    let (ann, bob) = (client("p", "ann"), client("p", "bob"));
    let first = quota.open(&ann).expect("a place");
    let _second = quota.open(&ann).expect("a place");
    assert_eq!(quota.open(&ann).map_err(|limited| limited.limit).expect_err("full"), Limit::UserSockets);
    let third = quota.open(&bob).expect("a place");
    // The project's limit is reached: the permit of the user is released.
    assert_eq!(quota.open(&bob).map_err(|limited| limited.limit).expect_err("full"), Limit::ProjectSockets);
    drop((first, third));
    let _again = (quota.open(&bob).expect("a place"), quota.open(&key("p", None)).expect("a place"));
    assert_eq!(quota.open(&key("p", None)).map_err(|limited| limited.value).expect_err("full"), 3);
    drop((_second, _again));
    assert!(quota.0.open.is_empty(), "no entry remains without an open stream");
}

#[test]
fn runs_are_counted_elsewhere_and_judged_here() {
    let quota = Quota::new(Limits { user: quotas(2), project: quotas(3), ..Limits::default() });
    assert_eq!(quota.runs(&key("p", Some("ann"))), Some(RunQuota { user: 0, project: 3 }));
    let runs = quota.runs(&client("p", "ann")).expect("limits");
    assert_eq!(runs, RunQuota { user: 2, project: 3 });
    assert_eq!(quota.start(runs, 1, 2), Ok(()));
    assert_eq!(quota.start(runs, 2, 2).map_err(|limited| limited.limit), Err(Limit::UserRuns));
    assert_eq!(quota.start(runs, 0, 3).map_err(|limited| limited.limit), Err(Limit::ProjectRuns));
    assert_eq!(Quota::new(Limits::default()).runs(&key("p", None)), None);
}

#[test]
fn a_project_may_have_limits_of_its_own() {
    let quota = of_users(1);
    quota.set_projects(Arc::new(|project| {
        (project.as_str() == "large").then(|| ProjectLimits { user_runs: Some(50), ..ProjectLimits::default() })
    }));
    let runs = |project: &str| quota.runs(&client(project, "ann")).map(|runs| runs.user);
    assert_eq!((runs("large"), runs("p")), (Some(50), Some(1)));
    assert!(quota.subscribe(&client("p", "ann"), 0).is_ok());
    let most = quota.limits().subscriptions;
    assert_eq!(quota.subscribe(&client("p", "ann"), most).map_err(|limited| limited.limit), Err(Limit::Subscriptions));
}

#[test]
fn a_million_users_fit_into_little_memory() {
    let quota = of_users(1);
    for user in 0..150_000 {
        let _ = quota.admit(&client("p", &format!("u{user}")));
    }
    quota.0.spent.run_pending_tasks();
    assert!(quota.0.spent.entry_count() <= QUOTA_KEYS, "{}", quota.0.spent.entry_count());
}

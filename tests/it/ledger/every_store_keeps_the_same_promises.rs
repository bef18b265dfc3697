//! What memory and SQLite both do.

use ostler_supervisors::contract::{ApprovalPolicy, Delegation, Position};
use ostler_supervisors::ledger::{
    AppendError, Change, Commit, Ledger, OutboxItem, OutboxThen, RuntimeRow, TaskRow, TaskState, Urgency,
};

use super::support::*;

#[tokio::test]
async fn a_stream_has_no_gap_and_is_read_from_anywhere() {
    for store in stores().await {
        let ledger = &*store.ledger;
        make(ledger, "a").await;
        for from in (1..=300).step_by(3) {
            append(ledger, commit("a", from, 3)).await;
        }
        for step in [1, 7, 100, 1000] {
            assert_whole(&stream(ledger, "a", step).await, "a", 300);
        }
        for from in [1, 2, 3, 150, 299, 300] {
            let read = ledger.read(&session("a"), Position(from), 1).await.expect("readable");
            assert_eq!(read.first().map(|event| event.position), Some(Position(from)), "{}", store.name);
        }
        assert_eq!(ledger.read(&session("a"), Position(301), 10).await.expect("readable"), vec![]);
        assert_eq!(ledger.head(&session("a")).await.expect("readable"), Position(300));
    }
}

#[tokio::test]
async fn an_append_of_unknown_result_is_simply_repeated() {
    for store in stores().await {
        let ledger = &*store.ledger;
        make(ledger, "a").await;
        append(ledger, commit("a", 1, 5)).await;
        append(ledger, commit("a", 1, 5)).await;
        append(ledger, commit("a", 6, 2)).await;
        append(ledger, commit("a", 3, 4)).await;
        assert_whole(&stream(ledger, "a", 100).await, "a", 7);
    }
}

#[tokio::test]
async fn a_wrong_position_is_a_conflict_and_changes_nothing_of_its_commit_only() {
    for store in stores().await {
        let ledger = &*store.ledger;
        make(ledger, "a").await;
        make(ledger, "b").await;
        let mut wrong = commit("a", 3, 1);
        wrong.changes.push(Change::Task(Box::new(task("never", TaskState::Accepted))));
        let mut other = commit("a", 1, 1);
        other.events = vec![event(1, "another text")];
        let batch = [wrong, commit("b", 1, 2), commit("a", 1, 1), other];
        let results = ledger.commit(&batch, Urgency::Normal).await.expect("stored");
        let conflict = |expected: u64, actual| AppendError::Conflict {
            session: session("a"),
            expected: Position(expected),
            actual: Position(actual),
        };
        assert_eq!(results, vec![Err(conflict(3, 0)), Ok(()), Ok(()), Err(conflict(1, 1))], "{}", store.name);
        assert_eq!(ledger.task(&"never".parse().expect("id")).await.expect("readable"), None);
        assert_whole(&stream(ledger, "b", 10).await, "b", 2);
    }
}

#[tokio::test]
async fn an_unknown_session_is_named() {
    for store in stores().await {
        let results = store.ledger.commit(&[commit("nobody", 1, 1)], Urgency::Normal).await.expect("answers");
        assert_eq!(results, vec![Err(AppendError::UnknownSession(session("nobody")))]);
    }
}

fn task(id: &str, state: TaskState) -> TaskRow {
    let delegation = Delegation { prompt: "hi".into(), approval: ApprovalPolicy::Deny, model: None, timeout: None };
    let row = TaskRow::accepted(id.parse().expect("id"), session("a"), delegation, 5);
    TaskRow { state, ..row }
}

fn runtime(id: &str) -> RuntimeRow {
    RuntimeRow {
        id: id.parse().expect("id"),
        session: session("a"),
        harness: "scripted".parse().expect("id"),
        owner: "owner".parse().expect("id"),
        boot: "boot".into(),
        folder: "/run/x".into(),
        submits: None,
        created_ms: 5,
    }
}

#[tokio::test]
async fn offsets_outbox_and_snapshots_are_stored_with_the_facts() {
    for store in stores().await {
        let ledger = &*store.ledger;
        make(ledger, "a").await;
        let id = runtime("rt_1").id;
        let item = |number, then| OutboxItem { number, bytes: vec![number as u8, 0xff], then };
        let mut facts = commit("a", 1, 2);
        facts.changes = vec![
            Change::Runtime(runtime("rt_1")),
            Change::Offset { runtime: id.clone(), offset: 77, discarding: true },
            Change::Snapshot { runtime: id.clone(), bytes: vec![1, 2, 3] },
            Change::Outbox { runtime: id.clone(), item: item(1, OutboxThen::Continue) },
            Change::Outbox { runtime: id.clone(), item: item(2, OutboxThen::EndOfInput) },
            Change::Task(Box::new(task("t1", TaskState::Running))),
        ];
        append(ledger, facts).await;
        let runtimes = ledger.runtimes(Some(&"owner".parse().expect("id"))).await.expect("readable");
        let state = runtimes.first().expect("one");
        assert_eq!((state.offset, state.discarding, state.snapshot.as_deref()), (77, true, Some(&[1, 2, 3][..])));
        let outbox = ledger.outbox(&id).await.expect("readable");
        assert_eq!(outbox, vec![item(1, OutboxThen::Continue), item(2, OutboxThen::EndOfInput)]);

        let rows = |changes| Commit { session: session("a"), expected_next: Position(3), events: Vec::new(), changes };
        append(ledger, rows(vec![Change::OutboxConfirmed { runtime: id.clone(), number: 1 }])).await;
        append(ledger, rows(vec![Change::Runtime(runtime("rt_1"))])).await;
        assert_eq!(ledger.outbox(&id).await.expect("readable"), vec![item(2, OutboxThen::EndOfInput)]);
        assert_eq!(ledger.runtimes(None).await.expect("readable").first().map(|r| r.offset), Some(77));
        append(ledger, rows(vec![Change::RuntimeGone(id.clone())])).await;
        assert_eq!(ledger.runtimes(None).await.expect("readable"), vec![]);
        assert_eq!(ledger.outbox(&id).await.expect("readable"), vec![]);
    }
}

#[tokio::test]
async fn unsettled_tasks_are_found_and_settled_ones_are_not() {
    for store in stores().await {
        let ledger = &*store.ledger;
        make(ledger, "a").await;
        for (id, state) in [("t1", TaskState::Running), ("t2", TaskState::Accepted)] {
            let mut write = commit("a", 1, 0);
            write.changes.push(Change::Task(Box::new(task(id, state))));
            append(ledger, write).await;
        }
        let mut settle = commit("a", 1, 0);
        settle.changes.push(Change::Task(Box::new(task("t1", TaskState::Settled))));
        append(ledger, settle).await;
        let unsettled = ledger.unsettled().await.expect("readable");
        assert_eq!(unsettled, vec![task("t2", TaskState::Accepted)]);
        assert_eq!(ledger.tasks(Some(&session("a"))).await.expect("readable").len(), 2);
        assert_eq!(ledger.tasks(Some(&session("b"))).await.expect("readable").len(), 0);
    }
}

#[tokio::test]
async fn five_hundred_sessions_at_once_stay_apart() {
    for store in stores().await {
        let ledger = &*store.ledger;
        let names: Vec<String> = (0..500).map(|number| format!("s{number}")).collect();
        for name in &names {
            make(ledger, name).await;
        }
        for round in 0..6 {
            let batch: Vec<Commit> = names.iter().map(|name| commit(name, round * 4 + 1, 4)).collect();
            let results = ledger.commit(&batch, Urgency::Normal).await.expect("stored");
            assert!(results.iter().all(Result::is_ok));
        }
        for name in &names {
            assert_whole(&stream(ledger, name, 10).await, name, 24);
        }
    }
}

#[tokio::test]
async fn compaction_changes_nothing_a_reader_sees() {
    let store = stores().await.pop().expect("sqlite");
    let ledger = &*store.ledger;
    make(ledger, "a").await;
    make(ledger, "b").await;
    let mut removed = 0;
    for from in 1..=1000 {
        let batch = [commit("a", from, 1), commit("b", from * 2 - 1, 2)];
        assert!(ledger.commit(&batch, Urgency::Normal).await.expect("stored").iter().all(Result::is_ok));
        if from % 100 == 0 {
            removed += ledger.compact().await.expect("compacts").removed;
        }
    }
    loop {
        let done = ledger.compact().await.expect("compacts");
        removed += done.removed;
        for step in [1, 50, 5000] {
            assert_whole(&stream(ledger, "a", step).await, "a", 1000);
        }
        if !done.more {
            break;
        }
    }
    assert!(removed > 1500, "{removed} blobs merged");
    assert_whole(&stream(ledger, "b", 3).await, "b", 2000);
    append(ledger, commit("a", 1001, 5)).await;
    assert_whole(&stream(ledger, "a", 17).await, "a", 1005);
}

#[tokio::test]
async fn two_processes_share_a_file_and_compare_before_they_append() {
    let folder = tempfile::tempdir().expect("a folder");
    let (one, two) = (sqlite(folder.path()).await, sqlite(folder.path()).await);
    make(&one, "a").await;
    append(&one, commit("a", 1, 2)).await;
    append(&two, commit("a", 3, 2)).await;
    let stale = one.commit(&[commit("a", 4, 3)], Urgency::Normal).await;
    assert!(stale.expect("answers")[0].is_err());
    append(&one, commit("a", 5, 1)).await;
    assert_whole(&stream(&two, "a", 2).await, "a", 5);
}

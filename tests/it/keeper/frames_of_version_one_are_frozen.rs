//! The bytes of version 1: a later build must read and write exactly these.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use ostler_keeper::ladder::{Ladder, Rung};
use ostler_keeper::*;

fn orders() -> Vec<Order> {
    let ladder = Ladder::new([(Rung::EndOfInput, Duration::from_millis(2000)), (Rung::Kill, Duration::from_secs(5))]);
    let open = Open {
        folder: "/state/run/boot/rt".into(),
        runtime: "rt".into(),
        owner: "owner".into(),
        secret: vec![1, 2, 255],
        command: vec!["agent".into(), "--flag".into()],
        environment: vec!["PATH=/bin".into()],
        directory: "/work".into(),
        leaf_parent: Some("/sys/fs/cgroup/x".into()),
        stdout_retention: 65 << 20,
        stderr_retention: 256 << 10,
        input_capacity: 64 << 20,
        oom_score_adj: -5,
        umask: 0o22,
        orphan: OrphanPolicy { grace_ms: 120_000, ladder: ladder.clone() },
        on_leader_exit: Some(ladder.clone()),
        terminal: None,
        limits: Vec::new(),
    };
    vec![
        Order::Hello(Auth { oldest: 1, newest: 1 }),
        Order::Attach { auth: Auth { oldest: 1, newest: 2 }, secret: vec![9] },
        Order::Open(Box::new(open)),
        Order::Read { stream: Stream::Stdout, from: 7 },
        Order::Ack { stream: Stream::Stderr, offset: 8 },
        Order::Input { number: 1, bytes: b"hi\n".to_vec() },
        Order::CloseInput,
        Order::Stop(ladder),
        Order::End { number: 2, pid: 77, start: 88, grace_ms: 500 },
        Order::List { number: 3 },
        Order::Release,
        Order::Status,
    ]
}

fn reports() -> Vec<Report> {
    let process = Process { pid: 5, start: 6, sid: 7, ppid: 8, command: "sh -c x".into() };
    let emptiness = Emptiness { containment: Containment::DescentAndLeaf, at_ms: 99, oom_kills: None };
    let state = State {
        phase: Phase::LeaderGone,
        leader: Some((10, 11)),
        containment: Containment::DescentAndLeaf,
        exit: Some(Exit::Signal { signal: 9, core: true }),
        emptiness: Some(emptiness),
        stop: Some(StopCause::Orphaned),
        stdout: StreamState { base: 1, end: 2, ended: true },
        stderr: StreamState { base: 3, end: 4, ended: false },
        input: InputState { accepted: 1, written: 2, pending: 3, closed: true },
        leaked: vec![process.clone()],
        window: None,
        limits: vec![],
    };
    vec![
        Report::Welcome { version: 1, pid: 4 },
        Report::Refused { kind: 6, code: RefusalCode::Gap, text: "message 3".into() },
        Report::Opened { pid: 10, start: 11, containment: Containment::Descent, limits: vec![] },
        Report::OpenFailed { step: SetupStep::Exec, errno: 2, text: "agent".into() },
        Report::Output { stream: Stream::Stdout, offset: 5, bytes: vec![0, 10, 255] },
        Report::OutputEnd { stream: Stream::Stderr, offset: 6 },
        Report::InputState(state.input),
        Report::Exited(Exit::Code(3)),
        Report::Rung(Rung::Terminate),
        Report::Emptied(emptiness),
        Report::Leaked(vec![process.clone()]),
        Report::Ended { number: 2, result: EndResult::Gone },
        Report::Listing { number: 3, processes: vec![process], truncated: true },
        Report::State(Box::new(state)),
        Report::Superseded,
    ]
}

fn open(orders: Vec<Order>) -> Open {
    let open = orders.into_iter().find_map(|order| if let Order::Open(open) = order { Some(*open) } else { None });
    open.expect("one")
}

fn state(reports: Vec<Report>) -> State {
    let state = reports.into_iter().find_map(|r| if let Report::State(state) = r { Some(*state) } else { None });
    state.expect("one")
}

/// What was added to version 1 after it was frozen: kinds, values and fields that an older side refuses or skips.
fn added_orders() -> Vec<Order> {
    let size = WindowSize { rows: 24, columns: 80 };
    let limits = LimitKind::ALL.iter().zip(1..).map(|(&kind, value)| Limit { kind, value }).collect();
    vec![
        Order::Open(Box::new(Open { terminal: Some(size), ..open(orders()) })),
        Order::Resize(WindowSize { rows: 65535, columns: 0 }),
        Order::HangUp,
        Order::Open(Box::new(Open { limits, ..open(orders()) })),
        Order::Stop(Ladder::new([(Rung::HangUp, Duration::from_millis(7))])),
    ]
}

fn added_reports() -> Vec<Report> {
    let kinds = LimitKind::ALL.iter().zip(LimitStanding::ALL.iter().cycle()).zip(1..);
    let limits: Vec<_> =
        kinds.map(|((&kind, &standing), errno)| LimitState { kind, value: 1 << 33, standing, errno }).collect();
    let killed = Emptiness { containment: Containment::DescentAndLeaf, at_ms: 99, oom_kills: Some(2) };
    vec![
        Report::OpenFailed { step: SetupStep::Terminal, errno: 28, text: String::new() },
        Report::Rung(Rung::HangUp),
        Report::Opened { pid: 10, start: 11, containment: Containment::DescentAndLeaf, limits: limits.clone() },
        Report::Emptied(killed),
        Report::State(Box::new(State { limits, emptiness: Some(killed), ..state(reports()) })),
        Report::State(Box::new(State { window: Some(WindowSize { rows: 50, columns: 132 }), ..state(reports()) })),
    ]
}

fn rendered(orders: Vec<Order>, reports: Vec<Report>) -> String {
    let mut text = String::new();
    let frames = orders.into_iter().map(|o| ("order", o.kind(), o.encode()));
    for (side, kind, bytes) in frames.chain(reports.into_iter().map(|r| ("report", r.kind(), r.encode()))) {
        let hex = bytes.iter().fold(String::new(), |mut hex, byte| {
            write!(hex, "{byte:02x}").expect("a string");
            hex
        });
        writeln!(text, "{side} {kind} {hex}").expect("a string");
    }
    text
}

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("keeper/tests/fixtures").join(name)
}

fn has_the_bytes_of(name: &str, rendered: &str) {
    if std::env::var_os("OSTLER_WRITE_FIXTURES").is_some() {
        std::fs::create_dir_all(fixture(name).parent().expect("a parent")).expect("made");
        std::fs::write(fixture(name), rendered).expect("written");
    }
    assert_eq!(rendered, std::fs::read_to_string(fixture(name)).expect("the fixture"));
}

#[test]
fn every_frame_has_the_bytes_of_the_fixture() {
    has_the_bytes_of("version-1.txt", &rendered(orders(), reports()));
    has_the_bytes_of("version-1-added.txt", &rendered(added_orders(), added_reports()));
}

fn read_back(name: &str) -> (Vec<Order>, Vec<Report>) {
    let text = std::fs::read_to_string(fixture(name)).expect("the fixture");
    let (mut read_orders, mut read_reports) = (Vec::new(), Vec::new());
    for line in text.lines() {
        let [side, _, hex] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let bytes: Vec<u8> =
            (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).expect("hex")).collect();
        let frame = wire::cut(&bytes).expect("a frame").expect("whole");
        match side {
            "order" => read_orders.push(Order::decode(&frame).expect("an order")),
            _ => read_reports.push(Report::decode(&frame).expect("a report")),
        }
    }
    (read_orders, read_reports)
}

#[test]
fn every_frame_of_the_fixture_is_read_back() {
    assert_eq!(read_back("version-1.txt"), (orders(), reports()));
    assert_eq!(read_back("version-1-added.txt"), (added_orders(), added_reports()));
}

/// So that a keeper which knows no terminal does not start the agent without one.
#[test]
fn an_open_with_a_terminal_is_of_a_kind_that_was_reserved() {
    let kinds: Vec<u16> = added_orders().iter().map(Order::kind).collect();
    assert_eq!(kinds, [32, 33, 36, 3, 8]);
    assert!(kinds[..3].iter().all(|kind| RESERVED_KINDS.contains(kind)));
}

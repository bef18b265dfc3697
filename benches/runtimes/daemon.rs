//! A daemon of this benchmark's own, asked as a client asks it.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ostler::door::{Door, Events, Remote};
use ostler_supervisors::contract::{ApprovalPolicy, CancelCause, Delegation, Position, SessionId, SessionSpec, TaskId};

use super::OSTLER;

/// A daemon of this benchmark's own.
pub(crate) struct Daemon {
    child: Child,
    pub(crate) door: Remote,
    spec: SessionSpec,
}

impl Daemon {
    /// With so many keepers that wait.
    pub(crate) async fn start(root: &Path, spares: usize) -> Self {
        let config = format!(
            "[limits]\nmax_live_runtimes = 600\nspare_keepers = {spares}\n[harness.bench]\nadapter = \"oneshot\"\n\
             command = [{OSTLER:?}, \"play-agent\", \"lines\", \"--json\"]\noutput = \"json_lines\"\n"
        );
        std::fs::write(root.join("ostler.toml"), config).expect("written");
        let child = Command::new(OSTLER)
            .arg("serve")
            .env("OSTLER_CONFIG", root.join("ostler.toml"))
            .env("OSTLER_STATE", root.join("state"))
            .stderr(Stdio::null())
            .spawn()
            .expect("runs");
        let socket = root.join("state/ostler.sock");
        let until = Instant::now() + Duration::from_secs(20);
        let door = loop {
            match Remote::connect(&socket).await {
                Some(door) => break door,
                None if Instant::now() > until => panic!("the daemon does not listen"),
                None => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        };
        Self { child, door, spec: SessionSpec { directory: root.to_owned(), model: None } }
    }

    pub(crate) async fn delegate(&self, script: &str) -> (SessionId, TaskId) {
        let harness = "bench".parse().expect("an id");
        let session = self.door.open_session(harness, self.spec.clone()).await.expect("opened");
        let delegation =
            Delegation { prompt: script.to_owned(), approval: ApprovalPolicy::Deny, model: None, timeout: None };
        let task = TaskId::generate(0);
        self.door.start_task(&session, &task, delegation).await.expect("accepted");
        (session, task)
    }

    pub(crate) async fn end_all(&self, tasks: Vec<(SessionId, TaskId)>) {
        for (_, task) in &tasks {
            self.door.cancel(task, CancelCause::Requested).await.expect("cancelled");
        }
        for (_, task) in &tasks {
            self.door.wait(task).await.expect("settled");
        }
    }

    /// The daemon, and every keeper below it, whoever their parent is by now.
    pub(crate) fn processes(&self) -> Vec<i32> {
        let names = std::fs::read_dir("/proc").expect("/proc").flatten();
        let pids = names.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let state = self.spec.directory.join("state").display().to_string();
        let is_keeper = |pid: &i32| {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            name.trim() == "ostler-keeper" && String::from_utf8_lossy(&environment).contains(&state)
        };
        pids.filter(is_keeper).chain([self.child.id() as i32]).collect()
    }

    pub(crate) fn end(mut self) {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.child.id() as i32), nix::sys::signal::SIGTERM)
            .expect("sent");
        self.child.wait().expect("ends");
    }

    /// From the request to the stored verdict of a task that says one word.
    pub(crate) async fn open_to_verdict(&self) -> Duration {
        let start = Instant::now();
        let (_, task) = self.delegate("say hi").await;
        self.door.wait(&task).await.expect("settled");
        start.elapsed()
    }

    /// Reads a session until it has so many lines of this kind; how many events there were.
    pub(crate) async fn until_events(&self, session: &SessionId, kind: &str, lines: usize) -> usize {
        let mut reader: Box<dyn Events> = self.door.events(session, Position(1)).await.expect("readable");
        let (mut seen, mut of_kind) = (0, 0);
        while of_kind < lines {
            let found = reader.next().await.expect("events");
            seen += found.len();
            of_kind += found.iter().filter(|event| event.view().expect("an envelope").kind == kind).count();
            if found.is_empty() {
                reader.changed().await;
            }
        }
        seen
    }
}

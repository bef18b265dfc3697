//! Starting: the row first, then the keeper, then the order to open.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::time::Duration;

use actix::prelude::*;
use ostler_keeper::folder::MARKER;
use ostler_keeper::ladder::Ladder;
use ostler_keeper::{LimitState, Open, Order as KeeperOrder, OrphanPolicy, SetupStep, Stream};
use serde_json::json;
use tokio::sync::oneshot;
use tokio_stream::wrappers::ReceiverStream;

use super::super::journal::Draft;
use super::super::opens::TakeSpare;
use super::super::render;
use super::super::session::RuntimeNews;
use super::super::system::Env;
use super::{Order, Origin, Past, Phase, Runtime, Serving, Submit, TreeEnd};
use crate::adapter::{Answer, Lifetime, OpenContext, ResumeKind, Told};
use crate::contract::event::kinds;
use crate::keeper::{Link, LinkError, Spare};
use crate::ledger::Change;
use crate::machines::task::{Input, StopMode};
use crate::tree::ExitReason;

/// Standard error kept by the keeper.
const STDERR_RETENTION: u64 = 256 << 10;
/// More than this of output that is not acknowledged, and the agent waits; a whole frame has to fit.
const RETENTION_SLACK: u64 = 1 << 20;
/// Unwritten input.
const INPUT_CAPACITY: u64 = 64 << 20;
/// So much sooner than its keeper and its daemon an agent is killed when memory is short.
const OOM_SCORE_ABOVE: i32 = 500;
/// The kernel knows no higher one.
const OOM_SCORE_MOST: i32 = 1000;

impl Runtime {
    /// The row, to be stored with whatever is submitted by the start itself; the keeper is started when that is durable.
    fn begin(&mut self, mut draft: Draft) -> Draft {
        self.phase = Phase::Storing;
        let resume = match &self.origin {
            Some(Origin::Fresh { resume, .. }) => resume.clone(),
            _ => None,
        };
        let context = OpenContext { spec: &self.spec, resume: resume.as_ref(), task: None };
        self.adapter = Some(self.harness.adapter.open(context));
        draft.changes.insert(0, Change::Runtime(self.row.clone()));
        let mut data = json!({ "runtime_id": self.row.id, "harness": self.row.harness });
        if let Some(kind) = self.resume_kind(resume.is_some()) {
            data["resume"] = json!(kind.word());
        }
        draft.events.push(render::outside(kinds::RUNTIME_OPENED, data));
        draft
    }

    /// What it has of what the session did before, if there was anything.
    fn resume_kind(&self, resumes: bool) -> Option<ResumeKind> {
        let Some(Origin::Fresh { past, .. }) = &self.origin else { return None };
        match (past, resumes) {
            (Past::Nothing, _) => None,
            (Past::Something, true) => Some(self.harness.adapter.resume_kind()),
            (Past::Something, false) => Some(ResumeKind::FreshSession),
        }
    }

    pub(super) fn spawn_keeper(&mut self, ctx: &mut Context<Self>) {
        self.phase = Phase::Starting;
        if self.stop.is_some() {
            return self.not_started("it was stopped before it started", ctx);
        }
        let (env, folder) = (self.env.clone(), self.row.folder.clone());
        let spawn = async move {
            if let Some(parent) = folder.parent() {
                DirBuilder::new().recursive(true).mode(0o700).create(parent).map_err(LinkError::Spawn)?;
            }
            Link::of(keeper(&env).await?)
        };
        ctx.spawn(spawn.into_actor(self).map(|spawned, runtime, ctx| match spawned {
            Ok((link, reports)) => {
                ctx.add_stream(ReceiverStream::new(reports));
                runtime.link = Some(link);
                runtime.order_open(ctx);
            }
            Err(error) => runtime.not_started(&error.to_string(), ctx),
        }));
    }

    fn order_open(&mut self, ctx: &mut Context<Self>) {
        let Some(Origin::Fresh { plan, live, start, .. }) = self.origin.take() else { return };
        (self.live, self.start) = (Some(live), Some(start));
        if self.stop.is_some() {
            return self.not_started("it was stopped before it started", ctx);
        }
        let mut environment: Vec<OsString> =
            plan.environment.iter().map(|(name, value)| format!("{name}={}", value.reveal()).into()).collect();
        environment.push(format!("{MARKER}={}", self.row.id).into());
        let open = Open {
            folder: self.row.folder.clone(),
            runtime: self.row.id.to_string(),
            owner: self.row.owner.to_string(),
            secret: rand::random::<[u8; 32]>().to_vec(),
            command: plan.command.into_iter().map(Into::into).collect(),
            environment,
            directory: plan.directory,
            leaf_parent: self.env.leaf_parent.clone(),
            stdout_retention: self.harness.frame_cap as u64 + RETENTION_SLACK,
            stderr_retention: STDERR_RETENTION,
            input_capacity: INPUT_CAPACITY,
            oom_score_adj: oom_score_adj(),
            umask: self.env.umask,
            orphan: OrphanPolicy {
                grace_ms: self.env.orphan_grace.as_millis() as u64,
                ladder: self.harness.deadlines.ladder(),
            },
            on_leader_exit: Some(self.harness.deadlines.leftovers()),
            terminal: None,
            limits: self.harness.limits.clone(),
        };
        self.keeper_order(KeeperOrder::Open(Box::new(open)));
        self.read_from(0);
    }

    pub(super) fn read_from(&self, stdout: u64) {
        self.keeper_order(KeeperOrder::Read { stream: Stream::Stdout, from: stdout });
        self.keeper_order(KeeperOrder::Read { stream: Stream::Stderr, from: 0 });
    }

    pub(super) fn keeper_order(&self, order: KeeperOrder) {
        if let Some(link) = &self.link
            && !link.order(order)
        {
            tracing::warn!(runtime = %self.row.id, "the keeper takes no more orders");
        }
    }

    pub(super) fn opened(&mut self, pid: i32, start: u64, limits: &[LimitState]) {
        self.phase = Phase::Running;
        self.leader = Some((pid, start));
        if self.harness.adapter.lifetime() == Lifetime::Task {
            self.start = None;
        }
        self.tell(Told::Started, self.limits_told(limits));
        // Messages that were stored before the keeper was there.
        self.send_messages();
        if let Some(mode) = self.stop {
            self.order_stop(mode);
        }
    }

    pub(super) fn open_failed(&mut self, step: SetupStep, errno: i32, text: &str, ctx: &mut Context<Self>) {
        let error = std::io::Error::from_raw_os_error(errno);
        let program = || format!("{} could not be started", self.harness.command.first().map_or("", String::as_str));
        let message = match step {
            SetupStep::Exec => format!("{text}: {}", reason(&error)),
            SetupStep::Directory => format!("the directory {text} cannot be entered: {}", reason(&error)),
            _ => format!("{} ({step}): {}", program(), reason(&error)),
        };
        self.link = None;
        self.not_started(&message, ctx);
    }

    /// Nothing of the agent ever ran: the row goes, and so does this actor.
    pub(super) fn not_started(&mut self, message: &str, ctx: &mut Context<Self>) {
        let _ctx = ctx;
        self.phase = Phase::Over;
        self.start = None;
        self.never_ran(message);
        self.to_task(Input::NeverRan(message.to_owned()));
        self.news(RuntimeNews::NotStarted);
        (self.tree, self.output_ended) = (TreeEnd::Proven, true);
        self.finish_if_over();
    }

    pub(super) fn ladder(&self, mode: StopMode) -> Ladder {
        match mode {
            StopMode::Ladder => self.harness.deadlines.ladder(),
            StopMode::Kill => Ladder::kill(self.harness.deadlines.kill),
        }
    }
}

/// Above that of this process, whatever it is.
fn oom_score_adj() -> i32 {
    let own: Option<i32> =
        std::fs::read_to_string("/proc/self/oom_score_adj").ok().and_then(|score| score.trim().parse().ok());
    own.unwrap_or(0).saturating_add(OOM_SCORE_ABOVE).min(OOM_SCORE_MOST)
}

/// One that waits already, or a new one.
async fn keeper(env: &Env) -> Result<Spare, LinkError> {
    let (reply, spare) = oneshot::channel();
    env.opens.do_send(TakeSpare { reply });
    match spare.await {
        Ok(Some(spare)) => Ok(spare),
        // None waits, or the gate is being rebuilt.
        _ => env.keepers.start().await,
    }
}

fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

impl Handler<Submit> for Runtime {
    type Result = ();

    fn handle(&mut self, submit: Submit, _: &mut Self::Context) {
        let Submit { task, delegation, since, worker, taken } = submit;
        if self.has_ended() {
            // One that nobody can speak to ends only if it is told to.
            if self.stop.is_none() && self.is_mute() {
                self.order_stop(StopMode::Ladder);
            }
            return;
        }
        self.task = Serving::Task(worker);
        self.task_since = ostler_keeper::tree::ticks(Duration::from_millis(since.0));
        let draft = if self.phase == Phase::Prepared {
            self.row.submits = Some(task.clone());
            self.begin(Draft::default())
        } else {
            Draft::default()
        };
        self.tell_submission(Told::Submit { task: &task, delegation: &delegation }, draft);
        let _task_gone = taken.send(());
    }
}

impl Handler<Order> for Runtime {
    type Result = ();

    fn handle(&mut self, order: Order, ctx: &mut Self::Context) {
        match order {
            Order::Start => {
                let draft = self.begin(Draft::default());
                self.dispatch(Answer::default(), Vec::new(), draft, 0);
            }
            Order::Tell(words) => self.say(words),
            Order::ListStrays => self.list_strays(),
            Order::EndStray(stray) => self.end_stray(stray),
            Order::Stop(mode) => self.order_stop(mode),
            Order::TaskOver(task) => {
                self.leave_task(&task);
                self.finish_if_over();
            }
            Order::TaskGone => {
                self.left_task();
                self.finish_if_over();
            }
            Order::Unserve => {
                self.to_task(Input::Unserved);
                self.task = Serving::Nobody;
            }
            Order::LetGo => {
                self.guard.ends(ExitReason::Normal);
                ctx.stop();
            }
        }
    }
}

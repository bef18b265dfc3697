//! From a request to a committed row: once for each id, however often it is asked for.

use actix::prelude::*;

use super::super::journal::{Draft, JournalState, NewEvent, Store, Stored};
use super::super::opens::{MayStart, Relieve};
use super::super::render;
use super::{ContextMachine, RuntimeState, Session, SessionError, StartTask};
use crate::clock;
use crate::contract::{Delegation, SessionSpec, TaskId};
use crate::harness::HarnessError;
use crate::ledger::{Change, SessionRow, SessionState, TaskRow};
use crate::machines::task::{Input, Task as Machine};

/// The longest prompt, in bytes: with its envelope, and every byte escaped, it still fits into one frame of a keeper.
const MAX_PROMPT: usize = 8 << 20;

/// A task's row is committed, or was refused.
#[derive(Message)]
#[rtype(result = "()")]
struct Accepted {
    row: Box<TaskRow>,
    sequence: u64,
    stored: Stored,
}

impl Handler<StartTask> for Session {
    type Result = ();

    /// The one who asks first has the ledger looked into; whoever asks meanwhile is told the same.
    fn handle(&mut self, start: StartTask, ctx: &mut Self::Context) {
        let StartTask { task, delegation, reply } = start;
        self.used(ctx);
        if let Some((asked, starters)) = self.accepting.get_mut(&task) {
            if *asked == delegation {
                return starters.push(reply);
            }
            let _gone = reply.send(Err(SessionError::TaskTaken(task)));
            return;
        }
        self.accepting.insert(task.clone(), (delegation, vec![reply]));
        self.not_idle(ctx);
        let (ledger, opens) = (self.env.ledger.clone(), self.env.opens.clone());
        let look = async move { (ledger.task(&task).await, opens.send(MayStart).await, task) };
        ctx.spawn(look.into_actor(self).map(|(known, room, task), session, ctx| {
            let room = room.map_err(|_| SessionError::Interrupted).and_then(|room| Ok(room?));
            match known {
                Ok(None) => session.begin_accept(&task, room, ctx),
                Ok(Some(row)) => session.known_already(&row),
                Err(error) => session.refuse_starters(&task, error.into()),
            }
            session.perhaps_idle(ctx);
            session.perhaps_unused(ctx);
        }));
    }
}

impl Session {
    fn known_already(&mut self, row: &TaskRow) {
        let same_session = row.session == self.row.id;
        let id = row.id.clone();
        self.answer_starters(&row.id, |asked| {
            if same_session && *asked == row.delegation { Ok(()) } else { Err(SessionError::TaskTaken(id.clone())) }
        });
    }

    fn answer_starters(&mut self, task: &TaskId, answer: impl Fn(&Delegation) -> Result<(), SessionError>) {
        let Some((delegation, starters)) = self.accepting.remove(task) else { return };
        for starter in starters {
            // A caller that is gone finds its task by its id.
            let _gone = starter.send(answer(&delegation));
        }
    }

    /// The first is told why; whoever joined asks again, and is told then.
    fn refuse_starters(&mut self, task: &TaskId, why: SessionError) {
        let Some((_, starters)) = self.accepting.remove(task) else { return };
        let whys = std::iter::once(why).chain(std::iter::repeat_with(|| SessionError::Interrupted));
        for (starter, why) in starters.into_iter().zip(whys) {
            let _gone = starter.send(Err(why));
        }
    }

    fn begin_accept(&mut self, task: &TaskId, room: Result<(), SessionError>, ctx: &mut Context<Self>) {
        let Some(delegation) = self.accepting.get(task).map(|(delegation, _)| delegation.clone()) else { return };
        match self.may_accept(task, &delegation, room) {
            Ok(()) => self.accept(task.clone(), delegation, ctx),
            Err(refused) => self.refuse_starters(task, refused),
        }
    }

    /// Checks everything, and claims the context last.
    fn may_accept(
        &mut self,
        task: &TaskId,
        delegation: &Delegation,
        room: Result<(), SessionError>,
    ) -> Result<(), SessionError> {
        if let JournalState::Stalled(why) = &*self.env.journal_state.borrow() {
            return Err(SessionError::Stalled(why.clone()));
        }
        self.fits(delegation)?;
        let runtime_closes = self.row.state == SessionState::Open && !self.close.is_open();
        if self.env.is_draining() {
            return Err(SessionError::Draining);
        }
        if runtime_closes {
            return Err(SessionError::Ending(self.row.id.clone()));
        }
        if self.context == ContextMachine::Idle && self.needs_start() {
            room.inspect_err(|_| self.env.opens.do_send(Relieve))?;
        }
        Ok(self.context.claim(&self.row.id, task.clone())?)
    }

    /// A warm runtime has its place and its memory already.
    fn needs_start(&self) -> bool {
        let state = self.runtime.as_ref().map(|runtime| runtime.state);
        matches!(state, None | Some(RuntimeState::Ending))
    }

    /// Whether the harness can be given this at all.
    fn fits(&self, delegation: &Delegation) -> Result<(), SessionError> {
        let bytes = delegation.prompt.len();
        if bytes > MAX_PROMPT {
            return Err(SessionError::PromptTooLong { bytes, most: MAX_PROMPT });
        }
        let Some(harness) = self.env.harness(&self.row.harness) else {
            return Err(HarnessError::Unknown(self.row.harness.clone()).into());
        };
        if let Some(why) = harness.adapter.refuses(&delegation.prompt, &harness.command) {
            return Err(SessionError::PromptUnfit(why));
        }
        harness.takes_model(delegation.model.as_deref())?;
        harness.takes_policy(delegation.approval)?;
        let resumable = self.row.native.as_ref().is_some_and(|native| native.resumable);
        match self.runtime.is_some() && !resumable && self.with_model_of(delegation).is_some() {
            true => Err(SessionError::ModelFixed(self.row.id.clone())),
            false => Ok(()),
        }
    }

    /// The row is committed, with the two events that open the run, before anybody is told.
    fn accept(&mut self, id: TaskId, delegation: Delegation, ctx: &mut Context<Self>) {
        self.task_cancel = None;
        // It may have been configured anew: what runs keeps what it was started with, what is to come does not.
        if let Some(harness) = self.env.harness(&self.row.harness).filter(|_| self.runtime.is_none()) {
            self.harness = harness;
        }
        let row = TaskRow::accepted(id.clone(), self.row.id.clone(), delegation, clock::wall_ms());
        let switched = self.with_model_of(&row.delegation);
        let spec = switched.as_ref().map_or(&self.row.spec, |row| &row.spec);
        let opening = render::opening(&self.row.harness, spec, &row.delegation, &id);
        let event = |(index, (kind, data)): (usize, _)| NewEvent {
            run: Some((id.clone(), index as u64 + 1)),
            kind,
            data: render::payload(&data),
        };
        let events: Vec<NewEvent> = opening.into_iter().enumerate().map(event).collect();
        let sequence = events.len() as u64;
        let task = Change::Task(Box::new(row.clone()));
        let session = switched.map(|row| Change::Session(SessionRow { native: None, ..row }));
        let draft = Draft { events, changes: session.into_iter().chain([task]).collect(), ..Draft::default() };
        let own = ctx.address();
        let then = Box::new(move |stored| own.do_send(Accepted { row: Box::new(row), sequence, stored }));
        self.env.journal.do_send(Store { session: self.row.id.clone(), draft, then: Some(then) });
    }
}

impl Session {
    /// This session with another model, if the delegation asks for one.
    fn with_model_of(&self, delegation: &Delegation) -> Option<SessionRow> {
        let other = delegation.model.as_ref().filter(|model| self.row.spec.model.as_ref() != Some(*model))?;
        let spec = SessionSpec { model: Some(other.clone()), ..self.row.spec.clone() };
        Some(SessionRow { spec, ..self.row.clone() })
    }

    /// A runtime that was started with another model goes before the next one comes.
    fn switch_model(&mut self, delegation: &Delegation) {
        if let Some(row) = self.with_model_of(delegation) {
            self.row = row;
            self.stop_idle_runtime();
        }
    }
}

impl Handler<Accepted> for Session {
    type Result = ();

    fn handle(&mut self, accepted: Accepted, ctx: &mut Self::Context) {
        let Accepted { row, sequence, stored } = accepted;
        if let Err(error) = stored {
            self.context.settled(&row.id, None);
            self.refuse_starters(&row.id, error.into());
            self.perhaps_idle(ctx);
            self.finish_close(ctx);
            return self.perhaps_unused(ctx);
        }
        let policy = self.harness.task_policy(self.env.strays);
        let machine = Machine::new(row.id.clone(), policy, row.delegation.timeout);
        let cancel = self.task_cancel.take();
        self.switch_model(&row.delegation);
        let id = row.id.clone();
        self.start_task_actor(*row, machine, sequence, ctx);
        self.answer_starters(&id, |_| Ok(()));
        match cancel {
            // Requested while the row was being committed: remembered, and met here.
            Some(cause) => self.to_task(Input::Cancel(cause)),
            None => self.admit(ctx),
        }
    }
}

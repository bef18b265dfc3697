//! One configured harness.

use actix::prelude::*;

use super::{ExitGuard, Fate, HarnessError, HarnessId, Plan, Prepare, Stands};
use crate::adapter::OpenContext;
use crate::clock;
use crate::machines::health::{Health, Permission, Standing};

/// The longest reason that is repeated to others, in characters.
const LONGEST_REASON: usize = 200;

/// What failed before counts no more.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Forgive;

pub(super) struct HarnessActor {
    id: HarnessId,
    health: Health,
    /// What the last failure was.
    last: Option<String>,
    told: Standing,
    parent: Recipient<Stands>,
    _guard: ExitGuard<HarnessId>,
}

impl HarnessActor {
    pub(super) fn new(
        id: HarnessId,
        standing: Standing,
        parent: Recipient<Stands>,
        guard: ExitGuard<HarnessId>,
    ) -> Self {
        let health = Health::restored(standing, clock::now());
        Self { id, health, last: None, told: standing, parent, _guard: guard }
    }

    fn tell_standing(&mut self) {
        let standing = self.health.standing();
        if standing != self.told {
            self.told = standing;
            // A few for each start: bounded.
            self.parent.do_send(Stands { harness: self.id.clone(), standing });
        }
    }
}

impl Actor for HarnessActor {
    type Context = Context<Self>;
}

impl Handler<Prepare> for HarnessActor {
    type Result = Result<Plan, HarnessError>;

    fn handle(&mut self, ask: Prepare, _: &mut Self::Context) -> Self::Result {
        match self.health.ask(&ask.harness.restarts, clock::now()) {
            Permission::Granted => {}
            Permission::Broken { failures, retry } => {
                let last = self.last.as_ref().map(|last| format!(", at last because {last}")).unwrap_or_default();
                return Err(HarnessError::Broken { id: self.id.clone(), failures, last, retry });
            }
            Permission::Limited { retry } => return Err(HarnessError::Limited { id: self.id.clone(), retry }),
        }
        let task = ask.task.as_ref().map(|(task, delegation)| (task, delegation));
        let context = OpenContext { spec: &ask.spec, resume: ask.resume.as_ref(), task };
        Ok(ask.harness.plan(context))
    }
}

impl Handler<Fate> for HarnessActor {
    type Result = ();

    fn handle(&mut self, fate: Fate, _: &mut Self::Context) {
        self.health.tell(fate.input, &fate.harness.restarts, clock::now(), rand::random());
        if let Some(why) = fate.why {
            self.last = Some(why.chars().take(LONGEST_REASON).collect());
        }
        self.tell_standing();
    }
}

impl Handler<Forgive> for HarnessActor {
    type Result = ();

    fn handle(&mut self, _: Forgive, _: &mut Self::Context) {
        (self.health, self.last) = (Health::default(), None);
        self.tell_standing();
    }
}

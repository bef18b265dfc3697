//! What only an agent with a terminal knows: its size, the typed end of input, and hanging up.

use std::io::Write;
use std::os::fd::AsFd;
use std::time::Duration;

use super::Keeper;
use super::agent::Agent;
use super::doors::refused;
use crate::message::{Order, RefusalCode, WindowSize};
use crate::terminal;

impl Keeper {
    pub(super) fn resize(&mut self, size: WindowSize) {
        let Some(agent) = &mut self.agent else { return };
        if let Err((code, text)) = agent.resize(size) {
            self.report(&refused(Order::Resize(size).kind(), code, &text));
        }
    }

    pub(super) fn hang_up(&mut self) {
        let Some(agent) = &mut self.agent else { return };
        if agent.terminal.is_none() {
            return self.report(&refused(Order::HangUp.kind(), RefusalCode::State, "there is no terminal"));
        }
        agent.hang_up();
        self.input_changed();
    }

    /// One that nobody had open may be open again.
    pub(super) fn look_at_terminal(&mut self, now: Duration) {
        if let Some(agent) = &mut self.agent {
            agent.stdout.idle_until = agent.stdout.idle_until.filter(|until| *until > now);
        }
    }
}

impl Agent {
    fn resize(&mut self, size: WindowSize) -> Result<(), (RefusalCode, String)> {
        let Some(terminal) = &mut self.terminal else {
            return Err((RefusalCode::State, "there is no terminal".to_owned()));
        };
        let Some(master) = &self.stdout.pipe else {
            return Err((RefusalCode::Closed, "the terminal is hung up".to_owned()));
        };
        terminal::resize(master.as_fd(), size).map_err(|errno| (RefusalCode::State, errno.to_string()))?;
        terminal.size = size;
        Ok(())
    }

    /// The end of the agent's input after everything that was accepted. It takes room in a terminal to be typed; until there
    /// is, it is tried again.
    pub(super) fn finish_input(&mut self) {
        if let (Some(stdin), Some(terminal)) = (&mut self.stdin, &mut self.terminal) {
            let end = terminal.typed.end_of_input(stdin.as_fd());
            match stdin.write(&end) {
                Ok(count) if count < end.len() => return terminal.typed.add(&end[..count]),
                Ok(_) => {}
                Err(error) => return self.not_written(&error),
            }
        }
        self.stdin = None;
        self.inbox.close();
    }

    /// The end of the agent's input at once, as the ladder wants it. `true` if the agent is told by it.
    pub(super) fn end_input(&mut self) -> bool {
        self.inbox.close();
        let Some(mut stdin) = self.stdin.take() else { return false };
        let Some(terminal) = &self.terminal else { return true };
        let end = terminal.typed.end_of_input(stdin.as_fd());
        // A terminal with no room for one more character has a reader who does not read; the ladder goes on.
        !end.is_empty() && stdin.write(&end).is_ok_and(|count| count == end.len())
    }

    /// Closes the terminal, after what is in it was read. `true` if that tells the agent anything.
    pub(super) fn hang_up(&mut self) -> bool {
        let Some(known) = self.window() else { return self.end_input() };
        if let Some(terminal) = &mut self.terminal {
            terminal.size = known;
        }
        let is_open = self.stdout.pipe.is_some();
        if is_open {
            self.drain();
        }
        self.stdin = None;
        self.inbox.close();
        self.close_outputs();
        is_open
    }
}

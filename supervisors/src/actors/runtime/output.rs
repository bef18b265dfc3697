//! Bytes in, facts out; and messages out once they are durable.

use ostler_keeper::{InputState, Order as KeeperOrder, Stream};

use super::super::journal::Draft;
use super::{InputPipe, Runtime, STDERR_TAIL, Ticket};
use crate::adapter::{Answer, Told};
use crate::contract::{InteractionId, InteractionResponse};
use crate::ledger::{Change, OutboxThen};
use crate::machines::task::Input;

/// Messages on their way to the keeper at once.
const IN_FLIGHT: u64 = 16;

impl Runtime {
    pub(super) fn output(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let Self { framer, adapter, .. } = self;
        let mut answer = Answer::default();
        if let Some(adapter) = adapter {
            framer.push(bytes, |frame| adapter.tell(Told::Frame(frame), &mut answer));
        }
        self.dispatch(answer, vec![Input::OutputSeen], Draft::default(), bytes.len());
    }

    pub(super) fn output_end(&mut self) {
        if std::mem::replace(&mut self.output_ended, true) {
            return;
        }
        self.tell_fate();
        let Self { framer, adapter, .. } = self;
        let mut answer = Answer::default();
        if let Some(adapter) = adapter {
            framer.finish(|frame| adapter.tell(Told::Frame(frame), &mut answer));
            adapter.tell(Told::OutputEnded, &mut answer);
        }
        self.dispatch(answer, vec![Input::OutputEnded], Draft::default(), 0);
        self.retire();
    }

    pub(super) fn error_output(&mut self, bytes: &[u8]) {
        self.stderr.extend(bytes);
        let excess = self.stderr.len().saturating_sub(STDERR_TAIL);
        self.stderr.drain(..excess);
        self.give(bytes.len());
    }

    /// What waited for a commit: room, an acknowledgement, messages.
    pub(super) fn settle_ticket(&mut self, ticket: &Ticket) {
        self.durable_messages = self.durable_messages.max(ticket.send);
        self.give(ticket.give);
        if let Some(offset) = ticket.ack.filter(|offset| *offset > self.acknowledged) {
            self.acknowledged = offset;
            self.keeper_order(KeeperOrder::Ack { stream: Stream::Stdout, offset });
        }
        self.send_messages();
    }

    /// Sends what is durable, in order, a few at a time.
    pub(super) fn send_messages(&mut self) {
        if self.link.is_none() || self.leader.is_none() {
            return;
        }
        let most = self.durable_messages.min(self.confirmed_messages + IN_FLIGHT);
        let due: Vec<_> = self
            .outbox
            .iter()
            .filter(|item| item.number > self.sent_messages && item.number <= most)
            .cloned()
            .collect();
        for item in due {
            self.sent_messages = item.number;
            self.keeper_order(KeeperOrder::Input { number: item.number, bytes: item.bytes });
            if item.then == OutboxThen::EndOfInput {
                self.keeper_order(KeeperOrder::CloseInput);
            }
        }
    }

    /// The keeper has these messages for certain: they need not be kept.
    pub(super) fn input_state(&mut self, state: InputState) {
        if state.closed {
            self.input = InputPipe::Closed;
            self.retire();
        }
        if state.accepted > self.confirmed_messages {
            self.confirmed_messages = state.accepted;
            self.outbox.retain(|item| item.number > state.accepted);
            let change = Change::OutboxConfirmed { runtime: self.row.id.clone(), number: state.accepted };
            self.dispatch(Answer::default(), Vec::new(), Draft { changes: vec![change], ..Draft::default() }, 0);
        } else if state.accepted < self.sent_messages && state.pending == 0 && !state.closed {
            // A message did not fit beside what is written by now.
            self.sent_messages = state.accepted;
        }
        self.send_messages();
        self.tell_undelivered(state);
    }

    /// The message and that it is on its way are stored together: whoever comes later never gives such an answer again.
    pub(super) fn respond(&mut self, interaction: InteractionId, response: &InteractionResponse) {
        if self.input == InputPipe::Closed {
            return self.to_task(Input::Undelivered(interaction));
        }
        let (mut answer, next) = (Answer::default(), self.next_message);
        if let Some(adapter) = &mut self.adapter {
            adapter.tell(Told::Respond { interaction: &interaction, response }, &mut answer);
        }
        self.dispatch(answer, vec![Input::Answering(interaction.clone())], Draft::default(), 0);
        if self.next_message > next {
            self.answers.push((next, interaction));
        }
    }

    /// What no keeper has accepted before the pipe was closed has reached nobody.
    pub(super) fn tell_undelivered(&mut self, state: InputState) {
        self.answers.retain(|(number, _)| *number > state.accepted);
        if state.closed {
            let answers = std::mem::take(&mut self.answers);
            answers.into_iter().for_each(|(_, interaction)| self.to_task(Input::Undelivered(interaction)));
        }
    }
}

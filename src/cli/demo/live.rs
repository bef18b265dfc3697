//! The tree while it lives: a table that is drawn anew on a terminal, a line for each change elsewhere.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{IsTerminal, Write};
use std::rc::Rc;

use ostler_supervisors::contract::SessionId;
use ostler_supervisors::ledger::Ledger;

use super::super::table;
use super::super::tree::population;
use super::left::counted;
use super::play::{Seen, State};
use crate::error::Failure;

/// The most lines that are drawn; a large demo is summed up below them.
const LINES: usize = 24;

/// How the demo is shown while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Show {
    /// A table that moves.
    Table,
    /// A line for each change.
    Changes,
    /// Nothing before the end.
    Nothing,
}

impl Show {
    pub(super) fn of_stderr() -> Self {
        if std::io::stderr().is_terminal() { Self::Table } else { Self::Changes }
    }
}

pub(super) struct Live {
    show: Show,
    seen: Vec<Rc<RefCell<Seen>>>,
    told: Vec<State>,
    drawn: usize,
    /// The most processes that each agent had.
    pub(super) most: Vec<usize>,
}

impl Live {
    pub(super) fn new(show: Show, seen: Vec<Rc<RefCell<Seen>>>) -> Self {
        let count = seen.len();
        Self { show, seen, told: vec![State::Waiting; count], drawn: 0, most: vec![0; count] }
    }

    /// Looks at the processes, and shows what there is.
    pub(super) async fn look(&mut self, ledger: &dyn Ledger) -> Result<(), Failure> {
        let runtimes = ledger.runtimes(None).await?;
        let now: HashMap<SessionId, usize> =
            runtimes.into_iter().map(|state| (state.row.session, population(&state.row.folder))).collect();
        let mut rows = Vec::new();
        for (index, seen) in self.seen.iter().enumerate() {
            let seen = seen.borrow();
            let alive = seen.session.as_ref().and_then(|session| now.get(session)).copied().unwrap_or(0);
            self.most[index] = self.most[index].max(alive);
            rows.push(vec![
                seen.part.name.to_owned(),
                seen.state.word().to_owned(),
                alive.to_string(),
                seen.said.clone(),
            ]);
        }
        // Whoever looks at it may go; the end is what counts.
        let _gone = match self.show {
            Show::Table => self.draw(&rows),
            Show::Changes => self.tell(&rows),
            Show::Nothing => Ok(()),
        };
        Ok(())
    }

    fn draw(&mut self, rows: &[Vec<String>]) -> std::io::Result<()> {
        let mut lines = table::lines(&["agent", "state", "processes", "said"], &rows[..rows.len().min(LINES)]);
        let alive: usize = rows.iter().filter_map(|row| row[2].parse::<usize>().ok()).sum();
        lines.push(format!("{} agents, {} alive", rows.len(), counted(alive)));
        let mut text = match self.drawn {
            0 => String::new(),
            drawn => format!("\x1b[{drawn}A"),
        };
        lines.iter().for_each(|line| text += &format!("\x1b[2K{line}\n"));
        self.drawn = lines.len();
        std::io::stderr().lock().write_all(text.as_bytes())
    }

    fn tell(&mut self, rows: &[Vec<String>]) -> std::io::Result<()> {
        let mut stderr = std::io::stderr().lock();
        for ((seen, told), row) in self.seen.iter().zip(&mut self.told).zip(rows) {
            let state = seen.borrow().state;
            if std::mem::replace(told, state) != state {
                writeln!(stderr, "{}: {} ({})", row[0], row[1], counted(row[2].parse().unwrap_or_default()))?;
            }
        }
        Ok(())
    }
}

//! A ledger that cannot be written, as those see it who wait for it.

use std::time::Duration;

use tokio::sync::watch;

use super::journal::JournalState;

/// Waits until nothing could be written for so long without a break, and returns why not.
pub(super) async fn lasting(mut state: watch::Receiver<JournalState>, patience: Duration) -> String {
    while state.wait_for(|state| *state != JournalState::Writing).await.is_ok() {
        let written = state.wait_for(|state| *state == JournalState::Writing);
        let journal = tokio::time::timeout(patience, written).await.map(|state| state.map(drop));
        match (journal, &*state.borrow()) {
            (Err(_), JournalState::Stalled(why)) => return why.clone(),
            (Ok(Err(_)), _) => break,
            _ => {}
        }
    }
    // There is no journal any more, and nothing that could stall.
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    const PATIENCE: Duration = Duration::from_millis(100);

    fn stalled(why: &str) -> JournalState {
        JournalState::Stalled(why.to_owned())
    }

    async fn is_told(state: &watch::Sender<JournalState>) -> bool {
        tokio::time::timeout(PATIENCE * 3, lasting(state.subscribe(), PATIENCE)).await.is_ok()
    }

    #[tokio::test]
    async fn one_that_lasts_is_told_with_its_latest_reason() {
        let (state, seen) = watch::channel(stalled("first"));
        let began = Instant::now();
        let (told, _) = tokio::join!(lasting(seen, PATIENCE), async { state.send_replace(stalled("second")) });
        assert_eq!(told, "second");
        assert!(began.elapsed() >= PATIENCE);
    }

    #[tokio::test]
    async fn one_that_is_over_is_not_told() {
        let (state, seen) = watch::channel(stalled("once"));
        let told = async { tokio::time::timeout(PATIENCE * 3, lasting(seen, PATIENCE)).await };
        let (told, _) = tokio::join!(told, async { state.send_replace(JournalState::Writing) });
        assert!(told.is_err(), "{told:?}");
        assert!(!is_told(&state).await);
    }

    #[tokio::test]
    async fn without_a_journal_nothing_is_told() {
        let (state, seen) = watch::channel(stalled("at its end"));
        drop(state);
        assert!(tokio::time::timeout(PATIENCE * 3, lasting(seen, PATIENCE)).await.is_err());
    }
}

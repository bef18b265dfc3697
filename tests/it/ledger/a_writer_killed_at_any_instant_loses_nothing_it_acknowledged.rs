//! SIGKILL during writes, at many instants: whatever was acknowledged is there, whole, and without a gap.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use ostler_supervisors::contract::Position;
use ostler_supervisors::ledger::{Ledger, Urgency};

use super::support::*;

const FOLDER: &str = "OSTLER_TEST_WRITER_FOLDER";

/// Not a scenario of its own: the process that is killed. It prints the position after each acknowledged commit.
#[tokio::test]
async fn writer_process() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let ledger = sqlite(folder.as_ref()).await;
    if ledger.session(&session("a")).await.expect("readable").is_none() {
        make(&ledger, "a").await;
    }
    let mut next = ledger.head(&session("a")).await.expect("readable").next().0;
    loop {
        let results = ledger.commit(&[commit("a", next, 7)], Urgency::Normal).await.expect("stored");
        assert_eq!(results, vec![Ok(())]);
        next += 7;
        println!("acknowledged {}", next - 1);
        if next % 50 == 0 {
            ledger.compact().await.expect("compacts");
        }
    }
}

#[tokio::test]
async fn forty_kills() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut acknowledged = 0;
    for round in 0..40u64 {
        let name = "ledger::a_writer_killed_at_any_instant_loses_nothing_it_acknowledged::writer_process";
        let mut child = Command::new(std::env::current_exe().expect("itself"))
            .args([name, "--exact", "--nocapture"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, lines) = std::sync::mpsc::channel();
        let reader = std::thread::spawn(move || {
            output.lines().map_while(Result::ok).for_each(|line| drop(sender.send(line)));
        });
        // The first acknowledgement starts the clock, so that a kill falls into the writing.
        let mut last = acknowledged;
        let mut note = |line: String| {
            if let Some(position) = line.split("acknowledged ").nth(1) {
                last = position.trim().parse().expect("a position");
            }
        };
        loop {
            let line = lines.recv_timeout(Duration::from_secs(20)).expect("the writer writes");
            let acknowledges = line.contains("acknowledged");
            note(line);
            if acknowledges {
                break;
            }
        }
        std::thread::sleep(Duration::from_micros(round * 731 % 9000));
        child.kill().expect("killed");
        child.wait().expect("reaped");
        reader.join().expect("read");
        lines.try_iter().for_each(note);
        acknowledged = last;

        let ledger = sqlite(folder.path()).await;
        let head = ledger.head(&session("a")).await.expect("readable");
        assert!(head >= Position(acknowledged), "{head} is stored, {acknowledged} was acknowledged");
        assert_whole(&stream(&ledger, "a", 100).await, "a", head.0);
        ledger.close().await;
    }
}

//! The demo's own place: a state folder and two harnesses, apart from whatever the user has, and gone afterwards.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use ostler_supervisors::contract::HarnessId;

use super::parts::Speaks;
use crate::adapters::{OutputFormat, PromptBy};
use crate::config::{AdapterName, DeadlinesFile, HarnessFile, ReportName, Settings, Span};
use crate::error::{Failure, Kind};

/// In the environment of every process of the demo, so that those left behind can be counted without asking Ostler.
pub(super) const MARK: &str = "OSTLER_DEMO";

/// The harness that speaks so.
pub(super) fn harness(speaks: Speaks) -> Result<HarnessId, Failure> {
    let name = match speaks {
        Speaks::Lines => "demo-lines",
        Speaks::Acp => "demo-acp",
    };
    name.parse().map_err(|error| Failure::new(Kind::Internal, format!("{name}: {error}")))
}

/// The user's settings, but for the state and the harnesses.
pub(super) fn settings(user: &Settings, folder: &Path, mark: &str) -> Result<Settings, Failure> {
    let harnesses = [(harness(Speaks::Lines)?, lines(mark)?), (harness(Speaks::Acp)?, acp(mark)?)];
    Ok(Settings { state: folder.join("state"), harnesses: harnesses.into(), ..user.clone() })
}

fn lines(mark: &str) -> Result<HarnessFile, Failure> {
    Ok(HarnessFile {
        adapter: Some(AdapterName::Oneshot),
        report: Some(ReportName::ExitStatus),
        prompt: Some(PromptBy::Argument),
        output: Some(OutputFormat::JsonLines),
        ..scripted(&["lines", "--json"], mark)?
    })
}

fn acp(mark: &str) -> Result<HarnessFile, Failure> {
    Ok(HarnessFile { adapter: Some(AdapterName::Acp), report: Some(ReportName::Protocol), ..scripted(&["acp"], mark)? })
}

/// This program plays every agent.
fn scripted(role: &[&str], mark: &str) -> Result<HarnessFile, Failure> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::new(Kind::Internal, format!("this program's own path is not known: {error}")))?;
    let program = program.to_string_lossy().into_owned();
    let environment = [("OSTLER_AGENT_ROLE", "play-agent"), (MARK, mark)];
    let environment: BTreeMap<_, _> = environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let quick = |ms| Some(Span(Duration::from_millis(ms)));
    Ok(HarnessFile {
        command: Some([&program, "play-agent"].into_iter().chain(role.iter().copied()).map(str::to_owned).collect()),
        environment: Some(environment),
        deadlines: Some(DeadlinesFile {
            interrupt: quick(500),
            end_of_input: quick(200),
            terminate: quick(300),
            ..DeadlinesFile::default()
        }),
        ..HarnessFile::default()
    })
}

//! From a harness's part of the file to a harness.

use std::sync::Arc;
use std::time::Duration;

use ostler_supervisors::adapter::AdapterKind;
use ostler_supervisors::capability::Capabilities;
use ostler_supervisors::contract::HarnessId;
use ostler_supervisors::harness::{Deadlines, Harness, Secret};
use ostler_supervisors::machines::settlement::{EmptyOutput, ReportMode};

use super::{AdapterName, HarnessFile, HarnessLimitsFile, ReportName, RestartsFile, Span, builtin, restarts};
use crate::adapters::{Acp, AcpOptions, Claude, Codex, CodexOptions, Oneshot, OutputFormat, Pi, PromptBy};
use crate::error::{Failure, Kind};

/// A harness, ready for the tree.
///
/// # Errors
///
/// [`Kind::Configuration`] for one that is not whole, or claims what its adapter cannot do.
pub(super) fn build(id: &HarnessId, file: &HarnessFile) -> Result<Harness, Failure> {
    let wrong = |text: String| Failure::new(Kind::Configuration, format!("harness.{id}{text}"));
    let name = file.adapter.ok_or_else(|| wrong(" has no adapter".to_owned()))?;
    let adapter = adapter(name, file);
    unfit_variable(file).map_or(Ok(()), |unfit| Err(wrong(format!(".environment {unfit}"))))?;
    let command = file.command.clone().filter(|command| !command.is_empty());
    let secret = |(name, value): (&String, &String)| (name.clone(), Secret::new(value.clone()));
    Ok(Harness {
        id: id.clone(),
        command: command.ok_or_else(|| wrong(" has no command".to_owned()))?,
        inherit: file.inherit.clone().unwrap_or_else(builtin::inherit),
        environment: file.environment.iter().flatten().map(secret).collect(),
        capabilities: capabilities(file, &adapter.capabilities()).map_err(wrong)?,
        adapter,
        report: report(name, file),
        deadlines: deadlines(file),
        helpers: file.helpers.clone().unwrap_or_default(),
        engines: file.engines.clone().unwrap_or_default(),
        frame_cap: (file.frame_cap_mib.map_or(builtin::FRAME_CAP_MIB, u32::from) as usize) << 20,
        on_lost_session: file.on_lost_session.unwrap_or_default(),
        idle_timeout: file.idle_timeout.map_or(builtin::IDLE_TIMEOUT, |span| span.0),
        limits: file.limits.as_ref().map(HarnessLimitsFile::limits).unwrap_or_default(),
        restarts: file.restarts.as_ref().map_or(restarts::DEFAULT, RestartsFile::policy),
    })
}

/// How a harness is spoken to.
pub(super) fn adapter(name: AdapterName, file: &HarnessFile) -> Arc<dyn AdapterKind> {
    match name {
        AdapterName::Oneshot => Arc::new(Oneshot {
            prompt: file.prompt.unwrap_or(PromptBy::Argument),
            output: file.output.unwrap_or(OutputFormat::Text),
        }),
        AdapterName::Acp => Arc::new(Acp { options: AcpOptions { mode: file.mode.clone() } }),
        AdapterName::Codex => {
            let defaults = CodexOptions::default();
            Arc::new(Codex {
                options: CodexOptions {
                    approval_policy: file.approval_policy.unwrap_or(defaults.approval_policy),
                    sandbox: file.sandbox.unwrap_or(defaults.sandbox),
                },
            })
        }
        AdapterName::Claude => Arc::new(Claude),
        AdapterName::Pi => Arc::new(Pi),
    }
}

fn capabilities(file: &HarnessFile, most: &Capabilities) -> Result<Capabilities, String> {
    let declared = file.capabilities.clone().unwrap_or_default();
    declared
        .within(most)
        .map_err(|beyond| format!(".capabilities says more than its adapter can: it {}", beyond.lacking()))
}

/// What no program can be given, without the value: it may be a secret.
fn unfit_variable(file: &HarnessFile) -> Option<String> {
    file.environment.iter().flatten().find_map(|(name, value)| {
        let shown = name.escape_debug();
        if name.is_empty() || name.contains(['=', '\0']) {
            Some(format!("has a variable \"{shown}\"; a name is not empty and has neither = nor a NUL"))
        } else {
            value.contains('\0').then(|| format!("sets {shown} to a value with a NUL, which no program takes"))
        }
    })
}

fn report(name: AdapterName, file: &HarnessFile) -> ReportMode {
    let empty = if file.empty_ok == Some(true) { EmptyOutput::Accepted } else { EmptyOutput::Suspicious };
    match file.report.unwrap_or_else(|| builtin::report(name)) {
        ReportName::ExitStatus => ReportMode::ExitStatus(empty),
        ReportName::Protocol => ReportMode::Protocol,
    }
}

fn deadlines(file: &HarnessFile) -> Deadlines {
    let given = file.deadlines.clone().unwrap_or_default();
    let pick = |given: Option<Span>, built_in: Duration| given.map_or(built_in, |span| span.0);
    Deadlines {
        interrupt: pick(given.interrupt, builtin::DEADLINES.interrupt),
        end_of_input: pick(given.end_of_input, builtin::DEADLINES.end_of_input),
        terminate: pick(given.terminate, builtin::DEADLINES.terminate),
        kill: pick(given.kill, builtin::DEADLINES.kill),
        stray: pick(given.stray, builtin::DEADLINES.stray),
        ready: pick(given.ready, builtin::DEADLINES.ready),
    }
}

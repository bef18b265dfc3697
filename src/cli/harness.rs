//! `ostler harness`: what is configured, and what is installed.

use std::path::PathBuf;
use std::time::Duration;

use clap::Subcommand;
use ostler_supervisors::contract::HarnessId;
use serde_json::json;
use tokio_process_stream::{Item, ProcessChunkStream};
use tokio_stream::StreamExt;

use super::table::{cell, lines};
use super::{print_json, print_line};
use crate::config::{HarnessFile, Settings};
use crate::door::keeper_program;
use crate::error::{Failure, Kind};

/// How long a program may take to say its version.
const VERSION_PATIENCE: Duration = Duration::from_secs(5);
/// How much of it is read.
const VERSION_BYTES: usize = 4096;

#[derive(Debug, Subcommand)]
pub(super) enum HarnessVerb {
    /// Lists harnesses, and which of them are installed
    List {
        /// Prints JSON
        #[arg(long)]
        json: bool,
    },
    /// Shows a harness; values of its environment are not shown
    Show {
        /// The harness
        harness: HarnessId,
        /// Prints JSON
        #[arg(long)]
        json: bool,
    },
}

pub(super) async fn harness(verb: HarnessVerb, settings: &Settings) -> Result<u8, Failure> {
    match verb {
        HarnessVerb::List { json } => list(settings, json),
        HarnessVerb::Show { harness, json } => show(settings, &harness, json).await,
    }
}

/// Where a harness's program is, if it is installed.
pub(super) fn program(harness: &HarnessFile) -> Option<PathBuf> {
    let name = harness.command.as_ref()?.first()?;
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| is_program(path));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| is_program(path))
}

fn is_program(path: &std::path::Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// The harness that is meant: named, configured, or the first agent that is installed.
pub(super) fn choose(named: Option<&HarnessId>, settings: &Settings) -> Result<HarnessId, Failure> {
    if let Some(id) = named.or(settings.default_harness.as_ref()) {
        if settings.harnesses.contains_key(id) {
            return Ok(id.clone());
        }
        let known: Vec<_> = settings.harnesses.keys().map(|id| id.as_str()).collect();
        let text = format!("no harness {id} is configured; there are {}", known.join(", "));
        return Err(Failure::new(Kind::NotFound, text));
    }
    let agents = || settings.harnesses.iter().filter(|(id, _)| id.as_str() != "scripted");
    let installed = agents().find(|(_, harness)| program(harness).is_some()).map(|(id, _)| id.clone());
    installed.ok_or_else(|| {
        let looked = agents().filter_map(|(id, harness)| {
            let program = harness.command.as_ref()?.first()?;
            let install = harness.install.as_deref().unwrap_or("install it");
            Some(format!("{id} (program `{program}`; {install})"))
        });
        let looked = looked.collect::<Vec<_>>().join(", ");
        let text = format!("no agent is installed. Looked for: {looked}. Or try `--harness scripted`");
        Failure::new(Kind::HarnessUnavailable, text)
    })
}

fn list(settings: &Settings, as_json: bool) -> Result<u8, Failure> {
    if as_json {
        let row = |(id, harness): (&HarnessId, &HarnessFile)| json!({ "harness": id, "adapter": harness.adapter, "program": program(harness), "install": harness.install });
        print_json(&settings.harnesses.iter().map(row).collect::<Vec<_>>())?;
        return Ok(0);
    }
    let row = |(id, harness): (&HarnessId, &HarnessFile)| {
        let adapter = harness.adapter.map(|adapter| adapter.word().to_owned()).unwrap_or_default();
        let program = program(harness).map(|path| path.display().to_string());
        let missing = || format!("not installed: {}", harness.install.as_deref().unwrap_or("no hint"));
        vec![id.to_string(), adapter, program.unwrap_or_else(missing)]
    };
    let rows: Vec<_> = settings.harnesses.iter().map(row).collect();
    lines(&["harness", "adapter", "program"], &rows).iter().try_for_each(|line| print_line(line))?;
    Ok(0)
}

async fn show(settings: &Settings, id: &HarnessId, as_json: bool) -> Result<u8, Failure> {
    let harness = settings.harnesses.get(id).ok_or_else(|| {
        Failure::new(Kind::NotFound, format!("no harness {id} is configured; `ostler harness list` shows them"))
    })?;
    let version = version(harness).await;
    let names: Vec<_> = harness.environment.iter().flatten().map(|(name, _)| name).collect();
    if as_json {
        print_json(&json!({ "harness": id, "settings": harness, "environment_names": names, "version": version }))?;
        return Ok(0);
    }
    let settings = toml::to_string_pretty(harness).map_err(|error| Failure::new(Kind::Internal, error.to_string()))?;
    print_line(&format!("# {id}, version {}", version.as_deref().unwrap_or("not known")))?;
    print_line(settings.trim_end())?;
    if !names.is_empty() {
        print_line(&format!("# sets {names:?}; their values are not shown"))?;
    }
    Ok(0)
}

/// What the program says of its version. A helper command: short, bounded, and gone with all that it started.
pub(super) async fn version(harness: &HarnessFile) -> Option<String> {
    let (program, arguments) = (program(harness)?, harness.version.clone()?);
    let keeper = keeper_program();
    let mut command = tokio::process::Command::new(keeper.program);
    command.args(keeper.arguments).arg("helper").arg(program).args(arguments).stdin(std::process::Stdio::piped());
    let mut stream = ProcessChunkStream::try_from(command).ok()?;
    let mut said = Vec::new();
    if tokio::time::timeout(VERSION_PATIENCE, read(&mut stream, &mut said)).await.is_err() {
        // Too slow is as good as unknown: it is ended by the end of its input, and waited for.
        drop(stream.child_mut().and_then(|child| child.stdin.take()));
        let _ended = tokio::time::timeout(VERSION_PATIENCE, read(&mut stream, &mut said)).await;
    }
    let text = cell(String::from_utf8_lossy(&said).lines().next().unwrap_or_default()).trim().to_owned();
    (!text.is_empty()).then_some(text)
}

async fn read(stream: &mut ProcessChunkStream, said: &mut Vec<u8>) {
    while let Some(item) = stream.next().await {
        match item {
            Item::Stdout(bytes) if said.len() < VERSION_BYTES => said.extend_from_slice(&bytes),
            Item::Done(_) => break,
            _ => {}
        }
    }
}

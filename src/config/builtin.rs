//! What is known without a file.

use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;
use std::time::Duration;

use ostler_supervisors::harness::{Deadlines, OnLostSession};
use serde::Serialize;
use serde_json::Value as Json;

use super::file::{DeadlinesFile, LedgerFile, LimitsFile};
use super::read::{Assigned, read};
use super::{
    AdapterName, CapabilitiesFile, ControlGroups, File, HarnessFile, Key, Loopback, Origin, Problem, ReportName,
    RestartsFile, Source, Span, build, state_home,
};
use crate::adapters::{CodexOptions, OutputFormat, PromptBy};

/// The known harnesses, as they are in the source.
pub(super) const HARNESSES: [(&str, &str); 5] = [
    ("config/harness/claude-agent-acp.toml", include_str!("../../config/harness/claude-agent-acp.toml")),
    ("config/harness/claude.toml", include_str!("../../config/harness/claude.toml")),
    ("config/harness/codex.toml", include_str!("../../config/harness/codex.toml")),
    ("config/harness/gemini.toml", include_str!("../../config/harness/gemini.toml")),
    ("config/harness/pi.toml", include_str!("../../config/harness/pi.toml")),
];

/// The longest line of an agent's output, in MiB.
pub(super) const FRAME_CAP_MIB: u32 = 64;

/// How long a runtime may be idle.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// The deadlines of a harness that was not measured.
pub(super) const DEADLINES: Deadlines = Deadlines {
    interrupt: Duration::from_secs(2),
    end_of_input: Duration::from_secs(1),
    terminate: Duration::from_secs(2),
    kill: Duration::from_secs(5),
    stray: Duration::from_millis(500),
    ready: Duration::from_secs(30),
};

/// The variables an agent gets of Ostler's own, where its harness does not say otherwise.
pub(super) fn inherit() -> Vec<String> {
    let names = [
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "LANG",
        "LC_ALL",
        "LC_CTYPE",
        "TZ",
        "TMPDIR",
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
        "XDG_STATE_HOME",
        "XDG_CACHE_HOME",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "NO_PROXY",
    ];
    names.map(str::to_owned).to_vec()
}

/// What counts as the report of an agent that is spoken to by this adapter.
pub(super) fn report(adapter: AdapterName) -> ReportName {
    match adapter {
        AdapterName::Oneshot => ReportName::ExitStatus,
        AdapterName::Acp | AdapterName::Claude | AdapterName::Codex | AdapterName::Pi => ReportName::Protocol,
    }
}

/// The defaults of everything but harnesses.
fn file() -> File {
    File {
        // One that is no UTF-8 is used, but cannot be shown.
        state: Some(state_home().join("ostler")).filter(|path| path.to_str().is_some()),
        orphan_grace: Some(Span(Duration::from_secs(120))),
        operations: "127.0.0.1:0".parse::<Loopback>().ok(),
        control_groups: Some(ControlGroups::default()),
        trusted_projects: Some(Vec::new()),
        limits: Some(LimitsFile {
            start_concurrency: NonZeroUsize::new(4),
            max_live_runtimes: NonZeroUsize::new(256),
            start_queue: Some(4096),
            spare_keepers: Some(2),
            memory_floor_mib: Some(512),
            memory_pressure: Some(60),
            memory_source: Some("/proc".into()),
        }),
        ledger: Some(LedgerFile { busy_timeout: Some(Span(Duration::from_secs(5))), max_mib: None }),
        ..File::default()
    }
}

/// The defaults of a harness that is spoken to by this adapter.
fn harness(adapter: AdapterName) -> HarnessFile {
    let [interrupt, end_of_input, terminate, kill, stray, ready] = [
        DEADLINES.interrupt,
        DEADLINES.end_of_input,
        DEADLINES.terminate,
        DEADLINES.kill,
        DEADLINES.stray,
        DEADLINES.ready,
    ]
    .map(|deadline| Some(Span(deadline)));
    let common = HarnessFile {
        inherit: Some(inherit()),
        report: Some(report(adapter)),
        helpers: Some(Vec::new()),
        engines: Some(Vec::new()),
        frame_cap_mib: NonZeroU32::new(FRAME_CAP_MIB),
        on_lost_session: Some(OnLostSession::default()),
        idle_timeout: Some(Span(IDLE_TIMEOUT)),
        capabilities: Some(CapabilitiesFile::declare(&build::adapter(adapter, &HarnessFile::default()).capabilities())),
        restarts: Some(RestartsFile::defaults()),
        deadlines: Some(DeadlinesFile { interrupt, end_of_input, terminate, kill, stray, ready }),
        ..HarnessFile::default()
    };
    match adapter {
        AdapterName::Oneshot => HarnessFile {
            empty_ok: Some(false),
            prompt: Some(PromptBy::Argument),
            output: Some(OutputFormat::Text),
            ..common
        },
        AdapterName::Acp | AdapterName::Claude | AdapterName::Pi => common,
        AdapterName::Codex => {
            let CodexOptions { approval_policy, sandbox } = CodexOptions::default();
            HarnessFile { approval_policy: Some(approval_policy), sandbox: Some(sandbox), ..common }
        }
    }
}

/// The scripted agent, which this program plays itself.
fn scripted() -> HarnessFile {
    let program = std::env::current_exe().map(|path| path.to_string_lossy().into_owned());
    let command = vec![program.unwrap_or_else(|_| "ostler".to_owned()), "play-agent".to_owned(), "lines".to_owned()];
    HarnessFile {
        adapter: Some(AdapterName::Oneshot),
        command: Some(command),
        install: Some("it is part of ostler".to_owned()),
        ..HarnessFile::default()
    }
}

/// Everything that is built in, but for the defaults of harnesses.
pub(super) fn layer(schema: &Json) -> (Vec<Assigned>, Vec<Problem>) {
    let scripted_key = Key::new(["harness", "scripted"]);
    let role = toml::Value::String("play-agent".to_owned());
    let mut assigned = assigned(&Key::default(), &file());
    assigned.extend(self::assigned(&scripted_key, &scripted()));
    assigned.extend(leaves(scripted_key.child("environment").child("OSTLER_AGENT_ROLE"), role));
    let mut problems = Vec::new();
    for (name, text) in HARNESSES {
        let (more, wrong) = read(schema, &Arc::new(Source::Included(name)), text);
        assigned.extend(more);
        problems.extend(wrong);
    }
    (assigned, problems)
}

/// The defaults of one harness.
pub(super) fn harness_defaults(name: &str, adapter: AdapterName) -> Vec<Assigned> {
    assigned(&Key::new(["harness", name]), &harness(adapter))
}

/// The defaults that are the same everywhere, for the schema.
pub(super) fn defaults() -> Vec<(Key, Json)> {
    let everywhere = File { state: None, ..file() };
    let values = assigned(&Key::default(), &everywhere);
    values.into_iter().filter_map(|value| Some((value.key, serde_json::to_value(value.value).ok()?))).collect()
}

/// The values of a part of the file. What is built in can be written: a test writes it.
fn assigned(at: &Key, part: &impl Serialize) -> Vec<Assigned> {
    toml::Value::try_from(part).map(|value| leaves(at.clone(), value)).unwrap_or_default()
}

fn leaves(key: Key, value: toml::Value) -> Vec<Assigned> {
    match value {
        toml::Value::Table(table) => {
            table.into_iter().flat_map(|(name, value)| leaves(key.child(&name), value)).collect()
        }
        value => vec![Assigned { key, value, origin: Origin::defaults() }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_built_in_can_be_written_and_read() {
        let (assigned, problems) = layer(&super::super::schema());
        assert_eq!(problems, []);
        let keys: Vec<_> = assigned.iter().map(|value| value.key.to_string()).collect();
        for key in ["orphan_grace", "limits.spare_keepers", "harness.codex.command", "harness.scripted.command"] {
            assert!(keys.iter().any(|known| known == key), "{key}: {keys:?}");
        }
        for adapter in
            [AdapterName::Oneshot, AdapterName::Acp, AdapterName::Claude, AdapterName::Codex, AdapterName::Pi]
        {
            assert!(harness_defaults("mine", adapter).len() >= 10);
        }
    }
}

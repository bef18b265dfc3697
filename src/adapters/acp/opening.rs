//! From the start of the program to the first task.

use agent_client_protocol_schema::ProtocolVersion;
use agent_client_protocol_schema::v1::{
    AGENT_METHOD_NAMES, ClientCapabilities, ErrorCode, Implementation, InitializeRequest, InitializeResponse,
    LoadSessionRequest, NewSessionRequest, NewSessionResponse, ResumeSessionRequest, SetSessionModeRequest,
};
use ostler_supervisors::adapter::{Answer, Fact, OpenContext};
use ostler_supervisors::contract::NativeId;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::known::Known;
use super::turn::Total;
use super::wire::{Outcome, text_of};
use super::{Asked, Machine, Phase, Storage};

/// What a session is opened with. It is not kept longer than that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Setup {
    directory: String,
    resume: Option<NativeId>,
    /// The mode and the model that are still to be set.
    mode: Option<String>,
    model: Option<Model>,
}

/// A model to work with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Model {
    /// It is wanted, and how to choose it is not known yet.
    Wanted(String),
    /// By the method of its own that older agents have.
    ByMethod(String),
    /// By this option of the session.
    ByOption { option: String, model: String },
}

/// What of an answer that opened a session bears on what is done next.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Offered {
    modes: Option<Value>,
    models: Option<Value>,
    config_options: Vec<Value>,
}

impl Setup {
    pub(super) fn new(context: OpenContext<'_>, mode: Option<String>) -> Self {
        Self {
            directory: context.spec.directory.to_string_lossy().into_owned(),
            resume: context.resume.cloned(),
            mode,
            model: context.spec.model.clone().map(Model::Wanted),
        }
    }

    /// Whether a session of an earlier process is opened again.
    pub(super) fn loads(&self) -> bool {
        self.resume.is_some()
    }

    /// Compares what is wanted with what there is.
    fn settle(&mut self, offered: &Offered) -> Result<(), String> {
        if let Some(mode) = &self.mode {
            let modes = offered.modes.as_ref().unwrap_or(&Value::Null);
            let known = modes["availableModes"].as_array().into_iter().flatten();
            if !known.into_iter().any(|known| known["id"] == **mode) {
                return Err(format!("the agent has no mode `{mode}`"));
            }
            if modes["currentModeId"] == **mode {
                self.mode = None;
            }
        }
        if let Some(Model::Wanted(model)) = &self.model {
            let option = offered.config_options.iter().find(|option| option["category"] == "model");
            let option = option.and_then(|option| option["id"].as_str()).map(str::to_owned);
            let model = model.clone();
            self.model = Some(match (option, &offered.models) {
                (Some(option), _) => Model::ByOption { option, model },
                (None, Some(_)) => Model::ByMethod(model),
                (None, None) => return Err(format!("the agent lets nobody choose a model, and `{model}` is wanted")),
            });
        }
        Ok(())
    }
}

impl Machine {
    pub(super) fn initialize(&mut self, answer: &mut Answer) {
        let own = Implementation::new("ostler", env!("CARGO_PKG_VERSION")).title("Ostler".to_owned());
        // Neither files nor terminals: the agent's own tools run in its own tree, where they are owned.
        let request = InitializeRequest::new(ProtocolVersion::V1)
            .client_capabilities(ClientCapabilities::default())
            .client_info(own);
        self.request(Asked::Initialize, AGENT_METHOD_NAMES.initialize, &request, answer);
    }

    pub(super) fn opening_answered(&mut self, what: Asked, outcome: Outcome<'_>, answer: &mut Answer) {
        let done = match (what, outcome) {
            (Asked::LoadSession | Asked::ResumeSession, Err(error)) if self.known.has_lost(&error) => {
                self.phase = Phase::Refused;
                return answer.fact(Fact::NativeLost { message: format!("the agent says: {}", text_of(&error)) });
            }
            (Asked::Initialize, Ok(result)) => self.initialized(result, answer),
            (Asked::NewSession, Ok(result)) => self.session_made(result, answer),
            (Asked::LoadSession | Asked::ResumeSession, Ok(result)) => self.session_loaded(result, answer),
            // Any answer will do, and most agents say that they do not know the method.
            (Asked::Replayed, _) => self.configure(answer),
            (Asked::SetMode | Asked::SetModel, Ok(_)) => self.configure(answer),
            (what, Err(error)) if error.code == ErrorCode::AuthRequired => {
                Err(format!("{}: the agent wants to be logged in first: {}", step(what), text_of(&error)))
            }
            (what, Err(error)) => Err(format!("{}: {}", step(what), text_of(&error))),
            (Asked::Prompt, Ok(_)) => Ok(()),
        };
        if let Err(message) = done {
            self.phase = Phase::Refused;
            answer.fact(Fact::NotReady { message });
        }
    }

    fn initialized(&mut self, result: &str, answer: &mut Answer) -> Result<(), String> {
        let response: InitializeResponse =
            serde_json::from_str(result).map_err(|error| format!("the handshake cannot be read: {error}"))?;
        if response.protocol_version != ProtocolVersion::V1 {
            let version = response.protocol_version;
            return Err(format!("the agent speaks version {version} of the protocol, and Ostler version 1"));
        }
        self.known = response.agent_info.map_or(Known::Other, |info| Known::of(&info.name));
        let resume = response.agent_capabilities.session_capabilities.resume.is_some();
        let load = response.agent_capabilities.load_session;
        self.storage = if load || resume { Storage::Offered } else { Storage::None };
        let Phase::Opening(setup) = &self.phase else { return Ok(()) };
        let directory = setup.directory.clone();
        match (setup.resume.clone(), load, resume) {
            (None, _, _) => {
                let request = NewSessionRequest::new(directory);
                self.request(Asked::NewSession, AGENT_METHOD_NAMES.session_new, &request, answer);
            }
            (Some(session), true, _) => {
                let spoken = self.known.loaded_as(&session);
                let request = LoadSessionRequest::new(spoken.clone(), directory);
                self.spoken = Some(spoken);
                self.request(Asked::LoadSession, AGENT_METHOD_NAMES.session_load, &request, answer);
            }
            (Some(session), false, true) => {
                let request = ResumeSessionRequest::new(session.to_string(), directory);
                self.spoken = Some(session.to_string());
                self.request(Asked::ResumeSession, AGENT_METHOD_NAMES.session_resume, &request, answer);
            }
            (Some(_), false, false) => {
                return Err("the agent cannot go on with a session of an earlier process; start a new one".to_owned());
            }
        }
        Ok(())
    }

    fn session_made(&mut self, result: &str, answer: &mut Answer) -> Result<(), String> {
        let response: NewSessionResponse =
            serde_json::from_str(result).map_err(|error| format!("the agent named no session: {error}"))?;
        let id: NativeId = response.session_id.0.parse().map_err(|_| "the agent's session has no usable id")?;
        self.session = Some(id.clone());
        self.spoken = Some(id.to_string());
        answer.fact(Fact::NativeSession { id, stored: false });
        self.settle(result)?;
        self.configure(answer)
    }

    fn session_loaded(&mut self, result: &str, answer: &mut Answer) -> Result<(), String> {
        let Phase::Opening(setup) = &self.phase else { return Ok(()) };
        let Some(id) = setup.resume.clone() else { return Ok(()) };
        self.session = Some(id.clone());
        self.storage = Storage::Shown;
        // How much the session had used before is not said.
        self.usage = Total::Unknown;
        answer.fact(Fact::NativeSession { id, stored: true });
        self.settle(result)?;
        // Gemini tells the history only after its answer, and takes no request meanwhile. Whatever it says to one that
        // it does not know comes after the last word of it.
        self.request(Asked::Replayed, "_ostler/replayed", &json!({}), answer);
        Ok(())
    }

    fn settle(&mut self, result: &str) -> Result<(), String> {
        let Phase::Opening(setup) = &mut self.phase else { return Ok(()) };
        // An empty answer is one (`null`, of some agents); what is of another shape offers nothing.
        let offered = serde_json::from_str::<Option<Offered>>(result).ok().flatten().unwrap_or_default();
        setup.settle(&offered)
    }

    /// Sets what is still to be set, one after the other; then it takes tasks.
    fn configure(&mut self, answer: &mut Answer) -> Result<(), String> {
        let (Phase::Opening(setup), Some(session)) = (&mut self.phase, self.spoken.clone()) else { return Ok(()) };
        if let Some(mode) = setup.mode.take() {
            let request = SetSessionModeRequest::new(session, mode);
            self.request(Asked::SetMode, AGENT_METHOD_NAMES.session_set_mode, &request, answer);
            return Ok(());
        }
        match setup.model.take() {
            Some(Model::ByOption { option, model }) => {
                let params = json!({ "sessionId": session, "configId": option, "value": model });
                self.request(Asked::SetModel, AGENT_METHOD_NAMES.session_set_config_option, &params, answer);
            }
            Some(Model::ByMethod(model)) => {
                let params = json!({ "sessionId": session, "modelId": model });
                self.request(Asked::SetModel, "session/set_model", &params, answer);
            }
            Some(Model::Wanted(_)) | None => {
                self.phase = Phase::Ready;
                answer.fact(Fact::Ready);
            }
        }
        Ok(())
    }
}

fn step(what: Asked) -> &'static str {
    match what {
        Asked::Initialize => "the agent refused the handshake",
        Asked::NewSession => "the agent opened no session",
        Asked::LoadSession | Asked::ResumeSession => "the agent cannot resume the session; start a new one",
        Asked::SetMode => "the agent refused the configured mode",
        Asked::SetModel => "the agent refused the model",
        Asked::Replayed | Asked::Prompt => "the agent failed",
    }
}
